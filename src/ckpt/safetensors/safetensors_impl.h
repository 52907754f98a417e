/* Shared by the files of this folder: the format's dtypes, name tables, the parsed header. */
#ifndef TESS_CKPT_SAFETENSORS_IMPL_H
#define TESS_CKPT_SAFETENSORS_IMPL_H

#include "base/os/os.h"
#include "ckpt/safetensors/safetensors.h"

enum { TESS_ST_MAX_HEADER = 100000000, TESS_ST_MAX_DIMS = 8 };

/* ---- dtype.c: the reference's enum, in its ascending order ("number" below) ---- */
int tess_st_dtype_number(const char *text, size_t size); /* -1: no such dtype */
const char *tess_st_dtype_text(int number);
int tess_st_dtype_bits(int number);
int tess_st_dtype_from(tess_dtype dtype);

/* ---- names.c: a table of names, sorted by (hash, name): no input can make it slower than n log n ---- */
typedef struct tess_st_key {
    uint64_t hash;
    const char *name;
    int value;
} tess_st_key;

void tess_st_key_set(tess_st_key *key, const char *name, int value);
void tess_st_keys_sort(tess_st_key *keys, size_t n);
const char *tess_st_keys_duplicate(const tess_st_key *keys, size_t n); /* of sorted keys; NULL: all differ */
const tess_st_key *tess_st_keys_find(const tess_st_key *keys, size_t n, const char *name);

/* ---- header.c ---- */
/* One tensor as the header states it, not yet believed. */
typedef struct tess_st_raw {
    size_t name; /* where it begins in `text` */
    int dtype;
    int n_dims;
    uint64_t dim[TESS_ST_MAX_DIMS];
    uint64_t begin, end;
} tess_st_raw;

typedef struct tess_st_pair {
    size_t key, value; /* where they begin in `text` */
} tess_st_pair;

typedef struct tess_st_header {
    tess_mem *mem;
    char *text; /* decoded strings, each with its NUL */
    size_t text_size;
    tess_st_raw *raws;
    size_t n_raws, raws_capacity;
    tess_st_pair *pairs; /* __metadata__ */
    size_t n_pairs, pairs_capacity;
} tess_st_header;

/* Parses the JSON of a header. On failure as on success: free with tess_st_header_free. */
tess_status tess_st_header_parse(tess_mem *mem, const char *path, const uint8_t *json, size_t size,
                                 tess_st_header *header);
void tess_st_header_free(tess_st_header *header);

/* ---- reader.c ---- */
struct tess_st_reader {
    tess_mem *mem;
    char *path;
    tess_mapping mapping; /* of a reader made by tess_st_open_file */
    tess_st_header header;
    tess_st_tensor *tensors;
    int n_tensors;
    tess_st_key *keys, *metadata_keys;
    tess_st_reader **shards; /* of a sharded model: `tensors` then points into them */
    int n_shards;
};

tess_status tess_st_reader_create(tess_mem *mem, const char *path, tess_st_reader **reader);
/* Fills `keys` from `tensors`; TESS_E_FORMAT when a name comes twice. */
tess_status tess_st_reader_index(tess_st_reader *reader);

#endif
