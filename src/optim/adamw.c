/* AdamW over spans: element-wise, so any cut of the parameters gives the same bits. */
#include "optim/optim_internal.h"

#include <math.h>

#include "base/mem/named.h"
#include "device/elementwise.h"
#include "optim/journal.h"

struct tess_adamw {
    tess_mem *mem;
    bool is_private;
    optim_journal *journal;       /* NULL: no journal */
    tess_adamw_observer observer; /* NULL: none */
    void *observer_self;
    tess_stream *stream, *own_stream;
    const void *owner; /* of the spans; NULL: not known */
    tess_adamw_options options;
    float *m, *v;    /* moments of all trainable spans, one after the other */
    size_t bytes;    /* of each array */
    size_t *offsets; /* (n_spans) where a span's moments begin; SIZE_MAX: frozen */
    int n_spans;
};

static tess_status check_options(const tess_adamw_options *o)
{
    TESS_CHECK(o->beta1 >= 0 && o->beta1 < 1, TESS_E_INVALID, "adamw: beta1 is %g; it must be in [0, 1)",
               (double)o->beta1);
    TESS_CHECK(o->beta2 >= 0 && o->beta2 < 1, TESS_E_INVALID, "adamw: beta2 is %g; it must be in [0, 1)",
               (double)o->beta2);
    TESS_CHECK(o->eps >= 0 && isfinite(o->eps), TESS_E_INVALID, "adamw: eps is %g; it must not be negative",
               (double)o->eps);
    TESS_CHECK(o->weight_decay >= 0 && isfinite(o->weight_decay), TESS_E_INVALID,
               "adamw: weight_decay is %g; it must not be negative", (double)o->weight_decay);
    return TESS_OK;
}

static tess_status alloc_array(tess_adamw *adamw, const char *name, float **out)
{
    bool found;
    void **array = (void **)out;
    return adamw->is_private ? tess_mem_alloc(adamw->mem, TESS_POOL_OPTIMIZER, adamw->bytes, name, array)
                             : tess_mem_alloc_named(adamw->mem, TESS_POOL_OPTIMIZER, name, adamw->bytes, array, &found);
}

static void free_array(tess_adamw *adamw, float *array)
{
    if (adamw->is_private)
        tess_mem_free(adamw->mem, array);
    else
        tess_mem_free_named(adamw->mem, TESS_POOL_OPTIMIZER, adamw->bytes, array);
}

static tess_status alloc_moments(tess_adamw *adamw, const tess_span *spans)
{
    TESS_TRY(tess_mem_alloc_array(adamw->mem, TESS_POOL_MISC, (size_t)adamw->n_spans, sizeof(size_t), "adamw spans",
                                  (void **)&adamw->offsets));
    size_t n = 0;
    for (int i = 0; i < adamw->n_spans; i++) {
        bool frozen = spans[i].param == NULL;
        adamw->offsets[i] = frozen ? SIZE_MAX : n;
        n += frozen ? 0 : (size_t)spans[i].n;
    }
    TESS_CHECK(!__builtin_mul_overflow(n, sizeof(float), &adamw->bytes), TESS_E_NOMEM, "too many elements");
    if (!adamw->is_private)
        TESS_TRY(optim_journal_open(adamw->mem, &adamw->journal));
    TESS_TRY(alloc_array(adamw, "adamw first moments", &adamw->m));
    return alloc_array(adamw, "adamw second moments", &adamw->v);
}

static tess_status create(tess_mem *mem, const tess_span *spans, int n_spans, const tess_adamw_options *options,
                          bool is_private, tess_adamw **out)
{
    *out = NULL;
    TESS_TRY(check_options(options));
    tess_adamw *adamw = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*adamw), "adamw", (void **)&adamw));
    *adamw = (tess_adamw){.mem = mem, .is_private = is_private, .options = *options, .n_spans = n_spans};
    tess_status status = alloc_moments(adamw, spans);
    if (status != TESS_OK) {
        tess_adamw_destroy(&adamw);
        return tess_fail_context(status, "adamw");
    }
    *out = adamw;
    return TESS_OK;
}

