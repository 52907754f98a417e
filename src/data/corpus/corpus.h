/* Text files become a shard (shards/shard_write.h): several threads tokenize, and blocks are written in order, so the
 * bytes depend on the text, the tokenizer and the rules alone. Memory holds a block a thread. */
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
    tess_shard_format format; /* another program's format: `out` is made of out.shard, which is then removed */
    int32_t end_id;           /* the token that ends a document in them */
    int n_threads;
    /* Gets the files' bytes, as they lie on disk. One call at a time, from any thread. NULL: none. */
    void (*progress)(void *self, uint64_t done, uint64_t all);
    void *progress_self;
} tess_corpus_options;

typedef struct tess_corpus_result {
    uint64_t n_tokens, n_documents;
    uint64_t text_bytes; /* bytes of text tokenized by this call */
    bool resumed;        /* the call went on after the blocks that a killed call had written */
    bool by_turns;       /* see tess_token_block, as `mask` */
    char mask[64];
} tess_corpus_result;

/* Goes on where a killed call with the same text and options stopped. Bad text leaves nothing; a call that stopped for
 * another reason may go on later. Errors: those of the stream, of documents (file and line), and of the writer. */
tess_status tess_corpus_tokenize(tess_mem *mem, const tess_corpus_options *options, tess_corpus_result *result);

#endif
