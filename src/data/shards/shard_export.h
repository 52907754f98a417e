/* A shard in the formats of other programs:
 *
 *   llm.c     256 int32 (magic 20240520, version 1; or 20240801, 7), then ids of 2 bytes (or 4); the end token is ahead
 *             of each document. github.com/karpathy/llm.c, dev/data/data_common.py and fineweb.py
 *   nanoGPT   ids of 2 bytes; the end token is after each document. github.com/karpathy/nanoGPT,
 *             data/openwebtext/prepare.py
 *   Megatron  NAME.bin, ids of 2 bytes (of a vocabulary below 65500) or 4, the end token after each document, as with
 *             --append-eod; and NAME.idx (indexed_tokens.c), a sequence a document, several where a text is longer than
 *             a block. github.com/NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py
 *
 * A text file is one document, a line of jsonl is one. None of them says which tokens are trained on. */
#ifndef TESS_DATA_SHARDS_SHARD_EXPORT_H
#define TESS_DATA_SHARDS_SHARD_EXPORT_H

#include "data/shards/token_shard.h"

typedef enum tess_shard_format {
    TESS_SHARD_TESSERA, /* its own */
    TESS_SHARD_LLMC,
    TESS_SHARD_NANOGPT,
    TESS_SHARD_MEGATRON
} tess_shard_format;

/* Checks what can be known before there are tokens. TESS_E_INVALID: `path` is there already, or is no name of the
 * format (Megatron's end with .bin); TESS_E_UNSUPPORTED: the format has no room for such a vocabulary. */
tess_status tess_shard_export_check(const char *path, const tess_tokenizer *tokenizer, tess_shard_format format);

/* Writes the shard `from`, one of tessera's own, to `path`, which gets its name when it is whole. end_id: the token
 * that ends documents. TESS_E_UNSUPPORTED: more tokens than the format counts, or some that are not trained on. Errors
 * of tess_token_shard_open and read. */
tess_status tess_shard_export(tess_mem *mem, const char *from, const tess_tokenizer *tokenizer,
                              tess_shard_format format, int32_t end_id, const char *path);

#endif
