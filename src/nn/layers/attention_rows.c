/* The keys and values that each sequence attends to: rows of the batch, or of the cache's pages. */
#include "nn/layers/layers.h"
#include "nn/layers/transformer_layer.h"

/* Copies to the cache. Single rows, of texts that grow by a token, wait until many of them can be copied in one call. A
 * GPU copies this many equal rows in one launch. */
enum { MOST_RUNS = 240 };
typedef struct cache_append {
    const tess_layer_call *c;
    int64_t stride;
    tess_value_run runs[MOST_RUNS];
    int64_t n;
} cache_append;

static tess_status copy_runs(cache_append *a)
{
    const int64_t n = a->n;
    a->n = 0;
    return n == 0
               ? TESS_OK
               : a->c->kernels->convert_runs(
                     a->c->stream,
                     &(tess_convert_runs_args){.runs = a->runs, .n_runs = n, .from = a->c->dtype, .to = a->c->dtype});
}

/* Copies n rows, `stride` elements apart, to rows of the cache. */
static tess_status append_block(cache_append *a, int64_t n, const void *from, void *to)
{
    const int64_t width = tess_cached_row(a->c->own);
    if (n > 1)
        return tess_layer_copy_rows(a->c, (int64_t)tess_dtype_size(a->c->dtype), n, width, from, a->stride, to, width);
    if (a->n == MOST_RUNS)
        TESS_TRY(copy_runs(a));
    a->runs[a->n++] = (tess_value_run){from, to, width};
    return TESS_OK;
}

/* Appends keys and values of `length` tokens, from the batch's row `row` on, at positions `past` and following of a
 * sequence in the cache. */
static tess_status append_rows(cache_append *a, const void *k, const void *v, const int32_t *pages, int64_t row,
                               int64_t past, int64_t length)
{
    const tess_layer_call *c = a->c;
    const tess_kv_cache *cache = c->batch->cache;
    for (int64_t done = 0, n; done < length; done += n) {
        int64_t at = (past + done) % TESS_ATTENTION_BLOCK, from = (row + done) * a->stride;
        int64_t to = pages[(past + done) / TESS_ATTENTION_BLOCK] * cache->page_stride + at * tess_cached_row(c->own);
        n = length - done < TESS_ATTENTION_BLOCK - at ? length - done : TESS_ATTENTION_BLOCK - at;
        TESS_TRY(append_block(a, n, tess_at(c, k, from), tess_at(c, cache->k[c->block->layer], to)));
        TESS_TRY(append_block(a, n, tess_at(c, v, from), tess_at(c, cache->v[c->block->layer], to)));
    }
    return TESS_OK;
}

/* Copies keys and values of the tokens that all readers of a text have. */
static tess_status append_of_all(const tess_layer_call *c, const void *k, const void *v, int64_t stride)
{
    const tess_points *readers = c->readers;
    const int64_t n = readers->degree, all = n * c->T, width = tess_cached_row(c->own);
    const tess_cut rows = {all, c->T}, columns = {width, 0};
    void *const gathered[] = {c->read_rows, tess_at(c, c->read_rows, all * width)};
    const void *const own[] = {k, v};
    static const char *const names[] = {"keys", "values"};
    for (int i = 0; i < 2; i++)
        TESS_TRY(tess_meet_over(readers, names[i], tess_dtype_size(c->dtype),
                                (tess_matrix_box){rows, columns, own[i], stride},
                                (tess_matrix_box){{all, 0}, columns, gathered[i], width}));
    cache_append append = {.c = c, .stride = width};
    TESS_TRY(append_rows(&append, gathered[0], gathered[1], c->batch->pages[0], 0,
                         c->batch->pos[0] - readers->rank * c->T, all));
    return copy_runs(&append);
}

tess_status tess_cache_append(const tess_layer_call *c, const void *k, const void *v, int64_t stride)
{
    const tess_batch *batch = c->batch;
    if (batch->is_shared)
        return append_of_all(c, k, v, stride);
    cache_append append = {.c = c, .stride = stride};
    for (int64_t i = 0; batch->cache != NULL && i < batch->n_seqs; i++) {
        int64_t begin = batch->cu_seqlens[i], length = batch->cu_seqlens[i + 1] - begin;
        TESS_TRY(append_rows(&append, k, v, batch->pages[i], begin, batch->pos[begin], length));
    }
    return copy_runs(&append);
}

void tess_attention_sequences(const tess_layer_call *c, const void *k, const void *v, int64_t stride, int64_t column,
                              tess_attention_seq *seqs)
{
    const tess_batch *batch = c->batch;
    const bool cached = batch->cache != NULL;
    for (int64_t i = 0; i < batch->n_seqs; i++) {
        int64_t begin = batch->cu_seqlens[i], length = batch->cu_seqlens[i + 1] - begin;
        int64_t at = column + (cached ? 0 : begin * stride), past = cached ? batch->pos[begin] : 0;
        seqs[i] = (tess_attention_seq){.q_begin = begin,
                                       .q_len = length,
                                       .k_len = past + length,
                                       .k = tess_at(c, cached ? batch->cache->k[c->block->layer] : k, at),
                                       .v = tess_at(c, cached ? batch->cache->v[c->block->layer] : v, at),
                                       .pages = cached ? batch->pages[i] : NULL};
    }
}
