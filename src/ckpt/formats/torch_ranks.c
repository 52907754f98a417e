/* Folders with one file of torch.save a rank: "model_world_size_4_rank_0.pt", "shard_rank0.pt". */
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "ckpt/formats/torch_impl.h"

enum { MAX_RANKS = 1 << 20 };

/* Of a name's last "rank" on: whether a number follows, and then nothing but an extension. */
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

/* Ranks of a group count from 0 without a hole, up to what the name says. */
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

tess_status torch_list_ranks(tess_mem *mem, const char *folder, torch_rank_file **files, size_t *n)
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

static tess_status see_name(void *self, const char *name)
{
    torch_rank_file file;
    if (!read_name(name, &file))
        return TESS_OK;
    *(bool *)self = true;
    return TESS_OK;
}

bool torch_holds_ranks(const char *folder)
{
    bool found = false;
    return tess_os_list(folder, see_name, &found) == TESS_OK && found;
}
