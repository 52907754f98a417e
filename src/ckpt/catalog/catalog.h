/* The content of a checkpoint of any format: named tensors, each cut into pieces that are stored in files. Each format
 * has an opener that fills a catalog from headers only. Reading, verifying, comparing and converting work on catalogs.
 *
 * A piece is a box of its tensor. The pieces of a tensor do not overlap. They cover it, unless the checkpoint is
 * incomplete, which tess_catalog_check reports. */
#ifndef TESS_CKPT_CATALOG_CATALOG_H
#define TESS_CKPT_CATALOG_CATALOG_H

#include <jansson.h>

#include "base/os/threads.h"
#include "tessera/memory.h"

enum { TESS_CATALOG_DIMS = TESS_MAX_DIMS };

typedef enum tess_codec {
    TESS_CODEC_NONE,
    TESS_CODEC_ZSTD,
    TESS_CODEC_DEFLATE,
    TESS_CODEC_MXFP4 /* one matrix of a BF16 tensor (E, C, R), stored as (R, C / 32) blocks */
} tess_codec;
/* The values of a block of MXFP4: E2M1, two in a byte, the first one in the low bits. They share a scale of one byte.
 */
enum { TESS_MXFP4_BYTES = 16, TESS_MXFP4_VALUES = 32 };
typedef enum tess_sum_kind {
    TESS_SUM_KIND_NONE,
    TESS_SUM_KIND_XXH3,          /* checksum of the stored bytes */
    TESS_SUM_KIND_CRC32,         /* checksum of the stored bytes */
    TESS_SUM_KIND_CRC32_UNPACKED /* checksum of the unpacked bytes, as in zip archives */
} tess_sum_kind;

typedef struct tess_catalog_piece {
    int file;                /* index in the catalog's files */
    int rank;                /* the rank that wrote it; -1: not known */
    uint64_t offset, stored; /* position in the file; number of bytes there */
    uint64_t bytes;          /* number of bytes when unpacked */
    uint64_t sum;            /* checksum of kind `sum_kind` */
    tess_codec codec;
    tess_sum_kind sum_kind;
    tess_box box;
    bool strided;                      /* elements are not stored row by row, but according to `stride` */
    int64_t stride[TESS_CATALOG_DIMS]; /* in elements, relative to the first unpacked byte */
    int scales_file;                   /* MXFP4: index of the file with the scales of the blocks, in their order */
    uint64_t scales;                   /* MXFP4: position of the first scale there */
} tess_catalog_piece;

/* A range of bytes in a file with one checksum. If a piece without its own checksum is inside the range, the whole
 * range is verified before the piece is read. A range may also contain bytes of no piece: tess_catalog_verify checks
 * those too. */
typedef struct tess_catalog_range {
    int file;
    int rank; /* the rank that wrote the range; -1: not known */
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
        n_pieces; /* indices in the catalog's pieces; before the catalog is finished: the piece that was added first */
} tess_catalog_tensor;

typedef struct tess_catalog_file {
    const char *path;
    uint64_t bytes; /* size that the checkpoint states; 0: not stated */
} tess_catalog_file;

typedef struct tess_catalog {
    tess_mem *mem;
    const char *format; /* "tessera", "safetensors", "dcp", "torch.save", "deepspeed" */
    const char *path;   /* the path passed to the opener */
    int n_tensors, n_pieces, n_files, n_ranges;
    tess_catalog_tensor *tensors; /* sorted by name once the catalog is finished */
    tess_catalog_piece *pieces;   /* sorted by tensor, then by box, once finished */
    tess_catalog_file *files;
    /* Sorted by position once finished; ranges that a piece's own checksum covers are removed then */
    tess_catalog_range *ranges;
    json_t *meta; /* an object: step, configuration, ...; owned */
    /* The format has zeros between pieces, which are verified together with the piece before them */
    bool zero_padding;
    /* The catalog is one part of a checkpoint, such as one host's, and need not cover its tensors */
    bool part;
    struct tess_catalog_impl *impl;
} tess_catalog;

/* ---- Building a catalog, by the openers of formats. Texts are copied. ---- */
tess_status tess_catalog_create(tess_mem *mem, const char *format, const char *path, tess_catalog **catalog);
void tess_catalog_destroy(tess_catalog **catalog); /* NULL is fine */
tess_status tess_catalog_add_file(tess_catalog *catalog, const char *path, uint64_t bytes, int *file);
/* Adds a tensor, or finds it if it was added before. TESS_E_FORMAT: it was added with another dtype or shape, the dtype
 * is unknown, or the shape overflows. */
tess_status tess_catalog_add_tensor(tess_catalog *catalog, const char *name, const char *dtype, int n_dims,
                                    const int64_t *dim, int *tensor);
/* Adds a piece; an empty box is ignored. TESS_E_FORMAT: the box is not inside the tensor, `bytes` are too few for the
 * box, or the piece is not inside its file. */
