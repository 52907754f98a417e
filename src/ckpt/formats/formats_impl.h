/* What the openers of this folder share. */
#ifndef TESS_CKPT_FORMATS_FORMATS_IMPL_H
#define TESS_CKPT_FORMATS_FORMATS_IMPL_H

#include "ckpt/formats/formats.h"

/* Ends an opener: finishes the catalog; after a failure (`status`, or of that) destroys and nulls it. */
tess_status formats_finish(tess_catalog **catalog, tess_status status);
/* The object of meta that a prefix such as "optimizer." names, made when it is not there; "": meta itself. Borrowed. */
json_t *formats_meta_folder(json_t *meta, const char *prefix);

#endif
