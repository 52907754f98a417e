/* AdamW over the shards of a tess_fsdp: element-wise, so any cut of the parameters gives the same bits. */
#include "optim/optim_internal.h"

#include <math.h>

#include "device/elementwise.h"
#include "inject/inject.h"
#include "optim/journal.h"

struct tess_adamw {
    tess_fsdp *fsdp;
    tess_mem *mem;
    tess_keep *keep;        /* NULL: none */
    optim_journal *journal; /* NULL: without one */
    tess_stream *stream, *own_stream;
    tess_adamw_options options;
    float *m, *v;    /* moments of all trainable shards, one after the other */
    size_t bytes;    /* of each */
    size_t *offsets; /* (n_shards) of a shard in them; SIZE_MAX: frozen */
    int n_shards;
};

static size_t count_elements(const tess_shard *shard)
{
    return (size_t)(shard->n_rows * tess_shape_row_count(&shard->shape));
}

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

static tess_status alloc_moments(tess_adamw *adamw)
{
    adamw->n_shards = tess_fsdp_shards(adamw->fsdp);
    TESS_TRY(tess_mem_alloc_array(adamw->mem, TESS_POOL_MISC, (size_t)adamw->n_shards, sizeof(size_t), "adamw shards",
                                  (void **)&adamw->offsets));
    size_t n = 0;
    for (int i = 0; i < adamw->n_shards; i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(adamw->fsdp, i, &shard));
        adamw->offsets[i] = shard.trainable ? n : SIZE_MAX;
        n += shard.trainable ? count_elements(&shard) : 0;
    }
    bool found;
    TESS_CHECK(!__builtin_mul_overflow(n, sizeof(float), &adamw->bytes), TESS_E_NOMEM, "too many elements");
    TESS_TRY(optim_journal_open(adamw->keep, adamw->mem, &adamw->journal));
    TESS_TRY(tess_keep_alloc(adamw->keep, adamw->mem, TESS_POOL_OPTIMIZER, "adamw first moments", adamw->bytes,
                             (void **)&adamw->m, &found));
    return tess_keep_alloc(adamw->keep, adamw->mem, TESS_POOL_OPTIMIZER, "adamw second moments", adamw->bytes,
                           (void **)&adamw->v, &found);
}

tess_status tess_adamw_create(tess_fsdp *fsdp, const tess_adamw_options *options, tess_adamw **out)
{
    return tess_adamw_create_kept(fsdp, options, NULL, out);
}

tess_status tess_adamw_create_kept(tess_fsdp *fsdp, const tess_adamw_options *options, tess_keep *keep,
                                   tess_adamw **out)
{
    *out = NULL;
    TESS_TRY(check_options(options));
    tess_mem *mem = tess_runtime_mem(tess_fsdp_runtime(fsdp));
    tess_adamw *adamw = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*adamw), "adamw", (void **)&adamw));
    *adamw = (tess_adamw){.fsdp = fsdp, .mem = mem, .keep = keep, .options = *options};
    tess_status status = alloc_moments(adamw);
    if (status != TESS_OK) {
        tess_adamw_destroy(&adamw);
        return tess_fail_context(status, "adamw");
    }
    *out = adamw;
    return TESS_OK;
}

void tess_adamw_destroy(tess_adamw **handle)
{
    tess_adamw *adamw = *handle;
    if (adamw == NULL)
        return;
    tess_stream_destroy(&adamw->own_stream);
    optim_journal_close(adamw->keep, adamw->mem, &adamw->journal);
    tess_keep_free(adamw->keep, adamw->mem, TESS_POOL_OPTIMIZER, adamw->bytes, adamw->v);
    tess_keep_free(adamw->keep, adamw->mem, TESS_POOL_OPTIMIZER, adamw->bytes, adamw->m);
    tess_mem_free(adamw->mem, adamw->offsets);
    tess_mem_free(adamw->mem, adamw);
    *handle = NULL;
}

void tess_adamw_set_stream(tess_adamw *adamw, tess_stream *stream)
{
    adamw->stream = stream;
}

static tess_status find_stream(tess_adamw *adamw, tess_stream **stream)
{
    if (adamw->stream == NULL) {
        TESS_TRY(tess_stream_create(adamw->mem, 1, NULL, &adamw->own_stream));
        adamw->stream = adamw->own_stream;
    }
    *stream = adamw->stream;
    return TESS_OK;
}

/* What all shards of a step share. */
typedef struct update {
    tess_adamw *adamw;
    tess_stream *stream;
    float lr, bias1, bias2, grad_scale;
    tess_dtype param_dtype;
    int n_lanes;    /* of the journal */
    int64_t number; /* of the shard, for drills */
} update;

/* A shard with its moments; copy_begin .. copy_end: the elements whose gathered copy this rank writes, too. */
typedef struct piece {
    const tess_shard *shard;
    float *m, *v;
    int64_t n, copy_begin, copy_end;
    int64_t first; /* number of its first element, for the journal */
} piece;

/* undo NULL: no journal. */
static tess_status run_kernel(const update *u, const piece *p, int64_t begin, int64_t end, tess_undo *undo)
{
    const tess_adamw_options *o = &u->adamw->options;
    bool copied = p->shard->copy != NULL && begin >= p->copy_begin && begin < p->copy_end;
    size_t into_copy = (size_t)(begin - p->copy_begin) * tess_dtype_size(u->param_dtype);
    if (undo != NULL)
        undo->first = p->first + begin;
    return u->stream->kernels->adamw(u->stream, p->shard->master + begin, p->m + begin, p->v + begin,
                                     p->shard->grad + begin, end - begin, u->lr, o->beta1, o->beta2, o->eps,
                                     p->shard->decay ? o->weight_decay : 0, u->bias1, u->bias2, u->grad_scale,
                                     copied ? (char *)p->shard->copy + into_copy : NULL, u->param_dtype, undo);
}

