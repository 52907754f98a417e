/* Finds the newest checkpoint by looking at the content of the folder; no file names it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/store/store_impl.h"

/* Fails because the state of a checkpoint is unknown. A failure of the machine (too many open files, no rights, a
 * failing disk) says nothing about the checkpoint. Using an older one would silently lose the newest one's work. */
static tess_status fail_unknown(tess_status status, int64_t step)
{
    char message[1024];
    snprintf(message, sizeof(message), "%s", tess_error_message());
    return TESS_FAIL(status,
                     "%s; it is unknown whether step %" PRId64
                     " is whole, and no older one is used in its place: fix the cause (open files: ulimit -n; rights; "
                     "the disk) and start again, or move its folder away",
                     message, step);
}

/* Finds the newest complete checkpoint of the list. TESS_E_NOT_FOUND is returned without a message. */
static tess_status find_newest(const tess_store_names *names, int64_t limit, const tess_ckpt_listener *listener,
                               int64_t *step)
{
    const tess_io *io = listener != NULL ? listener->io : NULL;
    for (size_t i = 0; i < names->n; i++) {
        if (names->items[i].step > limit || !tess_store_counts(names, i))
            continue;
        char folder[TESS_CKPT_PATH];
        json_t *manifest = NULL;
        *step = names->items[i].step;
        tess_status status = tess_ckpt_find(io, names->dir, *step, folder);
        if (status == TESS_OK)
            status = tess_store_look(io, folder, *step, &manifest);
        json_decref(manifest);
        if (status == TESS_OK || status == TESS_E_UNSUPPORTED) /* the work of another version must not be skipped */
            return status;
        if (status != TESS_E_FORMAT && status != TESS_E_NOT_FOUND)
            return fail_unknown(status, *step);
        if (listener != NULL && listener->note != NULL)
            listener->note(listener->self, tess_error_message());
    }
    return TESS_E_NOT_FOUND;
}

tess_status tess_ckpt_latest_until(const char *dir, int64_t limit, const tess_ckpt_listener *listener, int64_t *step)
{
    tess_store_names names;
    TESS_TRY(tess_store_list(listener != NULL ? listener->io : NULL, dir, &names));
    tess_status status = find_newest(&names, limit, listener, step);
    free(names.items);
    return status == TESS_E_NOT_FOUND ? TESS_FAIL(status, "%s: no complete checkpoint there", dir) : status;
}

tess_status tess_ckpt_latest(const char *dir, const tess_ckpt_listener *listener, int64_t *step)
{
    return tess_ckpt_latest_until(dir, INT64_MAX, listener, step);
}
