/* Opens what torch.save wrote: a file; the shards of a model folder from the time before safetensors; or a folder with
 * one file per rank, such as "model_world_size_4_rank_0.pt" or "shard_rank0.pt". */
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "ckpt/formats/export_impl.h"
#include "ckpt/formats/formats.h"
#include "ckpt/formats/torch_impl.h"

/* ---- pytorch_model.bin, or its shards ---- */
#define STEM "pytorch_model"

/* Reads the number and the count from "pytorch_model-00001-of-00003.bin". */
static bool read_shard(const char *name, int *number, int *count)
{
    int end = 0;
    return strncmp(name, STEM, strlen(STEM)) == 0 &&
           sscanf(name + strlen(STEM), "-%5d-of-%5d.bin%n", number, count, &end) == 2 && end > 0 &&
           name[strlen(STEM) + (size_t)end] == '\0' && *number >= 1 && *count >= *number;
}

static tess_status see_shard(void *self, const char *name)
{
    int number, count, *most = self;
    if (read_shard(name, &number, &count) && count > *most)
        *most = count;
    return TESS_OK;
}

static int count_model_files(const char *folder)
{
    int count = 0;
    if (tess_folder_holds(folder, STEM ".bin"))
        return 1;
    return tess_os_list(folder, see_shard, &count) == TESS_OK ? count : 0;
}

static tess_status model_file(const char *folder, int i, int n, char *path, size_t size)
{
    char name[64];
    snprintf(name, sizeof(name), STEM "-%05d-of-%05d.bin", i + 1, n);
    if (n == 1 && tess_folder_holds(folder, STEM ".bin"))
        snprintf(name, sizeof(name), STEM ".bin");
    return tess_os_join(path, size, folder, name);
}

/* ---- Files of ranks ---- */
typedef struct torch_rank_file {
    char name[256];
    int group;         /* equal for files whose names differ only in the rank */
    int rank, n_ranks; /* n_ranks: the number of ranks that the name states; 0: not stated */
    size_t stem;       /* length of the name before "rank" */
} torch_rank_file;

enum { MAX_RANKS = 1 << 20 };

/* Reads the number after the last "rank" of a name. False: anything other than a number and an extension follows. */
static bool read_rank(const char *at, int *rank)
{
    static const char *const extensions[] = {".pt", ".pth", ".bin", ".ckpt"};
    char *end;
    at += strlen("rank");
    at += *at == '_' || *at == '-';
    if (*at < '0' || *at > '9')
        return false;
    unsigned long value = strtoul(at, &end, 10);
    *rank = value < MAX_RANKS ? (int)value : -1;
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]) && *rank >= 0; i++)
        if (strcmp(end, extensions[i]) == 0)
            return true;
    return false;
}

static const char *find_last(const char *text, const char *needle)
{
    const char *found = NULL;
    for (const char *at = strstr(text, needle); at != NULL; at = strstr(at + 1, needle))
        found = at;
    return found;
}

static bool read_name(const char *name, torch_rank_file *file)
{
    const char *at = find_last(name, "rank"), *world = find_last(name, "world_size_");
    *file = (torch_rank_file){0};
    if (at == NULL || strlen(name) >= sizeof(file->name) || strstr(name, "zero_pp_rank_") != NULL ||
        !read_rank(at, &file->rank))
        return false;
    snprintf(file->name, sizeof(file->name), "%s", name);
    file->stem = (size_t)(at - name);
    unsigned long n_ranks = world != NULL && world < at ? strtoul(world + strlen("world_size_"), NULL, 10) : 0;
    file->n_ranks = n_ranks < MAX_RANKS ? (int)n_ranks : 0;
    return true;
}

typedef struct rank_listing {
    tess_mem *mem;
    torch_rank_file *files;
    size_t n, room;
} rank_listing;

static tess_status add_name(void *self, const char *name)
{
    rank_listing *list = self;
    torch_rank_file file;
    if (!read_name(name, &file))
        return TESS_OK;
    TESS_TRY(tess_mem_make_room(list->mem, TESS_POOL_MISC, list->n, sizeof(file), "files of ranks", &list->room,
                                &list->files));
    list->files[list->n++] = file;
    return TESS_OK;
}

static int compare_stems(const torch_rank_file *a, const torch_rank_file *b)
{
    size_t n = a->stem < b->stem ? a->stem : b->stem;
    int order = memcmp(a->name, b->name, n);
    return order != 0 ? order : (a->stem > b->stem) - (a->stem < b->stem);
}