/* What is copied lies in the middle of what a rank holds. */
static tess_status update_elements(const update *u, const piece *p, int64_t begin, int64_t end, tess_undo *undo)
{
    const int64_t cuts[] = {p->copy_begin, p->copy_end, end};
    for (int i = 0; i < 3; i++) {
        int64_t to = cuts[i] < end ? cuts[i] : end;
        if (to <= begin)
            continue;
        TESS_TRY(run_kernel(u, p, begin, to, undo));
        begin = to;
    }
    return TESS_OK;
}

/* A shard's parts, one a lane. */
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
    (void)worker;
    for (int64_t lane = begin; lane < end; lane++) {
        optim_journal *journal = s->u->adamw->journal;
        int64_t from = lane * s->per_lane, to = from + s->per_lane < p->n ? from + s->per_lane : p->n;
        optim_part part = {.array = {p->shard->master + from, p->m + from, p->v + from},
                           .begin = p->first + from,
                           .end = p->first + to};
        int64_t at = optim_journal_resume(journal, (int)lane, &part) - p->first;
        tess_status status = update_elements(s->u, p, at, to, optim_journal_undo(journal, (int)lane));
        if (status != TESS_OK)
            atomic_store(&s->status, status);
    }
}

/* Lanes do not wait for each other within a shard. The cut is that of the update's lanes, whoever goes on with it.
 * Faults that drills inject come before and after a shard. */
static tess_status update_with_journal(update *u, const piece *p)
{
    tess_runtime *rt = tess_fsdp_runtime(u->adamw->fsdp);
    int64_t grain = tess_loop_grain(0), grains = (p->n + grain - 1) / grain;
    parts s = {.u = u, .p = p, .per_lane = (grains + u->n_lanes - 1) / u->n_lanes * grain};
    if (p->n == 0)
        return TESS_OK;
    tess_inject_moment(rt, "shard", u->number);
    tess_threads_run(u->stream->threads, update_part, &s, (p->n + s.per_lane - 1) / s.per_lane, 1);
    tess_inject_moment(rt, "shard-done", u->number++);
    return atomic_load(&s.status);
}

static tess_status update_shard(update *u, const piece *p)
{
    return u->adamw->journal != NULL ? update_with_journal(u, p) : update_elements(u, p, 0, p->n, NULL);
}

static tess_status update_all(update *u)
{
    tess_adamw *adamw = u->adamw;
    for (int i = 0; i < adamw->n_shards; i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(adamw->fsdp, i, &shard));
        if (!shard.trainable)
            continue;
        TESS_CHECK(shard.grad != NULL, TESS_E_INVALID, "adamw: '%s' has no gradient; call tess_fsdp_step_end first",
                   shard.name);
        int64_t row = tess_shape_row_count(&shard.shape);
        piece p = {.shard = &shard,
                   .m = adamw->m + adamw->offsets[i],
                   .v = adamw->v + adamw->offsets[i],
                   .n = shard.n_rows * row,
                   .first = (int64_t)adamw->offsets[i]};
        if (shard.copy != NULL) {
            p.copy_begin = (shard.copy_begin - shard.row_begin) * row;
            p.copy_end = p.copy_begin + shard.copy_rows * row;
        }
        TESS_TRY_CTX(update_shard(u, &p), "adamw: '%s'", shard.name);
    }
    if (adamw->journal != NULL)
        optim_journal_end(adamw->journal);
    return TESS_OK;
}

static tess_status begin_update(tess_adamw *adamw, int64_t step, float lr, float grad_scale, update *u)
{
    TESS_CHECK(step >= 1, TESS_E_INVALID, "adamw: step %lld; the first is 1", (long long)step);
    const tess_adamw_options *o = &adamw->options;
    /* From the float betas that the kernel uses, so that the first step is lr * sign(g) exactly as far as floats go. */
    *u = (update){.adamw = adamw,
                  .lr = lr,
                  .bias1 = (float)(1 - pow((double)o->beta1, (double)step)),
                  .bias2 = (float)(1 - pow((double)o->beta2, (double)step)),
                  .grad_scale = grad_scale,
                  .param_dtype = tess_fsdp_param_dtype(adamw->fsdp)};
    TESS_TRY(find_stream(adamw, &u->stream));
    if (adamw->journal != NULL)
        u->n_lanes = optim_journal_begin(adamw->journal, step, tess_threads_count(u->stream->threads));
    return TESS_OK;
}

tess_status tess_adamw_step(tess_adamw *adamw, int64_t step, float lr, float grad_scale)
{
    update u;
    TESS_TRY(begin_update(adamw, step, lr, grad_scale, &u));
    TESS_TRY(tess_fsdp_update_begin(adamw->fsdp));
    TESS_TRY(update_all(&u));
    return tess_fsdp_update_end(adamw->fsdp);
}

tess_status tess_adamw_end_step(tess_adamw *adamw, int64_t step, float lr, float grad_scale)
{
    update u;
    TESS_CHECK(adamw->journal != NULL, TESS_E_INVALID, "adamw: only an update with a journal can be ended later");
    TESS_TRY(begin_update(adamw, step, lr, grad_scale, &u));
    return update_all(&u);
}

void tess_adamw_moments(tess_adamw *adamw, int index, float **m, float **v)
{
    bool there = index >= 0 && index < adamw->n_shards && adamw->offsets[index] != SIZE_MAX;
    *m = there ? adamw->m + adamw->offsets[index] : NULL;
    *v = there ? adamw->v + adamw->offsets[index] : NULL;
}
