/* Gradients are derivatives: finite differences of a loss through the weights of a rig. */
#ifndef TESS_TESTS_NN_DERIVATIVE_H
#define TESS_TESTS_NN_DERIVATIVE_H

#include <math.h>

#include "base/core/rng.h"
#include "fixture.h"

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

/* Along a random direction in all parameters: (loss(w + h d) - loss(w - h d)) / 2h against the projection of the
 * gradient that the rig holds, with Richardson's second step so that a large h keeps float32's rounding of the loss
 * small. */
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
    double h = 1e-3;
    double wide = loss_along(r, at, direction, 2 * h, loss, self) - loss_along(r, at, direction, -2 * h, loss, self);
    double narrow = loss_along(r, at, direction, h, loss, self) - loss_along(r, at, direction, -h, loss, self);
    double measured = (8 * narrow - wide) / (12 * h);
    if (!(fabs(measured - slope) <= 2e-3 * sqrt(size)))
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
