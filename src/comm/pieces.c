#include "comm/pieces.h"

#include "base/core/rng.h"

static void owned_rows(const tess_piece *piece, int size, int rank, size_t *begin, size_t *count)
{
    int64_t first, n;
    tess_shard_rows((int64_t)piece->n_rows, size, rank, &first, &n);
    *begin = (size_t)first;
    *count = (size_t)n;
}

bool tess_pieces_next(const tess_piece *pieces, size_t n_pieces, int size, int rank, size_t first, size_t count,
                      tess_byte_run_cursor *cursor, tess_byte_run *run)
{
    while (cursor->piece < n_pieces) {
        const tess_piece *piece = &pieces[cursor->piece];
        size_t begin, rows;
        owned_rows(piece, size, rank, &begin, &rows);
        size_t packed = cursor->packed, elements = rows * piece->row;
        if (packed >= first + count)
            return false;
        cursor->piece++;
        cursor->packed += elements;
        size_t from = packed > first ? packed : first;
        size_t to = packed + elements < first + count ? packed + elements : first + count;
        if (from >= to)
            continue;
        *run = (tess_byte_run){.full = piece->offset + begin * piece->row + (from - packed),
                               .packed = from,
                               .shard = piece->shard_offset + (from - packed),
                               .count = to - from};
        return true;
    }
    return false;
}

size_t tess_pieces_owned(const tess_piece *pieces, size_t n_pieces, int size, int rank)
{
    size_t total = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        size_t begin, rows;
        owned_rows(&pieces[i], size, rank, &begin, &rows);
        total += rows * pieces[i].row;
    }
    return total;
}

size_t tess_pieces_most(const tess_piece *pieces, size_t n_pieces, int size)
{
    /* Rows are assigned from the front, so no rank owns more rows of any piece than the first rank. */
    return tess_pieces_owned(pieces, n_pieces, size, 0);
}

tess_status tess_pieces_extent(const tess_piece *pieces, size_t n_pieces, size_t *elements, size_t *end)
{
    *elements = 0;
    *end = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        size_t n, last;
        if (__builtin_mul_overflow(pieces[i].n_rows, pieces[i].row, &n) || n > SIZE_MAX / 16 ||
            __builtin_add_overflow(pieces[i].offset, n, &last) || last > SIZE_MAX / 16 ||
            __builtin_add_overflow(*elements, n, elements))
            return TESS_FAIL(TESS_E_INVALID, "piece %zu: %zu rows of %zu elements at %zu do not fit in memory", i,
                             pieces[i].n_rows, pieces[i].row, pieces[i].offset);
        if (n > 0 && last > *end)
            *end = last;
    }
    return TESS_OK;
}

uint64_t tess_pieces_hash(const tess_piece *pieces, size_t n_pieces)
{
    uint64_t hash = n_pieces;
    for (size_t i = 0; i < n_pieces; i++) {
        const uint64_t words[3] = {pieces[i].offset, pieces[i].n_rows, pieces[i].row};
        hash = tess_hash_bytes(words, sizeof(words), hash);
    }
    return hash;
}
