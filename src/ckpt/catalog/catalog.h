/* What a checkpoint holds, whatever its format: named tensors, each cut into pieces that lie in files. Openers of the
 * formats fill a catalog from headers alone; reading, verifying, comparing and converting are written once, over it.
 *
 * A piece is a box of its tensor. Pieces of a tensor do not overlap and together cover it, unless the checkpoint is
 * incomplete (tess_catalog_check says so). */
#ifndef TESS_CKPT_CATALOG_CATALOG_H
#define TESS_CKPT_CATALOG_CATALOG_H

#include <jansson.h>

#include "base/os/threads.h"
#include "tessera/memory.h"

enum { TESS_CATALOG_DIMS = 8 };

typedef enum tess_codec { TESS_CODEC_NONE, TESS_CODEC_ZSTD, TESS_CODEC_DEFLATE } tess_codec;
typedef enum tess_sum_kind { TESS_SUM_KIND_NONE, TESS_SUM_KIND_XXH3, TESS_SUM_KIND_CRC32 } tess_sum_kind;

/* Element [begin, +size) in every dimension of the tensor. */
typedef struct tess_box {
    int64_t begin[TESS_CATALOG_DIMS], size[TESS_CATALOG_DIMS];
} tess_box;

int64_t tess_box_count(int n_dims, const tess_box *box);
/* Whether they have elements in common; *common (may be NULL): which. */
bool tess_box_meet(int n_dims, const tess_box *a, const tess_box *b, tess_box *common);
/* "[0, 3) x [8, 16)"; returns text. */
const char *tess_box_format(int n_dims, const tess_box *box, char *text, size_t size);
/* "[4096, 11008]"; returns text. */
const char *tess_dims_format(int n_dims, const int64_t *dim, char *text, size_t size);

typedef struct tess_catalog_piece {
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
} tess_catalog_piece;

/* Bytes of a file under one checksum, of which pieces are parts that have none of their own: whoever verifies the
 * checkpoint looks at them, who reads a part does not. */
typedef struct tess_catalog_range {
    int file;
    int rank; /* that wrote them, -1: not known */
    uint64_t offset, bytes;
    uint64_t sum;
    tess_sum_kind sum_kind;
} tess_catalog_range;

typedef struct tess_catalog_tensor {
    const char *name;
    char dtype[12]; /* as safetensors has it: "F32", "BF16", "I64", "BOOL", ... */
    int element_bytes;
    int n_dims;
    int64_t dim[TESS_CATALOG_DIMS];
    int first_piece, n_pieces; /* of the catalog's pieces; before it is finished, the one that was added first */
} tess_catalog_tensor;

typedef struct tess_catalog_file {
    const char *path;
    uint64_t bytes; /* that it must have; 0: not stated */
} tess_catalog_file;

typedef struct tess_catalog {
    tess_mem *mem;
    const char *format; /* "tessera", "safetensors", "dcp", "torch.save", "deepspeed" */
    const char *path;   /* as it was opened */
    int n_tensors, n_pieces, n_files, n_ranges;
    tess_catalog_tensor *tensors; /* by name, once finished */
    tess_catalog_piece *pieces;   /* by tensor, then by box, once finished */
    tess_catalog_file *files;
    tess_catalog_range *ranges; /* by place, each once, when finished */
    json_t *meta;               /* what else the checkpoint says, an object: step, configuration, ...; owned */
    /* The openers of formats that fill up between pieces with zeroes set it: that they are is then verified with the
     * piece before them. */
    bool zero_padding;
    bool part; /* of a checkpoint, such as one host's: it need not cover its tensors to be whole */
    struct tess_catalog_impl *impl;
} tess_catalog;

/* ---- Building: openers of formats. Texts are copied. */
tess_status tess_catalog_create(tess_mem *mem, const char *format, const char *path, tess_catalog **catalog);
void tess_catalog_destroy(tess_catalog **catalog); /* NULL is fine */
tess_status tess_catalog_add_file(tess_catalog *catalog, const char *path, uint64_t bytes, int *file);
/* TESS_E_FORMAT: the name is there with another dtype or shape, the dtype is unknown, the shape overflows. One that is
 * there already is found again. */
tess_status tess_catalog_add_tensor(tess_catalog *catalog, const char *name, const char *dtype, int n_dims,
                                    const int64_t *dim, int *tensor);
/* TESS_E_FORMAT: the box is not inside the tensor, `bytes` are too few for it, or it does not lie inside its file. An
 * empty box is left out. */
tess_status tess_catalog_add_piece(tess_catalog *catalog, int tensor, const tess_catalog_piece *piece);
tess_status tess_catalog_add_range(tess_catalog *catalog, const tess_catalog_range *range); /* twice is fine */
/* Sorts. TESS_E_FORMAT: pieces of a tensor overlap; TESS_E_UNSUPPORTED: they are too many and too irregular to tell.
 * Indices that were given before are void. */
