/* A list of texts in one block of memory. A copy of the struct borrows the items, and must not be freed. */
#ifndef TESS_BASE_CORE_TEXT_LIST_H
#define TESS_BASE_CORE_TEXT_LIST_H

#include "tessera/status.h"

typedef struct tess_text_list {
    int n;
    char **item; /* (n) pointers to the texts, which follow in the same block; NULL: there are no items */
} tess_text_list;

/* Makes a list with copies of `n` items. Overwrites *list without freeing it. Free the new list with
 * tess_text_list_free. TESS_E_NOMEM: *list is empty. */
tess_status tess_text_list_make(const char *const *items, int n, tess_text_list *list);

/* The list is empty afterwards. An empty list is allowed. */
void tess_text_list_free(tess_text_list *list);

#endif
