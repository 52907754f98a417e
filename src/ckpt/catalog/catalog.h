/* The content of a checkpoint of any format: named tensors, each cut into pieces that lie in files. Each format has an
 * opener that fills a catalog from headers alone. Reading, verifying, comparing and converting work on catalogs.
 *
 * A piece is a box of its tensor. The pieces of a tensor do not overlap. They cover it, unless the checkpoint is
 * incomplete, which tess_catalog_check reports. */
#ifndef TESS_CKPT_CATALOG_CATALOG_H
#define TESS_CKPT_CATALOG_CATALOG_H

#include <jansson.h>

#include "base/os/threads.h"
#include "tessera/memory.h"

enum { TESS_CATALOG_DIMS = TESS_MAX_DIMS };

typedef enum tess_codec { TESS_CODEC_NONE, TESS_CODEC_ZSTD, TESS_CODEC_DEFLATE } tess_codec;
typedef enum tess_sum_kind {
    TESS_SUM_KIND_NONE,
    TESS_SUM_KIND_XXH3,          /* checksum of the stored bytes */
    TESS_SUM_KIND_CRC32,         /* checksum of the stored bytes */
    TESS_SUM_KIND_CRC32_UNPACKED /* checksum of the unpacked bytes, as in zip archives */
} tess_sum_kind;

typedef struct tess_catalog_piece {
    int file;                /* index in the catalog's files */
    int rank;                /* the rank that wrote it; -1: not known */
    uint64_t offset, stored; /* bytes in the file */
    uint64_t bytes;          /* unpacked */
    uint64_t sum;            /* checksum of the kind `sum_kind` */
    tess_codec codec;
    tess_sum_kind sum_kind;
    tess_box box;
    bool strided;                      /* elements do not lie row by row but at `stride` */
    int64_t stride[TESS_CATALOG_DIMS]; /* in elements, from the beginning of the unpacked bytes */
} tess_catalog_piece;

/* Bytes of a file under one checksum. A piece without a checksum of its own that lies in them is read once the whole
 * range has been verified. A range may also hold bytes of no piece: tess_catalog_verify checks those too. */
typedef struct tess_catalog_range {
    int file;
    int rank; /* the rank that wrote them; -1: not known */
    uint64_t offset, bytes;
    uint64_t sum;
    tess_sum_kind sum_kind;
} tess_catalog_range;

typedef struct tess_catalog_tensor {
    const char *name;
    char dtype[12]; /* the text of safetensors: "F32", "BF16", "I64", "BOOL", ... */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    int first_piece,
        n_pieces; /* indices in the catalog's pieces; before the catalog is finished, the piece added first */
} tess_catalog_tensor;

typedef struct tess_catalog_file {
    const char *path;
    uint64_t bytes; /* its size by the checkpoint; 0: not stated */
} tess_catalog_file;

typedef struct tess_catalog {
    tess_mem *mem;
    const char *format; /* "tessera", "safetensors", "dcp", "torch.save", "deepspeed" */
    const char *path;   /* the path passed to the opener */
    int n_tensors, n_pieces, n_files, n_ranges;
    tess_catalog_tensor *tensors; /* once finished: by name */
    tess_catalog_piece *pieces;   /* once finished: by tensor, then by box */
    tess_catalog_file *files;
    tess_catalog_range *ranges; /* sorted by place once finished, without those that a piece's own checksum covers */
    json_t *meta;               /* an object: step, configuration, ...; owned */
    bool zero_padding;          /* the format has zeros between pieces: they are verified with the piece before them */
    bool part;                  /* it is a part of a checkpoint, such as one host's, and need not cover its tensors */
    struct tess_catalog_impl *impl;
} tess_catalog;

/* ---- Building, by the openers of formats. Texts are copied. */
tess_status tess_catalog_create(tess_mem *mem, const char *format, const char *path, tess_catalog **catalog);
void tess_catalog_destroy(tess_catalog **catalog); /* NULL is fine */
tess_status tess_catalog_add_file(tess_catalog *catalog, const char *path, uint64_t bytes, int *file);
/* Adds a tensor, or finds it if it is there already. TESS_E_FORMAT: it is there with another dtype or shape, the dtype
 * is unknown, or the shape overflows. */
tess_status tess_catalog_add_tensor(tess_catalog *catalog, const char *name, const char *dtype, int n_dims,
                                    const int64_t *dim, int *tensor);
/* Adds a piece; an empty box is ignored. TESS_E_FORMAT: the box is not inside the tensor, `bytes` are too few for it,
 * or it does not lie inside its file. */
