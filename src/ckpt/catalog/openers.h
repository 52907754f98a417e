/* What opens a catalog of each format. `path` is what the user named. */
#ifndef TESS_CKPT_CATALOG_OPENERS_H
#define TESS_CKPT_CATALOG_OPENERS_H

#include "ckpt/catalog/catalog.h"

/* A .safetensors file, or a Hugging Face folder. */
tess_status tess_catalog_open_safetensors(tess_mem *mem, const char *path, tess_catalog **catalog);

#endif
