#include "ckpt/tools/list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/catalog/catalog.h"

enum { PATH_SIZE = 4096 };

const char *tess_ckpt_state_text(tess_ckpt_state state)
{
    static const char *const texts[] = {"valid", "incomplete", "damaged", "unknown"};
    return texts[state];
}

tess_status tess_ckpt_item_path(const tess_ckpt_list *list, const tess_ckpt_item *item, char *path, size_t size)
{
    if (strcmp(item->name, ".") != 0)
        return tess_os_join(path, size, list->folder, item->name);
    TESS_CHECK(strlen(list->folder) < size, TESS_E_INVALID, "path too long: %.100s...", list->folder);
    strcpy(path, list->folder);
    return TESS_OK;
}

/* ---- Names */
/* The meaning of a name's suffix. The suffixes are those of saves (ckpt/store/store_write.h). */
typedef enum list_mark { MARK_NONE, MARK_UNFINISHED, MARK_RETIRED } list_mark;

/* Returns the step that a name states; -1: it is not the name of a checkpoint. */
static int64_t step_of(const char *name, list_mark *m)
{
    static const char *const prefixes[] = {"step-", "iter_", "global_step", "checkpoint-"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t n = strlen(prefixes[i]);
        char *suffix;
        if (strncmp(name, prefixes[i], n) != 0 || !isdigit((unsigned char)name[n]) || strlen(name + n) > 30)
            continue;
        int64_t step = strtoll(name + n, &suffix, 10);
        *m = *suffix == '\0' ? MARK_NONE : strcmp(suffix, ".old") == 0 ? MARK_RETIRED : MARK_UNFINISHED;
        if (*m != MARK_UNFINISHED || strncmp(suffix, ".tmp", 4) == 0)
            return step;
    }
    return -1;
}

/* ---- Files of one item */
typedef struct files {
    const char *folder;
    tess_ckpt_item *item;
    int n;
    bool data, sealed; /* `data`: a DCP folder has tensors; `sealed`: it has .metadata, which is written last */
} files;

static tess_status add_file(void *context, const char *name)
{
    files *f = context;
    char path[PATH_SIZE];
    uint64_t bytes = 0;
    TESS_TRY(tess_os_join(path, sizeof(path), f->folder, name));
    f->n++;
    f->data |= tess_text_ends_with(name, ".distcp");
    f->sealed |= strcmp(name, ".metadata") == 0;
    if (tess_os_file_size(path, &bytes) != TESS_OK) {
        tess_error_clear(); /* not counted: a folder, a removed file, or one that cannot be read now */
        return TESS_OK;
    }
    double changed = tess_os_changed_s(path);
    f->item->bytes += bytes;
    f->item->changed_s = changed > f->item->changed_s ? changed : f->item->changed_s;
    return TESS_OK;
}

/* ---- State */
static void set_problem(tess_ckpt_item *item, tess_ckpt_state state, const char *message)
{
    item->state = state;
    snprintf(item->problem, sizeof(item->problem), "%s", message);
    tess_error_clear();
}

static tess_status check_catalog(tess_mem *mem, const char *path, tess_ckpt_item *item)
{
    tess_catalog *catalog;
    tess_status status = tess_catalog_open(mem, path, &catalog);
    if (status == TESS_OK) {
        snprintf(item->format, sizeof(item->format), "%s", catalog->format);
        status = tess_catalog_check(catalog);
        tess_catalog_destroy(&catalog);
    }
    if (status == TESS_OK || status == TESS_E_NOMEM)
        return status;
    /* Another version, or a disk that cannot be read now: the state is unknown. */
    bool unknown = status == TESS_E_UNSUPPORTED || status == TESS_E_IO;
    set_problem(item, unknown ? TESS_CKPT_UNKNOWN : TESS_CKPT_DAMAGED, tess_error_message());
    return TESS_OK;
}

/* Finds an item's size, time and state. A Tessera checkpoint gets its name only when it is complete. If something is
 * missing under that name, it is damaged, not incomplete. */
static tess_status examine(tess_mem *mem, const char *path, bool unfinished, tess_ckpt_item *item)
{
    char problem[PATH_SIZE + 32];
    files f = {.folder = path, .item = item};
    item->changed_s = tess_os_changed_s(path);
    TESS_TRY(tess_os_list(path, add_file, &f));
    if (unfinished) {
        set_problem(item, TESS_CKPT_INCOMPLETE, "a save that did not finish, or one under way");
    } else if (f.data && !f.sealed) {
        set_problem(item, TESS_CKPT_INCOMPLETE, "there is no .metadata, which a save writes last");
    } else if (f.n == 0) {
        snprintf(problem, sizeof(problem), "%s: there is nothing in it", path);
        set_problem(item, TESS_CKPT_DAMAGED, problem);
    } else {
        return check_catalog(mem, path, item);
    }
    return TESS_OK;
}

