/* A line of jsonl as a document: a JSON object with the text as a string member. What else it may hold is refused by
 * name, or told, where it says that the text is not all to be trained on. */
#ifndef TESS_DATA_LOADER_DOCUMENT_H
#define TESS_DATA_LOADER_DOCUMENT_H

#include "base/text/json.h"

enum { TESS_LINE_BYTES = 64 << 20 }; /* of the longest line */

/* *document: an object whose member `key` is a string (json_decref), or NULL for a blank line. TESS_E_FORMAT: the line
 * is too long, not JSON, or has no such member. TESS_E_UNSUPPORTED: a conversation or a loss_mask; the message says the
 * way around. */
tess_status tess_document_parse(const char *line, size_t size, const char *key, json_t **document);

/* The first member beside `key` with the name of a mask, or of weights or labels of tokens; NULL: none. */
const char *tess_document_mask(const json_t *document, const char *key);

#endif
