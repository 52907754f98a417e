/* Reads JSON from untrusted sources: jansson with limits on size and depth, optional refusal of duplicate keys, and
 * errors that name file and line. Also writes numbers as text that reads back to the same bits. */
#ifndef TESS_BASE_TEXT_JSON_H
#define TESS_BASE_TEXT_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "base/text/text.h"

/* Parses JSON. `what` names the source in messages. *out is a new reference (json_decref). A byte order mark before the
 * text is skipped. An integer that int64_t cannot hold is read as a double.
 *   TESS_E_FORMAT  not JSON, or (load) a file of more than `limit` bytes
 *   TESS_E_NOMEM   out of memory; says nothing about the text
 * Loading a file can also fail as tess_os_map does. */
tess_status tess_json_parse(const char *text, size_t size, const char *what, bool reject_duplicates, json_t **out);
/* Parses a record of training data as Python's json would: \u0000 is a byte 0 inside a string with a length, and half
 * of a surrogate pair is U+FFFD. Otherwise like tess_json_parse. */
tess_status tess_json_parse_record(const char *text, size_t size, const char *what, json_t **out);
tess_status tess_json_load(const char *path, size_t limit, json_t **out);

bool tess_json_has(const json_t *object, const char *key); /* false for null, as for an absent key */

/* Typed access to members of an object. If the key is absent or null, *value is unchanged. A string is borrowed from
 * `object`. TESS_E_FORMAT: the member has another type; the message names `what` and the key. */
tess_status tess_json_get_int(const json_t *object, const char *key, const char *what, int64_t *value);
tess_status tess_json_get_double(const json_t *object, const char *key, const char *what, double *value);
tess_status tess_json_get_bool(const json_t *object, const char *key, const char *what, bool *value);
tess_status tess_json_get_string(const json_t *object, const char *key, const char *what, const char **value);
/* tess_json_get_int for a number that an int holds. TESS_E_FORMAT: also if it does not. */
tess_status tess_json_get_small_int(const json_t *object, const char *key, const char *what, int *value);
/* tess_json_get_string into `text` (size), cut where it is longer. A member that is absent is "". */
tess_status tess_json_copy_string(const json_t *object, const char *key, const char *what, char *text, size_t size);

/* Makes a JSON string of any bytes, as a new reference. If they are not UTF-8, bytes beyond ASCII become '?' and the
 * text is cut after 2047 bytes. */
json_t *tess_json_text(const char *text);

/* Infinities and NaN become null, because JSON lacks them. */
json_t *tess_json_number(double value);
json_t *tess_json_ints(const int *values, int n);
void tess_json_put_int(json_t *object, const char *key, int64_t value);
/* Appends a report and a line end to `out`. Takes over `document` (NULL: there was no memory for it); `flags` are
 * jansson's. TESS_E_NOMEM. */
tess_status tess_json_print(json_t *document, size_t flags, tess_buffer *out);
/* Like tess_json_print, but prints to a stream. TESS_E_IO. */
tess_status tess_json_put(json_t *document, size_t flags, FILE *out);
/* Like tess_json_print, but writes the file `path` as tess_os_write_atomic does. */
tess_status tess_json_write(json_t *document, size_t flags, const char *path);
/* Like tess_json_write, for the file `name` in `folder`. */
tess_status tess_json_write_in(json_t *document, size_t flags, const char *folder, const char *name);

/* Write the shortest decimal text that reads back to the same bits; NaN and infinities as null. Return text. */
const char *tess_format_double(double value, char *text, size_t size);
const char *tess_format_float(float value, char *text, size_t size);

#endif
