/* PyTorch's distributed checkpoint: what its .metadata says. */
#ifndef TESS_CKPT_FORMATS_DCP_IMPL_H
#define TESS_CKPT_FORMATS_DCP_IMPL_H

#include "base/pickle/pickle.h"
#include "ckpt/catalog/catalog.h"

#define DCP_METADATA ".metadata"
#define DCP_MODULE "torch.distributed.checkpoint.metadata."

/* A value of a dict, found by its key. */
typedef struct dcp_key {
    const char *name;
    const tess_pickle_value *value;
} dcp_key;

typedef struct dcp_keys {
    dcp_key *keys; /* by name */
    size_t n;
} dcp_keys;

/* One tensor's part, or one object: a zip archive at [offset, +length) of a file. */
typedef struct dcp_item {
    const char *name, *file; /* file: below the folder */
    uint64_t offset, length;
    int n_begin; /* 0 .. : as many as the tensor has dimensions */
    int64_t begin[TESS_CATALOG_DIMS];
} dcp_item;

typedef struct dcp_metadata {
    tess_mem *mem;
    tess_pickle *pickle;
    dcp_keys tensors, paths; /* TensorStorageMetadata and BytesStorageMetadata; tuples of nested keys */
    dcp_item *items;         /* by file, then by offset */
    size_t n_items;
} dcp_metadata;

/* Reads .metadata from memory; `path` is for messages. */
tess_status dcp_metadata_parse(tess_mem *mem, const char *path, const void *data, size_t size, dcp_metadata *metadata);
void dcp_metadata_free(dcp_metadata *metadata);
const tess_pickle_value *dcp_find(const dcp_keys *keys, const char *name); /* NULL: none */

/* What it says of a tensor; TESS_E_UNSUPPORTED: a dtype or layout that we do not read. */
tess_status dcp_read_tensor(const tess_pickle_value *value, const char **dtype, int *n_dims, int64_t *dim);
bool dcp_is_tensor(const tess_pickle_value *value);

#endif
