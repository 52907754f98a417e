/* Finds names in a growing list, in constant time. */
#ifndef TESS_BASE_TEXT_NAME_INDEX_H
#define TESS_BASE_TEXT_NAME_INDEX_H

#include "tessera/memory.h"

/* Names are numbered in the order in which they were added. An index of zeros is empty. */
typedef struct tess_name_index {
    const char **names; /* (n) the caller's texts, which must outlive the index */
    int *slots;         /* (2 room) a hash table of numbers, plus 1; 0: free */
    int n, room;        /* room: a power of 2, or 0 */
} tess_name_index;

/* Adds a name, which gets the number n. *first: the number of the first name that is equal, perhaps its own.
 * TESS_E_NOMEM: the index is unchanged */
tess_status tess_name_index_add(tess_name_index *index, tess_mem *mem, const char *name, int *first);
/* Returns the number of the first name that is equal; -1: there is none. */
int tess_name_index_find(const tess_name_index *index, const char *name);
/* Removes the names from number n on. */
void tess_name_index_cut(tess_name_index *index, int n);
/* The index is empty afterwards. */
void tess_name_index_free(tess_name_index *index, tess_mem *mem);

#endif
