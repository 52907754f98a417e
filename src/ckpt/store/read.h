/* Checkpoints as catalogs (ckpt/catalog): everything that reads one goes through here. */
#ifndef TESS_CKPT_STORE_READ_H
#define TESS_CKPT_STORE_READ_H

#include "ckpt/catalog/catalog.h"

/* A manifest that lies in `folder`, as a catalog; its format and its files' sizes have been looked at. Of everything
 * else nothing is believed: TESS_E_FORMAT names the tensor and what is wrong. catalog->meta gets the members of the
 * manifest that are not about tensors or files. `manifest` is borrowed. */
tess_status tess_store_catalog(tess_mem *mem, const char *folder, const json_t *manifest, tess_catalog **catalog);

#endif
