/* A line of jsonl as a document: a JSON object with the text as a string member, or with a prompt and the completion
 * that is trained on, or with the messages of a conversation. What else it may hold is refused by name, or reported,
 * where it says that the text is not all to be trained on. */
#ifndef TESS_DATA_LOADER_DOCUMENT_H
#define TESS_DATA_LOADER_DOCUMENT_H

#include "base/text/json.h"

enum { TESS_LINE_BYTES = 64 << 20 }; /* size of the longest line */

/* The members that are read; none is NULL. */
typedef struct tess_document_keys {
    const char *text, *prompt, *completion;
} tess_document_keys;

/* NULLs become "text", "prompt" and "completion". */
tess_document_keys tess_document_keys_of(const char *text, const char *prompt, const char *completion);

typedef struct tess_document {
    json_t *line;       /* NULL: the line is blank, or its text is null */
    const char *prompt; /* prompt_size bytes that come before the text and are not trained on; NULL: none */
    size_t prompt_size;
    const char *text; /* NULL: a conversation */
    size_t size;
    const json_t *messages, *tools; /* parts of a conversation; tools NULL: none */
    size_t n_prompt;                /* number of its messages that are a prompt, whose completion alone is trained on */
} tess_document;

/* *document: an object whose member keys->text is a string, which is the text; or else whose members keys->prompt and
 * keys->completion are, or are both lists of messages; or else whose member "messages" is a list. tess_document_free
 * it. TESS_E_FORMAT: the line is too long, not JSON, or has no such members. TESS_E_UNSUPPORTED: another conversation,
 * or a loss_mask; the message says the way around. */
tess_status tess_document_parse(const char *line, size_t size, const tess_document_keys *keys, tess_document *document);
void tess_document_free(tess_document *document);

/* The first member that is not read, with the name of a mask, or of weights or labels of tokens; NULL: none. */
const char *tess_document_mask(const tess_document *document, const tess_document_keys *keys);

#endif