tess_status tess_adamw_create(tess_mem *mem, const tess_span *spans, int n_spans, const tess_adamw_options *options,
                              tess_adamw **out)
{
    return create(mem, spans, n_spans, options, false, out);
}

tess_status tess_adamw_create_private(tess_mem *mem, const tess_span *spans, int n_spans,
                                      const tess_adamw_options *options, tess_adamw **out)
{
    return create(mem, spans, n_spans, options, true, out);
}

void tess_adamw_destroy(tess_adamw **handle)
{
    tess_adamw *adamw = *handle;
    if (adamw == NULL)
        return;
    tess_stream_destroy(&adamw->own_stream);
    optim_journal_close(adamw->mem, &adamw->journal);
    free_array(adamw, adamw->v);
    free_array(adamw, adamw->m);
    tess_mem_free(adamw->mem, adamw->offsets);
    tess_mem_free(adamw->mem, adamw);
    *handle = NULL;
}

void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream)
{
    adamw->stream = stream;
}

tess_status tess_adamw_set_threads(tess_adamw *adamw, int n_threads)
{
    tess_stream *stream;
    TESS_TRY_CTX(tess_stream_create(adamw->mem, n_threads, NULL, &stream), "adamw");
    tess_stream_destroy(&adamw->own_stream);
    adamw->stream = adamw->own_stream = stream;
    return TESS_OK;
}

void tess_adamw_set_observer(tess_adamw *adamw, tess_adamw_observer observer, void *self)
{
    adamw->observer = observer;
    adamw->observer_self = self;
}

/* What all spans of a step share. */
typedef struct update {
    tess_adamw *adamw;
    tess_stream *stream;
    tess_adamw_update call; /* the kernel's arguments, without the elements */
    int n_lanes;            /* of the journal */
    int64_t number;         /* of the span, for the observer */
} update;

/* A span with its moments. */
typedef struct piece {
    const tess_span *span;
    float *m, *v;
    int64_t first; /* number of its first element, for the journal */
} piece;

/* undo NULL: no journal. */
static tess_status run_kernel(const update *u, const piece *p, int64_t begin, int64_t end, tess_undo *undo)
{
    const tess_span *span = p->span;
    tess_adamw_update call = u->call;
    call.n = end - begin;
    call.p = span->param + begin;
    call.m = p->m + begin;
    call.v = p->v + begin;
    call.g = span->grad + begin;
    call.weight_decay = span->decay ? u->adamw->options.weight_decay : 0;
    call.copy_dtype = span->copy_dtype;
    call.undo = undo;
    int64_t into_copy = begin - span->copy_begin;
    if (span->copy != NULL && into_copy >= 0 && into_copy < span->copy_n)
        call.copy = (char *)span->copy + (size_t)into_copy * tess_dtype_size(span->copy_dtype);
    if (undo != NULL)
        undo->first = p->first + begin;
    return tess_stream_kernels(u->stream)->adamw(u->stream, &call);
}

/* Cuts at the ends of the copied elements, which may be in the middle of the rank's. */
static tess_status update_elements(const update *u, const piece *p, int64_t begin, int64_t end, tess_undo *undo)
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

/* A span's parts, one per lane. */
typedef struct parts {
    const update *u;
    const piece *p;
    int64_t per_lane;
    _Atomic int status; /* the last that was not TESS_OK */
} parts;

static void update_part(void *context, int64_t begin, int64_t end, int worker)
{
    parts *s = context;
    const piece *p = s->p;
    const tess_span *span = p->span;
    (void)worker;
    for (int64_t lane = begin; lane < end; lane++) {
        optim_journal *journal = s->u->adamw->journal;
        int64_t from = lane * s->per_lane, to = from + s->per_lane < span->n ? from + s->per_lane : span->n;
        optim_part part = {
            .array = {span->param + from, p->m + from, p->v + from}, .begin = p->first + from, .end = p->first + to};
        int64_t at = optim_journal_resume(journal, (int)lane, &part) - p->first;
        tess_status status = update_elements(s->u, p, at, to, optim_journal_undo(journal, (int)lane));
        if (status != TESS_OK)
            atomic_store(&s->status, status);
    }
}