tess_status tess_catalog_add_piece(tess_catalog *catalog, int tensor, const tess_catalog_piece *piece);
tess_status tess_catalog_add_range(tess_catalog *catalog, const tess_catalog_range *range); /* ignores duplicates */
/* Sorts tensors and pieces, which changes their indices. TESS_E_FORMAT: pieces of a tensor overlap. TESS_E_UNSUPPORTED:
 * the pieces are too many and too irregular to find out. */
tess_status tess_catalog_finish(tess_catalog *catalog);

/* ---- Using a catalog, once it is finished. Threads may read at the same time. ---- */
const tess_catalog_tensor *tess_catalog_find(const tess_catalog *catalog, const char *name); /* NULL: none */
/* Lists all tensors in the order of their first elements in the files; tensors without elements come last. *list
 * (n_tensors) must be freed. */
tess_status tess_catalog_tensors_in_files(const tess_catalog *catalog, const tess_catalog_tensor ***list);
uint64_t tess_catalog_tensor_bytes(const tess_catalog_tensor *tensor);
bool tess_catalog_has_shape(const tess_catalog_tensor *tensor, const tess_shape *shape);
tess_box tess_catalog_whole(const tess_catalog_tensor *tensor);
/* Checks, without reading data, that every file has its stated size and that pieces cover every tensor (except in a
 * part). TESS_E_FORMAT: the message names the file, or the tensor and its first missing element. */
tess_status tess_catalog_check(const tess_catalog *catalog);
/* Finds the first element of a box, row by row, that is in no piece. */
tess_status tess_catalog_first_missing(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                       const tess_box *box, bool *missing, int64_t at[TESS_CATALOG_DIMS]);
/* Checks that pieces cover a box. TESS_E_FORMAT: the message names the tensor and its first missing element. */
tess_status tess_catalog_check_box(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box);

/* Reads a box of a tensor into dst, row-major, in the tensor's dtype. Verifies the checksum of every piece that it
 * touches, once per catalog: the first read of a piece reads all of it (or all of its range). Later reads read only
 * what they need, except that a packed piece is always read whole.
 *   TESS_E_FORMAT   damaged bytes or a missing element; the message names file, tensor, rank and offset, or the element
 *   TESS_E_INVALID  the box is not inside the tensor */
tess_status tess_catalog_read(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box,
                              void *dst);
/* Like tess_catalog_read, but converts F32, F16, BF16 or F64 to float32. TESS_E_UNSUPPORTED: another dtype. */
tess_status tess_catalog_read_floats(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                     const tess_box *box, float *dst);

/* Maps a whole tensor in its own dtype, and verifies its checksum. The mapping is valid until the catalog is destroyed.
 * *data becomes NULL unless the tensor is one unpacked piece, stored row by row and aligned to its elements. Only one
 * thread at a time may call it. */
tess_status tess_catalog_map(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const void **data);
bool tess_catalog_is_summed(const tess_catalog *catalog, int piece); /* whether a checksum covers the piece */
/* Returns the path of the file that holds the tensor's first elements, for messages. */
const char *tess_catalog_file_of(const tess_catalog *catalog, const tess_catalog_tensor *tensor);

typedef struct tess_catalog_request {
    const tess_catalog_tensor *tensor;
    tess_box box;
    bool floats; /* dst is float32; otherwise it has the tensor's dtype */
    void *dst;   /* NULL: nothing is read */
} tess_catalog_request;
/* Reads many boxes with all `threads` (NULL: the calling thread), piece by piece in the order of the files. If several
 * pieces fail, returns the error of the first. After a failure the content of the targets is undefined. */
tess_status tess_catalog_read_all(const tess_catalog *catalog, tess_threads *threads,
                                  const tess_catalog_request *requests, int n);
/* Makes reads of this piece skip verification, because another process that sees the same files verifies it. Call it
 * before any read of the piece. */
void tess_catalog_trust(const tess_catalog *catalog, int piece);

typedef struct tess_catalog_visitor {
    void *self;
    /* Called while work proceeds, with bytes done and bytes in all; may be NULL */
    void (*progress)(void *self, uint64_t done, uint64_t all);
    /* Called for each damaged or missing thing; may be NULL */
    void (*bad)(void *self, const char *message);
} tess_catalog_visitor;
/* Checks what tess_catalog_check does, every checksum, and that packed pieces unpack. Returns the first problem;
 * without `bad` the check ends there. `visitor` may be NULL. */
tess_status tess_catalog_verify(const tess_catalog *catalog, const tess_catalog_visitor *visitor);

/* Opens a checkpoint of any format:
 * - a Tessera checkpoint (`step-...`), or the newest one in a folder of them
 * - a safetensors file or model folder
 * - a PyTorch DCP folder, a Megatron folder, a torch.save file, or a DeepSpeed checkpoint
 * TESS_E_NOT_FOUND: no such path. TESS_E_FORMAT: it is damaged, or the newest in a folder is (the message also names
 * the newest complete one). TESS_E_UNSUPPORTED: it has none of these formats. */
tess_status tess_catalog_open(tess_mem *mem, const char *path, tess_catalog **catalog);

#endif
