/* Which checkpoints a folder holds: found by looking at what is there, never by trusting a note. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/store/store_impl.h"

tess_status tess_ckpt_folder(const char *dir, int64_t step, const char *suffix, char path[TESS_CKPT_PATH])
{
    char name[64];
    TESS_CHECK(step >= 0, TESS_E_INVALID, "checkpoint of step %" PRId64, step);
    snprintf(name, sizeof(name), "step-%08" PRId64 "%s", step, suffix);
    return tess_os_join(path, TESS_CKPT_PATH, dir, name);
}

static tess_status look_at(const char *dir, int64_t step)
{
    char folder[TESS_CKPT_PATH];
    json_t *manifest;
    TESS_TRY(tess_ckpt_folder(dir, step, "", folder));
    TESS_TRY(tess_store_open_manifest(folder, step, &manifest));
    json_decref(manifest);
    return TESS_OK;
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

/* The newest of the list; TESS_E_NOT_FOUND without a message. */
static tess_status find_newest(const step_list *list, int64_t limit, const tess_ckpt_listener *listener, int64_t *step)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->steps[i] > limit)
            continue;
        tess_status status = look_at(list->dir, list->steps[i]);
        /* What another version wrote is work, too. */
        if (status == TESS_OK || status == TESS_E_UNSUPPORTED) {
            *step = list->steps[i];
            return status;
        }
        if (listener != NULL)
            listener->note(listener->self, tess_error_message());
    }
    return TESS_E_NOT_FOUND;
}

tess_status tess_ckpt_latest_until(const char *dir, int64_t limit, const tess_ckpt_listener *listener, int64_t *step)
{
    step_list list;
    TESS_TRY(list_steps(dir, &list));
    tess_status status = find_newest(&list, limit, listener, step);
    free(list.steps);
    if (status == TESS_E_NOT_FOUND)
        return TESS_FAIL(status, "%s: no complete checkpoint there", dir);
    return status;
}

tess_status tess_ckpt_latest(const char *dir, const tess_ckpt_listener *listener, int64_t *step)
{
    return tess_ckpt_latest_until(dir, INT64_MAX, listener, step);
}

/* ---- Pruning
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct sweep {
    const tess_io *io;
    const char *dir;
} sweep;

static tess_status remove_leftover(void *context, const char *name)
{
    const sweep *s = context;
    bool temporary;
    char path[TESS_CKPT_PATH];
    if (step_of(name, &temporary) < 0 || !temporary)
        return TESS_OK;
    TESS_TRY(tess_os_join(path, sizeof(path), s->dir, name));
    return tess_io_remove_tree(s->io, TESS_SAVE_REMOVE, path);
}

/* Out of sight first: a removal that is cut short must not leave half a checkpoint under its name. */
static tess_status remove_step(const sweep *s, int64_t step)
{
    char path[TESS_CKPT_PATH], aside[TESS_CKPT_PATH];
    TESS_TRY(tess_ckpt_folder(s->dir, step, "", path));
    TESS_TRY(tess_ckpt_folder(s->dir, step, TESS_CKPT_TEMPORARY, aside));
    TESS_TRY(tess_os_remove_tree(aside));
    TESS_TRY(tess_io_rename(s->io, TESS_SAVE_SET_ASIDE, path, aside));
    return tess_io_remove_tree(s->io, TESS_SAVE_REMOVE, aside);
}

tess_status tess_ckpt_prune(const tess_io *io, const char *dir, int keep_latest_k, int64_t newest)
{
    step_list list;
    sweep s = {io, dir};
    int kept = 0;
    TESS_CHECK(keep_latest_k >= 0, TESS_E_INVALID, "keep_latest_k is %d; 0 keeps every checkpoint", keep_latest_k);
    TESS_TRY(list_steps(dir, &list));
    tess_status status = TESS_OK;
    for (size_t i = 0; i < list.n && keep_latest_k > 0 && status == TESS_OK; i++) {
        if (list.steps[i] > newest || look_at(dir, list.steps[i]) != TESS_OK)
            continue; /* not ours to judge: of another run, damaged, or of another version */
        if (kept++ >= keep_latest_k)
            status = remove_step(&s, list.steps[i]);
    }
    free(list.steps);
    TESS_TRY(status);
    return tess_os_list(dir, remove_leftover, &s);
}

/* ---- Setting aside */
/* The first name that is free: ".aside", ".aside-2", ... */
static tess_status set_step_aside(const char *dir, int64_t step)
{
    char path[TESS_CKPT_PATH], aside[TESS_CKPT_PATH], suffix[32] = ".aside";
    TESS_TRY(tess_ckpt_folder(dir, step, "", path));
    TESS_TRY(tess_ckpt_folder(dir, step, suffix, aside));
    for (int i = 2; tess_os_is_dir(aside); i++) {
        snprintf(suffix, sizeof(suffix), ".aside-%d", i);
        TESS_TRY(tess_ckpt_folder(dir, step, suffix, aside));
    }
    return tess_os_rename(path, aside);
}

tess_status tess_ckpt_set_aside(const char *dir, int64_t step, int *n)
{
    step_list list;
    *n = 0;
    TESS_TRY(list_steps(dir, &list));
    tess_status status = TESS_OK;
    for (size_t i = 0; i < list.n && list.steps[i] > step && status == TESS_OK; i++) {
        status = set_step_aside(dir, list.steps[i]);
        *n += status == TESS_OK;
    }
    free(list.steps);
    TESS_TRY(status);
    return *n > 0 ? tess_os_fsync_dir(dir) : TESS_OK;
}
