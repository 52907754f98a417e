/* Looks up tensors by name, and their pieces and boxes. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/catalog/catalog_impl.h"

static int compare_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const tess_catalog_tensor *)tensor)->name);
}

const tess_catalog_tensor *tess_catalog_find(const tess_catalog *c, const char *name)
{
    if (c->n_tensors == 0)
        return NULL;
    return bsearch(name, c->tensors, (size_t)c->n_tensors, sizeof(c->tensors[0]), compare_name);
}

const tess_catalog_piece *tess_catalog_pieces_of(const tess_catalog *c, const tess_catalog_tensor *tensor)
{
    return tensor->n_pieces > 0 ? &c->pieces[tensor->first_piece] : NULL;
}

bool tess_catalog_is_summed(const tess_catalog *c, int piece)
{
    return c->pieces[piece].sum_kind != TESS_SUM_KIND_NONE || c->impl->range_of[piece] >= 0;
}

const char *tess_catalog_file_of(const tess_catalog *c, const tess_catalog_tensor *tensor)
{
    return tensor->n_pieces > 0 ? c->files[c->pieces[tensor->first_piece].file].path : c->path;
}

bool tess_catalog_has_shape(const tess_catalog_tensor *tensor, const tess_shape *shape)
{
    bool same = tensor->n_dims == shape->n_dims;
    for (int d = 0; d < shape->n_dims && same; d++)
        same = tensor->dim[d] == shape->dim[d];
    return same;
}

tess_box tess_catalog_whole(const tess_catalog_tensor *tensor)
{
    tess_box box = {.begin = {0}};
    for (int d = 0; d < tensor->n_dims; d++)
        box.size[d] = tensor->dim[d];
    return box;
}

uint64_t tess_catalog_tensor_bytes(const tess_catalog_tensor *tensor)
{
    tess_box box = tess_catalog_whole(tensor);
    return (uint64_t)(tess_box_count(tensor->n_dims, &box) * tensor->element_bytes);
}
