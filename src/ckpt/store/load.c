#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "ckpt/agree.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/store/store_impl.h"

typedef struct load {
    tess_mem *mem;
    tess_team *team;
    char folder[TESS_CKPT_PATH];
    const tess_ckpt_tensor *tensors;
    int n;
    json_t *meta;
    tess_st_reader *model, *optimizer;
} load;

static tess_status open_file(load *l, const char *stem, tess_st_reader **reader)
{
    char path[TESS_CKPT_PATH], name[64];
    if (*reader != NULL)
        return TESS_OK;
    snprintf(name, sizeof(name), "%s.safetensors", stem);
    TESS_TRY(tess_os_join(path, sizeof(path), l->folder, name));
    return tess_st_open_file(l->mem, path, reader);
}

static tess_status check_shape(const tess_ckpt_tensor *wanted, const tess_st_tensor *found)
{
    char asked[96], there[96];
    tess_shape shape = {.n_dims = found->n_dims};
    bool comparable = found->n_dims <= TESS_MAX_DIMS && strcmp(found->dtype_text, "F32") == 0;
    for (int d = 0; comparable && d < found->n_dims; d++)
        shape.dim[d] = found->dim[d];
    TESS_CHECK(comparable, TESS_E_FORMAT, "%s: tensor '%s' is not a float32 tensor of at most %d dimensions",
               found->file, found->name, TESS_MAX_DIMS);
    TESS_CHECK(tess_shape_equal(&wanted->shape, &shape), TESS_E_FORMAT,
               "%s: tensor '%s' has shape %s but this model's is %s: the checkpoint is of another model", found->file,
               found->name, tess_shape_format(&shape, there, sizeof(there)),
               tess_shape_format(&wanted->shape, asked, sizeof(asked)));
    return TESS_OK;
}

static tess_status read_tensor(load *l, const tess_ckpt_tensor *t)
{
    char name[1024];
    const char *stem = tess_ckpt_stem(t->kind);
    tess_st_reader **reader = t->kind == TESS_CKPT_WEIGHT ? &l->model : &l->optimizer;
    TESS_TRY(open_file(l, stem, reader));
    tess_ckpt_tensor_name(t, name, sizeof(name));
    const tess_st_tensor *found = tess_st_find(*reader, name);
    TESS_CHECK(found != NULL, TESS_E_FORMAT, "%s/%s.safetensors: no tensor '%s': the checkpoint is of another model",
               l->folder, stem, name);
    TESS_TRY(check_shape(t, found));
    return t->n_rows == 0 ? TESS_OK : tess_st_read_rows(found, t->row_begin, t->n_rows, t->data);
}

static tess_status read_all(load *l, const char *dir, int64_t step)
{
    TESS_TRY(tess_ckpt_check_tensors(l->tensors, l->n));
    TESS_TRY(tess_ckpt_folder(dir, step, "", l->folder));
    TESS_TRY(tess_ckpt_open_meta(dir, step, &l->meta));
    for (int i = 0; i < l->n; i++)
        TESS_TRY(read_tensor(l, &l->tensors[i]));
    return TESS_OK;
}

static tess_status compare(const load *l, const uint64_t *checksums, const uint64_t *rows)
{
    const json_t *table = json_object_get(l->meta, "tensors");
    for (int i = 0; i < l->n; i++) {
        char name[1024];
        uint64_t all = (uint64_t)tess_shape_rows(&l->tensors[i].shape);
        tess_ckpt_tensor_name(&l->tensors[i], name, sizeof(name));
        const char *stated = json_string_value(json_object_get(table, name));
        TESS_CHECK(stated != NULL, TESS_E_FORMAT, "%s/meta.json: no checksum of '%s'", l->folder, name);
        if (rows[i] == 0)
            continue;
        TESS_CHECK(rows[i] == all, TESS_E_INVALID,
                   "checkpoint: %" PRIu64 " of the %" PRIu64 " rows of '%s' have an owner", rows[i], all, name);
        TESS_CHECK(
            strtoull(stated, NULL, 16) == checksums[i], TESS_E_FORMAT,
            "%s: tensor '%s' does not have the checksum of its save: the disk or a copy damaged it; use an older "
            "checkpoint",
            l->folder, name);
    }
    return TESS_OK;
}

/* The first failure of the same kind on all ranks: sums are equal everywhere, so nobody needs to be told. */
static tess_status verify(const load *l)
{
    uint64_t *sums;
    TESS_TRY(
        tess_mem_alloc_array(l->mem, TESS_POOL_MISC, 2 * (size_t)l->n, sizeof(sums[0]), "checksums", (void **)&sums));
    tess_ckpt_local_checksums(l->tensors, l->n, sums, sums + l->n);
    tess_status status = tess_ckpt_sum(l->mem, l->team, sums, 2 * l->n);
    if (status == TESS_OK)
        status = compare(l, sums, sums + l->n);
    tess_mem_free(l->mem, sums);
    return status;
}

tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, json_t **meta)
{
    load l = {.mem = mem, .team = team, .tensors = tensors, .n = n_tensors};
    tess_status status = tess_ckpt_agree(team, read_all(&l, dir, step));
    if (status == TESS_OK)
        status = verify(&l);
    if (meta != NULL)
        *meta = status == TESS_OK ? json_incref(json_object_get(l.meta, "user")) : NULL;
    json_decref(l.meta);
    tess_st_close(&l.model);
    tess_st_close(&l.optimizer);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "load checkpoint of step %" PRId64, step);
}
