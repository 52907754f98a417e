/* Declarations shared by the files that implement tessera/ckpt.h. */
#ifndef TESS_EMBED_EMBED_IMPL_H
#define TESS_EMBED_EMBED_IMPL_H

#include <jansson.h>

#include "embed/embed_tensors.h"

/* Parses `text` as a JSON object into *meta, a new reference. If `text` is NULL, sets *meta to NULL. Collective. */
tess_status embed_meta_parse(tess_runtime *runtime, const char *text, json_t **meta);

#endif
