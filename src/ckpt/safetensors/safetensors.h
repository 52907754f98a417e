/* The safetensors format: the header of a file, its dtypes, and writing. Tensors are read by ckpt/catalog.
 * Format and limits: huggingface/safetensors README and tensor.rs. Files are hostile. */
#ifndef TESS_CKPT_SAFETENSORS_SAFETENSORS_H
#define TESS_CKPT_SAFETENSORS_SAFETENSORS_H

#include <jansson.h>

#include "tessera/comm.h"

typedef struct tess_st_tensor {
    const char *name;
    char dtype_text[16]; /* "BF16", "F8_E4M3", ... */
    int n_dims;
    int64_t dim[8];
    uint64_t offset, bytes; /* where its values lie in a file that was read: little-endian, row-major */
} tess_st_tensor;

/* What a file says of itself. */
typedef struct tess_st_header {
    tess_mem *mem;
    json_t *json;            /* owns all texts */
    tess_st_tensor *tensors; /* by offset */
    int n_tensors;
} tess_st_header;

/* Of the file whose bytes are `data`, of which the header alone is looked at: every rule of the reference reader is
 * checked; TESS_E_FORMAT names the tensor and the rule that broke. `path` is for messages. */
tess_status tess_st_header_parse(tess_mem *mem, const char *path, const uint8_t *data, size_t size,
                                 tess_st_header *header);
void tess_st_header_free(tess_st_header *header);

/* The key of __metadata__ under which a converted checkpoint says what no tensor says: an object as JSON text. */
#define TESS_ST_DESCRIPTION "tessera"

/* Value of a key of __metadata__, or NULL. */
const char *tess_st_metadata(const tess_st_header *header, const char *key);

/* Bytes of an element of a dtype by its text ("BF16"); 0: there is no such dtype, or it does not fill whole bytes. */
int tess_st_dtype_bytes(const char *dtype);
/* NULL: no such dtype. */
const char *tess_st_dtype_of(tess_dtype dtype);
/* Whether a dtype is one that is read as floats: F32, BF16, F16, F64. */
bool tess_st_dtype_is_float(const char *dtype);
/* n values of such a dtype, at any address, to float32. */
void tess_st_decode(const char *dtype, const void *src, int64_t n, float *dst);

/* n float32 values to F32, BF16 or F16 (round to nearest even, NaN stays NaN): what a source for the writers below
 * needs. */
tess_status tess_st_encode(const float *src, int64_t n, tess_dtype dtype, void *dst);

/* ---- Writing
 * ---------------------------------------------------------------------------------------------------------- A folder
 * gets `<stem>.safetensors`, or shards `<stem>-%05d-of-%05d.safetensors` and `<stem>.safetensors.index.json`; a model's
 * stem is "model". Tensors go to shards in the order given, filled up to shard_bytes; inside a file the order is the
 * reference writer's (dtype descending, then name), the header is padded with spaces to 8 and says {"format":"pt"}.
 * Files have temporary names until all is synced; then they are renamed, and weights of the same stem that an earlier,
 * different cut left in the folder are removed, so that a reader never sees a mixture. On failure (TESS_E_NO_SPACE when
 * full) nothing stays behind and an old model is as it was. */
typedef struct tess_st_entry {
    const char *name;
    tess_dtype dtype;
    tess_shape shape;
} tess_st_entry;

/* The tess_st_tensor that describes an entry. */
tess_status tess_st_describe(const tess_st_entry *entry, tess_st_tensor *tensor);

/* Where every byte of a folder goes: a pure function of the tensors, so all ranks compute the same without a word. */
typedef struct tess_st_place {
    int file;
    size_t offset; /* of the tensor's first byte in the file */
    size_t bytes, rows, row_bytes;
} tess_st_place;

typedef struct tess_st_file {
    char name[96];
    int first, n_entries; /* of tess_st_plan.order */
    size_t header_bytes;  /* with the 8 bytes of its length */
    size_t bytes;
} tess_st_file;

typedef struct tess_st_plan {
    int n_entries, n_files;
    tess_st_place *places; /* (n_entries) */
    int *order;            /* (n_entries) entries by file, then by offset */
    tess_st_file *files;   /* (n_files) at least one, even without tensors */
    uint64_t bytes;        /* of all tensors: the index's total_size */
    char *description;     /* in the first file's header, NULL: none */
} tess_st_plan;

/* `tensors` describe name, dtype_text, n_dims and dim. `description` (may be NULL): UTF-8, what
 * tess_st_metadata gives for TESS_ST_DESCRIPTION. TESS_E_INVALID: a name twice, empty, not UTF-8 or "__metadata__", an
 * unknown dtype, a header over the format's limit. */
tess_status tess_st_plan_create(tess_mem *mem, const char *stem, const tess_st_tensor *tensors, int n_tensors,
                                size_t shard_bytes, const char *description, tess_st_plan **plan);
void tess_st_plan_destroy(tess_mem *mem, tess_st_plan **plan);

/* Many ranks, one folder: the bytes are those that one process would write, and no rank holds more than the rows it
 * writes. Every row of every tensor must be written by exactly one rank. `team` NULL: alone. */
typedef struct tess_st_writer tess_st_writer;

/* Collective: same arguments everywhere (the descriptions are copied). The first rank creates the files at full size.
 * `description` as of a plan. */
tess_status tess_st_write_begin(tess_mem *mem, tess_team *team, const char *folder, const char *stem,
                                const tess_st_tensor *tensors, int n_tensors, size_t shard_bytes,
                                const char *description, tess_st_writer **writer);

const tess_st_plan *tess_st_writer_plan(const tess_st_writer *writer);
/* Not collective. Rows in the tensor's dtype; cheapest in the order of the plan's files. */
tess_status tess_st_write_rows(tess_st_writer *writer, int tensor, int64_t row_begin, int64_t n_rows, const void *rows);
/* Bytes [begin, +bytes) of a tensor, where a row would be too much. */
tess_status tess_st_write_bytes(tess_st_writer *writer, int tensor, size_t begin, size_t bytes, const void *data);
/* Collective, also after a failure: `status` says how this rank fared. When all fared well the files become visible;
 * otherwise they are removed, and every rank returns the worst status with the message of the rank that met it. */
tess_status tess_st_write_finish(tess_st_writer **writer, tess_status status);

#endif
