/* Gradients are derivatives: finite differences of a loss through the weights of a rig. */
#ifndef TESS_TESTS_NN_DERIVATIVE_H
#define TESS_TESTS_NN_DERIVATIVE_H

#include <math.h>

#include "base/core/rng.h"
#include "fixture.h"

/* Makes every token choose all experts. A loss is not continuous where a token changes its choice. The auxiliary losses
 * are left out: they are no part of the loss that is measured. */
static inline void choose_all_experts(tess_model_config *config)
{
    config->parts.experts.top_k = config->parts.experts.n;
    config->parts.experts.kept = 0;
    config->parts.experts.balances = false;
    if (config->parts.experts.limit > 0) /* no kinks */
        config->parts.experts.limit = 1e6;
}

/* The loss of a rig with the weights that it has now. */
typedef double (*loss_of_weights)(void *self);

static inline double loss_along(rig *r, float **at, float **direction, double h, loss_of_weights loss, void *self)
{
    for (int i = 0; i < r->n_params; i++) {
        int64_t n = tess_shape_count(&tess_model_param(r->model, i)->shape);
        for (int64_t k = 0; k < n; k++)
            r->w32[i][k] = (float)(at[i][k] + h * direction[i][k]);
    }
    rig_refresh(r);
    return loss(self);
}

/* (loss(w + h d) - loss(w - h d)) / 2h */
static inline double central(rig *r, float **at, float **direction, double h, loss_of_weights loss, void *self)
{
    return (loss_along(r, at, direction, h, loss, self) - loss_along(r, at, direction, -h, loss, self)) / (2 * h);
}

/* The derivative of the loss at w along d. A wide step keeps float32's rounding of the loss small, but a curved loss
 * needs a narrow one: Richardson's estimate from steps h and 2h leaves an error of h^4 times the fifth derivative. So
 * the step is halved until three estimates in a row differ by less than `most`; two may agree by chance. If none do,
 * the three nearest ones decide. */
static inline double derivative_along(rig *r, float **at, float **direction, double most, loss_of_weights loss,
                                      void *self)
{
    enum { WIDEST = 7, NARROWEST = 14 }; /* exponents of 1/2 */
    double wide = central(r, at, direction, ldexp(1, 1 - WIDEST), loss, self), before = INFINITY, change = INFINITY;
    double nearest = INFINITY, measured = NAN;
    for (int i = WIDEST; i <= NARROWEST && nearest >= most; i++) {
        const double narrow = central(r, at, direction, ldexp(1, -i), loss, self), now = (4 * narrow - wide) / 3;
        const double apart = fmax(change, fabs(now - before));
        change = fabs(now - before);
        if (apart < nearest) {
            nearest = apart;
            measured = now;
        }
        wide = narrow;
        before = now;
    }
    return measured;
}

/* Compares the derivative along a random direction in all parameters with the projection of the gradient that the rig
 * holds. */
static inline void expect_derivative(const char *name, rig *r, loss_of_weights loss, void *self)
{
    float **at = test_alloc((size_t)r->n_params * sizeof(float *));
    float **direction = test_alloc((size_t)r->n_params * sizeof(float *));
    double slope = 0, size = 0;
    for (int p = 0; p < r->n_params; p++) {
        int64_t n = tess_shape_count(&tess_model_param(r->model, p)->shape);
        at[p] = test_alloc((size_t)n * sizeof(float));
        direction[p] = test_alloc((size_t)n * sizeof(float));
        memcpy(at[p], r->w32[p], (size_t)n * sizeof(float));
        tess_rng_fill_normal(5, TESS_RNG_TEST, (uint64_t)p, 0, n, 0, 1, direction[p]);
        for (int64_t k = 0; k < n; k++) {
            slope += (double)direction[p][k] * r->dw[p][k];
            size += (double)r->dw[p][k] * r->dw[p][k];
        }
    }
    const double most = 2e-3 * sqrt(size), measured = derivative_along(r, at, direction, most / 8, loss, self);
    if (!(fabs(measured - slope) <= most))
        test_fail(__FILE__, __LINE__, "%s: finite difference %.9g, gradient %.9g (norm %.3g)", name, measured, slope,
                  sqrt(size));
    for (int p = 0; p < r->n_params; p++) {
        test_free(at[p]);
        test_free(direction[p]);
    }
    test_free(at);
    test_free(direction);
}

#endif
