/* Writes a shard block by block, as PATH.partial until it is complete. If a writer was killed, or its machine lost
 * power, a restarted writer resumes after the last complete block and produces the same bytes. Only one writer may be
 * open. */
#ifndef TESS_DATA_SHARDS_SHARD_WRITE_H
#define TESS_DATA_SHARDS_SHARD_WRITE_H

#include "data/shards/token_block.h"

typedef struct tess_token_shard_writer tess_token_shard_writer;

/* How far text has been converted to blocks. */
typedef struct tess_token_shard_place {
    uint32_t source;    /* the number of the text file */
    uint64_t n_blocks;  /* number of blocks of this file */
    uint64_t source_at; /* number of bytes of its text */
} tess_token_shard_place;

/* Opens a writer. `source` is a hash of everything that determines the blocks. *place: where to continue; all 0 at the
 * beginning. TESS_E_INVALID: `path` exists, or PATH.partial belongs to another source or tokenizer, or another writer
 * has it open. */
tess_status tess_token_shard_writer_open(tess_mem *mem, const char *path, const tess_tokenizer *tokenizer,
                                         uint64_t source, tess_token_shard_writer **writer,
                                         tess_token_shard_place *place);
/* Checks whether there is a shard of this source and tokenizer at `path` (*is). If so, returns its numbers of tokens
 * and documents. */
tess_status tess_token_shard_is_of(const char *path, const tess_tokenizer *tokenizer, uint64_t source, bool *is,
                                   uint64_t *n_tokens, uint64_t *n_documents);
/* Appends a block. After it the text file has been read up to `place`. */
tess_status tess_token_shard_writer_append(tess_token_shard_writer *writer, const tess_token_block *block,
                                           const tess_token_shard_place *place);
/* Including those written before a kill */
uint64_t tess_token_shard_writer_tokens(const tess_token_shard_writer *writer);
uint64_t tess_token_shard_writer_documents(const tess_token_shard_writer *writer);
/* Completes the file and gives it its name. It then survives a power failure. */
tess_status tess_token_shard_writer_finish(tess_token_shard_writer *writer);
/* Removes what was written: the text is bad, so the shard cannot be completed. */
void tess_token_shard_writer_discard(tess_token_shard_writer *writer);
/* Closes the writer. Without finish or discard, PATH.partial remains. */
void tess_token_shard_writer_close(tess_token_shard_writer **writer);

#endif
