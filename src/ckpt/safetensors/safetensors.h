/* safetensors files: reading by name and rows (mmap, nothing copied that is not asked for), streaming writes.
 * Format and limits: huggingface/safetensors README and tensor.rs. Readers treat the file as hostile. */
#ifndef TESS_CKPT_SAFETENSORS_H
#define TESS_CKPT_SAFETENSORS_H

#include "tessera/memory.h"

/* One tensor of a file or a sharded model. Tensors of dtypes we do not compute with are listed (dtype_text) but cannot
 * be read as floats. */
typedef struct tess_st_tensor {
    const char *name;
    char dtype_text[16]; /* "BF16", "F8_E4M3", ... */
    int n_dims;
    int64_t dim[8];
    const uint8_t *data; /* little-endian, row-major, mapped */
    size_t bytes;
    const char *file; /* path */
} tess_st_tensor;

typedef struct tess_st_reader tess_st_reader;

/* Parses a header that is already in memory (the fuzz target's entry): checks every rule of the reference reader and
 * names the tensor and the rule that broke. `path` is for messages. On success the reader borrows `data`. */
tess_status tess_st_open_memory(tess_mem *mem, const char *path, const uint8_t *data, size_t size,
                                tess_st_reader **reader);
/* A single file. */
tess_status tess_st_open_file(tess_mem *mem, const char *path, tess_st_reader **reader);
/* A model folder: model.safetensors, or model.safetensors.index.json with its shards (each must hold what the index
 * says). */
tess_status tess_st_open_model(tess_mem *mem, const char *folder, tess_st_reader **reader);
void tess_st_close(tess_st_reader **reader);

int tess_st_count(const tess_st_reader *reader);
const tess_st_tensor *tess_st_tensor_at(const tess_st_reader *reader, int index); /* in file order */
const tess_st_tensor *tess_st_find(const tess_st_reader *reader, const char *name);
/* Value of a key of __metadata__ of the first file, or NULL. */
const char *tess_st_metadata(const tess_st_reader *reader, const char *key);

/* Rows [row_begin, +n_rows) of dim 0 as float32 (F32, BF16, F16, F64 sources). TESS_E_UNSUPPORTED otherwise. */
tess_status tess_st_read_rows(const tess_st_tensor *tensor, int64_t row_begin, int64_t n_rows, float *dst);

/* ---- Writing
 * ---------------------------------------------------------------------------------------------------------- */
typedef struct tess_st_entry {
    const char *name;
    tess_dtype dtype; /* F32, BF16, F16 */
    tess_shape shape;
} tess_st_entry;

/* Called for each tensor's rows in turn, in file order: fill dst (in the entry's dtype). */
typedef tess_status (*tess_st_source_fn)(void *context, int entry, int64_t row_begin, int64_t n_rows, void *dst);

/* Streams a model folder: model.safetensors, or shards of at most shard_bytes with their index (0: 5 GB), each written
 * to a temporary name, synced, renamed; never more than a few MB in memory. Order as the reference writer (dtype, then
 * name). */
tess_status tess_st_write_model(tess_mem *mem, const char *folder, const tess_st_entry *entries, int n_entries,
                                size_t shard_bytes, tess_st_source_fn source, void *context);

#endif
