/* Boxes: ranges of a tensor along each dimension. Intersects them, formats them, and copies between buffers that hold
 * them. */
#include <inttypes.h>
#include <string.h>

#include "base/text/text.h"

tess_box tess_box_whole(const tess_shape *shape)
{
    tess_box box = {.begin = {0}};
    memcpy(box.size, shape->dim, (size_t)shape->n_dims * sizeof(box.size[0]));
    return box;
}

int64_t tess_box_count(int n_dims, const tess_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++)
        n *= box->size[d];
    return n;
}

bool tess_box_equal(int n_dims, const tess_box *a, const tess_box *b)
{
    size_t bytes = (size_t)n_dims * sizeof(a->begin[0]);
    return memcmp(a->begin, b->begin, bytes) == 0 && memcmp(a->size, b->size, bytes) == 0;
}

bool tess_box_contains(int n_dims, const tess_box *outer, const tess_box *inner)
{
    for (int d = 0; d < n_dims; d++)
        if (inner->size[d] < 0 || inner->size[d] > outer->size[d] || inner->begin[d] < outer->begin[d] ||
            inner->begin[d] - outer->begin[d] > outer->size[d] - inner->size[d])
            return false;
    return true;
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
    for (int d = 0; d < n_dims; d++) {
        int64_t end;
        (void)__builtin_add_overflow(box->begin[d], box->size[d], &end); /* a box read from a file may overflow here */
        at = tess_text_add(text, size, at, "%s[%" PRId64 ", %" PRId64 ")", d > 0 ? " x " : "", box->begin[d], end);
    }
    return text;
}

/* Copies the elements of `common` in dimensions `dim` and later. `from` and `to` point at the start of their boxes in
 * these dimensions. */
static void copy_from_dim(int dim, int n_dims, size_t element, const tess_box *common, const tess_box *from_box,
                          const char *from, const tess_box *to_box, char *to)
{
    /* If both buffers hold whole rows of all later dimensions, the rest of the copy is one contiguous run. */
    int64_t run = 1, from_row = 1, to_row = 1;
    for (int d = dim; d < n_dims; d++)
        run *= common->size[d];
    for (int d = dim + 1; d < n_dims; d++) {
        from_row *= from_box->size[d];
        to_row *= to_box->size[d];
    }
    bool whole_rows = dim == n_dims || (from_row == to_row && run == common->size[dim] * from_row);
    if (dim < n_dims) {
        from += (size_t)((common->begin[dim] - from_box->begin[dim]) * from_row) * element;
        to += (size_t)((common->begin[dim] - to_box->begin[dim]) * to_row) * element;
    }
    if (whole_rows) {
        memcpy(to, from, (size_t)run * element);
        return;
    }
    for (int64_t i = 0; i < common->size[dim]; i++)
        copy_from_dim(dim + 1, n_dims, element, common, from_box, from + (size_t)(i * from_row) * element, to_box,
                      to + (size_t)(i * to_row) * element);
}

void tess_box_copy(int n_dims, size_t element_bytes, const tess_box *common, const tess_box *from_box, const void *from,
                   const tess_box *to_box, void *to)
{
    if (tess_box_count(n_dims, common) > 0)
        copy_from_dim(0, n_dims, element_bytes, common, from_box, from, to_box, to);
}
