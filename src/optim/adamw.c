/* AdamW over the shards of a tess_fsdp: element-wise, so any cut of the parameters gives the same bits. */
#include "optim/optim_internal.h"

#include <math.h>

#include "comm/inject/inject.h"
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
    int64_t chunk, first, number; /* elements of a chunk, chunk to begin with, chunks seen so far */
} update;

/* A shard with its moments; copy_begin .. copy_end: the elements whose gathered copy this rank writes, too. */
typedef struct piece {
    const tess_shard *shard;
    float *m, *v;
    int64_t n, copy_begin, copy_end;
} piece;

static tess_status run_kernel(const update *u, const piece *p, int64_t begin, int64_t end)
{
    const tess_adamw_options *o = &u->adamw->options;
    bool copied = p->shard->copy != NULL && begin >= p->copy_begin && begin < p->copy_end;
    size_t into_copy = (size_t)(begin - p->copy_begin) * tess_dtype_size(u->param_dtype);
    return u->stream->kernels->adamw(u->stream, p->shard->master + begin, p->m + begin, p->v + begin,
                                     p->shard->grad + begin, end - begin, u->lr, o->beta1, o->beta2, o->eps,
                                     p->shard->decay ? o->weight_decay : 0, u->bias1, u->bias2, u->grad_scale,
                                     copied ? (char *)p->shard->copy + into_copy : NULL, u->param_dtype);
}

/* What is copied lies in the middle of what a rank holds. */
static tess_status update_elements(const update *u, const piece *p, int64_t begin, int64_t end)
{
    const int64_t cuts[] = {p->copy_begin, p->copy_end, end};
    for (int i = 0; i < 3; i++) {
        int64_t to = cuts[i] < end ? cuts[i] : end;
        if (to <= begin)
            continue;
        TESS_TRY(run_kernel(u, p, begin, to));
        begin = to;
    }
    return TESS_OK;
}

/* Faults that drills inject come at the three moments of a chunk. */
static tess_status update_chunk(const update *u, const piece *p, int64_t begin, int64_t end)
{
    const tess_adamw *adamw = u->adamw;
    tess_runtime *rt = tess_fsdp_runtime(adamw->fsdp);
    optim_chunk chunk = {.array = {p->shard->master + begin, p->m + begin, p->v + begin}, .n = end - begin};
    optim_journal_protect(adamw->journal, u->stream, u->number, &chunk);
    tess_inject_moment(rt, "journal", u->number);
    TESS_TRY(update_elements(u, p, begin, end));
    tess_inject_moment(rt, "chunk", u->number);
    optim_journal_commit(adamw->journal, u->number);
    tess_inject_moment(rt, "chunk-done", u->number);
    return TESS_OK;
}

static tess_status update_shard(update *u, const piece *p)
{
    if (u->adamw->journal == NULL)
        return update_elements(u, p, 0, p->n);
    for (int64_t begin = 0; begin < p->n; begin += u->chunk) {
        int64_t end = begin + u->chunk < p->n ? begin + u->chunk : p->n;
        if (u->number >= u->first)
            TESS_TRY(update_chunk(u, p, begin, end));
        u->number++;
    }
    return TESS_OK;
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
                   .n = shard.n_rows * row};
        if (shard.copy != NULL) {
            p.copy_begin = (shard.copy_begin - shard.row_begin) * row;
            p.copy_end = p.copy_begin + shard.copy_rows * row;
        }
        TESS_TRY_CTX(update_shard(u, &p), "adamw: '%s'", shard.name);
    }
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
        u->first = optim_journal_begin(adamw->journal, u->stream, step, &u->chunk);
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
