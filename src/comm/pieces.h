/* Computes which rows of which coalesced piece each rank owns. A rank's rows are packed one after the other. */
#ifndef TESS_COMM_PIECES_H
#define TESS_COMM_PIECES_H

#include "tessera/comm.h"

/* A run of elements that is contiguous in the full buffer and in the packed rows of its owner. */
typedef struct tess_byte_run {
    size_t full;   /* index of the first element in the full buffer */
    size_t packed; /* index in the owner's packed rows */
    size_t shard;  /* index in the owner's shard (valid on the owner only) */
    size_t count;
} tess_byte_run;

/* Walks the runs of rank `rank` that lie in packed elements [first, first + count). Start with cursor = {0}. */
typedef struct tess_byte_run_cursor {
    size_t piece, packed;
} tess_byte_run_cursor;
bool tess_pieces_next(const tess_piece *pieces, size_t n_pieces, int size, int rank, size_t first, size_t count,
                      tess_byte_run_cursor *cursor, tess_byte_run *run);

/* Return the number of elements that the rank owns, and the maximum that any rank owns. */
size_t tess_pieces_owned(const tess_piece *pieces, size_t n_pieces, int size, int rank);
size_t tess_pieces_most(const tess_piece *pieces, size_t n_pieces, int size);
/* Computes the number of all elements, and the index after the last piece. Returns TESS_E_INVALID if a size
 * overflows. */
tess_status tess_pieces_extent(const tess_piece *pieces, size_t n_pieces, size_t *elements, size_t *end);
/* Hashes the properties of the pieces that must be equal on all ranks. */
uint64_t tess_pieces_hash(const tess_piece *pieces, size_t n_pieces);

#endif
