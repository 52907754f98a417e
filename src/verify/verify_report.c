/* Formats the result of a comparison for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "verify/verify.h"

enum { SHOWN_TENSORS = 12, SHOWN_STEPS = 3 };

#define PUT(...) TESS_TRY(tess_buffer_printf(out, __VA_ARGS__))

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* Prints a line such as "  loss        3 steps: the same bits   5.7130 5.6812 5.6109". */
static tess_status print_numbers(const char *name, const double *here, const double *there, int64_t steps,
                                 int64_t first, tess_buffer *out)
{
    if (first > 0) {
        PUT("  %-12s differs from step %" PRId64 " on: %.17g here, %.17g on one rank\n", name, first, here[first - 1],
            there[first - 1]);
        return TESS_OK;
    }
    PUT("  %-12s %" PRId64 " step%s: the same bits  ", name, steps, plural(steps));
    for (int64_t i = 0; i < steps && i < SHOWN_STEPS; i++)
        PUT(" %.6g", here[i]);
    PUT("%s\n", steps > SHOWN_STEPS ? " ..." : "");
    return TESS_OK;
}

static tess_status print_tensors(const tess_verify_result *r, bool weights, tess_buffer *out)
{
    const char *name = weights ? "parameters" : "gradients";
    int n = 0;
    int64_t first = 0;
    for (int i = 0; i < r->n_tensors; i++) {
        int64_t step = weights ? r->tensors[i].weights_step : r->tensors[i].grads_step;
        n += step > 0;
        if (step > 0 && (first == 0 || step < first))
            first = step;
    }
    if (n == 0)
        PUT("  %-12s all %d tensors, after each of %" PRId64 " step%s: the same bits\n", name, r->n_tensors, r->steps,
            plural(r->steps));
    else
        PUT("  %-12s %d of %d tensors differ, the first after step %" PRId64 "\n", name, n, r->n_tensors, first);
    return TESS_OK;
}

static tess_status print_shards(const tess_verify_result *r, tess_buffer *out)
{
    int n = 0;
    for (int i = 0; i < r->n_tensors; i++)
        n += r->tensors[i].shards[0] != '\0';
    if (n == 0)
        PUT("  %-12s all %d tensors: every element on the ranks that the plan says, copies alike\n", "shards",
            r->n_tensors);
    else
        PUT("  %-12s %d of %d tensors are not as planned\n", "shards", n, r->n_tensors);
    return TESS_OK;
}

/* ---- Differences ---- */
static tess_status print_delta(const char *what, const tess_verify_tensor *t, const tess_verify_delta *d,
                               tess_buffer *out)
{
    if (d->n_different == 0)
        return TESS_OK;
    PUT("    %s: %" PRId64 " of %" PRId64 " elements differ, at most by %.3g (relative %.2g)\n", what, d->n_different,
        t->rows * t->row, d->max_abs, d->max_rel);
    PUT("      the first, row %" PRId64 " column %" PRId64 " on rank %d: %.9g here, %.9g on one rank (%" PRId64
        " ulp)\n",
        d->first / t->row, d->first % t->row, d->rank, (double)d->here, (double)d->there, d->ulp);
    return TESS_OK;
}

/* Prints the tensors that differ in the first step with a difference. Later differences follow from it. */
static tess_status print_differences(const tess_verify_result *r, bool all, tess_buffer *out)
{
    int n = 0;
    if (r->first_step > 0)
        PUT("what differs in step %" PRId64 ":\n", r->first_step);
    for (int i = 0; i < r->n_tensors; i++) {
        const tess_verify_tensor *t = &r->tensors[i];
        bool differs = r->first_step > 0 && (t->grads_step == r->first_step || t->weights_step == r->first_step);
        if ((!differs && t->shards[0] == '\0') || (n++ >= SHOWN_TENSORS && !all))
            continue;
        PUT("  %s", t->name);
        if (r->stages > 1)
            PUT(" (stage %d of %d)", t->stage, r->stages);
        PUT("\n");
        if (t->shards[0] != '\0')
            PUT("    %s\n", t->shards);
        TESS_TRY(print_delta("gradient", t, &t->grads, out));
        TESS_TRY(print_delta("parameter", t, &t->weights, out));
    }
    if (n > SHOWN_TENSORS && !all)
        PUT("  and %d more: --all lists them\n", n - SHOWN_TENSORS);
    if (r->no_values[0] != '\0')
        PUT("  by how much is not known: %s\n", r->no_values);
    return TESS_OK;
}

