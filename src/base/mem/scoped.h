/* Variables that own what they hold until their scope ends, by whichever way it is left:
 *
 *     TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
 *     TESS_AUTO(tess_mem_drop) char *text = NULL;
 *     TESS_TRY(tess_os_map(path, &file));
 *     TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, file.size, "a text", (void **)&text));
 *
 * The variable must have a value that needs no release before the first way out. jansson's json_auto_t is the same for
 * its values. */
#ifndef TESS_BASE_MEM_SCOPED_H
#define TESS_BASE_MEM_SCOPED_H

/* Calls release(&variable) at the end of the scope of the variable that it stands before. */
#define TESS_AUTO(release) __attribute__((cleanup(release)))

/* Free what a pointer variable points to: a block of tess_mem_alloc, or memory of malloc. NULL is fine. */
void tess_mem_drop(void *variable);
void tess_malloc_drop(void *variable);

#endif
