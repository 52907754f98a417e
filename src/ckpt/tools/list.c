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
/* What a name says beside the step: the suffixes are those of saves (ckpt/store/store_write.h). */
typedef enum list_mark { MARK_NONE, MARK_UNFINISHED, MARK_STOOD_ASIDE } list_mark;

static bool find_mark(const char *suffix, list_mark *m)
{
    *m = *suffix == '\0' ? MARK_NONE : strcmp(suffix, ".old") == 0 ? MARK_STOOD_ASIDE : MARK_UNFINISHED;
    return *m != MARK_UNFINISHED || strncmp(suffix, ".tmp", 4) == 0;
}

/* The step that a name states, -1: it is no checkpoint's. */
static int64_t step_of(const char *name, list_mark *m)
{
    static const char *const prefixes[] = {"step-", "iter_", "global_step", "checkpoint-"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t n = strlen(prefixes[i]);
        char *end;
        if (strncmp(name, prefixes[i], n) != 0 || !isdigit((unsigned char)name[n]) || strlen(name + n) > 30)
            continue;
        int64_t step = strtoll(name + n, &end, 10);
        if (find_mark(end, m))
            return step;
    }
    return -1;
}

/* ---- Files of one item */
typedef struct files {
    const char *folder;
    tess_ckpt_item *item;
    int n;
    bool data, sealed; /* there are tensors of a format that is written in place; there is what is written last */
} files;

static tess_status look_at_file(void *context, const char *name)
{
    files *f = context;
    char path[PATH_SIZE];
    uint64_t bytes = 0;
    TESS_TRY(tess_os_join(path, sizeof(path), f->folder, name));
    f->n++;
    f->data |= tess_text_ends_with(name, ".distcp");
    f->sealed |= strcmp(name, ".metadata") == 0;
    if (tess_os_file_size(path, &bytes) != TESS_OK) {
        tess_error_clear(); /* a folder, gone since, or not to be looked at now */
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
    TESS_TRY(tess_catalog_open(mem, path, &catalog));
    snprintf(item->format, sizeof(item->format), "%s", catalog->format);
    tess_status status = tess_catalog_check(catalog);
    tess_catalog_destroy(&catalog);
    return status;
}

/* Of another version, or of a disk that cannot be read now: nothing is said of what it holds. */
static bool is_unknown(tess_status status)
{
    return status == TESS_E_UNSUPPORTED || status == TESS_E_IO;
}

/* A checkpoint of ours gets its name when it is whole: what lacks something under that name has lost it since. */
static tess_status judge(tess_mem *mem, const char *path, bool unfinished, tess_ckpt_item *item)
{
    files f = {.folder = path, .item = item};
    item->changed_s = tess_os_changed_s(path);
    TESS_TRY(tess_os_list(path, look_at_file, &f));
    if (unfinished) {
        set_problem(item, TESS_CKPT_INCOMPLETE, "a save that did not finish, or one under way");
    } else if (f.data && !f.sealed) {
        set_problem(item, TESS_CKPT_INCOMPLETE, "there is no .metadata, which a save writes last");
    } else if (f.n == 0) {
        char problem[PATH_SIZE + 32];
        snprintf(problem, sizeof(problem), "%s: there is nothing in it", path);
        set_problem(item, TESS_CKPT_DAMAGED, problem);
    } else {
        tess_status status = check_catalog(mem, path, item);
        if (status == TESS_E_NOMEM)
            return status;
        if (status != TESS_OK)
            set_problem(item, is_unknown(status) ? TESS_CKPT_UNKNOWN : TESS_CKPT_DAMAGED, tess_error_message());
    }
    return TESS_OK;
}

/* ---- The folder */
/* One that goes while it is looked at, as those of a job that runs do, is none. */
static tess_status add_item(tess_ckpt_list *list, const char *name, int64_t step, bool unfinished)
{
    char path[PATH_SIZE];
    TESS_TRY(tess_mem_make_room(list->mem, TESS_POOL_MISC, (size_t)list->n, sizeof(list->items[0]),
                                "list of checkpoints", &list->capacity, &list->items));
    tess_ckpt_item *item = &list->items[list->n++];
    *item = (tess_ckpt_item){.step = step};
    snprintf(item->name, sizeof(item->name), "%s", name);
    TESS_TRY(tess_ckpt_item_path(list, item, path, sizeof(path)));
    tess_status status = judge(list->mem, path, unfinished, item);
    if (tess_os_is_dir(path))
        return status;
    list->n--;
    tess_error_clear();
    return TESS_OK;
}

/* What stood aside for another is left over once that has its name, and stands for its step until then. */
static bool is_leftover(const char *path, list_mark m)
{
    char other[PATH_SIZE];
    int n = (int)(strlen(path) - strlen(".old"));
    if (m == MARK_STOOD_ASIDE)
        snprintf(other, sizeof(other), "%.*s", n, path);
    return m == MARK_UNFINISHED || (m == MARK_STOOD_ASIDE && tess_os_is_dir(other));
}

static tess_status visit(void *context, const char *name)
{
    tess_ckpt_list *list = context;
    char path[PATH_SIZE];
    list_mark m;
    int64_t step = step_of(name, &m);
    TESS_TRY(tess_os_join(path, sizeof(path), list->folder, name));
    return step >= 0 && tess_os_is_dir(path) ? add_item(list, name, step, is_leftover(path, m)) : TESS_OK;
}

static int compare_items(const void *a, const void *b)
{
    const tess_ckpt_item *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return strcmp(x->name, y->name);
}

static tess_status fail_empty(const char *folder)
{
    char below[PATH_SIZE];
    bool job = tess_os_join(below, sizeof(below), folder, "checkpoint") == TESS_OK && tess_os_is_dir(below);
    return TESS_FAIL(TESS_E_NOT_FOUND,
                     "%s: no checkpoint there: looked for folders step-*, iter_*, global_step* and checkpoint-*, and "
                     "for one in the folder itself%s%s%s",
                     folder, job ? ": did you mean " : "", job ? below : "", job ? "?" : "");
}

/* One name alone: no base folder, but a checkpoint. */
static tess_status add_folder_itself(tess_ckpt_list *list)
{
    list_mark m = MARK_NONE;
    const char *slash = strrchr(list->folder, '/');
    int64_t step = step_of(slash != NULL ? slash + 1 : list->folder, &m);
    TESS_TRY(add_item(list, ".", step, m == MARK_UNFINISHED));
    const tess_ckpt_item *item = &list->items[0];
    bool is_one = step >= 0 || item->format[0] != '\0' || item->state == TESS_CKPT_INCOMPLETE ||
                  (item->state == TESS_CKPT_DAMAGED && item->bytes > 0);
    return list->n > 0 && is_one ? TESS_OK : fail_empty(list->folder);
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
    tess_mem_free(list->mem, list->items);
    list->items = NULL;
    list->n = 0;
}
