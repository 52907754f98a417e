/* Converts text files into a shard (shards/shard_write.h). Several threads tokenize, and blocks are written in order,
 * so the bytes depend only on the text, the tokenizer and the rules. Memory holds one block per thread. */
#ifndef TESS_DATA_CORPUS_CORPUS_H
#define TESS_DATA_CORPUS_CORPUS_H

#include "data/loader/encode_block.h"
#include "data/shards/shard_export.h"

typedef struct tess_corpus_options {
    const tess_tokenizer *tokenizer;
    const char *const *files; /* files for tess_text_stream_open */
    int n_files;
    tess_text_rules rules;
    const char *out;
    tess_shard_format format; /* another program's format: `out` is made from out.shard, which is removed afterwards */
    int32_t end_id;           /* the token that ends a document in other formats */
    int n_threads;
    /* Receives the number of bytes of the files on disk, read and in all. Called by one thread at a time, which may be
     * any. NULL: not called. */
    void (*progress)(void *self, uint64_t done, uint64_t all);
    void *progress_self;
} tess_corpus_options;

typedef struct tess_corpus_result {
    uint64_t n_tokens, n_documents;
    uint64_t text_bytes; /* bytes of text tokenized by this call */
    bool resumed;        /* the call continued after the blocks that a killed call had written */
    bool by_turns;       /* see tess_token_block, also for `mask` */
    char mask[64];
} tess_corpus_result;

/* Tokenizes the files into a shard. Continues where a killed call with the same text and options stopped. If the text
 * is bad, nothing remains; after any other failure a later call can continue. Errors: those of the stream, of documents
 * (with file and line), and of the writer. */
tess_status tess_corpus_tokenize(tess_mem *mem, const tess_corpus_options *options, tess_corpus_result *result);

#endif
