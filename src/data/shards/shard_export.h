/* Writes a shard in the formats of other programs:
 *
 *   llm.c     256 int32 (magic 20240520, version 1; or 20240801, 7), then ids of 2 bytes (or 4); the end token is
 *             before each document. github.com/karpathy/llm.c, dev/data/data_common.py and fineweb.py
 *   nanoGPT   ids of 2 bytes; the end token is after each document. github.com/karpathy/nanoGPT,
 *             data/openwebtext/prepare.py
 *   Megatron  NAME.bin: ids of 2 bytes (for a vocabulary below 65500) or 4, the end token after each document, as with
 *             --append-eod. NAME.idx (indexed_tokens.c): one sequence per document, several if a text is longer than a
 *             block. github.com/NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py
 *
 * A text file is one document, and so is a line of jsonl. None of the formats says which tokens are trained on. */
#ifndef TESS_DATA_SHARDS_SHARD_EXPORT_H
#define TESS_DATA_SHARDS_SHARD_EXPORT_H

#include "data/shards/token_shard.h"

typedef enum tess_shard_format {
    TESS_SHARD_TESSERA, /* Tessera's own format */
    TESS_SHARD_LLMC,
    TESS_SHARD_NANOGPT,
    TESS_SHARD_MEGATRON
} tess_shard_format;

/* Checks what can be known before there are tokens. TESS_E_INVALID: `path` exists, or is not a valid name for the
 * format (Megatron's must end in .bin). TESS_E_UNSUPPORTED: the format cannot store such a vocabulary. */
tess_status tess_shard_export_check(const char *path, const tess_tokenizer *tokenizer, tess_shard_format format);

/* Converts `from`, one of Tessera's own shards, to `path`, which gets its name when it is complete. end_id: the token
 * that ends documents. TESS_E_UNSUPPORTED: there are more tokens than the format can count, or tokens that are not
 * trained on. Also the errors of tess_token_shard_open and read. */
tess_status tess_shard_export(tess_mem *mem, const char *from, const tess_tokenizer *tokenizer,
                              tess_shard_format format, int32_t end_id, const char *path);

#endif