/* ---- The folder */
/* Adds a checkpoint. Ignores it if it disappears meanwhile, which happens while a job runs. */
static tess_status add_item(tess_ckpt_list *list, const char *name, int64_t step, bool unfinished)
{
    char path[PATH_SIZE];
    TESS_TRY(tess_mem_make_room(list->mem, TESS_POOL_MISC, (size_t)list->n, sizeof(list->items[0]),
                                "list of checkpoints", &list->capacity, &list->items));
    tess_ckpt_item *item = &list->items[list->n++];
    *item = (tess_ckpt_item){.step = step};
    snprintf(item->name, sizeof(item->name), "%s", name);
    TESS_TRY(tess_ckpt_item_path(list, item, path, sizeof(path)));
    tess_status status = examine(list->mem, path, unfinished, item);
    if (tess_os_is_dir(path))
        return status;
    list->n--;
    tess_error_clear();
    return TESS_OK;
}

static tess_status visit(void *context, const char *name)
{
    tess_ckpt_list *list = context;
    char path[PATH_SIZE], successor[PATH_SIZE];
    list_mark m;
    int64_t step = step_of(name, &m);
    TESS_TRY(tess_os_join(path, sizeof(path), list->folder, name));
    if (step < 0 || !tess_os_is_dir(path))
        return TESS_OK;
    /* A retired checkpoint counts for its step until its successor has the name. */
    snprintf(successor, sizeof(successor), "%.*s", (int)(strlen(path) - strlen(".old")), path);
    return add_item(list, name, step, m == MARK_UNFINISHED || (m == MARK_RETIRED && tess_os_is_dir(successor)));
}

static int compare_items(const void *a, const void *b)
{
    const tess_ckpt_item *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Adds the folder itself if it is a checkpoint. */
static tess_status add_folder_itself(tess_ckpt_list *list)
{
    list_mark m = MARK_NONE;
    char below[PATH_SIZE];
    const char *slash = strrchr(list->folder, '/');
    int64_t step = step_of(slash != NULL ? slash + 1 : list->folder, &m);
    TESS_TRY(add_item(list, ".", step, m == MARK_UNFINISHED));
    const tess_ckpt_item *item = &list->items[0];
    if (list->n > 0 && (step >= 0 || item->format[0] != '\0' || item->state == TESS_CKPT_INCOMPLETE ||
                        (item->state == TESS_CKPT_DAMAGED && item->bytes > 0)))
        return TESS_OK;
    bool job = tess_os_join(below, sizeof(below), list->folder, "checkpoint") == TESS_OK && tess_os_is_dir(below);
    return TESS_FAIL(TESS_E_NOT_FOUND,
                     "%s: no checkpoint there: looked for folders step-*, iter_*, global_step* and checkpoint-*, and "
                     "for one in the folder itself%s%s%s",
                     list->folder, job ? ": did you mean " : "", job ? below : "", job ? "?" : "");
}

/* Adds a file that is a whole checkpoint. Its step is not looked up. */
static tess_status add_single_file(tess_ckpt_list *list, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    snprintf(list->folder, sizeof(list->folder), "%.*s", slash == NULL || slash == path ? 1 : (int)(slash - path),
             slash == NULL ? "." : path);
    TESS_TRY(tess_mem_make_room(list->mem, TESS_POOL_MISC, 0, sizeof(list->items[0]), "list of checkpoints",
                                &list->capacity, &list->items));
    tess_ckpt_item *item = &list->items[list->n++];
    *item = (tess_ckpt_item){.step = -1, .changed_s = tess_os_changed_s(path)};
    snprintf(item->name, sizeof(item->name), "%s", name);
    tess_status status = tess_os_file_size(path, &item->bytes);
    if (status == TESS_OK)
        status = check_catalog(list->mem, path, item);
    if (status == TESS_OK && item->state == TESS_CKPT_UNKNOWN && item->format[0] == '\0')
        return TESS_FAIL(TESS_E_UNSUPPORTED, "%s", item->problem);
    item->newest = item->state == TESS_CKPT_VALID;
    return status;
}

static tess_status fill(tess_ckpt_list *list)
{
    TESS_TRY(tess_os_list(list->folder, visit, list));
    if (list->n == 0)
        TESS_TRY(add_folder_itself(list));
    qsort(list->items, (size_t)list->n, sizeof(list->items[0]), compare_items);
    for (int i = list->n - 1; i >= 0; i--) {
        if (list->items[i].state == TESS_CKPT_VALID) {
            list->items[i].newest = true;
            break;
        }
    }
    return TESS_OK;
}

tess_status tess_ckpt_list_read(tess_mem *mem, const char *folder, tess_ckpt_list *list)
{
    size_t n = strlen(folder);
    *list = (tess_ckpt_list){.mem = mem};
    uint64_t bytes;
    if (!tess_os_is_dir(folder) && tess_os_file_size(folder, &bytes) == TESS_OK) {
        TESS_CHECK(n < sizeof(list->folder), TESS_E_INVALID, "path too long: %.100s...", folder);
        tess_status status = add_single_file(list, folder);
        if (status != TESS_OK)
            tess_ckpt_list_free(list);
        return status;
    }
    TESS_CHECK(tess_os_is_dir(folder), TESS_E_NOT_FOUND, "%s: no such folder of checkpoints", folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    TESS_CHECK(n < sizeof(list->folder), TESS_E_INVALID, "path too long: %.100s...", folder);
    memcpy(list->folder, folder, n);
    tess_status status = fill(list);
    if (status != TESS_OK)
        tess_ckpt_list_free(list);
    return status;
}

void tess_ckpt_list_free(tess_ckpt_list *list)
{
    tess_mem_drop(&list->items);
    list->n = 0;
}
