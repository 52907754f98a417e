#include "infer/kv_pages.h"

#include <string.h>

#include "device/device.h"
#include "base/mem/scoped.h"

struct tess_kv_pages {
    tess_stream *stream;
    void *memory; /* (n_pages, layers, 2, BLOCK, width) all pages: keys and values of each layer */
    size_t page_bytes;
    void **k, **v;   /* (L of the whole model) keys and values of page 0 */
    int32_t *shares; /* (n_pages) number of tables that contain the page */
    int32_t *free;   /* (n_free) numbers of free pages, as a stack */
    int64_t n_free, peak, copied;
    tess_kv_cache cache;
};

/* Bytes of a page's keys in one layer. */
static size_t layer_bytes(const tess_model *model, tess_dtype dtype)
{
    return (size_t)tess_model_cached_row(model) * TESS_ATTENTION_BLOCK * tess_dtype_size(dtype);
}

/* Does not overflow: by tess_model_config_check a model has at most 2^10 layers with 2^12 key heads of 2^10 elements,
 * so a page has at most 2^41 bytes. */
size_t tess_kv_page_bytes(const tess_model *model, tess_dtype dtype)
{
    return 2 * (size_t)tess_model_get_part(model)->n_layers * layer_bytes(model, dtype);
}

static tess_status make(tess_kv_pages *p, const tess_model *model, tess_dtype dtype, int64_t n_pages)
{
    size_t n = (size_t)n_pages, L = (size_t)tess_model_get_config(model)->n_layers, bytes;
    TESS_CHECK(!__builtin_mul_overflow(p->page_bytes, n, &bytes), TESS_E_NOMEM,
               "a cache of %lld pages of %zu bytes is too large", (long long)n_pages, p->page_bytes);
    TESS_TRY(
        tess_device_alloc(tess_stream_device(p->stream), TESS_POOL_KV_CACHE, bytes, "keys and values", &p->memory));
    TESS_TRY(TESS_PART(p, L, "pages", &p->k));
    TESS_TRY(TESS_PART(p, L, "pages", &p->v));
    TESS_TRY(TESS_PART(p, n, "pages", &p->shares));
    TESS_TRY(TESS_PART(p, n, "pages", &p->free));
    char *at = p->memory;
    const size_t part = layer_bytes(model, dtype);
    for (int unit = 0; unit < tess_model_n_units(model); unit++) {
        const int64_t l = tess_model_unit_layer(model, unit);
        if (l < 0)
            continue;
        p->k[l] = at;
        p->v[l] = at + part;
        at += 2 * part;
    }
    for (int64_t i = 0; i < n_pages; i++) /* the top of the stack is page 0 */
        p->free[i] = (int32_t)(n_pages - 1 - i);
    p->n_free = n_pages;
    p->cache = (tess_kv_cache){.k = p->k,
                               .v = p->v,
                               .page_stride = (int64_t)(p->page_bytes / tess_dtype_size(dtype)),
                               .n_pages = n_pages,
                               .dtype = dtype};
    return TESS_OK;
}

tess_status tess_kv_pages_create(tess_stream *stream, const tess_model *model, tess_dtype dtype, int64_t n_pages,
                                 tess_kv_pages **out)
{
    TESS_CHECK(n_pages >= 1 && n_pages <= INT32_MAX, TESS_E_INVALID, "a cache of %lld pages; 1 to 2^31-1 are possible",
               (long long)n_pages);
    TESS_AUTO(tess_kv_pages_destroy) tess_kv_pages *p = NULL;
    TESS_TRY(TESS_NEW(tess_stream_mem(stream), 1, "pages", &p));
    *p = (tess_kv_pages){.stream = stream, .page_bytes = tess_kv_page_bytes(model, dtype)};
    TESS_TRY(make(p, model, dtype, n_pages));
    *out = TESS_GIVE(p);
    return TESS_OK;
}

void tess_kv_pages_destroy(tess_kv_pages **handle)
{
    tess_kv_pages *p = *handle;
    if (p == NULL)
        return;
    tess_device_free(tess_stream_device(p->stream), p->memory);
    tess_mem_drop(handle);
}

const tess_kv_cache *tess_kv_pages_cache(const tess_kv_pages *p)
{
    return &p->cache;
}

tess_kv_stats tess_kv_pages_stats(const tess_kv_pages *p)
{
    return (tess_kv_stats){p->cache.n_pages, p->cache.n_pages - p->n_free, p->peak, p->copied};
}

int64_t tess_kv_pages_free(const tess_kv_pages *p)
{
    return p->n_free;
}

static int32_t take(tess_kv_pages *p)
{
    int32_t page = p->free[--p->n_free];
    p->shares[page] = 1;
    int64_t used = p->cache.n_pages - p->n_free;
    p->peak = used > p->peak ? used : p->peak;
    return page;
}

static void give_back(tess_kv_pages *p, int32_t page)
{
    if (--p->shares[page] == 0)
        p->free[p->n_free++] = page;
}

static void *page_at(const tess_kv_pages *p, int32_t page)
{
    return (char *)p->memory + (size_t)page * p->page_bytes;
}

tess_status tess_kv_pages_reserve(tess_kv_pages *p, tess_kv_table *table, int64_t n, bool *enough)
{
    int64_t partial = table->length / TESS_ATTENTION_BLOCK, wanted = tess_kv_pages_of(n);
    bool shared = n > table->length && partial < table->n_pages && p->shares[table->pages[partial]] > 1;
    int64_t more = wanted > table->n_pages ? wanted - table->n_pages : 0;
    *enough = more + (shared ? 1 : 0) <= p->n_free;
    if (!*enough)
        return TESS_OK;
    if (shared) {
        int32_t from = table->pages[partial], to = take(p);
        table->pages[partial] = to;
        give_back(p, from);
        p->copied++;
        TESS_TRY(tess_stream_kernels(p->stream)->copy(
            p->stream,
            &(tess_copy_args){.to = page_at(p, to), .from = page_at(p, from), .bytes = (int64_t)p->page_bytes}));
    }
    while (table->n_pages < wanted)
        table->pages[table->n_pages++] = take(p);
    return TESS_OK;
}

void tess_kv_pages_fork(tess_kv_pages *p, const tess_kv_table *from, int64_t length, tess_kv_table *to)
{
    to->n_pages = tess_kv_pages_of(length);
    to->length = length;
    memcpy(to->pages, from->pages, (size_t)to->n_pages * sizeof(*to->pages));
    for (int64_t i = 0; i < to->n_pages; i++)
        p->shares[to->pages[i]]++;
}

void tess_kv_pages_truncate(tess_kv_pages *p, tess_kv_table *table, int64_t length)
{
    for (int64_t keep = tess_kv_pages_of(length); table->n_pages > keep; table->n_pages--)
        give_back(p, table->pages[table->n_pages - 1]);
    table->length = length;
}

void tess_kv_pages_release(tess_kv_pages *p, tess_kv_table *table)
{
    tess_kv_pages_truncate(p, table, 0);
}

int64_t tess_kv_pages_own(const tess_kv_pages *p, const tess_kv_table *table)
{
    int64_t n = 0;
    for (int64_t i = 0; i < table->n_pages; i++)
        n += p->shares[table->pages[i]] == 1;
    return n;
}
