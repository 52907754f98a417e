/* Removes what killed saves left, before the next save and when older checkpoints are pruned.
 *
 * The names in the folder are synced before anything is removed. Otherwise a power cut could give a checkpoint's name
 * back to a folder that has been emptied since. */
#include <stdlib.h>

#include "ckpt/store/store_impl.h"

static tess_status give_back(const tess_io *io, const char *dir, int64_t step)
{
    char path[TESS_CKPT_PATH], final[TESS_CKPT_PATH];
    TESS_TRY(tess_ckpt_folder(dir, step, TESS_CKPT_RETIRED, path));
    TESS_TRY(tess_ckpt_folder(dir, step, "", final));
    return tess_io_rename(io, TESS_SAVE_RENAME, path, final);
}

/* Gives a retired one that counts its name back. The list then has only those of the step that do not count. */
static tess_status keep_leftovers(const tess_io *io, tess_store_names *names, int64_t step)
{
    size_t n = 0;
    for (size_t i = 0; i < names->n; i++) {
        const tess_store_name name = names->items[i];
        bool counts = tess_store_counts(names, i), here = step == TESS_STORE_ANY_STEP || step == name.step;
        if (here && counts && name.kind == TESS_STORE_RETIRED)
            TESS_TRY(give_back(io, names->dir, name.step));
        if (here && !counts)
            names->items[n++] = name;
    }
    names->n = n;
    return TESS_OK;
}

static tess_status sweep(const tess_io *io, tess_store_names *names, int64_t step, tess_save_point remove)
{
    char path[TESS_CKPT_PATH];
    TESS_TRY(keep_leftovers(io, names, step));
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
