/* JSON from outside, bounded: jansson with limits on size and depth, duplicate keys refused where asked, and errors
 * that name file and line; and numbers as text that reads back to the same bits. */
#ifndef TESS_BASE_TEXT_JSON_H
#define TESS_BASE_TEXT_JSON_H

#include <jansson.h>

#include "base/text/text.h"

/* `what` names the source in messages. *out is a new reference (json_decref). TESS_E_FORMAT: it is no
 * JSON, or a file of more than `limit` bytes; TESS_E_NOMEM is no word on the text; what tess_os_map gives. */
tess_status tess_json_parse(const char *text, size_t size, const char *what, bool reject_duplicates, json_t **out);
tess_status tess_json_load(const char *path, size_t limit, json_t **out);

/* Typed access to members of an object. Without the key, or where it is null, *value stays as it was. TESS_E_FORMAT:
 * another type; the message names `what` and the key. A string is borrowed from `object`. */
tess_status tess_json_get_int(const json_t *object, const char *key, const char *what, int64_t *value);
tess_status tess_json_get_double(const json_t *object, const char *key, const char *what, double *value);
tess_status tess_json_get_bool(const json_t *object, const char *key, const char *what, bool *value);
tess_status tess_json_get_string(const json_t *object, const char *key, const char *what, const char **value);

/* A string of any bytes, as a new reference: where they are no UTF-8 those beyond ASCII become '?', and what is beyond
 * 2047 of them is cut. */
json_t *tess_json_text(const char *text);

/* JSON has no infinities: they and NaN as null. */
json_t *tess_json_number(double value);
json_t *tess_json_ints(const int *values, int n);
void tess_json_put_int(json_t *object, const char *key, int64_t value);
/* A report and a line end, appended to `out`; takes over `document`, `flags` are jansson's. TESS_E_NOMEM. */
tess_status tess_json_print(json_t *document, size_t flags, tess_buffer *out);

/* Shortest decimal text that reads back to the same bits; NaN and infinities as null. Returns text. */
const char *tess_format_double(double value, char *text, size_t size);
const char *tess_format_float(float value, char *text, size_t size);

#endif
