/* Files of token ids, read by mapping: nothing of them is loaded when they are opened, however large they are.
 *
 * A file says by its content what it is:
 *   tessera's own           blocks with checksums and documents, of a tokenizer that it knows (shard_layout.h)
 *   llm.c's .bin            magic 20240520, version 1: uint16; magic 20240801, version 7: uint32
 *   Megatron's .bin, .idx   MMIDIDX, version 1; either of the two names both
 *   nanoGPT's .bin          ids alone, without a word on what they are: options.format says uint16 or uint32
 * llm.c's and nanoGPT's do not say where documents are: one ends after each end_id, or ahead of each bos of the
 * tokenizer's template. The bos that a document of another program begins with is left out, for the loader to add.
 *
 * A shard is cut into blocks of documents, and the part begin..end of it is in use, as text is (loader/blocks.h): for
 * tessera's own they are those of the text; for others they hold about as many tokens. Ids are checked against the
 * vocabulary where they are read. Immutable once opened: safe to share between threads. */
#ifndef TESS_DATA_SHARDS_TOKEN_SHARD_H
#define TESS_DATA_SHARDS_TOKEN_SHARD_H

#include "data/shards/token_block.h"

/* The content of a .bin that does not say what it holds; any other such file is text. */
typedef enum tess_data_format {
    TESS_DATA_AUTO, /* it is refused */
    TESS_DATA_TEXT,
    TESS_DATA_UINT16,
    TESS_DATA_UINT32
} tess_data_format;

typedef struct tess_token_shard_options {
    const tess_tokenizer *tokenizer; /* borrowed while it is opened */
    tess_data_format format;
    int32_t end_id;    /* -1: documents have no end */
    double begin, end; /* part in use, by tokens, cut where documents begin; plain text is cut anywhere */
} tess_token_shard_options;

typedef struct tess_token_shard tess_token_shard;

/* *shard NULL: the file holds text. TESS_E_NOT_FOUND, TESS_E_IO. TESS_E_INVALID: a file of ids that does not say which,
 * an empty one, another tokenizer's. TESS_E_FORMAT: half-written, damaged, or with ids beyond the vocabulary.
 * TESS_E_UNSUPPORTED: another version. The message names the file and what to do. */
tess_status tess_token_shard_open(tess_mem *mem, const char *path, const tess_token_shard_options *options,
                                  tess_token_shard **shard);
void tess_token_shard_close(tess_token_shard **shard);

/* *is: the file holds ids. Errors of tess_token_shard_open, as far as its first bytes show them. */
tess_status tess_token_shard_is_at(const char *path, tess_data_format format, bool *is);

uint64_t tess_token_shard_blocks(const tess_token_shard *shard); /* blocks of the part */

/* Replaces `out` with block `index` of the part. TESS_E_FORMAT: damage, or an id beyond the vocabulary, by its number
 * in the file. TESS_E_IO: the file has changed since it was opened. */
tess_status tess_token_shard_read(const tess_token_shard *shard, uint64_t index, tess_token_block *out);

#endif
