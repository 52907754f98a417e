#include "data/packing/packing.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t pairs_of(const int64_t *starts, int64_t d)
{
    int64_t tokens = starts[d + 1] - starts[d];
    return tokens > 0 ? tokens - 1 : 0;
}

int64_t tess_pack_place(const int64_t *starts, const uint8_t *whole, int64_t n, int64_t seq_len, int64_t *places)
{
    places[0] = 0;
    for (int64_t d = 0; d < n; d++) {
        int64_t length = pairs_of(starts, d), used = places[d] % seq_len;
        if (whole != NULL && whole[d] != 0) {
            length = smaller(length, seq_len);
            places[d] += used + length > seq_len ? seq_len - used : 0;
        }
        places[d + 1] = places[d] + length;
    }
    return places[n];
}

int64_t tess_pack_rows(const tess_documents *documents, int64_t seq_len)
{
    return (documents->places[documents->n] + seq_len - 1) / seq_len;
}

/* Returns the last document that begins at or before position `at`. */
static int64_t document_of(const tess_documents *documents, int64_t at)
{
    int64_t low = 0, high = documents->n;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (documents->places[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the number of pairs of a document on the line. A document that was cut has only those before the next one
 * begins. */
static int64_t length_of(const tess_documents *documents, int64_t d)
{
    return smaller(pairs_of(documents->starts, d), documents->places[d + 1] - documents->places[d]);
}

int64_t tess_pack_row(const tess_documents *documents, int64_t index, int64_t seq_len, int32_t pad_id,
                      const tess_row *row)
{
    const int64_t *places = documents->places;
    int64_t end = places[documents->n], at = index * seq_len, filled = 0, n_seqs = 0;
    for (int64_t d = at < end ? document_of(documents, at) : documents->n; d < documents->n; d++) {
        if (filled == seq_len || places[d] > at + filled)
            break;
        int64_t first = at + filled - places[d], length = smaller(length_of(documents, d) - first, seq_len - filled);
        const int64_t token = documents->starts[d] + first;
        for (int64_t i = 0; i < length; i++) {
            bool counts = documents->loss == NULL || documents->loss[token + i + 1] != 0;
            row->ids[filled + i] = documents->tokens[token + i];
            row->pos[filled + i] = (int32_t)i;
            row->targets[filled + i] = counts ? documents->tokens[token + i + 1] : -1;
        }
        filled += length;
        if (length > 0)
            row->ends[n_seqs++] = row->base + (int32_t)filled;
    }
    if (filled == seq_len)
        return n_seqs;
    for (int64_t i = filled; i < seq_len; i++) {
        row->ids[i] = pad_id;
        row->pos[i] = (int32_t)(i - filled);
        row->targets[i] = -1;
    }
    row->ends[n_seqs++] = row->base + (int32_t)seq_len;
    return n_seqs;
}
