/* Writes a shard, block by block. What is written is PATH.partial until it is whole; a writer that was killed, or whose
 * machine lost power, is followed by one that resumes after the last whole block, to the same bytes. One at a time. */
#ifndef TESS_DATA_SHARDS_SHARD_WRITE_H
#define TESS_DATA_SHARDS_SHARD_WRITE_H

#include "data/shards/token_block.h"

typedef struct tess_token_shard_writer tess_token_shard_writer;

/* Up to where text has become blocks. */
typedef struct tess_token_shard_place {
    uint32_t source;    /* the number of the text file */
    uint64_t n_blocks;  /* blocks of this file */
    uint64_t source_at; /* bytes of its text */
} tess_token_shard_place;

/* source: a hash of all that decides the blocks. *place: where to go on, all 0 at the beginning. TESS_E_INVALID: `path`
 * is there, or PATH.partial belongs to another source or tokenizer, or is being written. */
tess_status tess_token_shard_writer_open(tess_mem *mem, const char *path, const tess_tokenizer *tokenizer,
                                         uint64_t source, tess_token_shard_writer **writer,
                                         tess_token_shard_place *place);
/* *is: a shard of this source and tokenizer is at `path`. Sets its numbers of tokens and documents. */
tess_status tess_token_shard_is_of(const char *path, const tess_tokenizer *tokenizer, uint64_t source, bool *is,
                                   uint64_t *n_tokens, uint64_t *n_documents);
/* Appends a block, after which the text file is read up to `place`. */
tess_status tess_token_shard_writer_append(tess_token_shard_writer *writer, const tess_token_block *block,
                                           const tess_token_shard_place *place);
uint64_t tess_token_shard_writer_tokens(const tess_token_shard_writer *writer); /* those before a kill included */
uint64_t tess_token_shard_writer_documents(const tess_token_shard_writer *writer);
/* Makes the file whole and gives it its name; it then survives a power cut. */
tess_status tess_token_shard_writer_finish(tess_token_shard_writer *writer);
/* Removes what is written: nothing can come of it. */
void tess_token_shard_writer_discard(tess_token_shard_writer *writer);
/* Leaves PATH.partial where it was not finished. */
void tess_token_shard_writer_close(tess_token_shard_writer **writer);

#endif
