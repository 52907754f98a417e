#include "base/text/json.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"

/* ---- Integers of more than 64 bits ---- */
/* Returns the end of the string that begins at `at`. */
static size_t skip_string(const char *text, size_t size, size_t at)
{
    for (at++; at < size && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < size ? at + 1 : size;
}

/* Returns the end of the number that begins at `at`. *too_big: it is an integer outside int64_t. */
static size_t skip_number(const char *text, size_t size, size_t at, bool *too_big)
{
    char digits[24];
    size_t n = 0;
    bool whole = true;
    for (; at < size && text[at] != '\0' && strchr("+-.0123456789Ee", text[at]) != NULL; at++, n++) {
        whole = whole && strchr(".eE", text[at]) == NULL;
        if (n + 1 < sizeof(digits))
            digits[n] = text[at];
    }
    digits[n + 1 < sizeof(digits) ? n : sizeof(digits) - 1] = '\0';
    errno = 0;
    strtoll(digits, NULL, 10);
    *too_big = whole && errno == ERANGE;
    return at;
}

/* Copies the text with ".0" after each integer outside int64_t. jansson then reads the integer as a double. *n_out:
 * bytes of the copy. NULL: no memory. */
static char *widen_integers(const char *text, size_t size, size_t *n_out)
{
    char *copy = malloc(size + size / 8 + 1); /* integers outside int64_t have at least 19 digits */
    size_t n = 0;
    for (size_t at = 0, end; at < size && copy != NULL; at = end) {
        bool too_big = false;
        bool number = text[at] == '-' || (text[at] >= '0' && text[at] <= '9');
        end = text[at] == '"' ? skip_string(text, size, at) : number ? skip_number(text, size, at, &too_big) : at + 1;
        memcpy(copy + n, text + at, end - at);
        n += end - at;
        if (too_big) {
            memcpy(copy + n, ".0", 2);
            n += 2;
        }
    }
    *n_out = n;
    return copy;
}

/* Like json_loadb, but integers outside int64_t become doubles. */
static json_t *load_wide(const char *text, size_t size, size_t flags, json_error_t *error)
{
    json_t *json = json_loadb(text, size, flags, error);
    if (json != NULL || json_error_code(error) != json_error_numeric_overflow)
        return json;
    size_t n;
    char *copy = widen_integers(text, size, &n);
    json = copy != NULL ? json_loadb(copy, n, flags, error) : NULL;
    free(copy);
    return json;
}

/* ---- Texts ---- */
static tess_status parse(const char *text, size_t size, const char *what, size_t flags, json_t **out)
{
    static const char mark[] = "\xef\xbb\xbf"; /* U+FEFF, which some editors put before a text */
    size_t skip = size >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    json_error_t error;
    errno = 0;
    *out = load_wide(text + skip, size - skip, flags, &error);
    /* When memory runs out, jansson may report that, report nothing, or call the text wrong. In all cases malloc leaves
     * ENOMEM in errno. */
    bool no_memory = errno == ENOMEM || json_error_code(&error) == json_error_out_of_memory || error.text[0] == '\0';
    TESS_CHECK(*out != NULL || !no_memory, TESS_E_NOMEM, "%s: no memory for %zu bytes of JSON", what, size);
    TESS_CHECK(*out != NULL, TESS_E_FORMAT, "%s: not valid JSON: line %d, column %d: %s", what, error.line,
               error.column, error.text);
    return TESS_OK;
}

tess_status tess_json_parse(const char *text, size_t size, const char *what, bool reject_duplicates, json_t **out)
{
    return parse(text, size, what, reject_duplicates ? JSON_REJECT_DUPLICATES : 0, out);
}

/* Returns the code of the escape \\uXXXX at `at`; -1: there is no escape. */
static int escaped_code(const char *at, const char *end)
{
    char digits[5] = "";
    if (end - at < 6 || at[0] != '\\' || at[1] != 'u')
        return -1;
    memcpy(digits, at + 2, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int)strtol(digits, NULL, 16) : -1;
}

/* Returns the first escape at or after `at` that is half of a surrogate pair without the other half; NULL: there is
 * none. */
static const char *find_half_pair(const char *at, const char *end)
{
    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL && end - at >= 2) {
        int code = escaped_code(at, end), next = escaped_code(end - at > 6 ? at + 6 : end, end);
        bool low = code >= 0xdc00 && code < 0xe000, high = code >= 0xd800 && code < 0xdc00;
        bool paired = high && next >= 0xdc00 && next < 0xe000;
        if (low || (high && !paired))
            return at;
        at += code < 0 ? 2 : paired ? 12 : 6;
    }
    return NULL;
}

tess_status tess_json_parse_record(const char *text, size_t size, const char *what, json_t **out)
{
    const char *half = find_half_pair(text, text + size);
    if (half == NULL)
        return parse(text, size, what, JSON_ALLOW_NUL, out);
    TESS_AUTO(tess_malloc_drop) char *whole = malloc(size);
    TESS_CHECK(whole != NULL, TESS_E_NOMEM, "%s: no memory for %zu bytes of JSON", what, size);
    memcpy(whole, text, size);
    for (; half != NULL; half = find_half_pair(half + 6, text + size))
        memcpy(whole + (half - text), "\\ufffd", 6);
    return parse(whole, size, what, JSON_ALLOW_NUL, out);
}

tess_status tess_json_load(const char *path, size_t limit, json_t **out)
{
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    TESS_TRY(tess_os_map(path, &file));
    TESS_CHECK(file.size <= limit, TESS_E_FORMAT, "%s: %zu bytes of JSON; at most %zu are read", path, file.size,
               limit);
    return tess_json_parse(file.size > 0 ? (const char *)file.data : "", file.size, path, true, out);
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return names[json_typeof(value)];
}

