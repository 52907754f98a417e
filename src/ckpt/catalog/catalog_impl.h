/* Shared by the files of this folder. */
#ifndef TESS_CKPT_CATALOG_CATALOG_IMPL_H
#define TESS_CKPT_CATALOG_CATALOG_IMPL_H

#include "base/os/os.h"
#include "ckpt/catalog/cover.h"

typedef struct tess_catalog_impl {
    size_t tensor_capacity, piece_capacity, file_capacity, owner_capacity, range_capacity;
    void *names;            /* names of tensors while they are added: a tree (search.h) of catalog_name */
    int *owner;             /* (n_pieces) the tensor of each piece; freed once finished */
    uint8_t *verified;      /* (n_pieces) 1: its checksum was right; relaxed atomics */
    int *range_of;          /* (n_pieces) the range with the piece's checksum; -1: none, or the piece has its own */
    uint8_t *range_good;    /* (n_ranges) 1: its checksum was right; relaxed atomics */
    uint64_t *padding;      /* (n_pieces) bytes after a piece in its file that belong to no piece */
    tess_mapping *mappings; /* (n_files) files that tess_catalog_map has mapped */
} tess_catalog_impl;

/* ---- look.c: a tensor's pieces; NULL: none */
const tess_catalog_piece *tess_catalog_pieces_of(const tess_catalog *catalog, const tess_catalog_tensor *tensor);

/* ---- finish.c: *order (n_pieces): the indices of pieces in the order of the files */
tess_status tess_catalog_file_order(const tess_catalog *catalog, int **order);

/* ---- catalog_read.c */
/* Checks that the box of a request is inside the tensor and covered, and that its dtype converts to floats if it asks
 * for them. */
tess_status tess_catalog_check_request(const tess_catalog *catalog, const tess_catalog_request *request);
/* Reads the part of a piece that lies in the request's box, if any, to its place. */
tess_status tess_catalog_read_piece(const tess_catalog *catalog, int piece, const tess_catalog_request *request);

/* ---- unpack.c: unpacks to exactly `size` bytes; TESS_E_FORMAT otherwise */
tess_status tess_unpack(tess_codec codec, const void *packed, size_t packed_size, void *data, size_t size);

/* ---- piece.c: the stored bytes of one piece */
/* The destination of bytes [begin, end) of a piece; begin == end: nowhere. */
typedef struct tess_piece_sink {
    uint64_t begin, end;
    uint8_t *dst;
    const char *decode; /* the piece's dtype when dst is float32; NULL: the bytes as they are */
    int element_bytes;
} tess_piece_sink;

/* State that is kept from one piece to the next: the open file, and memory to read into. {.fd = -1} at first. */
typedef struct tess_piece_reader {
    const char *path; /* path of the open file, which the catalog owns; NULL: no file is open */
    int fd;
    uint8_t *scratch;
    size_t scratch_bytes;
} tess_piece_reader;
void tess_piece_reader_close(const tess_catalog *catalog, tess_piece_reader *reader);

/* Reads what the sink asks for; reads and verifies the whole piece if that has not been done yet. */
tess_status tess_piece_fetch(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece,
                             const tess_piece_sink *sink);
/* Fetches a packed piece whole and unpacks it. *data (piece->bytes) is the caller's. `again`: reads and verifies it
 * even if that has been done. */
tess_status tess_piece_unpack(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece, bool again,
                              uint8_t **data);
/* Verifies the range whose checksum covers the piece, if there is one and it has not been verified yet. */
tess_status tess_piece_check_range(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece);
/* Read everything again and verify it; packed pieces must unpack, too. `reader` may be NULL. */
tess_status tess_range_verify(const tess_catalog *catalog, int range);
tess_status tess_piece_verify(const tess_catalog *catalog, const tess_catalog_tensor *tensor, int piece,
                              tess_piece_reader *reader);
/* Checks that the file has the stated size. */
tess_status tess_file_check(const tess_catalog_file *file);

#endif
