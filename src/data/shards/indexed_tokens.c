/* Reads Megatron's .bin, which contains ids, and .idx, which says where sequences and documents are.
 *
 * .idx contains, in this order: "MMIDIDX\\0\\0", version (8 bytes), code of the type (1), number of sequences S (8),
 * number of entries of documents D (8); then (S) int32 tokens of each sequence, (S) int64 byte offset of each sequence,
 * (D) int64 first sequence of each document, the last of which is S; and sometimes (S) int8 modes. Source:
 * github.com/NVIDIA/Megatron-LM, core/datasets/indexed_dataset.py. Entries are checked when they are used. */
#include <string.h>

#include "data/shards/token_shard_impl.h"

enum { HEADER = 34 };

bool tess_token_shard_is_index(const uint8_t *head, size_t size)
{
    return size >= 9 && memcmp(head, "MMIDIDX\0\0", 9) == 0;
}

static int width_of(uint8_t code)
{
    static const int widths[] = {[1] = 1, [4] = 4, [5] = 8, [8] = 2};
    return code < sizeof(widths) / sizeof(widths[0]) ? widths[code] : 0;
}

/* Returns the first token of document d; for the last entry, the end of all. In a damaged file the result may be beyond
 * the tokens. */
static uint64_t start_of(const tess_token_shard *shard, uint64_t d)
{
    uint64_t sequence = shard_u64(shard->documents + 8 * d);
    if (sequence >= shard->n_sequences)
        return sequence == shard->n_sequences ? shard->n_tokens : UINT64_MAX;
    return shard_u64(shard->pointers + 8 * sequence) / (uint64_t)shard->width;
}

/* Returns the first document that begins at or after token x. */
static uint64_t document_at(const tess_token_shard *shard, uint64_t x)
{
    uint64_t low = 0, high = shard->n_documents;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (start_of(shard, middle) < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static tess_status cut(const tess_token_shard *shard, uint64_t x, uint64_t *at)
{
    *at = start_of(shard, document_at(shard, x));
    *at = *at < shard->n_tokens ? *at : shard->n_tokens;
    return TESS_OK;
}

/* Whether the sequences of document d are contiguous, have the sizes stated in the index, and end at token `end`. */
static bool is_whole(const tess_token_shard *shard, uint64_t d, uint64_t end)
{
    uint64_t sequence = shard_u64(shard->documents + 8 * d), last = shard_u64(shard->documents + 8 * (d + 1));
    uint64_t at = start_of(shard, d) * (uint64_t)shard->width;
    if (sequence > last || last > shard->n_sequences)
        return false;
    for (; sequence < last && shard_u64(shard->pointers + 8 * sequence) == at; sequence++)
        at += shard_u32(shard->sizes + 4 * sequence) * (uint64_t)shard->width;
    return sequence == last && at == end * (uint64_t)shard->width;
}

static tess_status read(const tess_token_shard *shard, uint64_t index, tess_token_block *out)
{
    uint64_t from, to, end;
    TESS_TRY(tess_spans_of(shard, index, &from, &to));
    for (uint64_t d = document_at(shard, from); d < shard->n_documents && from < to; d++, from = end) {
        uint64_t start = start_of(shard, d);
        end = start_of(shard, d + 1);
        TESS_CHECK(start == from && end >= start && end <= shard->n_tokens, TESS_E_FORMAT,
                   "%s: its index is damaged: document %llu is not where the one before it ends", shard->path,
                   (unsigned long long)d);
        TESS_CHECK(is_whole(shard, d, end), TESS_E_FORMAT,
                   "%s: its index is damaged: document %llu has %llu tokens, but its sequences have others",
                   shard->path, (unsigned long long)d, (unsigned long long)(end - start));
        TESS_TRY(tess_spans_document(shard, start, end, out));
    }
    return TESS_OK;
}

/* Checks that the last sequence ends where the ids end. */
static tess_status check_end(const tess_token_shard *shard)
{
    uint64_t last = shard->n_sequences - 1, width = (uint64_t)shard->width;
    uint64_t at = shard_u64(shard->pointers + 8 * last), n = shard_u32(shard->sizes + 4 * last);
    uint64_t end = at <= shard->file.size ? at + n * width : UINT64_MAX;
    TESS_CHECK(
        end == shard->file.size, TESS_E_FORMAT,
        "%s: its .bin has %zu bytes, but by its .idx the last sequence ends at byte %llu: half-written, or of two "
        "different data sets",
        shard->path, shard->file.size, (unsigned long long)end);
    return TESS_OK;
}

tess_status tess_token_shard_open_indexed(tess_token_shard *shard)
{
    static const tess_token_shard_kind kind = {tess_spans_divide, cut, read};
    const tess_mapping *index = &shard->index;
    const char *path = shard->path;
    shard->kind = &kind;
    TESS_CHECK(tess_token_shard_is_index(index->data, index->size), TESS_E_FORMAT, "%s: its .idx is none of Megatron's",
               path);
    TESS_CHECK(index->size >= HEADER, TESS_E_FORMAT, "%s: its .idx is cut off: %zu bytes", path, index->size);
    uint64_t version = shard_u64(index->data + 9), documents = shard_u64(index->data + 26);
    TESS_CHECK(version == 1, TESS_E_UNSUPPORTED, "%s: version %llu of Megatron's index; 1 is read", path,
               (unsigned long long)version);
    shard->width = width_of(index->data[17]);
    TESS_CHECK(shard->width > 0, TESS_E_UNSUPPORTED,
               "%s: type %d of tokens; uint8 (1), int32 (4), int64 (5) and uint16 (8) are read", path, index->data[17]);
    shard->n_sequences = shard_u64(index->data + 18);
    TESS_CHECK(documents > 0 && shard->n_sequences > 0, TESS_E_INVALID, "%s: its .idx names no document", path);
    uint64_t limit = index->size; /* limit for the counts, so that no product overflows */
    TESS_CHECK(documents <= limit && shard->n_sequences <= limit &&
                   HEADER + 12 * shard->n_sequences + 8 * documents <= index->size,
               TESS_E_FORMAT, "%s: its .idx is cut off: it has %zu bytes, but says %llu sequences and %llu documents",
               path, index->size, (unsigned long long)shard->n_sequences, (unsigned long long)documents - 1);
    shard->n_documents = documents - 1;
    shard->sizes = index->data + HEADER;
    shard->pointers = shard->sizes + 4 * shard->n_sequences;
    shard->documents = shard->pointers + 8 * shard->n_sequences;
    shard->tokens = shard->file.data;
    shard->n_tokens = shard->file.size / (uint64_t)shard->width;
    TESS_CHECK(start_of(shard, 0) == 0 && start_of(shard, shard->n_documents) == shard->n_tokens, TESS_E_FORMAT,
               "%s: its .idx does not name all of its tokens as documents", path);
    return check_end(shard);
}
