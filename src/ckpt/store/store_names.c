/* Parses the names in a folder of checkpoints, and cleans up what killed saves left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/store/store_impl.h"

static const char *const suffixes[] = {
    [TESS_STORE_FINAL] = "", [TESS_STORE_RETIRED] = TESS_CKPT_RETIRED, [TESS_STORE_TEMPORARY] = TESS_CKPT_TEMPORARY};

tess_status tess_ckpt_folder(const char *dir, int64_t step, const char *suffix, char path[TESS_CKPT_PATH])
{
    char name[64];
    TESS_CHECK(step >= 0, TESS_E_INVALID, "checkpoint of step %" PRId64, step);
    snprintf(name, sizeof(name), "step-%08" PRId64 "%s", step, suffix);
    return tess_os_join(path, TESS_CKPT_PATH, dir, name);
}

tess_status tess_ckpt_split_path(const char *path, char dir[TESS_CKPT_PATH], int64_t *step)
{
    char *end = "";
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    TESS_CHECK(n < TESS_CKPT_PATH, TESS_E_INVALID, "path too long: %.100s...", path);
    snprintf(dir, TESS_CKPT_PATH, "%.*s", (int)n, path);
    char *slash = strrchr(dir, '/');
    const char *name = slash != NULL ? slash + 1 : dir;
    *step = strncmp(name, "step-", 5) == 0 ? strtoll(name + 5, &end, 10) : -1;
    if (*step < 0 || *end != '\0')
        *step = -1;
    else if (slash == NULL)
        snprintf(dir, TESS_CKPT_PATH, ".");
    else
        dir[slash > dir ? slash - dir : 1] = '\0';
    return TESS_OK;
}

tess_status tess_store_path(const char *dir, const tess_store_name *name, char path[TESS_CKPT_PATH])
{
    return tess_ckpt_folder(dir, name->step, suffixes[name->kind], path);
}

/* Parses the name of a checkpoint. False: it is another name. */
static bool parse(const char *text, tess_store_name *name)
{
    char *end, canonical[64];
    if (strncmp(text, "step-", 5) != 0 || text[5] < '0' || text[5] > '9' || strlen(text) > 40)
        return false;
    name->step = strtoll(text + 5, &end, 10);
    snprintf(canonical, sizeof(canonical), "step-%08" PRId64, name->step);
    if (strlen(canonical) != (size_t)(end - text) || strncmp(text, canonical, (size_t)(end - text)) != 0)
        return false;
    for (name->kind = TESS_STORE_FINAL; name->kind <= TESS_STORE_TEMPORARY; name->kind++)
        if (strcmp(end, suffixes[name->kind]) == 0)
            return true;
    return false;
}

static tess_status add(void *context, const char *text)
{
    tess_store_names *names = context;
    tess_store_name name;
    if (!parse(text, &name))
        return TESS_OK;
    if (names->n == names->capacity) {
        size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
        tess_store_name *grown = realloc(names->items, capacity * sizeof(grown[0]));
        TESS_CHECK(grown != NULL, TESS_E_NOMEM, "list of checkpoints in %s", names->dir);
        names->items = grown;
        names->capacity = capacity;
    }
    names->items[names->n++] = name;
    return TESS_OK;
}

static int newest_first(const void *a, const void *b)
{
    const tess_store_name *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? 1 : -1;
    return (int)x->kind - (int)y->kind;
}

tess_status tess_store_list(const tess_io *io, const char *dir, tess_store_names *names)
{
    tess_os_entry entry;
    *names = (tess_store_names){.dir = dir};
    TESS_TRY(tess_io_look_up(io, dir, &entry));
    TESS_CHECK(entry.kind == TESS_OS_FOLDER, TESS_E_NOT_FOUND, "%s: no such folder of checkpoints", dir);
    tess_status status = tess_io_list(io, dir, add, names);
    if (status != TESS_OK) {
        free(names->items);
        names->items = NULL;
    } else if (names->n > 1) {
        qsort(names->items, names->n, sizeof(names->items[0]), newest_first);
    }
    return status;
}

bool tess_store_counts(const tess_store_names *names, size_t i)
{
    const tess_store_name *name = &names->items[i];
    bool first = i == 0 || names->items[i - 1].step != name->step;
    return name->kind != TESS_STORE_TEMPORARY && first;
}

tess_status tess_ckpt_find(const tess_io *io, const char *dir, int64_t step, char path[TESS_CKPT_PATH])
{
    tess_os_entry entry;
    for (tess_store_kind kind = TESS_STORE_FINAL; kind <= TESS_STORE_RETIRED; kind++) {
        TESS_TRY(tess_ckpt_folder(dir, step, suffixes[kind], path));
        TESS_TRY(tess_io_look_up(io, path, &entry));
        if (entry.kind == TESS_OS_FOLDER)
            return TESS_OK;
    }
    TESS_TRY(tess_ckpt_folder(dir, step, "", path));
    return TESS_FAIL(TESS_E_NOT_FOUND, "%s: no such checkpoint", path);
}

/* ---- The remains of killed saves ---- */
/* Gives a retired checkpoint that counts its name back. Then reduces the list to the items of the step that do not
 * count. */
static tess_status restore_retired(const tess_io *io, tess_store_names *names, int64_t step)
{
    char path[TESS_CKPT_PATH], final[TESS_CKPT_PATH];
    size_t n = 0;
    for (size_t i = 0; i < names->n; i++) {
        const tess_store_name name = names->items[i];
        if (step != TESS_STORE_ANY_STEP && step != name.step)
            continue;
        if (!tess_store_counts(names, i)) {
            names->items[n++] = name;
        } else if (name.kind == TESS_STORE_RETIRED) {
            TESS_TRY(tess_store_path(names->dir, &name, path));
            TESS_TRY(tess_ckpt_folder(names->dir, name.step, "", final));
            TESS_TRY(tess_io_rename(io, TESS_SAVE_RENAME, path, final));
        }
    }
    names->n = n;
    return TESS_OK;
}

/* Removes the items that do not count. Syncs the names in the folder first. Otherwise a power failure could give a
 * checkpoint's name back to a folder that was emptied meanwhile. */
static tess_status sweep(const tess_io *io, tess_store_names *names, int64_t step, tess_save_point remove)
{
    char path[TESS_CKPT_PATH];
    TESS_TRY(restore_retired(io, names, step));
    if (names->n > 0)
        TESS_TRY(tess_io_sync_folder(io, TESS_SAVE_SYNC_PARENT, names->dir));
    for (size_t i = 0; i < names->n; i++) {
        TESS_TRY(tess_store_path(names->dir, &names->items[i], path));
        TESS_TRY(tess_io_remove_tree(io, remove, path));
    }
    return TESS_OK;
}

tess_status tess_store_sweep(const tess_io *io, const char *dir, int64_t step, tess_save_point remove)
{
    tess_store_names names;
    TESS_TRY(tess_store_list(io, dir, &names));
    tess_status status = sweep(io, &names, step, remove);
    free(names.items);
    return status;
}
