/* A block of documents as tokens, without the bos and eos of a run: the result of tokenizing a block of text, and what
 * a shard stores of it. The loader adds bos and eos as its options say. */
#ifndef TESS_DATA_SHARDS_TOKEN_BLOCK_H
#define TESS_DATA_SHARDS_TOKEN_BLOCK_H

#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"

/* The kinds of documents. The numbers must not change: shards store them. */
typedef enum tess_document_kind {
    TESS_DOCUMENT_TEXT = 0,        /* a stretch of plain text: gets a bos, but no eos; may be cut anywhere */
    TESS_DOCUMENT_LINE = 1,        /* a whole text: gets bos and eos */
    TESS_DOCUMENT_PAIR = 2,        /* a prompt and its completion: gets bos and eos */
    TESS_DOCUMENT_CONVERSATION = 3 /* the text of a template: gets neither */
} tess_document_kind;

typedef struct tess_token_document {
    uint32_t n_tokens : 30;
    uint32_t kind : 2; /* tess_document_kind */
} tess_token_document;

_Static_assert(sizeof(tess_token_document) == 4, "shards hold it");

/* The note to the user if a conversation has become a document for each turn. */
#define TESS_BY_TURNS_NOTE                                                                                           \
    "the chat template writes a turn differently once others follow: each turn of the assistant is a sample of its " \
    "own, after what the model sees when it answers"

/* Zero-initialise it, then set mem of ids and loss. */
typedef struct tess_token_block {
    tess_ids ids;
    tess_buffer loss; /* one byte per id, 0: never a target. Empty: all may be targets */
    tess_token_document *documents;
    size_t n_documents, capacity;
    bool by_turns; /* whether a conversation has become a document for each turn (conversation.h) */
    char mask[64]; /* the first member of a line whose name suggests a mask, which is ignored; "": none */
} tess_token_block;

tess_token_block tess_token_block_of(tess_mem *mem);
void tess_token_block_clear(tess_token_block *block);
void tess_token_block_free(tess_token_block *block);
/* Ends a document, which consists of the ids from `start` on. TESS_E_UNSUPPORTED: there are more than 2^30 of them. */
tess_status tess_token_block_end(tess_token_block *block, size_t start, tess_document_kind kind);
/* Sets for the ids appended since the last call whether they may be targets. */
tess_status tess_token_block_mark(tess_token_block *block, bool counts);

#endif
