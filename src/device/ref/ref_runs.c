/* Processes many runs of values in one call. All tables of the host use these functions, which call the table's own
 * rows for each run. */
#include "device/ref/ref_impl.h"
#include "device/stream_impl.h"

static tess_status convert_runs(tess_stream *s, const tess_value_run *runs, int64_t n_runs, tess_dtype from,
                                tess_dtype to)
{
    TESS_TRY(tess_check_convert_runs(from, to));
    for (int64_t i = 0; i < n_runs; i++) {
        const tess_value_run *run = &runs[i];
        TESS_TRY(from == to ? s->kernels->copy(s, run->y, run->x, (size_t)run->n * tess_dtype_size(from), false)
                            : s->kernels->convert(s, run->x, from, run->y, to, run->n));
    }
    return TESS_OK;
}

static tess_status reduce_runs(tess_stream *s, const tess_reduction *r, const tess_reduce_run *runs, int64_t n_runs,
                               bool *finite)
{
    const void *x[TESS_REDUCE_RUNS_INPUTS];
    void *y;
    tess_reduction one = *r;
    TESS_TRY(tess_check_reduce_runs(r));
    one.x = x;
    one.y = &y;
    for (int64_t i = 0; i < n_runs; i++) {
        for (int k = 0; k < r->n_inputs; k++)
            x[k] = (const char *)r->x[k] + (size_t)runs[i].x * tess_dtype_size(r->dtype);
        y = (char *)r->y[0] + (size_t)runs[i].y * tess_dtype_size(r->y_dtype);
        one.n = runs[i].n;
        TESS_TRY(s->kernels->reduce(s, &one, finite));
    }
    return TESS_OK;
}

void tess_ref_runs(tess_kernels *k)
{
    k->convert_runs = convert_runs;
    k->reduce_runs = reduce_runs;
}
