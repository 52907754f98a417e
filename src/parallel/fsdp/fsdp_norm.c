/* The gradient norm: sums of squares per row in a fixed order, added exactly over rows and ranks, rounded once. So the
 * norm does not depend on how rows are distributed. A row's own sum has a fixed order of elements, so rows whose
 * columns are split over ranks are assembled first (fsdp_cut_rows.c).
 *
 * Each row counts once, on the rank that is primary for it. Other ranks sum their copies of the row, too, and add them
 * only if they are not finite. So the norm is not finite whenever a value on any rank is not finite. */
#include "base/mem/dry_mem.h"
#include "parallel/fsdp/fsdp_impl.h"
#include "base/mem/scoped.h"

#include <math.h>

enum { ROWS_AT_ONCE = 1024 };

/* Rows that this rank holds, of which [begin, end) count. */
typedef struct held_rows {
    const float *data; /* (n, row); NULL: n is 0 */
    int64_t n, begin, end;
} held_rows;

/* Adds the sums of the rows from `first` on. */
static void add_sums(const held_rows *rows, int64_t first, const double *sums, int64_t n, tess_exact_sum *sum)
{
    for (int64_t i = 0; i < n; i++)
        if ((first + i >= rows->begin && first + i < rows->end) || !isfinite(sums[i]))
            tess_exact_add(sum, sums[i]);
}

static tess_status add_rows(tess_stream *stream, const held_rows *rows, int64_t row, tess_exact_sum *sum)
{
    double sums[ROWS_AT_ONCE];
    for (int64_t begin = 0; begin < rows->n; begin += ROWS_AT_ONCE) {
        int64_t n = rows->n - begin < ROWS_AT_ONCE ? rows->n - begin : ROWS_AT_ONCE;
        TESS_TRY(tess_stream_kernels(stream)->row_sumsq(
            stream, &(tess_row_sumsq_args){.x = rows->data + begin * row, .out = sums, .rows = n, .C = row}));
        if (!tess_mem_is_dry(tess_stream_mem(stream))) /* a dry stream writes no sums */
            add_sums(rows, begin, sums, n, sum);
    }
    return TESS_OK;
}

/* Returns the gradient rows of parameter `index`. If "tp" splits its rows, none of them counts here, and copies are
 * only checked for values that are not finite. */
static tess_status rows_of(const tess_fsdp *fsdp, int index, held_rows *rows)
{
    tess_shard shard;
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, &shard));
    *rows = (held_rows){0};
    bool cut = tess_fsdp_cuts_rows(fsdp, tess_fsdp_param_at(fsdp, index));
    if (shard.grad == NULL || (cut && shard.primary.size[0] == shard.box.size[0]))
        return TESS_OK;
    *rows = (held_rows){.data = shard.grad, .n = shard.box.size[0]};
    if (cut)
        return TESS_OK;
    rows->begin = shard.primary.begin[0] - shard.box.begin[0];
    rows->end = rows->begin + shard.primary.size[0];
    return TESS_OK;
}

/* Sets *rows to this rank's part of the rows that it is primary for, of a parameter whose rows "tp" cuts. */
static tess_status cut_rows_of(const tess_fsdp *fsdp, int index, const float **rows)
{
    tess_shard shard;
    TESS_TRY(tess_fsdp_shard_in_place(fsdp, index, &shard));
    *rows =
        shard.grad != NULL ? shard.grad + (shard.primary.begin[0] - shard.box.begin[0]) * tess_shard_row(&shard) : NULL;
    return TESS_OK;
}

/* ---- Rows on a device: all sums are enqueued, then fetched together ---- */
/* Enqueues sums of rows into `sums`, memory of the device; NULL: only counts them. */
static tess_status enqueue_rows(const tess_fsdp *fsdp, double *sums, int64_t *n)
{
    *n = 0;
    for (int i = 0; i < fsdp->n_params; i++) {
        const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, i);
        tess_unit *unit = fsdp->params[i].unit;
        held_rows rows;
        if (sums != NULL && fsdp->params[i].index == 0)
            TESS_TRY(tess_fsdp_gradient_wait(unit, TESS_PAGE_READ));
        TESS_TRY(rows_of(fsdp, i, &rows));
        if (sums != NULL && rows.n > 0)
            TESS_TRY_CTX(
                tess_stream_kernels(fsdp->place.stream)
                    ->row_sumsq(fsdp->place.stream,
                                &(tess_row_sumsq_args){.x = rows.data, .out = sums + *n, .rows = rows.n, .C = p->row}),
                "grad_norm: '%s'", p->name);
        if (sums != NULL && fsdp->params[i].index == unit->n_params - 1)
            tess_fsdp_gradient_release(unit);
        *n += rows.n;
    }
    return TESS_OK;
}

static tess_status add_fetched(const tess_fsdp *fsdp, const double *sums, tess_exact_sum *sum)
{
    for (int i = 0; i < fsdp->n_params; i++) {
        held_rows rows;
        TESS_TRY(rows_of(fsdp, i, &rows));
        add_sums(&rows, 0, sums, rows.n, sum);
        sums += rows.n;
    }
    return TESS_OK;
}

