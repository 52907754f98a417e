/* Maps tensors that can be used directly from their files. */
#include "ckpt/catalog/catalog_impl.h"

static tess_status map_file(const tess_catalog *c, int file, const uint8_t **data)
{
    tess_mapping *mapping = &c->impl->mappings[file];
    if (mapping->data == NULL) {
        TESS_TRY(tess_file_check(&c->files[file]));
        TESS_TRY(tess_os_map(c->files[file].path, mapping));
    }
    *data = mapping->data;
    return TESS_OK;
}

tess_status tess_catalog_map(const tess_catalog *c, const tess_catalog_tensor *tensor, const void **data)
{
    const tess_catalog_piece *p = tess_catalog_pieces_of(c, tensor);
    const uint8_t *file;
    tess_box whole = tess_catalog_whole(tensor);
    *data = NULL;
    if (tensor->n_pieces != 1 || p->strided || p->codec != TESS_CODEC_NONE ||
        p->offset % (uint64_t)tensor->element_bytes != 0 ||
        tess_box_count(tensor->n_dims, &p->box) != tess_box_count(tensor->n_dims, &whole))
        return TESS_OK;
    TESS_TRY(tess_piece_check_range(c, tensor, (int)(p - c->pieces)));
    if (p->sum_kind != TESS_SUM_KIND_NONE && !__atomic_load_n(&c->impl->verified[p - c->pieces], __ATOMIC_RELAXED))
        TESS_TRY(tess_piece_verify(c, tensor, (int)(p - c->pieces), NULL));
    TESS_TRY(map_file(c, p->file, &file));
    TESS_CHECK(p->offset + p->stored <= c->impl->mappings[p->file].size, TESS_E_FORMAT,
               "%s: tensor '%s' ends behind the file: it is cut short", c->files[p->file].path, tensor->name);
    *data = file + p->offset;
    return TESS_OK;
}
