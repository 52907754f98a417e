/* Stores keys and values of past tokens in pages of TESS_ATTENTION_BLOCK positions; a page has all layers of its
 * positions. Texts with the same beginning share its pages. When a text writes to a shared page, it gets its own
 * copy first. The scheduler decides which texts run.
 *
 * A pool is used by one thread. */
#ifndef TESS_INFER_KV_PAGES_H
#define TESS_INFER_KV_PAGES_H

#include "nn/model.h"

typedef struct tess_kv_pages tess_kv_pages;

/* The pages of one text: position p is in pages[p / TESS_ATTENTION_BLOCK]. */
typedef struct tess_kv_table {
    int32_t *pages; /* (room) page numbers, in the caller's memory */
    int64_t n_pages;
    int64_t length; /* number of positions that have been written; the caller advances it */
} tess_kv_table;

typedef struct tess_kv_stats {
    int64_t n_pages, used; /* used: pages that at least one table contains */
    int64_t peak;          /* largest value of used */
    int64_t copied;        /* pages copied because a text wrote to a shared one */
} tess_kv_stats;

/* The number of pages for n positions. */
static inline int64_t tess_kv_pages_of(int64_t n)
{
    return (n + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK;
}

/* Bytes of a page: keys and values of all layers of a model, which may be a part. */
size_t tess_kv_page_bytes(const tess_model *model, tess_dtype dtype);

/* Creates a pool of pages. They are allocated at once, from the kv-cache pool of the stream's device. Borrows
 * stream. */
tess_status tess_kv_pages_create(tess_stream *stream, const tess_model *model, tess_dtype dtype, int64_t n_pages,
                                 tess_kv_pages **pages);
void tess_kv_pages_destroy(tess_kv_pages **pages);

const tess_kv_cache *tess_kv_pages_cache(const tess_kv_pages *pages);
tess_kv_stats tess_kv_pages_stats(const tess_kv_pages *pages);
int64_t tess_kv_pages_free(const tess_kv_pages *pages);

/* Prepares the table for writing positions length .. n: it gets pages for them, and copies of those that are shared.
 * *enough false: the pool has too few free pages, and nothing has changed. The table must have room for the pages of
 * n positions. */
tess_status tess_kv_pages_reserve(tess_kv_pages *pages, tess_kv_table *table, int64_t n, bool *enough);

/* Makes `to`, which must be empty, share the first `length` positions of `from`. */
void tess_kv_pages_fork(tess_kv_pages *pages, const tess_kv_table *from, int64_t length, tess_kv_table *to);

/* Truncates the table to its first `length` positions, which it must have. */
void tess_kv_pages_truncate(tess_kv_pages *pages, tess_kv_table *table, int64_t length);

/* Empties the table. */
void tess_kv_pages_release(tess_kv_pages *pages, tess_kv_table *table);

/* The number of pages that only this table contains: releasing it would free them. */
int64_t tess_kv_pages_own(const tess_kv_pages *pages, const tess_kv_table *table);

#endif
