/* Finds out from its content what a data file is: JSON records, plain text, or something that is not text. */
#ifndef TESS_DATA_FILES_TEXT_KIND_H
#define TESS_DATA_FILES_TEXT_KIND_H

#include "data/files/records.h"

enum { TESS_TEXT_HEAD = 64 << 10 }; /* bytes that tell what a file is */

/* `head`: the first n bytes of a file, TESS_TEXT_HEAD or all of it. Records begin with a JSON object on the first line,
 * or with an array whose first element is an object; a name in .json, .jsonl or .ndjson says so, too. `as_text`: JSON
 * is plain text. TESS_E_UNSUPPORTED: a known binary format, or JSON that is no records. TESS_E_FORMAT: not UTF-8. The
 * message has the path, and the command that converts the file. */
tess_status tess_text_kind_of(const char *path, const char *head, size_t n, bool as_text, tess_text_kind *kind);
/* The same of a file on disk, which must not be compressed. Errors of tess_os_open_read, too. */
tess_status tess_text_kind_at(const char *path, bool as_text, tess_text_kind *kind);

/* Whether the name ends in .json, .jsonl or .ndjson, also if .gz or .zst follows. */
bool tess_text_has_json_name(const char *path);

/* TESS_E_FORMAT: byte *at is not part of UTF-8 text, or is 0. The message does not have the path. */
tess_status tess_text_check(const char *text, size_t size, size_t *at);

#endif
