#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "ckpt/agree.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/store/store_impl.h"

static tess_status open_file(tess_ckpt_load_state *l, const char *stem, tess_st_reader **reader)
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

static tess_status find_tensor(tess_ckpt_load_state *l, const tess_ckpt_tensor *t, const tess_st_tensor **found)
{
    char name[1024];
    const char *stem = tess_ckpt_stem(t->kind);
    tess_st_reader **reader = t->kind == TESS_CKPT_WEIGHT ? &l->model : &l->optimizer;
    TESS_TRY(open_file(l, stem, reader));
    tess_ckpt_tensor_name(t, name, sizeof(name));
    *found = tess_st_find(*reader, name);
    TESS_CHECK(*found != NULL, TESS_E_FORMAT, "%s/%s.safetensors: no tensor '%s': the checkpoint is of another model",
               l->folder, stem, name);
    return check_shape(t, *found);
}

tess_status tess_ckpt_load_open(tess_ckpt_load_state *l, const char *dir, int64_t step, const tess_st_tensor **found)
{
    TESS_TRY(tess_ckpt_check_tensors(l->tensors, l->n));
    TESS_TRY(tess_ckpt_folder(dir, step, "", l->folder));
    TESS_TRY(tess_ckpt_open_meta(dir, step, &l->meta));
    for (int i = 0; i < l->n; i++)
        TESS_TRY(find_tensor(l, &l->tensors[i], &found[i]));
    return TESS_OK;
}

tess_status tess_ckpt_load_rows(const tess_ckpt_load_state *l, const tess_st_tensor *const *found)
{
    for (int i = 0; i < l->n; i++) {
        const tess_ckpt_tensor *t = &l->tensors[i];
        if (t->n_rows > 0)
            TESS_TRY(tess_st_read_rows(found[i], t->row_begin, t->n_rows, t->data));
    }
    return TESS_OK;
}

void tess_ckpt_load_close(tess_ckpt_load_state *l)
{
    json_decref(l->meta);
    tess_st_close(&l->model);
    tess_st_close(&l->optimizer);
}

/* A folder that all ranks are to read must not be one host's part: its holes would read as zeros. */
static tess_status check_whole(const tess_ckpt_load_state *l)
{
    for (int i = 0; i < l->n; i++) {
        char name[1024];
        const tess_ckpt_tensor *t = &l->tensors[i];
        tess_ckpt_tensor_name(t, name, sizeof(name));
        int64_t row = tess_ckpt_first_missing(l->meta, name, t->row_begin, t->n_rows);
        TESS_CHECK(row < 0, TESS_E_INVALID,
                   "%s is one host's part of a checkpoint, without row %" PRId64 " of '%s': resume on the hosts that "
                   "saved it, with checkpoint.host_local=true",
                   l->folder, row, name);
    }
    return TESS_OK;
}

static tess_status read_all(tess_ckpt_load_state *l, const char *dir, int64_t step)
{
    const tess_st_tensor **found;
    TESS_TRY(tess_mem_alloc_array(l->mem, TESS_POOL_MISC, (size_t)l->n, sizeof(*found), "checkpoint tables",
                                  (void **)&found));
    tess_status status = tess_ckpt_load_open(l, dir, step, found);
    if (status == TESS_OK)
        status = check_whole(l);
    if (status == TESS_OK)
        status = tess_ckpt_load_rows(l, found);
    tess_mem_free(l->mem, found);
    return status;
}

tess_status tess_ckpt_load_compare(const tess_ckpt_load_state *l, int i, uint64_t checksum)
{
    char name[1024];
    tess_ckpt_tensor_name(&l->tensors[i], name, sizeof(name));
    const char *stated = json_string_value(json_object_get(json_object_get(l->meta, "tensors"), name));
    TESS_CHECK(stated != NULL, TESS_E_FORMAT, "%s/meta.json: no checksum of '%s'", l->folder, name);
    TESS_CHECK(strtoull(stated, NULL, 16) == checksum, TESS_E_FORMAT,
               "%s: tensor '%s' does not have the checksum of its save: the disk or a copy damaged it; use an older "
               "checkpoint",
               l->folder, name);
    return TESS_OK;
}

static tess_status compare(const tess_ckpt_load_state *l, const uint64_t *checksums, const uint64_t *rows)
{
    for (int i = 0; i < l->n; i++) {
        uint64_t all = (uint64_t)tess_shape_rows(&l->tensors[i].shape);
        if (rows[i] == 0)
            continue;
        TESS_CHECK(rows[i] == all, TESS_E_INVALID,
                   "checkpoint: %" PRIu64 " of the %" PRIu64 " rows of '%s' have an owner", rows[i], all,
                   l->tensors[i].name);
        TESS_TRY(tess_ckpt_load_compare(l, i, checksums[i]));
    }
    return TESS_OK;
}

/* The first failure of the same kind on all ranks: sums are equal everywhere, so nobody needs to be told. */
static tess_status verify(const tess_ckpt_load_state *l, tess_team *team)
{
    uint64_t *sums;
    TESS_TRY(
        tess_mem_alloc_array(l->mem, TESS_POOL_MISC, 2 * (size_t)l->n, sizeof(sums[0]), "checksums", (void **)&sums));
    tess_ckpt_local_checksums(l->tensors, l->n, sums, sums + l->n);
    tess_status status = tess_ckpt_sum(l->mem, team, sums, 2 * l->n);
    if (status == TESS_OK)
        status = compare(l, sums, sums + l->n);
    tess_mem_free(l->mem, sums);
    return status;
}

tess_status tess_ckpt_load(tess_mem *mem, tess_team *team, const char *dir, int64_t step,
                           const tess_ckpt_tensor *tensors, int n_tensors, json_t **meta)
{
    tess_ckpt_load_state l = {.mem = mem, .tensors = tensors, .n = n_tensors};
    tess_status status = tess_ckpt_agree(team, read_all(&l, dir, step));
    if (status == TESS_OK)
        status = verify(&l, team);
    if (meta != NULL)
        *meta = status == TESS_OK ? json_incref(json_object_get(l.meta, "user")) : NULL;
    tess_ckpt_load_close(&l);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "load checkpoint of step %" PRId64, step);
}
