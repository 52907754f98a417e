/* Edits the metadata of a Tessera checkpoint. */
#ifndef TESS_CKPT_TOOLS_EDIT_H
#define TESS_CKPT_TOOLS_EDIT_H

#include <jansson.h>

#include "ckpt/store/io.h"

/* Sets "key.of.nested=value" or "meta.key.of.nested=value" in an object. The value is parsed as JSON; if that fails, it
 * is a string.
 * TESS_E_INVALID:
 * - there is no '='
 * - there is no such key and not `may_add` (the message names the nearest one)
 * - a parent is not an object
 * - the new value has another JSON type than the old one, which is not null */
tess_status tess_meta_set(json_t *meta, const char *assignment, bool may_add);

/* Applies all assignments, or none, to the metadata of the checkpoint `folder` (".../step-00000012"). Replaces the
 * checkpoint in one step by one with a new manifest and marker, and hard links to the same data files. The original
 * manifest and marker stay as manifest.json.backup and commit.json.backup. *before and *after (may be NULL) become new
 * references. `io` NULL: no hooks. Only one process may call it, while no save of that step is running.
 * TESS_E_UNSUPPORTED: it is not a Tessera checkpoint, or only one host's part. */
tess_status tess_ckpt_edit(const tess_io *io, const char *folder, char *const *assignments, int n, bool may_add,
                           json_t **before, json_t **after);

#endif
