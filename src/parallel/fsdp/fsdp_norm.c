/* The gradient norm: sums of squares per row in a fixed order, added exactly over rows and ranks, rounded once. So the
 * norm does not depend on how rows are shared out. A row's own sum is in an order of its elements, of which a cut of
 * its columns would make another sum; such rows are put together first (fsdp_cut_rows.c). */
#include "parallel/fsdp/fsdp_impl.h"

#include <math.h>

enum { ROWS_AT_ONCE = 1024 };

static tess_status add_rows(tess_stream *stream, const float *rows, int64_t n_rows, int64_t row, tess_exact_sum *sum)
{
    double sums[ROWS_AT_ONCE];
    for (int64_t begin = 0; begin < n_rows; begin += ROWS_AT_ONCE) {
        int64_t n = n_rows - begin < ROWS_AT_ONCE ? n_rows - begin : ROWS_AT_ONCE;
        TESS_TRY(tess_stream_kernels(stream)->row_sumsq(stream, rows + begin * row, sums, n, row));
        for (int64_t i = 0; i < n; i++)
            tess_exact_add(sum, sums[i]);
    }
    return TESS_OK;
}

/* ---- Of a device: all rows are enqueued, then fetched at once ---- */
/* The sums of the next rows of the parameter, at *at; without fsdp->row_sums they are counted alone. */
static tess_status enqueue_rows(tess_fsdp *fsdp, int index, int64_t *at)
{
    const tess_fsdp_param *p = &fsdp->params[index].unit->params[fsdp->params[index].index];
    tess_shard shard;
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, &shard));
    int64_t n = shard.grad != NULL ? shard.primary.size[0] : 0;
    if (fsdp->row_sums != NULL && n > 0)
        TESS_TRY_CTX(tess_stream_kernels(fsdp->stream)
                         ->row_sumsq(fsdp->stream, shard.grad + (shard.primary.begin[0] - shard.box.begin[0]) * p->row,
                                     fsdp->row_sums + *at, n, p->row),
                     "grad_norm: '%s'", shard.name);
    *at += n;
    return TESS_OK;
}

static tess_status enqueue_all(tess_fsdp *fsdp, int64_t *n)
{
    *n = 0;
    for (int i = 0; i < fsdp->n_params; i++)
        TESS_TRY(enqueue_rows(fsdp, i, n));
    return TESS_OK;
}

static tess_status add_of_device(tess_fsdp *fsdp, tess_exact_sum *sum)
{
    int64_t n;
    double *sums;
    TESS_TRY(enqueue_all(fsdp, &n));
    if (fsdp->row_sums == NULL) {
        TESS_TRY(tess_device_alloc(fsdp->device, TESS_POOL_GRADS, (size_t)n * sizeof(double), "squares of rows",
                                   (void **)&fsdp->row_sums));
        TESS_TRY(enqueue_all(fsdp, &n));
    }
    TESS_TRY(
        tess_mem_alloc_array(fsdp->mem, TESS_POOL_GRADS, (size_t)n, sizeof(double), "squares of rows", (void **)&sums));
    tess_status status = tess_fetch(fsdp->stream, sums, fsdp->row_sums, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < n && status == TESS_OK; i++)
        tess_exact_add(sum, sums[i]);
    tess_mem_free(fsdp->mem, sums);
    return status;
}

/* ---- Of the host ---- */
static tess_status add_shard(tess_fsdp *fsdp, tess_stream *stream, int index, tess_exact_sum *sum)
{
    const tess_fsdp_param *p = &fsdp->params[index].unit->params[fsdp->params[index].index];
    tess_shard shard;
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, &shard));
    if (shard.grad == NULL)
        return TESS_OK;
    const float *rows = shard.grad + (shard.primary.begin[0] - shard.box.begin[0]) * p->row;
    bool cut = fsdp->n_tp > 1 && p->tp.kind == TESS_SHARD && p->tp.dim > 0;
    TESS_TRY_CTX(cut ? tess_fsdp_add_cut_rows(fsdp, p, rows, sum)
                     : add_rows(stream, rows, shard.primary.size[0], p->row, sum),
                 "grad_norm: '%s'", shard.name);
    return TESS_OK;
}

/* Unit by unit, as gradients on disk come and go. */
static tess_status add_all(tess_fsdp *fsdp, tess_stream *stream, tess_exact_sum *sum)
{
    for (int u = 0; u < fsdp->n_units; u++)
        tess_fsdp_gradient_fetch(fsdp->units[u], TESS_PAGE_READ);
    for (int u = 0, i = 0; u < fsdp->n_units; u++) {
        TESS_TRY(tess_fsdp_gradient_wait(fsdp->units[u]));
        for (int end = i + fsdp->units[u]->n_params; i < end; i++)
            TESS_TRY(add_shard(fsdp, stream, i, sum));
        tess_fsdp_gradient_release(fsdp->units[u]);
    }
    return TESS_OK;
}

tess_status tess_fsdp_grad_norm(tess_fsdp *fsdp, double *norm)
{
    TESS_CHECK(fsdp->gradients_ready, TESS_E_INVALID, "fsdp: grad_norm without gradients; call step_end first");
    tess_stream *stream = NULL;
    TESS_TRY(tess_fsdp_stream(fsdp, &stream));
    tess_exact_sum sum;
    tess_exact_clear(&sum);
    TESS_TRY(fsdp->device != NULL ? add_of_device(fsdp, &sum) : add_all(fsdp, stream, &sum));
    tess_exact_normalize(&sum);
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_WAIT);
    tess_team_label(fsdp->norm_team, "norm", -1);
    tess_status status =
        tess_all_reduce(fsdp->norm_team, sum.limb, sum.limb, TESS_EXACT_LIMBS, TESS_I64, TESS_SUM, NULL);
    tess_team_label(fsdp->norm_team, NULL, -1);
    TESS_TRY_CTX(status, "grad_norm");
    tess_phase_switch(fsdp->clock, phase);
    tess_exact_normalize(&sum);
    *norm = sqrt(tess_exact_value(&sum));
    return TESS_OK;
}
