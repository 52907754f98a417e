/* Named memory pools: every byte has an owner, and the counters are exact.
 *
 * A tess_mem belongs to one process. Bytes are counted as asked for, without headers or rounding, so that a planner can
 * predict the same numbers. Thread-safe. */
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
    size_t peak_bytes; /* most ever in use */
    size_t n_blocks;   /* blocks in use now */
} tess_pool_stats;

TESS_API tess_status tess_mem_create(tess_mem **mem);

/* Frees the book-keeping and nulls the handle. Blocks not yet freed stay valid but the library can no longer free them:
 * destroy their owners first. Returns how many there were (0 when all is well). */
TESS_API size_t tess_mem_destroy(tess_mem **mem);

/* Zeroed memory, aligned to 64 bytes; from 4 MiB up aligned to 2 MiB, with huge pages requested. `bytes` 0 gives a
 * valid pointer. TESS_E_NOMEM names `what`, the pool and the size. Free it with tess_mem_free. */
TESS_API tess_status tess_mem_alloc(tess_mem *mem, tess_pool pool, size_t bytes, const char *what, void **out);

/* count * size with an overflow check. */
TESS_API tess_status tess_mem_alloc_array(tess_mem *mem, tess_pool pool, size_t count, size_t size, const char *what,
                                          void **out);

/* Resizes a block to `bytes`, possibly moving it, and keeps its content (new bytes are zero); *ptr may be NULL. On
 * failure *ptr is untouched. */
TESS_API tess_status tess_mem_grow(tess_mem *mem, tess_pool pool, size_t bytes, const char *what, void **ptr);

/* NULL is fine. */
TESS_API void tess_mem_free(tess_mem *mem, void *block);

/* Counts memory that lives elsewhere (shared windows, mapped files): call with +bytes, later with -bytes. */
TESS_API void tess_mem_count(tess_mem *mem, tess_pool pool, int64_t bytes);

TESS_API tess_pool_stats tess_mem_stats(const tess_mem *mem, tess_pool pool);
TESS_API const char *tess_pool_name(tess_pool pool);

#ifdef __cplusplus
}
#endif

#endif