tess_status tess_catalog_finish(tess_catalog *catalog);

/* ---- Use, once finished; threads may read at the same time */
const tess_catalog_tensor *tess_catalog_find(const tess_catalog *catalog, const char *name); /* NULL: none */
/* (n_tensors) all tensors as their first elements lie in the files; those without elements come last. *list: free. */
tess_status tess_catalog_tensors_in_files(const tess_catalog *catalog, const tess_catalog_tensor ***list);
uint64_t tess_catalog_tensor_bytes(const tess_catalog_tensor *tensor);
bool tess_catalog_has_shape(const tess_catalog_tensor *tensor, const tess_shape *shape);
tess_box tess_catalog_whole(const tess_catalog_tensor *tensor);
tess_box tess_catalog_rows(const tess_catalog_tensor *tensor, int64_t begin, int64_t n); /* of dimension 0 */
/* Completeness without reading data: every file there with its size, every tensor covered (unless it is a part).
 * TESS_E_FORMAT names the
 * file, the tensor and the first element that is missing. */
tess_status tess_catalog_check(const tess_catalog *catalog);
/* The first element of a box, row by row, that no piece has. */
tess_status tess_catalog_first_missing(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                       const tess_box *box, bool *missing, int64_t at[TESS_CATALOG_DIMS]);
/* That pieces cover a box; TESS_E_FORMAT names the tensor and the first element that is missing. */
tess_status tess_catalog_check_box(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box);

/* The box of a tensor into dst, row-major, in the tensor's dtype. The checksum of every piece that it touches has been
 * verified then, once by this catalog: the first read of a piece takes all of it, later ones their part (of packed
 * pieces always all). TESS_E_FORMAT names file, tensor, rank and offset of what is damaged, or says which part is
 * missing; TESS_E_INVALID: the box is not inside the tensor. */
tess_status tess_catalog_read(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const tess_box *box,
                              void *dst);
/* The same as float32, from F32, F16, BF16, F64 (others: TESS_E_UNSUPPORTED). */
tess_status tess_catalog_read_floats(const tess_catalog *catalog, const tess_catalog_tensor *tensor,
                                     const tess_box *box, float *dst);

/* The whole tensor where it lies in its file, in its own dtype, without a copy; it stays until the catalog is
 * destroyed. Its checksum has been verified. *data NULL: it does not lie there so (in one piece, row by row, not
 * packed, aligned to its elements): read it. By one thread at a time. */
tess_status tess_catalog_map(const tess_catalog *catalog, const tess_catalog_tensor *tensor, const void **data);
/* The file that holds the tensor's first elements, for messages. */
const char *tess_catalog_file_of(const tess_catalog *catalog, const tess_catalog_tensor *tensor);

/* Many boxes at once, piece by piece as they lie in the files, by all `threads` (NULL: this one alone). One failure of
 * several is told, that of the first piece; what it leaves in the targets is undefined. */
typedef struct tess_catalog_request {
    const tess_catalog_tensor *tensor;
    tess_box box;
    bool floats; /* dst is float32, else in the tensor's dtype */
    void *dst;   /* NULL: nothing is read */
} tess_catalog_request;
tess_status tess_catalog_read_all(const tess_catalog *catalog, tess_threads *threads,
                                  const tess_catalog_request *requests, int n);
/* Another process that sees the same files verifies this piece: it is read here without. Before any read of it. */
void tess_catalog_trust(const tess_catalog *catalog, int piece);

/* tess_catalog_check, and every checksum of every piece. `progress` (may be NULL) hears bytes done of bytes in all.
 * `bad` (may be NULL) hears of everything that is damaged or missing; the first is the error. */
typedef struct tess_catalog_visitor {
    void *self;
    void (*progress)(void *self, uint64_t done, uint64_t all);
    void (*bad)(void *self, const char *message);
} tess_catalog_visitor;
tess_status tess_catalog_verify(const tess_catalog *catalog, const tess_catalog_visitor *visitor);

/* Opens whatever lies at `path`: a Tessera checkpoint (`step-...`, or the newest one of a folder of them), a
 * safetensors file or model folder, a PyTorch DCP folder, a Megatron folder, a torch.save file, a DeepSpeed
 * checkpoint. TESS_E_NOT_FOUND, TESS_E_FORMAT, TESS_E_UNSUPPORTED say what was looked for. An older one of a folder is
 * never taken for one that is damaged: TESS_E_FORMAT names both. */
tess_status tess_catalog_open(tess_mem *mem, const char *path, tess_catalog **catalog);

#endif
