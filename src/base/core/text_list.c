#include "base/core/text_list.h"

#include <stdlib.h>
#include <string.h>

tess_status tess_text_list_make(const char *const *items, int n, tess_text_list *list)
{
    size_t bytes = 0;
    *list = (tess_text_list){0};
    if (n == 0)
        return TESS_OK;
    for (int i = 0; i < n; i++)
        bytes += sizeof(char *) + strlen(items[i]) + 1;
    char **made = malloc(bytes);
    TESS_CHECK(made != NULL, TESS_E_NOMEM, "a list of %d texts: no memory for %zu bytes", n, bytes);
    char *at = (char *)(made + n);
    for (int i = 0; i < n; i++) {
        const size_t size = strlen(items[i]) + 1;
        made[i] = memcpy(at, items[i], size);
        at += size;
    }
    *list = (tess_text_list){n, made};
    return TESS_OK;
}

void tess_text_list_free(tess_text_list *list)
{
    free(list->item);
    *list = (tess_text_list){0};
}