/* Returns the member; NULL: it is absent or null. */
static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value == NULL || json_is_null(value) ? NULL : value;
}

bool tess_json_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL && !json_is_null(value);
}

tess_status tess_json_get_int(const json_t *object, const char *key, const char *what, int64_t *result)
{
    const json_t *value = member(object, key);
    if (value == NULL)
        return TESS_OK;
    if (json_is_real(value)) { /* people also write integers as 1e4 */
        double real = json_real_value(value);
        TESS_CHECK(real == floor(real) && fabs(real) < 0x1p53, TESS_E_FORMAT, "%s: '%s' is %g: expected an integer",
                   what, key, real);
        *result = (int64_t)real;
        return TESS_OK;
    }
    TESS_CHECK(json_is_integer(value), TESS_E_FORMAT, "%s: '%s' is %s: expected an integer", what, key,
               type_name(value));
    *result = json_integer_value(value);
    return TESS_OK;
}

tess_status tess_json_get_double(const json_t *object, const char *key, const char *what, double *result)
{
    const json_t *value = member(object, key);
    if (value == NULL)
        return TESS_OK;
    TESS_CHECK(json_is_number(value), TESS_E_FORMAT, "%s: '%s' is %s: expected a number", what, key, type_name(value));
    *result = json_number_value(value);
    return TESS_OK;
}

tess_status tess_json_get_bool(const json_t *object, const char *key, const char *what, bool *result)
{
    const json_t *value = member(object, key);
    if (value == NULL)
        return TESS_OK;
    TESS_CHECK(json_is_boolean(value), TESS_E_FORMAT, "%s: '%s' is %s: expected true or false", what, key,
               type_name(value));
    *result = json_is_true(value);
    return TESS_OK;
}

tess_status tess_json_get_string(const json_t *object, const char *key, const char *what, const char **result)
{
    const json_t *value = member(object, key);
    if (value == NULL)
        return TESS_OK;
    TESS_CHECK(json_is_string(value), TESS_E_FORMAT, "%s: '%s' is %s: expected a string", what, key, type_name(value));
    *result = json_string_value(value);
    return TESS_OK;
}

tess_status tess_json_get_small_int(const json_t *object, const char *key, const char *what, int *value)
{
    int64_t number = *value;
    TESS_TRY(tess_json_get_int(object, key, what, &number));
    TESS_CHECK(number >= INT_MIN && number <= INT_MAX, TESS_E_FORMAT, "%s: '%s' is %lld", what, key, (long long)number);
    *value = (int)number;
    return TESS_OK;
}

tess_status tess_json_copy_string(const json_t *object, const char *key, const char *what, char *text, size_t size)
{
    const char *value = "";
    TESS_TRY(tess_json_get_string(object, key, what, &value));
    snprintf(text, size, "%s", value);
    return TESS_OK;
}

json_t *tess_json_text(const char *text)
{
    json_t *string = json_string(text);
    char plain[2048];
    size_t n = 0;
    if (string != NULL)
        return string;
    for (; text[n] != '\0' && n + 1 < sizeof(plain); n++)
        plain[n] = (unsigned char)text[n] < 128 ? text[n] : '?';
    plain[n] = '\0';
    return json_string(plain);
}

json_t *tess_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *tess_json_ints(const int *values, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

void tess_json_put_int(json_t *object, const char *key, int64_t value)
{
    json_object_set_new(object, key, json_integer(value));
}

static const char *format_shortest(double value, int most_digits, bool is_float, char *text, size_t size)
{
    if (!isfinite(value)) {
        snprintf(text, size, "null");
        return text;
    }
    for (int digits = 1; digits <= most_digits; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (is_float ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
            break;
    }
    return text;
}

const char *tess_format_double(double value, char *text, size_t size)
{
    return format_shortest(value, 17, false, text, size);
}

const char *tess_format_float(float value, char *text, size_t size)
{
    return format_shortest((double)value, 9, true, text, size);
}

static tess_status dump(json_t *json, size_t flags, const char *what, char **text)
{
    *text = json != NULL ? json_dumps(json, flags) : NULL;
    json_decref(json);
    TESS_CHECK(*text != NULL, TESS_E_NOMEM, "%s: no memory for its JSON", what);
    return TESS_OK;
}

tess_status tess_json_print(json_t *json, size_t flags, tess_buffer *out)
{
    TESS_AUTO(tess_malloc_drop) char *text = NULL;
    TESS_TRY(dump(json, flags, "the report", &text));
    return tess_buffer_printf(out, "%s\n", text);
}

tess_status tess_json_put(json_t *json, size_t flags, FILE *out)
{
    char *text;
    TESS_TRY(dump(json, flags, "the report", &text));
    bool written = fprintf(out, "%s\n", text) >= 0;
    free(text);
    return written ? TESS_OK : tess_os_error("write", "the report");
}

tess_status tess_json_write(json_t *json, size_t flags, const char *path)
{
    TESS_AUTO(tess_malloc_drop) char *text = NULL;
    TESS_TRY(dump(json, flags, path, &text));
    return tess_os_write_atomic(path, text, strlen(text));
}

tess_status tess_json_write_in(json_t *json, size_t flags, const char *folder, const char *name)
{
    char path[1024];
    tess_status status = tess_os_join(path, sizeof(path), folder, name);
    if (status == TESS_OK)
        return tess_json_write(json, flags, path);
    json_decref(json);
    return status;
}
