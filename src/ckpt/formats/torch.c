#include <string.h>

#include "ckpt/formats/formats.h"
#include "ckpt/formats/formats_impl.h"
#include "ckpt/formats/torch_impl.h"

/* The values of one archive into a catalog, tensors behind `prefix`; of what is no tensor, the first rank's alone. */
static tess_status add_archive(tess_catalog *catalog, const char *path, int rank, const char *prefix)
{
    torch_file file;
    torch_walk *walk;
    uint64_t size;
    TESS_TRY(torch_open_file(catalog->mem, path, &file));
    tess_status status = tess_mem_alloc(catalog->mem, TESS_POOL_MISC, sizeof(*walk), "walk", (void **)&walk);
    if (status == TESS_OK) {
        *walk = (torch_walk){.catalog = catalog, .file = &file, .rank = rank};
        walk->left = TORCH_VALUES;
        walk->left_meta = TORCH_META_VALUES;
        size = file.mapping.size;
        status = tess_catalog_add_file(catalog, path, size, &walk->catalog_file);
        json_t *meta = rank > 0 ? NULL : formats_meta_folder(catalog->meta, prefix);
        if (status == TESS_OK)
            status = torch_walk_value(walk, prefix, file.root, meta);
        if (status == TESS_OK && prefix[0] == '\0')
            json_object_set_new(catalog->meta, "model_prefix", json_string(torch_model_prefix(file.root)));
        tess_mem_free(catalog->mem, walk);
    }
    torch_close(&file);
    return status;
}

/* What a group's tensors are named after when the folder holds several: "model." of "model_world_size_4_rank_0.pt". */
static void group_prefix(const torch_rank_file *file, char *prefix, size_t size)
{
    const char *world = strstr(file->name, "_world_size_");
    size_t n = world != NULL && world < file->name + file->stem ? (size_t)(world - file->name) : file->stem;
    while (n > 0 && strchr("_-.", file->name[n - 1]) != NULL)
        n--;
    snprintf(prefix, size, "%.*s.", (int)n, file->name);
}

static tess_status add_ranks(tess_catalog *catalog, const char *folder, const torch_rank_file *files, size_t n)
{
    char path[4096], prefix[256] = "";
    bool many = n > 0 && files[n - 1].group > 0;
    for (size_t i = 0; i < n; i++) {
        if (many)
            group_prefix(&files[i], prefix, sizeof(prefix));
        TESS_TRY(tess_os_join(path, sizeof(path), folder, files[i].name));
        TESS_TRY(add_archive(catalog, path, files[i].rank, prefix));
        if (strcmp(prefix, "model.") == 0)
            json_object_set_new(catalog->meta, "model_prefix", json_string(prefix));
    }
    return TESS_OK;
}

/* Shards of a model have different tensors. */
static tess_status add_model(tess_catalog *catalog, const char *folder, int n)
{
    char path[4096];
    for (int i = 0; i < n; i++) {
        TESS_TRY(torch_model_file(folder, i, n, path, sizeof(path)));
        TESS_TRY(add_archive(catalog, path, -1, ""));
    }
    return TESS_OK;
}

static tess_status add_folder(tess_catalog *catalog, const char *folder)
{
    torch_rank_file *files;
    size_t n;
    int n_model = torch_count_model_files(folder);
    if (n_model > 0)
        return add_model(catalog, folder, n_model);
    TESS_TRY(torch_list_ranks(catalog->mem, folder, &files, &n));
    tess_status status =
        n > 0 ? add_ranks(catalog, folder, files, n)
              : TESS_FAIL(TESS_E_NOT_FOUND, "%s: there are no files of torch.save, one a rank, in this folder", folder);
    tess_mem_free(catalog->mem, files);
    return status;
}

/* A file that was made of a checkpoint has what that said under "meta": it says the same, not the same one deeper. */
static void lift_meta(json_t *meta)
{
    json_t *kept = json_object_get(meta, "meta");
    if (!json_is_object(json_object_get(kept, "meta")))
        return;
    json_incref(kept);
    json_object_del(meta, "meta");
    json_object_update(meta, kept);
    json_decref(kept);
}

static tess_status add_file(tess_catalog *catalog, const char *path)
{
    TESS_TRY(add_archive(catalog, path, -1, ""));
    lift_meta(catalog->meta);
    return TESS_OK;
}

tess_status tess_torch_open(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    TESS_TRY(tess_catalog_create(mem, "torch.save", path, catalog));
    return formats_finish(catalog, tess_os_is_dir(path) ? add_folder(*catalog, path) : add_file(*catalog, path));
}

bool tess_torch_is_at(const char *path)
{
    return torch_looks_like_archive(path) ||
           (tess_os_is_dir(path) && (torch_count_model_files(path) > 0 || torch_holds_ranks(path)));
}
