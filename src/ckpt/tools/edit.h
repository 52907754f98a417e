/* What a Tessera checkpoint says beside its tensors, changed by hand. */
#ifndef TESS_CKPT_TOOLS_EDIT_H
#define TESS_CKPT_TOOLS_EDIT_H

#include <jansson.h>

#include "ckpt/store/io.h"

/* "key.of.nested=value", or "meta.key.of.nested=value", into an object: the value is JSON where it reads as such, else
 * a text. TESS_E_INVALID: no '=', the key is not there (unless `may_add`; the message has the nearest one), what is
 * above it is no object, or the value is of another JSON type than the old one (null may become anything). */
tess_status tess_meta_set(json_t *meta, const char *assignment, bool may_add);

/* Applies all of them to the meta object of the checkpoint `folder` (".../step-00000012"), or none. The checkpoint is
 * replaced in one step by one with a new manifest and marker and the same data files (hard links); the manifest and
 * marker of its save stay in it as manifest.json.backup and commit.json.backup. *before and *after (may be NULL) become
 * new references. `io` NULL: nothing is asked. TESS_E_UNSUPPORTED: it is no Tessera checkpoint, or one host's part of
 * one. For one process, while no save of that step is under way. */
tess_status tess_ckpt_edit(const tess_io *io, const char *folder, char *const *assignments, int n, bool may_add,
                           json_t **before, json_t **after);

#endif
