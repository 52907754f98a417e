/* Documents as tokens, without the bos and the eos of a run: what becomes of a block of text, and what a shard holds of
 * it. The loader adds both as its options say. */
#ifndef TESS_DATA_SHARDS_TOKEN_BLOCK_H
#define TESS_DATA_SHARDS_TOKEN_BLOCK_H

#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"

/* Numbers are stable: shards hold them. */
typedef enum tess_document_kind {
    TESS_DOCUMENT_TEXT = 0,        /* a stretch of plain text: begins with bos, ends without eos; may be cut anywhere */
    TESS_DOCUMENT_LINE = 1,        /* a whole text: bos, eos */
    TESS_DOCUMENT_PAIR = 2,        /* a prompt and its completion: bos, eos */
    TESS_DOCUMENT_CONVERSATION = 3 /* the text of its template: neither */
} tess_document_kind;

typedef struct tess_token_document {
    uint32_t n_tokens : 30;
    uint32_t kind : 2; /* tess_document_kind */
} tess_token_document;

_Static_assert(sizeof(tess_token_document) == 4, "shards hold it");

/* The note for people on a conversation that has become a document for each turn. */
#define TESS_BY_TURNS_NOTE                                                                                           \
    "the chat template writes a turn differently once others follow: each turn of the assistant is a sample of its " \
    "own, after what the model sees when it answers"

/* Zero-initialise, then set mem of ids and loss. */
typedef struct tess_token_block {
    tess_ids ids;
    tess_buffer loss; /* a byte for each id, 0: never a target. Empty: all may be */
    tess_token_document *documents;
    size_t n_documents, capacity;
    bool by_turns; /* a conversation has become a document for each turn (conversation.h) */
    char mask[64]; /* the first member of a line with the name of a mask, which is not obeyed; "": none */
} tess_token_block;

tess_token_block tess_token_block_of(tess_mem *mem);
void tess_token_block_clear(tess_token_block *block);
void tess_token_block_free(tess_token_block *block);
/* Ends a document: the ids from `start` on. TESS_E_UNSUPPORTED: more than 2^30 of them. */
tess_status tess_token_block_end(tess_token_block *block, size_t start, tess_document_kind kind);
/* Says of the ids appended since the last call whether they may be targets. */
tess_status tess_token_block_mark(tess_token_block *block, bool counts);

#endif
