/* Megatron's folder: an iteration a folder, and a file that names the newest. */
#ifndef TESS_CKPT_FORMATS_MEGATRON_IMPL_H
#define TESS_CKPT_FORMATS_MEGATRON_IMPL_H

#include "ckpt/catalog/catalog.h"

#define MEGATRON_POINTER "latest_checkpointed_iteration.txt"
#define MEGATRON_FOLDER "iter_%07lld"

/* The folder of the newest iteration, and its number, when `path` is such a folder; else `path` itself and -1.
 * TESS_E_UNSUPPORTED: an iteration that was not saved as a distributed checkpoint. */
tess_status megatron_resolve(tess_mem *mem, const char *path, char *folder, size_t size, int64_t *iteration);

/* The iteration and what common.pt says beside the tensors, into meta. No such file is fine. */
tess_status megatron_read_common(tess_catalog *catalog, const char *folder, int64_t iteration);

#endif
