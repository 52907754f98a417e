/* A list of texts in one block of memory. Copying the struct makes a view, which borrows the items and is never freed.
 */
#ifndef TESS_BASE_CORE_TEXT_LIST_H
#define TESS_BASE_CORE_TEXT_LIST_H

#include "tessera/status.h"

typedef struct tess_text_list {
    int n;
    char **item; /* (n), followed by their characters; NULL: no items */
} tess_text_list;

/* Makes a list with copies of `n` items. *list is written whole: an earlier list there is not freed.
 * Free it with tess_text_list_free. TESS_E_NOMEM: *list is empty. */
tess_status tess_text_list_make(const char *const *items, int n, tess_text_list *list);

/* An empty list is fine, and stays. */
void tess_text_list_free(tess_text_list *list);

#endif
