/* Gives a checkpoint its name. From that moment on it exists. */
#include <stdio.h>

#include "ckpt/store/store_impl.h"

typedef struct show_place {
    const tess_io *io;
    const char *dir;
    char temporary[TESS_CKPT_PATH], final[TESS_CKPT_PATH], retired[TESS_CKPT_PATH];
    bool replaces; /* an older checkpoint of the same step is replaced */
    /* true: the names were exchanged in one call, and the older one has the temporary name; false: the older one is
     * retired */
    bool exchanged;
} show_place;

static tess_status find_place(const tess_io *io, const char *dir, int64_t step, show_place *p)
{
    tess_os_entry entry;
    *p = (show_place){.io = io, .dir = dir};
    TESS_TRY(tess_ckpt_folder(dir, step, TESS_CKPT_TEMPORARY, p->temporary));
    TESS_TRY(tess_ckpt_folder(dir, step, TESS_CKPT_RETIRED, p->retired));
    TESS_TRY(tess_ckpt_folder(dir, step, "", p->final));
    TESS_TRY(tess_io_look_up(io, p->final, &entry));
    p->replaces = entry.kind == TESS_OS_FOLDER;
    return TESS_OK;
}

/* Gives the name back to the older checkpoint, which is still on the disk. If this fails, a reader finds one of the
 * two. */
static bool step_back(const show_place *p)
{
    if (p->exchanged)
        return tess_io_exchange(p->io, p->temporary, p->final) == TESS_OK;
    return tess_io_rename(p->io, TESS_SAVE_SET_ASIDE, p->final, p->temporary) == TESS_OK &&
           tess_io_rename(p->io, TESS_SAVE_RENAME, p->retired, p->final) == TESS_OK;
}

static tess_status give_name(show_place *p)
{
    if (!p->replaces)
        return tess_io_rename(p->io, TESS_SAVE_RENAME, p->temporary, p->final);
    tess_status status = tess_io_exchange(p->io, p->temporary, p->final);
    p->exchanged = status == TESS_OK;
    if (status != TESS_E_UNSUPPORTED)
        return status;
    tess_error_clear();
    /* The file system cannot exchange names (NFS, ...). Between the two renames, a reader finds the older checkpoint
     * under its retired name. */
    TESS_TRY(tess_io_rename(p->io, TESS_SAVE_SET_ASIDE, p->final, p->retired));
    return tess_io_rename(p->io, TESS_SAVE_RENAME, p->temporary, p->final);
}

/* Syncs the names, also in the folder above: the folder of all checkpoints may be new. */
static tess_status sync_names(const show_place *p)
{
    char above[TESS_CKPT_PATH];
    TESS_TRY(tess_io_sync_folder(p->io, TESS_SAVE_SYNC_PARENT, p->dir));
    TESS_TRY(tess_os_join(above, sizeof(above), p->dir, ".."));
    return tess_io_sync_folder(p->io, TESS_SAVE_SYNC_PARENT, above);
}

/* Fails with `status`. The message begins with what the final name now refers to. */
static tess_status explain(const show_place *p, tess_status status)
{
    char message[2048];
    snprintf(message, sizeof(message), "%s", tess_error_message());
    bool as_it_was = p->replaces && step_back(p);
    return TESS_FAIL(status, "%s %s: %s", p->final,
                     as_it_was ? "is as it was" : "is complete, but may not outlive a power cut", message);
}

tess_status tess_store_show(const tess_io *io, const char *dir, int64_t step)
{
    show_place p;
    TESS_TRY(find_place(io, dir, step, &p));
    TESS_TRY(give_name(&p));
    tess_status status = sync_names(&p);
    if (status != TESS_OK)
        return explain(&p, status);
    /* If the older checkpoint cannot be removed now, the next prune removes it. */
    if (p.replaces && tess_io_remove_tree(io, TESS_SAVE_REMOVE, p.exchanged ? p.temporary : p.retired) != TESS_OK)
        tess_error_clear();
    return TESS_OK;
}

tess_status tess_store_abandon(const tess_io *io, const char *dir, int64_t step, tess_status status)
{
    char message[2048];
    snprintf(message, sizeof(message), "%s", tess_error_message());
    if (tess_store_sweep(io, dir, step, TESS_SAVE_REMOVE) == TESS_OK)
        return status;
    return TESS_FAIL(status, "%s", message);
}
