/* Growing arrays. */
#ifndef TESS_BASE_MEM_MAKE_ROOM_H
#define TESS_BASE_MEM_MAKE_ROOM_H

#include "tessera/memory.h"

/* Room for one more item of an array of `n` with room for *room, which doubles where it is full; what is new is zero.
 * `array` is the address of the pointer to it. TESS_E_NOMEM: as it was. */
tess_status tess_mem_make_room(tess_mem *mem, tess_pool pool, size_t n, size_t item_bytes, const char *what,
                               size_t *room, void *array);

#endif
