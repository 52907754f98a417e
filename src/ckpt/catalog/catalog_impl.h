/* Internals of a catalog, shared by the files of this folder. */
#ifndef TESS_CKPT_CATALOG_CATALOG_IMPL_H
#define TESS_CKPT_CATALOG_CATALOG_IMPL_H

#include "base/os/os.h"
#include "ckpt/catalog/cover.h"

typedef struct tess_catalog_impl {
    size_t tensor_capacity, piece_capacity, file_capacity, owner_capacity, range_capacity;
    void *names;            /* names of tensors while they are added: a search tree (search.h) of catalog_name */
    int *owner;             /* (n_pieces) the tensor of each piece; freed when the catalog is finished */
    uint8_t *verified;      /* (n_pieces) 1: the piece's checksum was verified; relaxed atomics */
    int *range_of;          /* (n_pieces) the range that has the piece's checksum; -1: none, or the piece has its own */
    uint8_t *range_good;    /* (n_ranges) 1: the range's checksum was verified; relaxed atomics */
    uint64_t *padding;      /* (n_pieces) number of bytes after a piece in its file that belong to no piece */
    tess_mapping *mappings; /* (n_files) the files that tess_catalog_map has mapped */
} tess_catalog_impl;

/* ---- look.c: returns a tensor's pieces; NULL: it has none */
const tess_catalog_piece *tess_catalog_pieces_of(const tess_catalog *catalog, const tess_catalog_tensor *tensor);

/* ---- finish.c: sets *order (n_pieces) to the indices of the pieces in the order of the files */
tess_status tess_catalog_file_order(const tess_catalog *catalog, int **order);

/* ---- catalog_read.c */
/* Checks that the box of a request is inside the tensor and covered by pieces. If floats are requested, also checks
 * that the dtype can be converted. */
tess_status tess_catalog_check_request(const tess_catalog *catalog, const tess_catalog_request *request);
/* Reads the part of a piece that is inside the request's box to its place; there may be none. */
tess_status tess_catalog_read_piece(const tess_catalog *catalog, int piece, const tess_catalog_request *request);

/* ---- unpack.c: unpacks to exactly `size` bytes. TESS_E_FORMAT: the data has another size, or is damaged ---- */
tess_status tess_unpack(tess_codec codec, const void *packed, size_t packed_size, void *data, size_t size);
/* Unpacks (rows, n) blocks of MXFP4 with their scales to (32 n, rows) values of bfloat16. TESS_E_FORMAT: a scale is
 * NaN.
 */
tess_status tess_unpack_mxfp4(const uint8_t *blocks, const uint8_t *scales, int64_t rows, int64_t n, void *data);

/* ---- piece.c: reads the stored bytes of one piece ---- */
/* The destination of bytes [begin, end) of a piece. begin == end: nothing is wanted. */
typedef struct tess_piece_sink {
    uint64_t begin, end;
    uint8_t *dst;
    const char *decode; /* dtype of the piece if dst is float32; NULL: bytes are copied */
    int element_bytes;
} tess_piece_sink;

/* State that is kept between pieces: the open file, and memory to read into. Initialise it as {.fd = -1}. */
typedef struct tess_piece_reader {
    const char *path; /* path of the open file, which the catalog owns; NULL: no file is open */
    int fd;
    uint8_t *scratch;
    size_t scratch_bytes;
} tess_piece_reader;
void tess_piece_reader_close(const tess_catalog *catalog, tess_piece_reader *reader);

/* Reads the bytes that the sink wants. If the piece has not been verified yet, reads and verifies all of it. */
tess_status tess_piece_fetch(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece,
                             const tess_piece_sink *sink);
/* Reads and unpacks a whole packed piece. *data (piece->bytes) belongs to the caller. `again`: reads and verifies the
 * piece even if it has been verified. */
tess_status tess_piece_unpack(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece, bool again,
                              uint8_t **data);
/* Verifies the range whose checksum covers the piece, if there is one and it has not been verified yet. */
tess_status tess_piece_check_range(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece);
/* Read and verify a range or a piece again; packed pieces must unpack, too. `reader` may be NULL. */
tess_status tess_range_verify(const tess_catalog *catalog, int range);
tess_status tess_piece_verify(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece,
                              tess_piece_reader *reader);
/* Checks that the file has the stated size. */
tess_status tess_file_check(const tess_catalog_file *file);

#endif
