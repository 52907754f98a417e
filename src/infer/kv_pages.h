/* Keys and values of past tokens in pages of TESS_ATTENTION_BLOCK positions, all layers of a position in one page.
 * Texts with a common beginning share its pages, and a text's own copy of a page is made when it writes to it. Who runs
 * when is the scheduler's matter.
 *
 * One thread uses a pool. */
#ifndef TESS_INFER_KV_PAGES_H
#define TESS_INFER_KV_PAGES_H

#include "nn/model.h"

typedef struct tess_kv_pages tess_kv_pages;

/* The pages of one text: position p is in pages[p / TESS_ATTENTION_BLOCK]. */
typedef struct tess_kv_table {
    int32_t *pages; /* (room) the caller's memory */
    int64_t n_pages;
    int64_t length; /* positions that are written; the caller moves it on */
} tess_kv_table;

typedef struct tess_kv_stats {
    int64_t n_pages, used; /* used: pages that some table has */
    int64_t peak;          /* largest value of used */
    int64_t copied;        /* pages copied because a text wrote to a shared one */
} tess_kv_stats;

/* Pages that hold n positions. */
static inline int64_t tess_kv_pages_of(int64_t n)
{
    return (n + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK;
}

/* Bytes of a page: keys and values of a model's layers. SIZE_MAX: too many to count. */
size_t tess_kv_page_bytes(const tess_model_config *config, tess_dtype dtype);

/* The pages are memory of the stream's device, taken from the kv-cache pool at once. stream is borrowed. */
tess_status tess_kv_pages_create(tess_stream *stream, const tess_model_config *config, tess_dtype dtype,
                                 int64_t n_pages, tess_kv_pages **pages);
void tess_kv_pages_destroy(tess_kv_pages **pages);

const tess_kv_cache *tess_kv_pages_cache(const tess_kv_pages *pages);
tess_kv_stats tess_kv_pages_stats(const tess_kv_pages *pages);
int64_t tess_kv_pages_free(const tess_kv_pages *pages);

/* Gets the table ready for positions length .. n to be written: it has pages for them, and shares none of these.
 * *enough false: the pool has too few free pages, and nothing changed. The table has room for the pages of n. */
tess_status tess_kv_pages_reserve(tess_kv_pages *pages, tess_kv_table *table, int64_t n, bool *enough);

/* `to`, which is empty, shares the first `length` positions of `from`. */
void tess_kv_pages_fork(tess_kv_pages *pages, const tess_kv_table *from, int64_t length, tess_kv_table *to);

/* The table keeps its first `length` positions, at most those that it has. */
void tess_kv_pages_truncate(tess_kv_pages *pages, tess_kv_table *table, int64_t length);

/* Empties the table. */
void tess_kv_pages_release(tess_kv_pages *pages, tess_kv_table *table);

/* Pages of the table that no other has: what its release would free. */
int64_t tess_kv_pages_own(const tess_kv_pages *pages, const tess_kv_table *table);

#endif