/* ---- Memory ---- */
static tess_status print_bytes(double bytes, double of, tess_buffer *out)
{
    char text[32], share[16] = "";
    if (of > 0)
        snprintf(share, sizeof(share), "%.0f%%", 100 * bytes / of);
    PUT("%10s %5s", tess_format_bytes(bytes, text, sizeof(text)), share);
    return TESS_OK;
}

static tess_status print_memory(const tess_verify_result *r, tess_buffer *out)
{
    PUT("  memory          one rank    largest of %-3d       all of them          planned\n", r->ranks);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        const tess_verify_memory *m = &r->memory[pool];
        if (m->one == 0 && m->all == 0)
            continue;
        PUT("    %-12s", tess_pool_name((tess_pool)pool));
        TESS_TRY(print_bytes((double)m->one, 0, out));
        TESS_TRY(print_bytes((double)m->largest, (double)m->one, out));
        TESS_TRY(print_bytes((double)m->all, (double)m->one, out));
        if (m->planned >= 0)
            TESS_TRY(print_bytes((double)m->planned, (double)m->one, out));
        PUT("%s\n", m->planned >= 0 && m->planned != m->largest ? "  not as planned" : "");
    }
    return TESS_OK;
}

/* Prints reasons for different bits that are no errors. */
static tess_status print_reasons(const tess_verify_result *r, tess_buffer *out)
{
    if (r->first_step == 0)
        return TESS_OK;
    if (strcmp(r->kernels[0], r->kernels[1]) != 0)
        PUT("kernel tables add in orders of their own: '%s' and '%s' agree to rounding, not to the bit\n",
            r->kernels[0], r->kernels[1]);
    return TESS_OK;
}

static tess_status print_diagnosis(const tess_verify_result *r, tess_buffer *out)
{
    if (r->irreproducible != 0)
        PUT("made again, %s gave other bits than before: it is not this layout that differs, but this machine (or a "
            "fault that was injected) from run to run\n",
            r->irreproducible == 2 ? "the one rank" : "the layout");
    if (tess_verify_same(r))
        PUT("the same bits: this layout gives what one rank gives\n");
    else if (r->first_step > 0)
        PUT("not the same: from step %" PRId64 " on this layout gives other bits than one rank\n", r->first_step);
    else
        PUT("not as planned: what counts is what one rank gives, but parts, their copies or memory are not as they "
            "should be\n");
    return TESS_OK;
}

tess_status tess_verify_print(const tess_verify_result *r, bool all, tess_buffer *out)
{
    PUT("%d rank%s, %s", r->ranks, plural(r->ranks), r->strategy);
    if (r->sharing > 1)
        PUT(", %d share layers (tp)", r->sharing);
    if (r->stages > 1)
        PUT(", %d stages in %s", r->stages, r->schedule);
    PUT(", kernels %s (%.1f s), against one rank, kernels %s (%.1f s)\n", r->kernels[0], r->seconds[0], r->kernels[1],
        r->seconds[1]);
    TESS_TRY(print_numbers("loss", r->loss[0], r->loss[1], r->steps, r->loss_step, out));
    TESS_TRY(print_numbers("grad norm", r->grad_norm[0], r->grad_norm[1], r->steps, r->norm_step, out));
    TESS_TRY(print_tensors(r, false, out));
    TESS_TRY(print_tensors(r, true, out));
    TESS_TRY(print_shards(r, out));
    TESS_TRY(print_memory(r, out));
    if (!tess_verify_same(r))
        TESS_TRY(print_differences(r, all, out));
    TESS_TRY(print_reasons(r, out));
    return print_diagnosis(r, out);
}
