#include "data/packing/packing.h"

int64_t tess_pack_count(const int64_t *starts, int64_t n, int64_t *pairs)
{
    pairs[0] = 0;
    for (int64_t d = 0; d < n; d++) {
        int64_t tokens = starts[d + 1] - starts[d];
        pairs[d + 1] = pairs[d] + (tokens > 0 ? tokens - 1 : 0);
    }
    return pairs[n];
}

int64_t tess_pack_rows(const tess_documents *documents, int64_t seq_len)
{
    return (documents->pairs[documents->n] + seq_len - 1) / seq_len;
}

/* The document that holds pair `at`: the last with pairs[d] <= at. */
static int64_t document_of(const tess_documents *documents, int64_t at)
{
    int64_t low = 0, high = documents->n;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (documents->pairs[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t tess_pack_row(const tess_documents *documents, int64_t index, int64_t seq_len, int32_t pad_id,
                      const tess_row *row)
{
    int64_t n_pairs = documents->pairs[documents->n], at = index * seq_len, filled = 0, n_seqs = 0;
    for (int64_t d = at < n_pairs ? document_of(documents, at) : documents->n; d < documents->n && filled < seq_len;
         d++) {
        int64_t first = at + filled - documents->pairs[d], left = documents->pairs[d + 1] - documents->pairs[d] - first;
        int64_t length = left < seq_len - filled ? left : seq_len - filled;
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
