/* PyTorch's distributed checkpoints (DCP), read and written. Megatron's have the same format, with one folder per
 * iteration. */
#ifndef TESS_CKPT_FORMATS_DCP_IMPL_H
#define TESS_CKPT_FORMATS_DCP_IMPL_H

#include "base/mem/scoped.h"
#include "base/pickle/pickle.h"
#include "ckpt/formats/export_impl.h"

#define DCP_METADATA ".metadata"
#define DCP_MODULE "torch.distributed.checkpoint.metadata."

/* ---- dcp_metadata.c: parses .metadata ---- */
/* A key of a dict, and its value. */
typedef struct dcp_key {
    const char *name;
    const tess_pickle_value *value;
} dcp_key;

typedef struct dcp_keys {
    dcp_key *keys; /* sorted by name */
    size_t n;
} dcp_keys;

/* A part of a tensor, or an object. It is stored as a zip archive at [offset, +length) of a file. */
typedef struct dcp_item {
    const char *name, *file; /* file: relative to the folder */
    uint64_t offset, length;
    int n_begin; /* the tensor's number of dimensions, or 0 for an object */
    int64_t begin[TESS_CATALOG_DIMS];
} dcp_item;

typedef struct dcp_metadata {
    tess_mem *mem;
    tess_pickle *pickle;
    /* tensors: TensorStorageMetadata and BytesStorageMetadata by name; paths: the tuples of nested keys by name */
    dcp_keys tensors, paths;
    dcp_item *items; /* sorted by file, then by offset */
    size_t n_items;
} dcp_metadata;

/* Reads .metadata from memory; `path` is for messages. */
tess_status dcp_metadata_parse(tess_mem *mem, const char *path, const void *data, size_t size, dcp_metadata *metadata);
void dcp_metadata_free(dcp_metadata *metadata);
const tess_pickle_value *dcp_find(const dcp_keys *keys, const char *name); /* NULL: none */

/* Reads a TensorStorageMetadata. TESS_E_UNSUPPORTED: a dtype that this program does not read. */
tess_status dcp_read_tensor(const tess_pickle_value *value, const char **dtype, int *n_dims, int64_t *dim);
bool dcp_is_tensor(const tess_pickle_value *value);

/* ---- dcp_plan.c: decides which part of which tensor is written to which file ---- */
typedef struct dcp_place {
    int file;
    uint64_t offset, length;
} dcp_place;

typedef struct dcp_chunk {
    int tensor; /* index of the tensor in the export */
    tess_box box;
    dcp_place place;
} dcp_chunk;

typedef struct dcp_object {
    char *name;
    json_t *path;  /* nested keys */
    json_t *value; /* borrowed */
    dcp_place place;
} dcp_object;

typedef struct dcp_plan {
    tess_scope own;
    const tess_export *out;
    dcp_chunk *chunks;   /* sorted by tensor */
    dcp_chunk **by_file; /* (n_chunks) pointers to the chunks, sorted by file */
    size_t n_chunks, chunk_room;
    dcp_object *objects; /* all are in the first file */
    size_t n_objects, object_room;
    int n_files; /* some files may have no items */
} dcp_plan;

/* Makes a plan. Call dcp_plan_free after success and after failure. */
tess_status dcp_plan_make(const tess_export *out, int n_files, dcp_plan *plan);
void dcp_plan_free(dcp_plan *plan);
/* Returns the nested keys of a tensor's name: ("optimizer", "state.w.exp_avg"), as a new reference. */
json_t *dcp_plan_path(const tess_export *out, const char *name);
void dcp_file_name(int file, char *name, size_t size);

/* ---- dcp_put.c: formats .metadata, once all places are known ---- */
tess_status dcp_put_metadata(const dcp_plan *plan, tess_buffer *pickle);

/* ---- megatron.c */
#define MEGATRON_POINTER "latest_checkpointed_iteration.txt"
#define MEGATRON_FOLDER "iter_%07lld"

/* If `path` is Megatron's folder, returns the folder of the newest iteration and its number. Otherwise returns `path`
 * itself and -1. TESS_E_UNSUPPORTED: the iteration was not saved as a distributed checkpoint. */
tess_status megatron_resolve(tess_mem *mem, const char *path, char *folder, size_t size, int64_t *iteration);

/* Adds the iteration to meta, and the content of common.pt if there is one. */
tess_status megatron_read_common(tess_catalog *catalog, const char *folder, int64_t iteration);

#endif