static void notify_observer(const update *u, const char *moment)
{
    if (u->adamw->observer != NULL)
        u->adamw->observer(u->adamw->observer_self, moment, u->number);
}

/* Lanes do not wait for each other within a span. The parts are those of the interrupted update's lanes, whichever
 * process resumes it. */
static tess_status update_with_journal(update *u, const piece *p)
{
    int64_t n = p->span->n, grain = tess_loop_grain(0), grains = (n + grain - 1) / grain;
    parts s = {.u = u, .p = p, .per_lane = (grains + u->n_lanes - 1) / u->n_lanes * grain};
    if (n == 0)
        return TESS_OK;
    notify_observer(u, "shard");
    tess_threads_run(tess_stream_threads(u->stream), update_part, &s, (n + s.per_lane - 1) / s.per_lane, 1);
    notify_observer(u, "shard-done");
    u->number++;
    return atomic_load(&s.status);
}

static tess_status update_all(update *u, const tess_span *spans)
{
    tess_adamw *adamw = u->adamw;
    for (int i = 0; i < adamw->n_spans; i++) {
        const tess_span *span = &spans[i];
        size_t at = adamw->offsets[i];
        if (at == SIZE_MAX)
            continue;
        TESS_CHECK(span->grad != NULL, TESS_E_INVALID,
                   "adamw: '%s' has no gradient; end the step's sums first (tess_fsdp_step_end)", span->name);
        piece p = {.span = span, .m = adamw->m + at, .v = adamw->v + at, .first = (int64_t)at};
        TESS_TRY_CTX(adamw->journal != NULL ? update_with_journal(u, &p) : update_elements(u, &p, 0, span->n, NULL),
                     "adamw: '%s'", span->name);
    }
    if (adamw->journal != NULL)
        optim_journal_end(adamw->journal);
    return TESS_OK;
}

tess_status tess_adamw_step(tess_adamw *adamw, const tess_span *spans, int64_t step, float lr, float grad_scale)
{
    TESS_CHECK(step >= 1, TESS_E_INVALID, "adamw: step %lld; the first is 1", (long long)step);
    if (adamw->stream == NULL)
        TESS_TRY(tess_adamw_set_threads(adamw, 1));
    const tess_adamw_options *o = &adamw->options;
    /* From the float betas that the kernel uses, so that the first step is lr * sign(g) as exactly as floats allow. */
    update u = {.adamw = adamw,
                .stream = adamw->stream,
                .call = {.lr = lr,
                         .beta1 = o->beta1,
                         .beta2 = o->beta2,
                         .eps = o->eps,
                         .grad_scale = grad_scale,
                         .bias1 = (float)(1 - pow((double)o->beta1, (double)step)),
                         .bias2 = (float)(1 - pow((double)o->beta2, (double)step))}};
    if (adamw->journal != NULL)
        u.n_lanes = optim_journal_begin(adamw->journal, step, tess_threads_count(tess_stream_threads(u.stream)));
    return update_all(&u, spans);
}

void tess_adamw_set_owner(tess_adamw *adamw, const void *owner)
{
    adamw->owner = owner;
}

bool tess_adamw_is_of(const tess_adamw *adamw, const void *owner)
{
    return adamw->owner == owner;
}

void tess_adamw_moments(tess_adamw *adamw, int index, float **m, float **v)
{
    bool there = index >= 0 && index < adamw->n_spans && adamw->offsets[index] != SIZE_MAX;
    *m = there ? adamw->m + adamw->offsets[index] : NULL;
    *v = there ? adamw->v + adamw->offsets[index] : NULL;
}
