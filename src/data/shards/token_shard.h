/* Reads files of token ids through mappings: opening one loads nothing, however large it is.
 *
 * The kind of a file is recognised by its content:
 *   Tessera's own           blocks with checksums and documents, for a tokenizer that the file identifies
 *                           (shard_layout.h)
 *   llm.c's .bin            magic 20240520, version 1: uint16; magic 20240801, version 7: uint32
 *   Megatron's .bin, .idx   MMIDIDX, version 1; the name of either file stands for both
 *   nanoGPT's .bin          only ids, without any description: options.format says uint16 or uint32
 * llm.c's and nanoGPT's files do not say where documents are. A document ends after each end_id, or before each bos of
 * the tokenizer's template. If a document of another program begins with a bos, the bos is left out, and the loader
 * adds its own.
 *
 * A shard is divided into blocks of documents, and its part begin..end is used, as with text (loader/blocks.h).
 * Tessera's own shards have the blocks of the text; blocks of other files have about the same number of tokens each.
 * Ids are checked against the vocabulary when they are read. A shard does not change once opened, so threads may share
 * it. */
#ifndef TESS_DATA_SHARDS_TOKEN_SHARD_H
#define TESS_DATA_SHARDS_TOKEN_SHARD_H

#include "data/shards/token_block.h"

/* The content of a .bin file that does not state it. Any other file that is not recognised is text. */
typedef enum tess_data_format {
    TESS_DATA_AUTO, /* such files are refused */
    TESS_DATA_TEXT,
    TESS_DATA_UINT16,
    TESS_DATA_UINT32
} tess_data_format;

typedef struct tess_token_shard_options {
    const tess_tokenizer *tokenizer; /* borrowed while the shard is opened */
    tess_data_format format;
    int32_t end_id;    /* token that ends documents; -1: documents have no end */
    double begin, end; /* part that is used, by tokens, cut where documents begin; plain text may be cut anywhere */
} tess_token_shard_options;

typedef struct tess_token_shard tess_token_shard;

/* Opens a file. *shard NULL: the file contains text.
 *   TESS_E_NOT_FOUND, TESS_E_IO
 *   TESS_E_INVALID      a file of ids that does not state their format, an empty file, or another tokenizer's
 *   TESS_E_FORMAT       incomplete, damaged, or with ids beyond the vocabulary
 *   TESS_E_UNSUPPORTED  another version
 * The message names the file and says what to do. */
tess_status tess_token_shard_open(tess_mem *mem, const char *path, const tess_token_shard_options *options,
                                  tess_token_shard **shard);
void tess_token_shard_close(tess_token_shard **shard);

/* Checks whether the file contains ids (*is). Returns the errors of tess_token_shard_open that its first bytes show. */
tess_status tess_token_shard_is_at(const char *path, tess_data_format format, bool *is);

uint64_t tess_token_shard_blocks(const tess_token_shard *shard); /* number of blocks in the part that is used */

/* Replaces `out` with block `index` of the part that is used. TESS_E_FORMAT: the block is damaged, or an id is beyond
 * the vocabulary (the message has its number in the file). TESS_E_IO: the file has changed since it was opened. */
tess_status tess_token_shard_read(const tess_token_shard *shard, uint64_t index, tess_token_block *out);

#endif
