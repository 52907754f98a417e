/* Parses a line of jsonl as a document: a JSON object with the text as a string member, with a prompt and the
 * completion that is trained on, or with the messages of a conversation. Other members are refused or reported by name
 * if they say that not all of the text is to be trained on. */
#ifndef TESS_DATA_LOADER_DOCUMENT_H
#define TESS_DATA_LOADER_DOCUMENT_H

#include "base/text/json.h"

enum { TESS_LINE_BYTES = 64 << 20 }; /* size of the longest line */

/* The names of the members that are read; none is NULL. */
typedef struct tess_document_keys {
    const char *text, *prompt, *completion;
} tess_document_keys;

/* Returns the keys; NULL becomes "text", "prompt" or "completion". */
tess_document_keys tess_document_keys_of(const char *text, const char *prompt, const char *completion);

typedef struct tess_document {
    json_t *line;       /* NULL: the line is blank, or its text is null */
    const char *prompt; /* (prompt_size) text before the document's text, which is not trained on; NULL: none */
    size_t prompt_size;
    const char *text; /* NULL: the document is a conversation */
    size_t size;
    const json_t *messages, *tools; /* parts of a conversation; tools NULL: it has none */
    /* Number of messages that form a prompt; only the messages after them are trained on */
    size_t n_prompt;
} tess_document;

/* Parses a line. Free *document with tess_document_free. The first of these that the object has is read:
 * - the string member keys->text
 * - the members keys->prompt and keys->completion: two strings, or two lists of messages
 * - the list member "messages"
 * TESS_E_FORMAT: the line is too long, is not JSON, or has none of them. TESS_E_UNSUPPORTED: another form of
 * conversation, or a loss_mask; the message names an alternative. */
tess_status tess_document_parse(const char *line, size_t size, const tess_document_keys *keys, tess_document *document);
void tess_document_free(tess_document *document);

/* Returns the first member that is not read and whose name suggests a mask, or weights or labels of tokens; NULL:
 * none. */
const char *tess_document_mask(const tess_document *document, const tess_document_keys *keys);

#endif
