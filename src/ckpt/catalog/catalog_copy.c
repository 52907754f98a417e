/* Copying a box of elements between two strided layouts, in runs as long as both allow. */
#include <string.h>

#include "ckpt/catalog/catalog_impl.h"
#include "ckpt/safetensors/safetensors.h"

/* Dimensions that follow one another in both layouts become one; those of one element go. */
static tess_box_copy merge(const tess_box_copy *c)
{
    tess_box_copy m = *c;
    m.n_dims = 0;
    for (int d = 0; d < c->n_dims; d++) {
        int last = m.n_dims - 1;
        if (c->size[d] == 1)
            continue;
        if (last >= 0 && m.from_stride[last] == c->from_stride[d] * c->size[d] &&
            m.to_stride[last] == c->to_stride[d] * c->size[d]) {
            m.size[last] *= c->size[d];
        } else {
            last = m.n_dims++;
            m.size[last] = c->size[d];
        }
        m.from_stride[last] = c->from_stride[d];
        m.to_stride[last] = c->to_stride[d];
    }
    return m;
}

static void copy_run(const tess_box_copy *c, const uint8_t *from, uint8_t *to, int64_t n)
{
    if (c->decode != NULL)
        tess_st_decode(c->decode, from, n, (float *)to);
    else
        memcpy(to, from, (size_t)(n * c->element_bytes));
}

static void copy_from(const tess_box_copy *c, int dim, const uint8_t *from, uint8_t *to)
{
    int64_t to_bytes = c->decode != NULL ? (int64_t)sizeof(float) : c->element_bytes;
    if (dim == c->n_dims) {
        copy_run(c, from, to, 1);
        return;
    }
    if (dim == c->n_dims - 1 && c->from_stride[dim] == 1 && c->to_stride[dim] == 1) {
        copy_run(c, from, to, c->size[dim]);
        return;
    }
    for (int64_t i = 0; i < c->size[dim]; i++)
        copy_from(c, dim + 1, from + i * c->from_stride[dim] * c->element_bytes, to + i * c->to_stride[dim] * to_bytes);
}

void tess_box_copy_run(const tess_box_copy *copy, const uint8_t *from, uint8_t *to)
{
    tess_box_copy merged = merge(copy);
    copy_from(&merged, 0, from, to);
}
