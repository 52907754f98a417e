/* A Hugging Face model folder: one file, or an index and its shards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "ckpt/safetensors/safetensors_impl.h"

/* Shards lie beside their index: a name that leads elsewhere is an attack or a mistake. */
static tess_status check_shard_name(const char *index, const char *tensor, const char *file)
{
    bool plain = file[0] != '\0' && strchr(file, '/') == NULL && strchr(file, '\\') == NULL && strcmp(file, ".") != 0 &&
                 strcmp(file, "..") != 0 && strlen(file) < 256;
    TESS_CHECK(plain, TESS_E_FORMAT,
               "%s: tensor '%s': shard '%.256s' is refused: it must be the plain name of a file in the same folder",
               index, tensor, file);
    return TESS_OK;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of the weight map, sorted; borrowed from it. */
static tess_status list_files(const char *index, json_t *weight_map, const char **files, int *n_files)
{
    const char *tensor;
    json_t *file;
    size_t n = 0;
    json_object_foreach (weight_map, tensor, file) {
        TESS_CHECK(json_is_string(file), TESS_E_FORMAT, "%s: weight_map: '%s': the name of a file expected", index,
                   tensor);
        TESS_TRY(check_shard_name(index, tensor, json_string_value(file)));
        files[n++] = json_string_value(file);
    }
    if (n > 0)
        qsort(files, n, sizeof(files[0]), compare_text);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || strcmp(files[kept - 1], files[i]) != 0)
            files[kept++] = files[i];
    *n_files = (int)kept;
    return TESS_OK;
}

/* Tensors in file order. The index decides which shard a name is read from; what it does not list is not there. */
static tess_status collect(tess_st_reader *r, json_t *weight_map, const char *const *files)
{
    const char *name;
    json_t *file;
    for (int s = 0; s < r->n_shards; s++) {
        const tess_st_reader *shard = r->shards[s];
        for (int i = 0; i < shard->n_tensors; i++) {
            const char *listed = json_string_value(json_object_get(weight_map, shard->tensors[i].name));
            if (listed != NULL && strcmp(listed, files[s]) == 0)
                r->tensors[r->n_tensors++] = shard->tensors[i];
        }
    }
    TESS_TRY(tess_st_reader_index(r));
    json_object_foreach (weight_map, name, file) {
        TESS_CHECK(tess_st_find(r, name) != NULL, TESS_E_FORMAT,
                   "%s: tensor '%s' should be in %s but is not: the shards are not of this model, fetch them again",
                   r->path, name, json_string_value(file));
    }
    return TESS_OK;
}

static tess_status open_shards(tess_st_reader *r, const char *folder, json_t *weight_map, const char **files)
{
    int n_files = 0;
    TESS_TRY(list_files(r->path, weight_map, files, &n_files));
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)n_files, sizeof(r->shards[0]), "shards of a model",
                                  (void **)&r->shards));
    for (; r->n_shards < n_files; r->n_shards++) {
        char path[4096];
        TESS_TRY(tess_os_join(path, sizeof(path), folder, files[r->n_shards]));
        TESS_TRY_CTX(tess_st_open_file(r->mem, path, &r->shards[r->n_shards]), "%s", r->path);
    }
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, json_object_size(weight_map), sizeof(r->tensors[0]),
                                  "tensors of a model", (void **)&r->tensors));
    return collect(r, weight_map, files);
}

static tess_status open_index(tess_mem *mem, const char *folder, const char *path, tess_st_reader **reader)
{
    tess_status status;
    json_t *index = NULL;
    tess_st_reader *r = NULL;
    const char **files = NULL;
    TESS_TRY(tess_json_load(path, TESS_ST_MAX_HEADER, &index));
    json_t *weight_map = json_object_get(index, "weight_map");
    if (!json_is_object(weight_map)) {
        status = TESS_FAIL(TESS_E_FORMAT, "%s: no object 'weight_map': not the index of a sharded model", path);
        goto done;
    }
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, json_object_size(weight_map), sizeof(files[0]), "shard names",
                                   (void **)&files),
              done);
    TESS_GOTO(tess_st_reader_create(mem, path, &r), done);
    TESS_GOTO(open_shards(r, folder, weight_map, files), done);
done:
    if (status != TESS_OK)
        tess_st_close(&r);
    tess_mem_free(mem, files);
    json_decref(index);
    *reader = r;
    return status;
}

tess_status tess_st_open_model(tess_mem *mem, const char *folder, tess_st_reader **reader)
{
    char path[4096];
    *reader = NULL;
    TESS_CHECK(tess_os_is_dir(folder), TESS_E_NOT_FOUND, "%s: no such model folder", folder);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "model.safetensors"));
    if (tess_os_is_file(path))
        return tess_st_open_file(mem, path, reader);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "model.safetensors.index.json"));
    if (tess_os_is_file(path))
        return open_index(mem, folder, path, reader);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "pytorch_model.bin"));
    return TESS_FAIL(TESS_E_NOT_FOUND, "%s: neither model.safetensors nor model.safetensors.index.json is there%s",
                     folder,
                     tess_os_is_file(path) ? "; pytorch_model.bin must first be saved as safetensors (transformers: "
                                             "save_pretrained)"
                                           : "");
}
