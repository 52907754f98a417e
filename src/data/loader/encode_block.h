/* Converts a block of text to documents of tokens. Private to src/data. */
#ifndef TESS_DATA_LOADER_ENCODE_BLOCK_H
#define TESS_DATA_LOADER_ENCODE_BLOCK_H

#include "data/conversation/conversation.h"
#include "data/files/records.h"
#include "data/loader/document.h"
#include "data/shards/token_block.h"

/* The rules for reading text. All members are borrowed. */
typedef struct tess_text_rules {
    tess_document_keys keys;
    const tess_chat *chat; /* writes conversations; NULL: conversations are refused */
} tess_text_rules;

/* Replaces `out` with all documents of `text`: one per record, or one for all of it. On a failure *bad_at is a byte of
 * the line with the error; the caller knows the number of that line. */
tess_status tess_encode_block(const tess_text_rules *rules, tess_encoder *encoder, tess_text_kind kind,
                              const tess_buffer *text, tess_token_block *out, size_t *bad_at);

#endif
