/* Variables that own what they hold until their scope ends, by whichever way it is left:
 *
 *     TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
 *     TESS_AUTO(tess_mem_drop) char *text = NULL;
 *     TESS_TRY(tess_os_map(path, &file));
 *     TESS_TRY(TESS_NEW(mem, file.size, "a text", &text));
 *
 * The variable must have a value that needs no release before the first way out. jansson's json_auto_t is the same for
 * its values. */
#ifndef TESS_BASE_MEM_SCOPED_H
#define TESS_BASE_MEM_SCOPED_H

#include "tessera/memory.h"

/* Allocates an array of n elements, zeroed, in the pool MISC. `variable` points to the pointer to them, whose type
 * states the size of an element. Returns like tess_mem_alloc_array. */
#define TESS_NEW(mem, n, what, variable) \
    tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)(n), sizeof(**(variable)), what, (void **)(variable))

/* Calls release(&variable) at the end of the scope of the variable that it stands before. */
#define TESS_AUTO(release) __attribute__((cleanup(release)))

/* Returns a pointer variable's value and sets it to NULL: the scope no longer owns what it points to. */
#define TESS_GIVE(variable)                 \
    ({                                      \
        __typeof__(variable) v_ = variable; \
        variable = NULL;                    \
        v_;                                 \
    })

/* Free what a pointer variable points to: a block of tess_mem_alloc, or memory of malloc. NULL is fine. */
void tess_mem_drop(void *variable);
void tess_malloc_drop(void *variable);

#endif
