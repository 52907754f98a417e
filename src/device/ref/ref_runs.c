/* Processes many runs of values in one call. All tables of the host use these functions, which call the table's own
 * rows for each run. */
#include "device/ref/ref_impl.h"
#include "device/stream_impl.h"

static tess_status convert_run(tess_stream *s, const tess_value_run *run, tess_dtype from, tess_dtype to)
{
    if (from != to)
        return s->kernels->convert(s,
                                   &(tess_convert_args){.x = run->x, .from = from, .y = run->y, .to = to, .n = run->n});
    int64_t bytes = run->n * (int64_t)tess_dtype_size(from);
    return s->kernels->copy(s, &(tess_copy_args){.to = run->y, .from = run->x, .bytes = bytes});
}

tess_status tess_ref_convert_runs(tess_stream *s, const tess_convert_runs_args *a)
{
    TESS_TRY(tess_check_convert_runs(a->from, a->to));
    for (int64_t i = 0; i < a->n_runs; i++)
        TESS_TRY(convert_run(s, &a->runs[i], a->from, a->to));
    return TESS_OK;
}

tess_status tess_ref_reduce_runs(tess_stream *s, const tess_reduce_runs_args *a)
{
    const tess_reduction *r = &a->of;
    const void *x[TESS_REDUCE_RUNS_INPUTS];
    void *y;
    tess_reduction one = *r;
    TESS_TRY(tess_check_reduce_runs(r));
    one.x = x;
    one.y = &y;
    for (int64_t i = 0; i < a->n_runs; i++) {
        for (int k = 0; k < r->n_inputs; k++)
            x[k] = (const char *)r->x[k] + (size_t)a->runs[i].x * tess_dtype_size(r->dtype);
        y = (char *)r->y[0] + (size_t)a->runs[i].y * tess_dtype_size(r->y_dtype);
        one.n = a->runs[i].n;
        TESS_TRY(s->kernels->reduce(s, &one));
    }
    return TESS_OK;
}
