/* The interface of the kinds of shards, and the state that they share. Private to this folder. */
#ifndef TESS_DATA_SHARDS_TOKEN_SHARD_IMPL_H
#define TESS_DATA_SHARDS_TOKEN_SHARD_IMPL_H

#include "base/os/os.h"
#include "data/shards/token_shard.h"
#include "data/shards/shard_layout.h"

enum {
    TESS_SHARD_SPAN = 64 << 10, /* tokens per block if the file has no blocks: about 256 KiB of text */
    TESS_SHARD_PATH = 4096
};

typedef struct tess_token_shard_kind {
    /* Sets n_blocks for the part begin..end. */
    void (*divide)(tess_token_shard *shard);
    /* Finds the first position at or after token x where documents may be cut. */
    tess_status (*cut)(const tess_token_shard *shard, uint64_t x, uint64_t *at);
    tess_status (*read)(const tess_token_shard *shard, uint64_t index, tess_token_block *out);
} tess_token_shard_kind;

struct tess_token_shard {
    tess_mem *mem;
    char *path;
    tess_mapping file, index; /* index: Megatron's .idx; otherwise empty */
    const tess_token_shard_kind *kind;
    int width;             /* bytes of an id */
    const uint8_t *tokens; /* foreign files: (n_tokens) ids of `width` bytes */
    uint64_t n_tokens, begin, end, n_blocks;
    int64_t vocab_size;
    int32_t begin_id, end_id;
    /* Megatron's files: documents are runs of sequences. */
    const uint8_t *pointers, *sizes, *documents;
    uint64_t n_sequences, n_documents;
    /* Tessera's own files: */
    const shard_index *blocks; /* (all_blocks + 1) */
    uint64_t all_blocks, first_block;
};

/* Each opens a mapped file if it has its kind, recognised by the magic number or by options->format. */
tess_status tess_token_shard_open_own(tess_token_shard *shard, const tess_tokenizer *tokenizer);
tess_status tess_token_shard_open_raw(tess_token_shard *shard, tess_data_format format);
tess_status tess_token_shard_open_indexed(tess_token_shard *shard);

/* Whether the file begins like Tessera's own, like llm.c's, or like Megatron's index. */
bool tess_token_shard_is_own(const uint8_t *head, size_t size);
bool tess_token_shard_is_llmc(const uint8_t *head, size_t size);
bool tess_token_shard_is_index(const uint8_t *head, size_t size);

/* spans.c: appends n ids of shard->width bytes. `first`: number of the first one in the file, for messages. */
tess_status tess_token_shard_append(const tess_token_shard *shard, const uint8_t *from, uint64_t first, uint64_t n,
                                    tess_ids *ids);

/* Divide files that have no blocks into blocks, with the kind's `cut`. */
void tess_spans_divide(tess_token_shard *shard);
tess_status tess_spans_of(const tess_token_shard *shard, uint64_t index, uint64_t *from, uint64_t *to);
/* Appends tokens from..to as a document, without the bos with which it may begin. */
tess_status tess_spans_document(const tess_token_shard *shard, uint64_t from, uint64_t to, tess_token_block *out);

static inline uint64_t shard_u64(const uint8_t *at)
{
    uint64_t value;
    __builtin_memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint32_t shard_u32(const uint8_t *at)
{
    uint32_t value;
    __builtin_memcpy(&value, at, sizeof(value));
    return value;
}

/* Returns id `i` of an array at `from` whose ids have `width` bytes. An id that does not fit becomes UINT32_MAX. */
static inline uint32_t shard_id(const uint8_t *from, int width, uint64_t i)
{
    uint16_t half;
    if (width == 1)
        return from[i];
    if (width == 4)
        return shard_u32(from + 4 * i);
    if (width == 8) {
        uint64_t whole = shard_u64(from + 8 * i);
        return whole < UINT32_MAX ? (uint32_t)whole : UINT32_MAX;
    }
    __builtin_memcpy(&half, from + 2 * i, sizeof(half));
    return half;
}

#endif
