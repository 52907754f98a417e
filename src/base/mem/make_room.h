/* Grows arrays. */
#ifndef TESS_BASE_MEM_MAKE_ROOM_H
#define TESS_BASE_MEM_MAKE_ROOM_H

#include "tessera/memory.h"

/* Makes room for one more item in an array of `n` items that has room for *room. If the array is full, its room
 * doubles; new items are zero. `array` is the address of the pointer to the array. TESS_E_NOMEM: the array is
 * unchanged. */
tess_status tess_mem_make_room(tess_mem *mem, tess_pool pool, size_t n, size_t item_bytes, const char *what,
                               size_t *room, void *array);
/* Makes room for `needed` items in all; otherwise like tess_mem_make_room. */
tess_status tess_mem_reserve(tess_mem *mem, tess_pool pool, size_t needed, size_t item_bytes, const char *what,
                             size_t *room, void *array);

#endif
