#include "ckpt/tools/edit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/store/store_write.h"

#define BACKUP ".backup"

typedef struct edit {
    const tess_io *io;
    char dir[TESS_CKPT_PATH], folder[TESS_CKPT_PATH], temporary[TESS_CKPT_PATH];
    int64_t step;
    json_t *manifest;
    json_t *meta; /* a copy of the metadata, which is changed */
} edit;

/* Splits ".../step-00000012" into the folder above it and the step. */
static tess_status split_path(const char *path, edit *e)
{
    TESS_TRY(tess_ckpt_split_path(path, e->dir, &e->step));
    TESS_CHECK(e->step >= 0, TESS_E_UNSUPPORTED,
               "%s: only a Tessera checkpoint can be edited: name its folder step-*, or make one with `tessera convert "
               "--to tessera`",
               path);
    TESS_TRY(tess_ckpt_folder(e->dir, e->step, "", e->folder));
    TESS_CHECK(tess_os_same_file(e->folder, path), TESS_E_NOT_FOUND, "%s: no such checkpoint", path);
    return TESS_OK;
}

static tess_status change_meta(edit *e, char *const *assignments, int n, bool may_add)
{
    const json_t *meta = json_object_get(e->manifest, "meta");
    e->meta = meta != NULL ? json_deep_copy(meta) : json_object();
    TESS_CHECK(e->meta != NULL, TESS_E_NOMEM, "%s: no memory for its metadata", e->folder);
    for (int i = 0; i < n; i++)
        TESS_TRY(tess_meta_set(e->meta, assignments[i], may_add));
    const json_t *step = json_object_get(e->meta, "step");
    TESS_CHECK(step == NULL || json_integer_value(step) == e->step, TESS_E_INVALID,
               "%s: step: its weights are those of step %lld, whatever the description says", e->folder,
               (long long)e->step);
    return TESS_OK;
}

/* ---- The new folder */
static tess_status link_as(const edit *e, const char *name, const char *new_name)
{
    char from[TESS_CKPT_PATH], to[TESS_CKPT_PATH];
    TESS_TRY(tess_os_join(from, sizeof(from), e->folder, name));
    TESS_TRY(tess_os_join(to, sizeof(to), e->temporary, new_name));
    return tess_os_is_file(from) ? tess_os_link(from, to) : TESS_OK;
}

static tess_status link_unchanged(void *context, const char *name)
{
    bool changed = strcmp(name, TESS_STORE_MANIFEST) == 0 || strcmp(name, TESS_STORE_MARKER) == 0;
    return changed ? TESS_OK : link_as(context, name, name);
}

static tess_status write_new(edit *e)
{
    int64_t world_size = 0;
    char backup[TESS_CKPT_PATH];
    TESS_TRY(tess_json_get_int(e->manifest, "world_size", e->folder, &world_size));
    const tess_store_facts facts = {.meta = e->meta, .world_size = (int)world_size};
    TESS_TRY(tess_os_list(e->folder, link_unchanged, e));
    TESS_TRY(tess_os_join(backup, sizeof(backup), e->folder, TESS_STORE_MANIFEST BACKUP));
    if (!tess_os_is_file(backup)) { /* the backup of an earlier edit is what the save wrote */
        TESS_TRY(link_as(e, TESS_STORE_MANIFEST, TESS_STORE_MANIFEST BACKUP));
        TESS_TRY(link_as(e, TESS_STORE_MARKER, TESS_STORE_MARKER BACKUP));
    }
    return tess_store_commit(e->io, e->dir, e->step, &e->manifest, 1, &facts);
}

static tess_status replace(edit *e)
{
    TESS_CHECK(json_object_get(e->manifest, "host") == NULL, TESS_E_UNSUPPORTED,
               "%s is one host's part of a checkpoint: parts that say different things would not be one", e->folder);
    TESS_TRY(tess_store_begin(e->io, e->dir, e->step, e->temporary));
    tess_status status = write_new(e);
    return status == TESS_OK ? TESS_OK : tess_store_abandon(e->io, e->dir, e->step, status);
}

tess_status tess_ckpt_edit(const tess_io *io, const char *folder, char *const *assignments, int n, bool may_add,
                           json_t **before, json_t **after)
{
    edit e = {.io = io, .step = -1};
    TESS_TRY(split_path(folder, &e));
    TESS_TRY(tess_store_open_manifest(e.folder, e.step, &e.manifest));
    tess_status status = change_meta(&e, assignments, n, may_add);
    if (status == TESS_OK)
        status = replace(&e);
    if (status == TESS_OK && before != NULL)
        *before = json_incref(json_object_get(e.manifest, "meta"));
    if (status == TESS_OK && after != NULL)
        *after = json_incref(e.meta);
    json_decref(e.meta);
    json_decref(e.manifest);
    return status;
}
