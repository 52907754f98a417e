/* A block of text as documents of tokens. Private to src/data. */
#ifndef TESS_DATA_LOADER_ENCODE_BLOCK_H
#define TESS_DATA_LOADER_ENCODE_BLOCK_H

#include "data/conversation/conversation.h"
#include "data/files/records.h"
#include "data/loader/document.h"
#include "data/shards/token_block.h"

/* How text is read. All borrowed. */
typedef struct tess_text_rules {
    tess_document_keys keys;
    const tess_chat *chat; /* writes conversations; NULL: they are refused */
} tess_text_rules;

/* Replaces `out` with all documents of `text`: a record each, or all of it. A failure sets *bad_at, a byte of the line
 * that is wrong; the caller knows which line that is. */
tess_status tess_encode_block(const tess_text_rules *rules, tess_encoder *encoder, tess_text_kind kind,
                              const tess_buffer *text, tess_token_block *out, size_t *bad_at);

#endif
