/* The safetensors format: a file's header, its dtypes, and writing. ckpt/catalog reads the tensors. Format and limits
 * are those of huggingface/safetensors README and tensor.rs. Files are not trusted. */
#ifndef TESS_CKPT_SAFETENSORS_SAFETENSORS_H
#define TESS_CKPT_SAFETENSORS_SAFETENSORS_H

#include <jansson.h>

#include "tessera/comm.h"

typedef struct tess_st_tensor {
    const char *name;
    char dtype_text[16]; /* "BF16", "F8_E4M3", ... */
    int n_dims;
    int64_t dim[8];
    uint64_t offset, bytes; /* position and size of the values in the file: little-endian, row-major */
} tess_st_tensor;

/* The parsed header of a file. */
typedef struct tess_st_header {
    tess_mem *mem;
    json_t *json;            /* owns all texts */
    tess_st_tensor *tensors; /* sorted by offset */
    int n_tensors;
} tess_st_header;

/* Parses the header of a file whose bytes are `data`, and checks every rule of the reference reader. `path` is for
 * messages. TESS_E_FORMAT: the message names the tensor and the rule that it breaks. */
tess_status tess_st_header_parse(tess_mem *mem, const char *path, const uint8_t *data, size_t size,
                                 tess_st_header *header);
void tess_st_header_free(tess_st_header *header);

#define TESS_ST_SUFFIX ".safetensors"

/* The key of __metadata__ under which a converted checkpoint stores what it holds in addition to tensors: an object as
 * JSON text. */
#define TESS_ST_DESCRIPTION "tessera"

/* Returns the value of a key of __metadata__; NULL: there is no such key. */
const char *tess_st_metadata(const tess_st_header *header, const char *key);

/* Returns the bytes per element of a dtype given as text ("BF16"); 0: no such dtype, or not a whole number of bytes. */
int tess_st_dtype_bytes(const char *dtype);
/* Returns the text of a dtype; NULL: no such dtype. */
const char *tess_st_dtype_of(tess_dtype dtype);
/* Returns the dtype with that text; TESS_DTYPE_COUNT: there is none. */
tess_dtype tess_st_dtype_parse(const char *text);
/* Whether tess_st_decode supports the dtype: F32, BF16, F16 or F64. */
bool tess_st_dtype_is_float(const char *dtype);
/* Converts n values of such a dtype, at any alignment, to float32. */
void tess_st_decode(const char *dtype, const void *src, int64_t n, float *dst);

/* Converts n float32 values to F32, BF16 or F16. Rounds to nearest even; NaN stays NaN. */
tess_status tess_st_encode(const float *src, int64_t n, tess_dtype dtype, void *dst);

/* ---- Writing ----
 * - A folder gets `<stem>.safetensors`, or shards `<stem>-%05d-of-%05d.safetensors` and
 *   `<stem>.safetensors.index.json`. A model's stem is "model".
 * - Tensors go to shards in the given order, up to shard_bytes each. Inside a file the order is the reference writer's:
 *   dtype descending, then name. The header says {"format":"pt"} and is padded with spaces to 8.
 * - Files have temporary names until all are synced. Then they are renamed, and weights of the same stem from an
 *   earlier save with other shards are removed, so that a reader never sees a mixture.
 * - A failure (TESS_E_NO_SPACE when the disk is full) leaves no files, and an old model as it was. */
typedef struct tess_st_entry {
    const char *name;
    tess_dtype dtype;
    tess_shape shape;
} tess_st_entry;

/* Describes an entry as a tess_st_tensor. */
tess_status tess_st_describe(const tess_st_entry *entry, tess_st_tensor *tensor);

/* The position of one tensor in a folder's files. Positions depend only on the tensors, so all ranks compute the same
 * plan without communicating. */
typedef struct tess_st_place {
    int file;
    size_t offset; /* offset of the tensor's first byte in the file */
    size_t bytes, rows, row_bytes;
} tess_st_place;

typedef struct tess_st_file {
    char name[96];
    int first, n_entries; /* range of entries in tess_st_plan.order */
    size_t bytes;
} tess_st_file;

typedef struct tess_st_plan {
    int n_entries, n_files;
    tess_st_place *places;   /* (n_entries) */
    int *order;              /* (n_entries) indices of the entries, sorted by file, then by offset */
    tess_st_file *files;     /* (n_files) the files; there is at least one, even without tensors */
    char index[96];          /* name of the file that lists the shards, if there are several */
    uint64_t bytes;          /* bytes of all tensors, which the index states as total_size */
    const char *description; /* text for the header of the first file, borrowed while the writer begins; NULL: none */
} tess_st_plan;

/* Lets many ranks write one folder, with the same bytes that a single process would write. No rank holds more than it
 * writes. Each element of each tensor must be written by exactly one rank. `team` NULL: this process alone. */
typedef struct tess_st_writer tess_st_writer;

/* Begins a save. Collective; all ranks pass the same arguments. The first rank creates the files at full size.
 *   folder, stem  borrowed until the finish
 *   tensors       (n_tensors) with name, dtype_text, n_dims and dim; borrowed until the finish
 *   shard_bytes   size limit of a file; 0: 5 GB
 *   description   UTF-8, the value of TESS_ST_DESCRIPTION; NULL: none
 * TESS_E_INVALID: a name is a duplicate, empty, not UTF-8 or "__metadata__", a dtype is unknown, or a header exceeds
 * the format's limit. TESS_E_MISMATCH: ranks pass different tensors. TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_st_write_begin(tess_mem *mem, tess_team *team, const char *folder, const char *stem,
                                const tess_st_tensor *tensors, int n_tensors, size_t shard_bytes,
                                const char *description, tess_st_writer **writer);

const tess_st_plan *tess_st_writer_plan(const tess_st_writer *writer);
/* Writes bytes [begin, +bytes) of a tensor in its dtype. Not collective. Cheapest in the order of the plan's files. */
tess_status tess_st_write_bytes(tess_st_writer *writer, int tensor, size_t begin, size_t bytes, const void *data);
/* Writes elements [first, +count) of a box of a tensor; other calls must write the other elements. Not collective. The
 * box of a scalar is that of shape [1]. */
tess_status tess_st_write_box(tess_st_writer *writer, int tensor, const tess_box *box, int64_t first, int64_t count,
                              const void *data);
/* Ends a save. Collective, also after a failure; `status` is this rank's outcome. If all ranks succeeded, the files
 * become visible. Otherwise they are removed, and every rank returns the worst status with the message of the rank that
 * had it. */
tess_status tess_st_write_finish(tess_st_writer **writer, tess_status status);

#endif
