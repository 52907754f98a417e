/* Recognises the kind of a data file by its content: JSON records, plain text, or something that is not text. */
#ifndef TESS_DATA_FILES_TEXT_KIND_H
#define TESS_DATA_FILES_TEXT_KIND_H

#include "data/files/records.h"

enum { TESS_TEXT_HEAD = 64 << 10 }; /* number of bytes that are enough to recognise a file */

/* Finds the kind of a file. `head` is its first n bytes: TESS_TEXT_HEAD bytes, or all of it. Records begin with a JSON
 * object on the first line, or with an array whose first element is an object. A name in .json, .jsonl or .ndjson also
 * means records. `as_text`: JSON is treated as plain text.
 *   TESS_E_UNSUPPORTED  a known binary format, or JSON without records
 *   TESS_E_FORMAT       not UTF-8
 * The message has the path, and the command that converts the file. */
tess_status tess_text_kind_of(const char *path, const char *head, size_t n, bool as_text, tess_text_kind *kind);
/* Finds the kind of a file on disk, which must not be compressed. Also returns the errors of tess_os_open_read. */
tess_status tess_text_kind_at(const char *path, bool as_text, tess_text_kind *kind);

/* Whether the name ends in .json, .jsonl or .ndjson, or in one of these followed by .gz or .zst. */
bool tess_text_has_json_name(const char *path);

/* Checks that the bytes are UTF-8 text without NUL. TESS_E_FORMAT: byte *at is not. The message does not have the
 * path. */
tess_status tess_text_check(const char *text, size_t size, size_t *at);

#endif
