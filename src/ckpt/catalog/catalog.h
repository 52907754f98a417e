/* What a checkpoint holds, whatever its format: named tensors, each cut into pieces that lie in files. Openers of the
 * formats fill a catalog from headers alone; reading, verifying, comparing and converting are written once, over it.
 *
 * A piece is a box of its tensor. Pieces of a tensor do not overlap and together cover it, unless the checkpoint is
 * incomplete (tess_catalog_check says so). */
#ifndef TESS_CKPT_CATALOG_H
#define TESS_CKPT_CATALOG_H

#include <jansson.h>

#include "tessera/memory.h"

enum { TESS_CATALOG_DIMS = 8 };

typedef enum tess_codec { TESS_CODEC_NONE, TESS_CODEC_ZSTD, TESS_CODEC_DEFLATE } tess_codec;
typedef enum tess_sum_kind { TESS_SUM_KIND_NONE, TESS_SUM_KIND_XXH3, TESS_SUM_KIND_CRC32 } tess_sum_kind;

/* Element [begin, +size) in every dimension of the tensor. */
typedef struct tess_box {
    int64_t begin[TESS_CATALOG_DIMS], size[TESS_CATALOG_DIMS];
} tess_box;

typedef struct tess_piece {
    int file;                /* of the catalog's files */
    int rank;                /* that wrote it, -1: not known */
    uint64_t offset, stored; /* bytes in the file */
    uint64_t bytes;          /* unpacked */
    uint64_t sum;            /* of the stored bytes */
    tess_codec codec;
    tess_sum_kind sum_kind;
    tess_box box;
    bool strided;                      /* elements do not lie row by row: */
    int64_t stride[TESS_CATALOG_DIMS]; /* in elements, from the unpacked bytes' begin */
} tess_piece;

typedef struct tess_catalog_tensor {
    const char *name;
    char dtype[12]; /* as safetensors has it: "F32", "BF16", "I64", "BOOL", ... */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    int first_piece, n_pieces; /* of the catalog's pieces; valid once finished */
} tess_catalog_tensor;

typedef struct tess_catalog_file {
    const char *path;
    uint64_t bytes; /* that it must have; 0: not stated */
} tess_catalog_file;

typedef struct tess_catalog {
    tess_mem *mem;
    const char *format; /* "tessera", "safetensors", "dcp", "torch.save", "deepspeed" */
    const char *path;   /* as it was opened */
    int n_tensors, n_pieces, n_files;
    tess_catalog_tensor *tensors; /* by name, once finished */
    tess_piece *pieces;           /* by tensor, then by box, once finished */
    tess_catalog_file *files;
    json_t *meta; /* what else the checkpoint says, an object: step, configuration, ... */
    struct tess_catalog_impl *impl;
} tess_catalog;

/* ---- Building: openers of formats. Texts are copied.
 * ------------------------------------------------------------------- */
tess_status tess_catalog_create(tess_mem *mem, const char *format, const char *path, tess_catalog **catalog);
void tess_catalog_destroy(tess_catalog **catalog); /* NULL is fine */
tess_status tess_catalog_add_file(tess_catalog *catalog, const char *path, uint64_t bytes, int *file);
/* TESS_E_FORMAT: the name is there with another dtype or shape, the dtype is unknown, the shape overflows. One that is
 * there already is found again. */
tess_status tess_catalog_add_tensor(tess_catalog *catalog, const char *name, const char *dtype, int n_dims,
                                    const int64_t *dim, int *tensor);
/* TESS_E_FORMAT: the box is not inside the tensor, or `bytes` are too few for it. */
tess_status tess_catalog_add_piece(tess_catalog *catalog, int tensor, const tess_piece *piece);
/* Sorts. TESS_E_FORMAT: pieces of a tensor overlap. Indices that were given before are void. */
tess_status tess_catalog_finish(tess_catalog *catalog);

/* ---- Use; threads may read at the same time
 * ---------------------------------------------------------------------------- */
const tess_catalog_tensor *tess_catalog_find(const tess_catalog *catalog, const char *name); /* NULL: none */
uint64_t tess_catalog_tensor_bytes(const tess_catalog_tensor *tensor);
/* Completeness without reading data: every file there with its size, every tensor covered. TESS_E_FORMAT names the
 * file, the tensor and the first element that is missing. */
tess_status tess_catalog_check(const tess_catalog *catalog);

/* The box of a tensor into dst, row-major, in the tensor's dtype. Checksums of the pieces that it touches are verified
 * (a piece is read whole once for that). TESS_E_FORMAT names file, tensor, rank and offset of what is damaged; or says
 * which part is missing. */
tess_status tess_catalog_read(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box,
                              void *dst);
/* The same as float32, from F32, F16, BF16, F64. */
tess_status tess_catalog_read_floats(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                     const tess_box *box, float *dst);

/* Every checksum of every piece. `progress` (may be NULL) hears bytes done of bytes in all. `bad` (may be NULL) hears
 * every damaged piece; the first one is the error. */
typedef struct tess_catalog_visitor {
    void *self;
    void (*progress)(void *self, uint64_t done, uint64_t all);
    void (*bad)(void *self, const char *message);
} tess_catalog_visitor;
tess_status tess_catalog_verify(const tess_catalog *catalog, const tess_catalog_visitor *visitor);

/* Opens whatever lies at `path`: a Tessera checkpoint (`step-...`, or the newest one of a folder of them), a
 * safetensors file or model folder, a PyTorch DCP folder, a Megatron folder, a torch.save file, a DeepSpeed
 * checkpoint. TESS_E_NOT_FOUND, TESS_E_FORMAT, TESS_E_UNSUPPORTED say what was looked for. */
tess_status tess_catalog_open(tess_mem *mem, const char *path, tess_catalog **catalog);

#endif
