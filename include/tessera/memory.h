/* Named memory pools: every byte belongs to a pool, and the counters are exact.
 *
 * A tess_mem belongs to one process. Bytes are counted as requested, without headers or rounding, so that a planner
 * can predict the same numbers. Thread-safe. */
#ifndef TESSERA_MEMORY_H
#define TESSERA_MEMORY_H

#include "tessera/status.h"
#include "tessera/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TESS_POOL_LIST(X)                                                                                  \
    X(TESS_POOL_PARAMS, "params")           /* master weights, the shards that a rank owns */              \
    X(TESS_POOL_GRADS, "grads")             /* gradient accumulators */                                    \
    X(TESS_POOL_OPTIMIZER, "optimizer")     /* moments */                                                  \
    X(TESS_POOL_ACTIVATIONS, "activations") /* tensors that forward stores for backward, and work space */ \
    X(TESS_POOL_COMM, "comm")               /* gathered parameters, gradient windows, staging */           \
    X(TESS_POOL_KV_CACHE, "kv-cache")                                                                      \
    X(TESS_POOL_MISC, "misc")

typedef enum tess_pool {
#define X(name, text) name,
    TESS_POOL_LIST(X)
#undef X
        TESS_POOL_COUNT
} tess_pool;

typedef struct tess_mem tess_mem;

typedef struct tess_pool_stats {
    size_t bytes;      /* bytes in use now */
    size_t peak_bytes; /* largest number of bytes in use so far */
    size_t n_blocks;   /* blocks in use now */
} tess_pool_stats;

TESS_API tess_status tess_mem_create(tess_mem **mem);

/* Frees the book-keeping and nulls the handle. Blocks that have not been freed stay valid, but can no longer be
 * freed: destroy their owners first. Returns the number of such blocks (0 if all is well). */
TESS_API size_t tess_mem_destroy(tess_mem **mem);

/* Allocates zeroed memory, aligned to 64 bytes. From 4 MiB on it is aligned to 2 MiB, and huge pages are requested.
 * `bytes` 0 returns a valid pointer. Free it with tess_mem_free.
 * TESS_E_NOMEM: the message names `what`, the pool and the size */
TESS_API tess_status tess_mem_alloc(tess_mem *mem, tess_pool pool, size_t bytes, const char *what, void **out);

/* Allocates count * size bytes, with a check for overflow. */
TESS_API tess_status tess_mem_alloc_array(tess_mem *mem, tess_pool pool, size_t count, size_t size, const char *what,
                                          void **out);

/* Resizes a block to `bytes`, possibly moving it, and keeps its content; new bytes are zero. *ptr may be NULL. On
 * failure *ptr is unchanged. */
TESS_API tess_status tess_mem_grow(tess_mem *mem, tess_pool pool, size_t bytes, const char *what, void **ptr);

/* Frees a block. NULL is allowed. */
TESS_API void tess_mem_free(tess_mem *mem, void *block);

/* Counts memory that was allocated in another way (shared windows, mapped files): call it with +bytes, later with
 * -bytes. */
TESS_API void tess_mem_count(tess_mem *mem, tess_pool pool, int64_t bytes);

TESS_API tess_pool_stats tess_mem_stats(const tess_mem *mem, tess_pool pool);
TESS_API const char *tess_pool_name(tess_pool pool);

#ifdef __cplusplus
}
#endif

#endif
