/* Which checkpoints a folder holds: found by looking at what is there, never by trusting a note. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json.h"
#include "base/os/os.h"
#include "ckpt/store/store_impl.h"

static const size_t meta_limit = 256 << 20;

tess_status tess_ckpt_folder(const char *dir, int64_t step, const char *suffix, char path[TESS_CKPT_PATH])
{
    char name[64];
    TESS_CHECK(step >= 0, TESS_E_INVALID, "checkpoint of step %" PRId64, step);
    snprintf(name, sizeof(name), "step-%08" PRId64 "%s", step, suffix);
    return tess_os_join(path, TESS_CKPT_PATH, dir, name);
}

static tess_status check_files(const char *folder, const json_t *meta)
{
    const char *name;
    json_t *file;
    const json_t *files = json_object_get(meta, "files");
    TESS_CHECK(json_is_object(files), TESS_E_FORMAT, "%s/meta.json: no object 'files'", folder);
    json_object_foreach ((json_t *)files, name, file) {
        char path[TESS_CKPT_PATH];
        uint64_t size;
        int64_t stated = -1;
        TESS_CHECK(strchr(name, '/') == NULL, TESS_E_FORMAT, "%s/meta.json: file '%s' lies elsewhere", folder, name);
        TESS_TRY(tess_os_join(path, sizeof(path), folder, name));
        TESS_TRY(tess_json_get_int(file, "bytes", path, &stated));
        TESS_TRY(tess_os_file_size(path, &size));
        TESS_CHECK(stated >= 0 && size == (uint64_t)stated, TESS_E_FORMAT,
                   "%s has %" PRIu64 " bytes, not the %" PRId64 " of its save", path, size, stated);
    }
    return TESS_OK;
}

static tess_status check_meta(const char *folder, int64_t step, const json_t *meta)
{
    int64_t format = -1, stated = -1;
    TESS_TRY(tess_json_get_int(meta, "format", folder, &format));
    TESS_CHECK(format >= 0, TESS_E_FORMAT, "%s/meta.json: no 'format'", folder);
    TESS_CHECK(format <= TESS_CKPT_FORMAT, TESS_E_UNSUPPORTED,
               "%s: format %" PRId64 " is newer than this version's %d: resume it with the version that wrote it",
               folder, format, TESS_CKPT_FORMAT);
    TESS_TRY(tess_json_get_int(meta, "step", folder, &stated));
    TESS_CHECK(stated == step, TESS_E_FORMAT, "%s: meta.json says step %" PRId64 ": the folder was renamed", folder,
               stated);
    return check_files(folder, meta);
}

tess_status tess_ckpt_open_meta(const char *dir, int64_t step, json_t **meta)
{
    char folder[TESS_CKPT_PATH], path[TESS_CKPT_PATH];
    *meta = NULL;
    TESS_TRY(tess_ckpt_folder(dir, step, "", folder));
    TESS_CHECK(tess_os_is_dir(folder), TESS_E_NOT_FOUND, "%s: no such checkpoint", folder);
    TESS_TRY(tess_os_join(path, sizeof(path), folder, "meta.json"));
    TESS_TRY(tess_json_load(path, meta_limit, meta));
    tess_status status = check_meta(folder, step, *meta);
    if (status != TESS_OK) {
        json_decref(*meta);
        *meta = NULL;
    }
    return status;
}

/* ---- Scanning
 * --------------------------------------------------------------------------------------------------------- */
typedef struct step_list {
    const char *dir;
    int64_t *steps;
    size_t n, capacity;
} step_list;

/* The step that a name states, -1 when it is none of ours; *temporary when it was never finished. */
static int64_t step_of(const char *name, bool *temporary)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9' || strlen(name) > 40)
        return -1;
    int64_t step = strtoll(name + 5, &end, 10);
    char canonical[64];
    snprintf(canonical, sizeof(canonical), "step-%08" PRId64, step);
    *temporary = strcmp(end, TESS_CKPT_TEMPORARY) == 0 || strcmp(end, TESS_CKPT_TEMPORARY ".old") == 0;
    bool exact = strncmp(name, canonical, (size_t)(end - name)) == 0 && strlen(canonical) == (size_t)(end - name);
    return exact && (*temporary || *end == '\0') ? step : -1;
}

