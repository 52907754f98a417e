/* Shared by the files of this folder. */
#ifndef TESS_CKPT_CATALOG_CATALOG_IMPL_H
#define TESS_CKPT_CATALOG_CATALOG_IMPL_H

#include "base/os/os.h"
#include "ckpt/catalog/catalog.h"

typedef struct tess_catalog_impl {
    size_t tensor_capacity, piece_capacity, file_capacity, owner_capacity, range_capacity;
    void *names;            /* of tensors while they are added: a tree (search.h) of catalog_name */
    int *owner;             /* (n_pieces) the tensor of each; freed once finished */
    uint8_t *verified;      /* (n_pieces) 1: its checksum was right; read and set without order */
    uint64_t *padding;      /* (n_pieces) bytes behind it in its file that belong to no piece */
    tess_mapping *mappings; /* (n_files) of those that tess_catalog_map was asked for */
} tess_catalog_impl;

/* ---- look.c: a tensor's pieces; NULL when it has none */
const tess_catalog_piece *tess_catalog_pieces_of(const tess_catalog *catalog, const tess_catalog_tensor *tensor);

/* ---- finish.c: (n_pieces) indices of pieces as they lie in the files */
tess_status tess_catalog_file_order(const tess_catalog *catalog, int **order);

/* ---- catalog_read.c */
/* Whether a request can be met: its box is inside the tensor and covered, its dtype one of floats if they are asked
 * for. */
tess_status tess_catalog_check_request(const tess_catalog *catalog, const tess_catalog_request *request);
/* The part of a piece that lies in the request's box, to its place. Nothing when there is none. */
tess_status tess_catalog_read_piece(const tess_catalog *catalog, int piece, const tess_catalog_request *request);

/* ---- cover.c: boxes that are pieces of one tensor */
/* The first two that have elements in common, by index; *a = -1: none. TESS_E_UNSUPPORTED: too many to compare. */
tess_status tess_boxes_overlap(tess_mem *mem, int n_dims, const tess_catalog_piece *pieces, int n, int *a, int *b);
/* The first element of `box`, row by row, that is in none of the pieces (which do not overlap). */
tess_status tess_boxes_first_missing(tess_mem *mem, int n_dims, const tess_catalog_piece *pieces, int n,
                                     const tess_box *box, bool *missing, int64_t at[TESS_CATALOG_DIMS]);

/* ---- unpack.c: exactly `size` bytes from `packed` ones; TESS_E_FORMAT otherwise */
tess_status tess_unpack(tess_codec codec, const void *packed, size_t packed_size, void *data, size_t size);

/* ---- piece.c: the stored bytes of one piece */
/* Where bytes [begin, end) of them go; begin == end: nothing is kept. */
typedef struct tess_piece_sink {
    uint64_t begin, end;
    uint8_t *dst;
    const char *decode; /* dtype, when dst is to get float32; NULL: as they are */
    int element_bytes;
} tess_piece_sink;

/* Reads what the sink asks for, and all of a piece whose checksum has not been verified yet. */
tess_status tess_piece_fetch(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece,
                             const tess_piece_sink *sink);
/* Reads all of it, whatever has been read before, and keeps nothing. */
tess_status tess_range_verify(const tess_catalog *catalog, const tess_catalog_range *range);
tess_status tess_piece_verify(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece);
/* The file is there and has the stated size. */
tess_status tess_file_check(const tess_catalog_file *file);

#endif
