/* Growing arrays from a pool, for the data module. */
#ifndef TESS_DATA_GROW_H
#define TESS_DATA_GROW_H

#include "tessera/memory.h"

/* Makes room for at least `needed` elements of `size` bytes in *data, by doubling; *capacity counts elements. */
static inline tess_status tess_grow(tess_mem *mem, void **data, size_t *capacity, size_t needed, size_t size,
                                    const char *what)
{
    if (needed <= *capacity)
        return TESS_OK;
    size_t wanted = *capacity < 16 ? 16 : *capacity;
    while (wanted < needed)
        wanted *= 2;
    TESS_CHECK(needed <= SIZE_MAX / 4 / size, TESS_E_NOMEM, "%s: %zu elements of %zu bytes", what, needed, size);
    TESS_TRY(tess_mem_grow(mem, TESS_POOL_MISC, wanted * size, what, data));
    *capacity = wanted;
    return TESS_OK;
}

#endif
