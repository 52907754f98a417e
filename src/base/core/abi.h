/* The ABI of libtessera: structs of options, which later versions extend after their field `size`. */
#ifndef TESS_BASE_CORE_ABI_H
#define TESS_BASE_CORE_ABI_H

#include <stddef.h>

#include "tessera/status.h"

/* Checks that a caller's struct sets no field that this library does not know.
 * TESS_E_UNSUPPORTED: a byte from the `known`-th to the `size`-th is not zero */
tess_status tess_abi_check_size(const char *type, const void *options, size_t size, size_t known);

/* Returns how many bytes of a caller's struct there are that this library knows. `first`: the size of the struct in the
 * version that introduced it; a caller that leaves `size` out may have no more. */
static inline size_t tess_abi_bytes(size_t size, size_t first, size_t known)
{
    return size < first ? first : size < known ? size : known;
}

#define TESS_CHECK_SIZE(type, options) tess_abi_check_size(#type, (options), (options)->size, sizeof(type))

#endif
