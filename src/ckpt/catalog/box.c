/* Arithmetic of boxes. */
#include <inttypes.h>

#include "base/text/text.h"
#include "ckpt/catalog/catalog_impl.h"

int64_t tess_box_count(int n_dims, const tess_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++)
        n *= box->size[d];
    return n;
}

bool tess_box_meet(int n_dims, const tess_box *a, const tess_box *b, tess_box *common)
{
    tess_box meet = {.begin = {0}};
    bool any = true;
    for (int d = 0; d < n_dims; d++) {
        int64_t end_a = a->begin[d] + a->size[d], end_b = b->begin[d] + b->size[d];
        int64_t end = end_a < end_b ? end_a : end_b;
        meet.begin[d] = a->begin[d] > b->begin[d] ? a->begin[d] : b->begin[d];
        meet.size[d] = end - meet.begin[d];
        any &= meet.size[d] > 0;
    }
    if (common != NULL)
        *common = meet;
    return any;
}

const char *tess_box_format(int n_dims, const tess_box *box, char *text, size_t size)
{
    size_t at = tess_text_add(text, size, 0, "%s", n_dims == 0 ? "[]" : "");
    for (int d = 0; d < n_dims; d++)
        at = tess_text_add(text, size, at, "%s[%" PRId64 ", %" PRId64 ")", d > 0 ? " x " : "", box->begin[d],
                           box->begin[d] + box->size[d]);
    return text;
}

const char *tess_dims_format(int n_dims, const int64_t *dim, char *text, size_t size)
{
    size_t at = tess_text_add(text, size, 0, "[");
    for (int d = 0; d < n_dims; d++)
        at = tess_text_add(text, size, at, "%s%" PRId64, d > 0 ? ", " : "", dim[d]);
    tess_text_add(text, size, at, "]");
    return text;
}