static int by_group(const void *a, const void *b)
{
    const torch_rank_file *x = a, *y = b;
    int order = compare_stems(x, y);
    return order != 0 ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Checks that the ranks of a group are 0, 1, ... without a gap, and as many as the name says. */
static tess_status check_group(const char *folder, const torch_rank_file *files, size_t n)
{
    size_t expected = files[0].n_ranks > 0 ? (size_t)files[0].n_ranks : n;
    for (size_t i = 0; i < expected || i < n; i++)
        TESS_CHECK(i < n && files[i].rank == (int)i, TESS_E_NOT_FOUND,
                   "%s: the file of rank %zu beside '%s' is missing", folder, i, files[0].name);
    return TESS_OK;
}

static tess_status group_files(const char *folder, torch_rank_file *files, size_t n)
{
    if (n > 0)
        qsort(files, n, sizeof(files[0]), by_group);
    int group = 0;
    for (size_t begin = 0, end; begin < n; begin = end, group++) {
        for (end = begin; end < n && compare_stems(&files[begin], &files[end]) == 0; end++)
            files[end].group = group;
        TESS_TRY(check_group(folder, files + begin, end - begin));
    }
    return TESS_OK;
}

/* Lists the files of ranks, sorted by group, then rank. Finding no files is fine. TESS_E_NOT_FOUND: a group is
 * incomplete; the message names the missing file. */
static tess_status list_ranks(tess_mem *mem, const char *folder, torch_rank_file **files, size_t *n)
{
    rank_listing list = {.mem = mem};
    tess_status status = tess_os_list(folder, add_name, &list);
    if (status == TESS_OK)
        status = group_files(folder, list.files, list.n);
    if (status != TESS_OK)
        tess_mem_free(mem, list.files);
    *files = status == TESS_OK ? list.files : NULL;
    *n = status == TESS_OK ? list.n : 0;
    return status;
}

static tess_status see_rank(void *self, const char *name)
{
    torch_rank_file file;
    if (!read_name(name, &file))
        return TESS_OK;
    *(bool *)self = true;
    return TESS_OK;
}

static bool holds_ranks(const char *folder)
{
    bool found = false;
    return tess_os_list(folder, see_rank, &found) == TESS_OK && found;
}

/* ---- Values ---- */
/* Returns the object of meta that a prefix such as "optimizer." names, and creates it if it is missing. "": meta
 * itself. Borrowed. */
static json_t *meta_object(json_t *meta, const char *prefix)
{
    char key[256];
    if (prefix[0] == '\0')
        return meta;
    snprintf(key, sizeof(key), "%.*s", (int)(strlen(prefix) - 1), prefix);
    json_t *object = json_object_get(meta, key);
    if (!json_is_object(object)) {
        object = json_object();
        json_object_set_new(meta, key, object);
    }
    return object;
}

/* Enters a dict for export_find_dicts. `self` points to the dict that was entered last. */
static bool enter_dict(void *self, TESS_UNUSED int depth, const char *key)
{
    const tess_pickle_value **dict = self, *value = tess_pickle_get(*dict, key);
    if (value == NULL || (value->kind != TESS_PICKLE_DICT && torch_module(value) == NULL))
        return false;
    *dict = value;
    return true;
}

/* Adds the values of one archive to the catalog. Tensors get `prefix`. Values that are not tensors are taken only from
 * the first rank. */
static tess_status add_archive(tess_catalog *catalog, const char *path, int rank, const char *prefix)
{
    TESS_AUTO(torch_close) torch_file file = {0};
    torch_walk walk = {.left = TORCH_VALUES, .left_meta = TORCH_META_VALUES};
    walk.from = (torch_source){.catalog = catalog, .file = &file, .rank = rank};
    TESS_TRY(torch_open_file(catalog->mem, path, &file));
    TESS_TRY(tess_catalog_add_file(catalog, path, file.mapping.size, &walk.from.catalog_file));
    TESS_TRY(torch_add_ranges(&walk.from));
    TESS_TRY(torch_walk_value(&walk, prefix, file.root, rank > 0 ? NULL : meta_object(catalog->meta, prefix)));
    if (prefix[0] == '\0') {
        char model[256];
        const tess_pickle_value *dict = file.root;
        export_find_dicts(&dict, enter_dict, model, sizeof(model));
        json_object_set_new(catalog->meta, "model_prefix", json_string(model));
    }
    return TESS_OK;
}

/* Returns the prefix of a group's tensors if the folder has several groups: "model." for
 * "model_world_size_4_rank_0.pt". */
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

static tess_status add_folder(tess_catalog *catalog, const char *folder)
{
    char path[4096];
    TESS_AUTO(tess_mem_drop) torch_rank_file *files = NULL;
    size_t n;
    int n_model = count_model_files(folder);
    for (int i = 0; i < n_model; i++) {
        TESS_TRY(model_file(folder, i, n_model, path, sizeof(path)));
        TESS_TRY(add_archive(catalog, path, -1, ""));
    }
    if (n_model > 0)
        return TESS_OK;
    TESS_TRY(list_ranks(catalog->mem, folder, &files, &n));
    return n > 0 ? add_ranks(catalog, folder, files, n)
                 : TESS_FAIL(TESS_E_NOT_FOUND, "%s: there are no files of torch.save, one a rank, in this folder",
                             folder);
}

/* If the file was converted from a checkpoint, "meta" contains that checkpoint's meta. Makes it the meta of the
 * file. */
static void lift_meta(json_t *meta)
{
    json_t *inner = json_object_get(meta, "meta");
    if (!json_is_object(json_object_get(inner, "meta")))
        return;
    json_incref(inner);
    json_object_del(meta, "meta");
    json_object_update(meta, inner);
    json_decref(inner);
}

tess_status tess_torch_open(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    TESS_TRY(tess_catalog_create(mem, "torch.save", path, catalog));
    bool folder = tess_os_is_dir(path);
    tess_status status = folder ? add_folder(*catalog, path) : add_archive(*catalog, path, -1, "");
    if (status == TESS_OK && !folder)
        lift_meta((*catalog)->meta);
    return formats_finish(catalog, status);
}

bool tess_torch_is_at(const char *path)
{
    return torch_looks_like_archive(path) ||
           (tess_os_is_dir(path) && (count_model_files(path) > 0 || holds_ranks(path)));
}
