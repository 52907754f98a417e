/* Weights of MXFP4 are stored as two tensors, of blocks and of their scales. The catalog shows them as one tensor of
 * bfloat16, which has a piece for each expert; catalog/unpack.c widens a piece when it is read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors/safetensors_impl.h"

static const char blocks_end[] = "_blocks", scales_end[] = "_scales";

bool tess_st_is_half(const tess_st_tensor *t)
{
    return strcmp(t->dtype_text, "U8") == 0 &&
           ((t->n_dims == 4 && t->dim[3] == TESS_MXFP4_BYTES && tess_text_ends_with(t->name, blocks_end)) ||
            (t->n_dims == 3 && tess_text_ends_with(t->name, scales_end)));
}

tess_status tess_st_add_half(tess_st_halves *halves, const tess_st_tensor *tensor, int file)
{
    char *name;
    TESS_TRY(tess_scope_make_room(&halves->scope, halves->n, sizeof(*halves->list), "names of tensors", &halves->room,
                                  &halves->list));
    TESS_TRY(TESS_NEW_IN(&halves->scope, strlen(tensor->name) + 1, "names of tensors", &name));
    strcpy(name, tensor->name);
    halves->list[halves->n] = (tess_st_half){*tensor, file, false};
    halves->list[halves->n++].tensor.name = name;
    return TESS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tess_st_half *)a)->tensor.name, ((const tess_st_half *)b)->tensor.name);
}

tess_st_half *tess_st_find_half(const tess_st_halves *halves, const char *name)
{
    const tess_st_half key = {.tensor = {.name = name}};
    return halves->n == 0 ? NULL : bsearch(&key, halves->list, halves->n, sizeof(key), by_name);
}

static tess_status join(tess_catalog *c, const tess_st_half *blocks, const tess_st_half *scales)
{
    const tess_st_tensor *b = &blocks->tensor, *s = &scales->tensor;
    const int64_t experts = b->dim[0], rows = b->dim[1], n = b->dim[2], matrix = rows * n;
    int64_t dim[] = {experts, 0, rows};
    int tensor;
    char name[4096], was[128], is[128];
    TESS_CHECK(memcmp(b->dim, s->dim, 3 * sizeof(s->dim[0])) == 0, TESS_E_FORMAT,
               "%s: tensor '%s' has shape %s, and '%s' has %s: each block of 16 bytes needs one scale", c->path,
               b->name, tess_dims_format(b->n_dims, b->dim, was, sizeof(was)), s->name,
               tess_dims_format(s->n_dims, s->dim, is, sizeof(is)));
    TESS_CHECK(!__builtin_mul_overflow(n, (int64_t)TESS_MXFP4_VALUES, &dim[1]) && b->bytes > 0, TESS_E_FORMAT,
               "%s: tensor '%s' is empty", c->path, b->name);
    snprintf(name, sizeof(name), "%.*s", (int)(strlen(b->name) - strlen(blocks_end)), b->name);
    TESS_TRY(tess_catalog_add_tensor(c, name, "BF16", 3, dim, &tensor));
    for (int64_t e = 0; e < experts; e++) {
        const uint64_t stored = (uint64_t)matrix * TESS_MXFP4_BYTES;
        const tess_catalog_piece piece = {.file = blocks->file,
                                          .rank = -1,
                                          .offset = b->offset + (uint64_t)e * stored,
                                          .stored = stored,
                                          .bytes = 4 * stored,
                                          .codec = TESS_CODEC_MXFP4,
                                          .box = {.begin = {e}, .size = {1, dim[1], rows}},
                                          .scales_file = scales->file,
                                          .scales = s->offset + (uint64_t)(e * matrix)};
        TESS_TRY(tess_catalog_add_piece(c, tensor, &piece));
    }
    return TESS_OK;
}

tess_status tess_st_join_halves(tess_st_halves *halves, tess_catalog *c)
{
    char name[4096];
    if (halves->n > 1)
        qsort(halves->list, halves->n, sizeof(halves->list[0]), by_name);
    for (size_t i = 0; i < halves->n; i++) {
        tess_st_half *blocks = &halves->list[i];
        const size_t n = strlen(blocks->tensor.name);
        if (blocks->tensor.n_dims != 4)
            continue;
        TESS_CHECK(n < sizeof(name), TESS_E_UNSUPPORTED, "%s: a tensor's name has %zu bytes", c->path, n);
        snprintf(name, sizeof(name), "%.*s%s", (int)(n - strlen(blocks_end)), blocks->tensor.name, scales_end);
        tess_st_half *scales = tess_st_find_half(halves, name);
        TESS_CHECK(scales != NULL, TESS_E_FORMAT,
                   "%s: tensor '%s' has blocks of MXFP4, but there is no tensor '%s' of bytes with three dimensions",
                   c->files[blocks->file].path, blocks->tensor.name, name);
        TESS_TRY(join(c, blocks, scales));
        blocks->joined = scales->joined = true;
    }
    return TESS_OK;
}
