/* Removes or renames checkpoints that are no longer needed. */
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/store/store_impl.h"

static bool is_whole(const tess_store_names *names, size_t i)
{
    char path[TESS_CKPT_PATH];
    json_t *manifest = NULL;
    bool whole = names->items[i].kind == TESS_STORE_FINAL &&
                 tess_store_path(names->dir, &names->items[i], path) == TESS_OK &&
                 tess_store_look(NULL, path, names->items[i].step, &manifest) == TESS_OK;
    json_decref(manifest);
    return whole;
}

tess_status tess_store_list_whole(const char *dir, int64_t newest, tess_store_names *names)
{
    size_t n = 0;
    TESS_TRY(tess_store_list(NULL, dir, names));
    for (size_t i = 0; i < names->n; i++)
        if (names->items[i].step <= newest && is_whole(names, i))
            names->items[n++] = names->items[i];
    names->n = n;
    return TESS_OK;
}

static bool is_good(const tess_ckpt_pruner *p, const tess_store_names *names, size_t i)
{
    char path[TESS_CKPT_PATH];
    return tess_store_path(names->dir, &names->items[i], path) == TESS_OK && tess_store_reads_back(p, path);
}

/* ---- Pruning ---- */
/* Removes the checkpoints of the list starting at index `first`, and frees the list. Each is renamed first: an
 * interrupted removal must not leave half a checkpoint under its name. */
static tess_status remove_from(const tess_ckpt_pruner *p, tess_store_names *names, size_t first)
{
    char path[TESS_CKPT_PATH], temporary[TESS_CKPT_PATH];
    tess_status status = TESS_OK;
    for (size_t i = first; i < names->n && status == TESS_OK; i++) {
        status = tess_store_path(names->dir, &names->items[i], path);
        if (status == TESS_OK)
            status = tess_ckpt_folder(names->dir, names->items[i].step, TESS_CKPT_TEMPORARY, temporary);
        if (status == TESS_OK)
            status = tess_io_rename(p->io, TESS_SAVE_SET_ASIDE, path, temporary);
    }
    free(names->items);
    TESS_TRY(status);
    return tess_store_sweep(p->io, names->dir, TESS_STORE_ANY_STEP, TESS_SAVE_REMOVE);
}

tess_status tess_ckpt_prune(const tess_ckpt_pruner *p, const char *dir, int keep_latest_k, int64_t newest)
{
    tess_store_names names;
    TESS_CHECK(keep_latest_k >= 0, TESS_E_INVALID, "keep_latest_k is %d; 0 keeps every checkpoint", keep_latest_k);
    TESS_TRY(tess_store_sweep(p->io, dir, TESS_STORE_ANY_STEP, TESS_SAVE_REMOVE));
    if (keep_latest_k == 0)
        return TESS_OK;
    TESS_TRY(tess_store_list_whole(dir, newest, &names));
    size_t first = names.n > (size_t)keep_latest_k ? 0 : names.n;
    for (int n_good = 0; first < names.n && n_good < keep_latest_k; first++)
        n_good += is_good(p, &names, first);
    return remove_from(p, &names, first);
}

tess_status tess_ckpt_prune_below(const tess_ckpt_pruner *p, const char *dir, int64_t step)
{
    tess_store_names names;
    TESS_TRY(tess_store_sweep(p->io, dir, TESS_STORE_ANY_STEP, TESS_SAVE_REMOVE));
    TESS_TRY(tess_store_list_whole(dir, step, &names));
    return remove_from(p, &names, names.n > 0 && names.items[0].step == step ? 1 : names.n);
}

tess_status tess_ckpt_list_good(const tess_ckpt_pruner *p, const char *dir, int64_t newest, int enough, int most,
                                int64_t *steps, int *n)
{
    tess_store_names names;
    *n = 0;
    TESS_TRY(tess_store_list_whole(dir, newest, &names));
    for (size_t i = 0; names.n > (size_t)enough && i < names.n && *n < most; i++)
        if (is_good(p, &names, i))
            steps[(*n)++] = names.items[i].step;
    free(names.items);
    return TESS_OK;
}

/* ---- Setting aside ---- */
/* Renames a checkpoint to the first free name of ".aside", ".aside-2", ... */
static tess_status set_aside(const char *dir, const tess_store_name *name)
{
    char path[TESS_CKPT_PATH], aside[TESS_CKPT_PATH], suffix[32] = ".aside";
    TESS_TRY(tess_store_path(dir, name, path));
    TESS_TRY(tess_ckpt_folder(dir, name->step, suffix, aside));
    for (int i = 2; tess_os_is_dir(aside); i++) {
        snprintf(suffix, sizeof(suffix), ".aside-%d", i);
        TESS_TRY(tess_ckpt_folder(dir, name->step, suffix, aside));
    }
    return tess_os_rename(path, aside);
}

tess_status tess_ckpt_set_aside(const char *dir, int64_t step, int *n)
{
    tess_store_names names;
    *n = 0;
    TESS_TRY(tess_store_list(NULL, dir, &names));
    tess_status status = TESS_OK;
    for (size_t i = names.n; i-- > 0 && status == TESS_OK;) { /* a step's retired checkpoint goes first */
        if (names.items[i].step <= step || names.items[i].kind == TESS_STORE_TEMPORARY)
            continue;
        status = set_aside(dir, &names.items[i]);
        *n += status == TESS_OK;
    }
    free(names.items);
    TESS_TRY(status);
    return *n > 0 ? tess_os_fsync_dir(dir) : TESS_OK;
}
