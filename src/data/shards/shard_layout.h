/* Tessera's own shard format, version 1, little-endian. Private to this folder.
 *
 *   header | block ... | index | trailer
 *
 * A block is the result of 256 KiB of text. It contains:
 * - its head
 * - its documents: 4 bytes each, the number of tokens, with the kind in the upper two bits
 * - the ids, 2 or 4 bytes each
 * - a byte for each id, which says whether it may be a target (only if has_loss)
 * - zeroes up to a multiple of 8
 * The head says how far the text has been read, so a restarted writer resumes after the last complete block. The index
 * has one entry per block, and one entry for the end of the last block. A file without a trailer is incomplete. */
#ifndef TESS_DATA_SHARDS_SHARD_LAYOUT_H
#define TESS_DATA_SHARDS_SHARD_LAYOUT_H

#include <stdint.h>

#define TESS_SHARD_MAGIC 0x6472616853737354ull     /* "TssShard" */
#define TESS_SHARD_END_MAGIC 0x646e456853737354ull /* "TssShEnd" */
enum { TESS_SHARD_VERSION = 1, TESS_SHARD_BLOCK_MAGIC = 0x6b6c4254 /* "TBlk" */ };

typedef struct shard_header {
    uint64_t magic;
    uint32_t version, width; /* width: bytes of an id, 2 or 4 */
    uint64_t tokenizer;      /* tess_tokenizer_digest */
    uint64_t vocab_size;
    uint64_t source; /* hash of the files and options from which it was made */
    uint64_t hash;   /* XXH3-64 of the fields above */
} shard_header;

typedef struct shard_block {
    uint64_t hash; /* XXH3-64 of what follows in the block */
    uint32_t magic, n_tokens, n_documents, max_id;
    uint32_t has_loss, source; /* source: number of the text file, from 0 */
    uint64_t source_at;        /* number of bytes of its text that have been read, including this block */
} shard_block;

typedef struct shard_index {
    uint64_t at, first_token, hash;
} shard_index;

typedef struct shard_trailer {
    uint64_t n_blocks, n_tokens, n_documents, max_id, index_at;
    uint64_t index_hash; /* XXH3-64 of the index */
    uint64_t hash;       /* hash of the header, seeded with the hash of the other fields above */
    uint64_t magic;
} shard_trailer;

_Static_assert(sizeof(shard_header) == 48 && sizeof(shard_block) == 40 && sizeof(shard_index) == 24 &&
                   sizeof(shard_trailer) == 64,
               "the layout of files");

static inline uint64_t shard_block_bytes(const shard_block *block, uint32_t width)
{
    uint64_t bytes = sizeof(*block) + 4 * (uint64_t)block->n_documents +
                     (uint64_t)block->n_tokens * (width + (block->has_loss != 0));
    return (bytes + 7) & ~7ull;
}

#endif
