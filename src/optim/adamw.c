/* AdamW by the device's AdamW kernel, with moments in float32. It works element by element, so any cut of the
 * parameters gives the same bits. */
#include "device/elementwise.h"
#include "optim/optim_impl.h"

/* A span (one tensor's elements on this rank) with its moments. */
typedef struct piece {
    const tess_span *span;
    float *m, *v;
    int64_t first; /* number of its first element, for the journal */
} piece;

/* Updates elements [begin, end) of the span. undo NULL: no journal. */
static tess_status run_kernel(const optim_update *u, const piece *p, int64_t begin, int64_t end, tess_undo *undo)
{
    const tess_span *span = p->span;
    tess_adamw_update call = u->call;
    call.n = end - begin;
    call.p = span->param + begin;
    call.m = p->m + begin;
    call.v = p->v + begin;
    call.g = span->grad + begin;
    call.weight_decay = span->decay ? u->optimizer->options.weight_decay : 0;
    call.copy_dtype = span->copy_dtype;
    call.undo = undo;
    int64_t into_copy = begin - span->copy_begin;
    if (span->copy != NULL && into_copy >= 0 && into_copy < span->copy_n)
        call.copy = (char *)span->copy + (size_t)into_copy * tess_dtype_size(span->copy_dtype);
    if (undo != NULL)
        undo->first = p->first + begin;
    return tess_stream_kernels(u->optimizer->stream)->adamw(u->optimizer->stream, &call);
}

/* Calls the kernel separately for the elements before, in and after the range that is also copied, which may be in
 * the middle of the rank's elements. */
static tess_status update_elements(const optim_update *u, const piece *p, int64_t begin, int64_t end, tess_undo *undo)
{
    const int64_t cuts[] = {p->span->copy_begin, p->span->copy_begin + p->span->copy_n, end};
    for (int i = 0; i < 3; i++) {
        int64_t to = cuts[i] < end ? cuts[i] : end;
        if (to <= begin)
            continue;
        TESS_TRY(run_kernel(u, p, begin, to, undo));
        begin = to;
    }
    return TESS_OK;
}

/* A span cut into parts, one per lane. */
typedef struct parts {
    const optim_update *u;
    const piece *p;
    int64_t per_lane;
    _Atomic int status; /* the last status that was not TESS_OK */
} parts;

static void update_part(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    parts *s = context;
    const piece *p = s->p;
    const tess_span *span = p->span;
    for (int64_t lane = begin; lane < end; lane++) {
        optim_journal *journal = s->u->optimizer->journal;
        int64_t from = lane * s->per_lane, to = from + s->per_lane < span->n ? from + s->per_lane : span->n;
        optim_part part = {
            .array = {span->param + from, p->m + from, p->v + from}, .begin = p->first + from, .end = p->first + to};
        int64_t at = optim_journal_resume(journal, (int)lane, &part) - p->first;
        tess_status status = update_elements(s->u, p, at, to, optim_journal_undo(journal, (int)lane));
        if (status != TESS_OK)
            atomic_store(&s->status, status);
    }
}

/* Updates a span with one lane per thread; lanes do not wait for each other within it. If an interrupted update is
 * resumed, the parts are those of its lanes, whatever the number of threads. */
static tess_status update_with_journal(optim_update *u, const piece *p)
{
    int64_t n = p->span->n, grain = tess_loop_grain(0), grains = (n + grain - 1) / grain;
    parts s = {.u = u, .p = p, .per_lane = (grains + u->n_lanes - 1) / u->n_lanes * grain};
    if (n == 0)
        return TESS_OK;
    optim_notify(u, "shard");
    tess_threads_run(tess_stream_threads(u->optimizer->stream), update_part, &s, (n + s.per_lane - 1) / s.per_lane, 1);
    optim_notify(u, "shard-done");
    u->number++;
    return atomic_load(&s.status);
}

tess_status optim_adamw_elements(const optim_update *u, const tess_span *span, float *m, float *v)
{
    return update_elements(u, &(piece){.span = span, .m = m, .v = v}, 0, span->n, NULL);
}

tess_status optim_adamw_span(optim_update *u, const tess_span *span, const optim_param *param)
{
    char *state = u->optimizer->state;
    TESS_CHECK(span->grad != NULL, TESS_E_INVALID,
               "optimizer: '%s' has no gradient; end the step's sums first (tess_fsdp_step_end)", span->name);
    piece p = {.span = span,
               .m = (float *)(void *)(state + param->values[0]),
               .v = (float *)(void *)(state + param->values[1]),
               .first = param->first};
    return u->optimizer->journal != NULL ? update_with_journal(u, &p) : update_elements(u, &p, 0, span->n, NULL);
}