static tess_status add_whole_rows(tess_fsdp *fsdp, tess_exact_sum *sum)
{
    int64_t n;
    TESS_AUTO(tess_mem_drop) double *sums = NULL;
    TESS_TRY(enqueue_rows(fsdp, NULL, &n));
    if (fsdp->row_sums == NULL)
        TESS_TRY(tess_device_alloc(fsdp->place.device, TESS_POOL_GRADS, (size_t)n * sizeof(double), "squares of rows",
                                   (void **)&fsdp->row_sums));
    TESS_TRY(enqueue_rows(fsdp, fsdp->row_sums, &n));
    TESS_TRY(tess_mem_alloc_array(fsdp->place.mem, TESS_POOL_GRADS, (size_t)n, sizeof(double), "squares of rows",
                                  (void **)&sums));
    TESS_TRY(tess_fetch(fsdp->place.stream, sums, fsdp->row_sums, (size_t)n * sizeof(double)));
    /* A dry rank has no sums, and to read them would cost it a page for each 512. */
    return tess_mem_is_dry(fsdp->place.mem) ? TESS_OK : add_fetched(fsdp, sums, sum);
}

/* Ranks assemble such rows on the host. */
static tess_status add_cut_rows(tess_fsdp *fsdp, int index, const tess_fsdp_param *p, tess_exact_sum *sum)
{
    const float *rows;
    TESS_AUTO(tess_mem_drop) float *seen = NULL;
    TESS_TRY(tess_fsdp_gradient_wait(fsdp->params[index].unit, TESS_PAGE_READ));
    TESS_TRY(cut_rows_of(fsdp, index, &rows));
    size_t n = rows != NULL ? (size_t)(p->primary.size[0] * p->row) : 0;
    TESS_TRY(
        tess_mem_alloc_array(fsdp->place.mem, TESS_POOL_GRADS, n, sizeof(float), "rows of a gradient", (void **)&seen));
    tess_status status = n > 0 ? tess_fetch(fsdp->place.stream, seen, rows, n * sizeof(float)) : TESS_OK;
    if (status == TESS_OK)
        status = tess_fsdp_add_cut_rows(fsdp->params[index].unit->family, p, seen, sum);
    tess_fsdp_gradient_release(fsdp->params[index].unit);
    return status;
}

static tess_status add_of_device(tess_fsdp *fsdp, tess_exact_sum *sum)
{
    TESS_TRY(add_whole_rows(fsdp, sum));
    for (int i = 0; i < fsdp->n_params; i++) {
        const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, i);
        if (p->trainable && tess_fsdp_cuts_rows(fsdp, p))
            TESS_TRY_CTX(add_cut_rows(fsdp, i, p, sum), "grad_norm: '%s'", p->name);
    }
    return TESS_OK;
}

/* ---- Sums on the host ---- */
static tess_status add_shard(tess_fsdp *fsdp, tess_stream *stream, int index, tess_exact_sum *sum)
{
    const tess_fsdp_param *p = tess_fsdp_param_at(fsdp, index);
    held_rows rows;
    const float *cut;
    TESS_TRY(rows_of(fsdp, index, &rows));
    TESS_TRY_CTX(add_rows(stream, &rows, p->row, sum), "grad_norm: '%s'", p->name);
    TESS_TRY(cut_rows_of(fsdp, index, &cut));
    if (cut != NULL && tess_fsdp_cuts_rows(fsdp, p))
        TESS_TRY_CTX(tess_fsdp_add_cut_rows(fsdp->params[index].unit->family, p, cut, sum), "grad_norm: '%s'", p->name);
    return TESS_OK;
}

/* Goes unit by unit, because gradients on disk are fetched and released by unit. */
static tess_status add_all(tess_fsdp *fsdp, tess_stream *stream, tess_exact_sum *sum)
{
    for (int u = 0; u < fsdp->n_units; u++)
        tess_fsdp_gradient_fetch(fsdp->units[u], TESS_PAGE_READ);
    for (int u = 0, i = 0; u < fsdp->n_units; u++) {
        TESS_TRY(tess_fsdp_gradient_wait(fsdp->units[u], TESS_PAGE_READ));
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
    TESS_TRY(tess_fsdp_stream(&fsdp->place, &stream));
    tess_exact_sum sum;
    tess_exact_clear(&sum);
    TESS_TRY(fsdp->place.device != NULL ? add_of_device(fsdp, &sum) : add_all(fsdp, stream, &sum));
    tess_exact_normalize(&sum);
    tess_phase phase = tess_phase_switch(fsdp->clock, TESS_PHASE_WAIT);
    tess_team_label(fsdp->topology.norm_team, "norm", -1);
    tess_status status =
        tess_all_reduce(fsdp->topology.norm_team, sum.limb, sum.limb, TESS_EXACT_LIMBS, TESS_I64, TESS_SUM, NULL);
    tess_team_label(fsdp->topology.norm_team, NULL, -1);
    TESS_TRY_CTX(status, "grad_norm");
    tess_phase_switch(fsdp->clock, phase);
    tess_exact_normalize(&sum);
    *norm = sqrt(tess_exact_value(&sum));
    return TESS_OK;
}
