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

/* Blocks that end together: a variable of this type, or a part of an object, owns them. No copy of a scope may be used
 * while it has blocks. */
typedef struct tess_scope {
    tess_mem *mem;
    struct tess_mem_block *first;
} tess_scope;

/* Allocates n * size bytes like tess_mem_alloc_array, in a scope. tess_mem_free may free the block before the scope
 * ends, and tess_mem_grow keeps it in the scope. */
tess_status tess_scope_alloc(tess_scope *scope, tess_pool pool, size_t n, size_t size, const char *what, void **out);
/* Like tess_mem_make_room (make_room.h) for an array in a scope, in the pool MISC. */
tess_status tess_scope_make_room(tess_scope *scope, size_t n, size_t item_bytes, const char *what, size_t *room,
                                 void *array);
/* Frees the blocks of a scope, which may be used again. Pointers to its blocks do not change. Before the caller passes
 * an array of the scope to tess_scope_make_room again, it sets the array to NULL and its room to 0. */
void tess_scope_end(tess_scope *scope);
/* Returns the scope of a block of tess_mem_alloc: freeing the block ends it. The block must not grow. */
tess_scope *tess_scope_of(void *block);

/* TESS_NEW in a scope, and in the scope of an object, which must be a block of tess_mem_alloc. */
#define TESS_NEW_IN(scope, n, what, variable) \
    tess_scope_alloc(scope, TESS_POOL_MISC, (size_t)(n), sizeof(**(variable)), what, (void **)(variable))
#define TESS_PART(object, n, what, variable) TESS_NEW_IN(tess_scope_of(object), n, what, variable)

/* Calls release(&variable) at the end of the scope of the variable that it stands before. */
#define TESS_AUTO(release) __attribute__((cleanup(release)))

/* Returns a pointer variable's value and sets it to NULL: the scope no longer owns what it points to. */
#define TESS_GIVE(variable)                 \
    ({                                      \
        __typeof__(variable) v_ = variable; \
        variable = NULL;                    \
        v_;                                 \
    })

/* Free what a pointer variable points to, a block of tess_mem_alloc or memory of malloc, and set it to NULL. NULL is
 * fine. */
void tess_mem_drop(void *variable);
void tess_malloc_drop(void *variable);

#endif