tess_status tess_catalog_add_piece(tess_catalog *catalog, int tensor, const tess_catalog_piece *piece);
tess_status tess_catalog_add_range(tess_catalog *catalog, const tess_catalog_range *range); /* ignores duplicates */
/* Sorts tensors and pieces; indices from before are void. TESS_E_FORMAT: pieces of a tensor overlap;
 * TESS_E_UNSUPPORTED: they are too many and too irregular to find out. */
tess_status tess_catalog_finish(tess_catalog *catalog);

/* ---- Use, once finished. Threads may read at the same time. */
const tess_catalog_tensor *tess_catalog_find(const tess_catalog *catalog, const char *name); /* NULL: none */
/* *list (n_tensors, to be freed): all tensors in the order of their first elements in the files; those without elements
 * come last. */
tess_status tess_catalog_tensors_in_files(const tess_catalog *catalog, const tess_catalog_tensor ***list);
uint64_t tess_catalog_tensor_bytes(const tess_catalog_tensor *tensor);
bool tess_catalog_has_shape(const tess_catalog_tensor *tensor, const tess_shape *shape);
tess_box tess_catalog_whole(const tess_catalog_tensor *tensor);
/* Checks without reading data that every file has its size, and that every tensor is covered (except in a part).
 * TESS_E_FORMAT names the file, or the tensor and its first missing element. */
tess_status tess_catalog_check(const tess_catalog *catalog);
/* Finds the first element of a box, row by row, that is in no piece. */
tess_status tess_catalog_first_missing(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                       const tess_box *box, bool *missing, int64_t at[TESS_CATALOG_DIMS]);
/* Checks that pieces cover a box. TESS_E_FORMAT names the tensor and its first missing element. */
tess_status tess_catalog_check_box(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box);

/* Reads a box of a tensor into dst, row-major, in the tensor's dtype. Verifies the checksum of every piece that it
 * touches, once for each catalog: the first read of a piece reads all of it (or of the range that it lies in), later
 * ones what they need (of packed pieces all). TESS_E_FORMAT names file, tensor, rank and offset of damaged bytes, or
 * the first missing element; TESS_E_INVALID: the box is not inside the tensor. */
tess_status tess_catalog_read(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box,
                              void *dst);
/* The same as float32, from F32, F16, BF16, F64 (others: TESS_E_UNSUPPORTED). */
tess_status tess_catalog_read_floats(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                     const tess_box *box, float *dst);

/* Maps a whole tensor in its own dtype, and verifies its checksum. The mapping lasts until the catalog is destroyed.
 * *data becomes NULL unless the tensor lies in one piece, row by row, unpacked and aligned to its elements. By one
 * thread at a time. */
tess_status tess_catalog_map(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const void **data);
bool tess_catalog_is_summed(const tess_catalog *catalog, int piece); /* whether a checksum covers the piece */
/* The file that holds the tensor's first elements, for messages. */
const char *tess_catalog_file_of(const tess_catalog *catalog, const tess_catalog_tensor *tensor);

typedef struct tess_catalog_request {
    const tess_catalog_tensor *tensor;
    tess_box box;
    bool floats; /* dst is float32, else in the tensor's dtype */
    void *dst;   /* NULL: nothing is read */
} tess_catalog_request;
/* Reads many boxes with all `threads` (NULL: this one), piece by piece in the order of the files. If several pieces
 * fail, the error is that of the first. After a failure the targets are undefined. */
tess_status tess_catalog_read_all(const tess_catalog *catalog, tess_threads *threads,
                                  const tess_catalog_request *requests, int n);
/* Reads this piece without verifying it, because another process that sees the same files does. Call it before any read
 * of the piece. */
void tess_catalog_trust(const tess_catalog *catalog, int piece);

typedef struct tess_catalog_visitor {
    void *self;
    void (*progress)(void *self, uint64_t done, uint64_t all); /* in bytes; may be NULL */
    void (*bad)(void *self, const char *message);              /* each damaged or missing thing; may be NULL */
} tess_catalog_visitor;
/* Checks what tess_catalog_check does, every checksum, and that packed pieces unpack. The error is the first problem;
 * without `bad` the check ends there. `visitor` may be NULL. */
tess_status tess_catalog_verify(const tess_catalog *catalog, const tess_catalog_visitor *visitor);

/* Opens a Tessera checkpoint (`step-...`, or the newest one of a folder of them), a safetensors file or model folder, a
 * PyTorch DCP folder, a Megatron folder, a torch.save file, or a DeepSpeed checkpoint.
 * TESS_E_NOT_FOUND: no such path; TESS_E_FORMAT: it is damaged, or the newest of a folder is (the message also names
 * the newest complete one); TESS_E_UNSUPPORTED: none of these formats. */
tess_status tess_catalog_open(tess_mem *mem, const char *path, tess_catalog **catalog);

#endif