static tess_status note_step(void *context, const char *name)
{
    step_list *list = context;
    bool temporary;
    int64_t step = step_of(name, &temporary);
    if (step < 0 || temporary)
        return TESS_OK;
    if (list->n == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        int64_t *grown = realloc(list->steps, capacity * sizeof(grown[0]));
        TESS_CHECK(grown != NULL, TESS_E_NOMEM, "list of checkpoints in %s", list->dir);
        list->steps = grown;
        list->capacity = capacity;
    }
    list->steps[list->n++] = step;
    return TESS_OK;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Every folder that is named like a checkpoint, newest first. */
static tess_status list_steps(const char *dir, step_list *list)
{
    *list = (step_list){.dir = dir};
    TESS_CHECK(tess_os_is_dir(dir), TESS_E_NOT_FOUND, "%s: no such folder of checkpoints", dir);
    tess_status status = tess_os_list(dir, note_step, list);
    if (status != TESS_OK)
        free(list->steps);
    else if (list->n > 1)
        qsort(list->steps, list->n, sizeof(list->steps[0]), descending);
    return status;
}

tess_status tess_ckpt_latest_until(const char *dir, int64_t limit, int64_t *step)
{
    step_list list;
    TESS_TRY(list_steps(dir, &list));
    tess_status status = TESS_E_NOT_FOUND;
    for (size_t i = 0; i < list.n; i++) {
        json_t *meta;
        if (list.steps[i] > limit)
            continue;
        status = tess_ckpt_open_meta(dir, list.steps[i], &meta);
        json_decref(meta);
        *step = list.steps[i];
        /* One that a newer version wrote is work: starting from an older one instead would lose it quietly. */
        if (status == TESS_OK || status == TESS_E_UNSUPPORTED)
            break;
        status = TESS_E_NOT_FOUND;
    }
    free(list.steps);
    if (status == TESS_E_NOT_FOUND)
        return TESS_FAIL(status, "%s: no complete checkpoint there", dir);
    return status;
}

tess_status tess_ckpt_latest(const char *dir, int64_t *step)
{
    return tess_ckpt_latest_until(dir, INT64_MAX, step);
}

/* ---- Pruning
 * ---------------------------------------------------------------------------------------------------------- */
static tess_status remove_leftover(void *context, const char *name)
{
    bool temporary;
    char path[TESS_CKPT_PATH];
    if (step_of(name, &temporary) < 0 || !temporary)
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), context, name));
    return tess_os_remove_tree(path);
}

/* Out of sight first: a removal that is cut short must not leave half a checkpoint under its name. */
static tess_status remove_step(const char *dir, int64_t step)
{
    char path[TESS_CKPT_PATH], aside[TESS_CKPT_PATH];
    TESS_TRY(tess_ckpt_folder(dir, step, "", path));
    TESS_TRY(tess_ckpt_folder(dir, step, TESS_CKPT_TEMPORARY, aside));
    TESS_TRY(tess_os_remove_tree(aside));
    TESS_TRY(tess_os_rename(path, aside));
    return tess_os_remove_tree(aside);
}

tess_status tess_ckpt_prune(const char *dir, int keep_latest_k, int64_t newest)
{
    step_list list;
    int kept = 0;
    TESS_CHECK(keep_latest_k >= 0, TESS_E_INVALID, "keep_latest_k is %d; 0 keeps every checkpoint", keep_latest_k);
    TESS_TRY(list_steps(dir, &list));
    tess_status status = TESS_OK;
    for (size_t i = 0; i < list.n && keep_latest_k > 0 && status == TESS_OK; i++) {
        json_t *meta;
        if (list.steps[i] > newest || tess_ckpt_open_meta(dir, list.steps[i], &meta) != TESS_OK)
            continue; /* not ours to judge: of another run, damaged, or of a newer version */
        json_decref(meta);
        if (kept++ >= keep_latest_k)
            status = remove_step(dir, list.steps[i]);
    }
    free(list.steps);
    TESS_TRY(status);
    return tess_os_list(dir, remove_leftover, (void *)dir);
}
