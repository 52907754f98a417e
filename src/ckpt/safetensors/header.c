/* The JSON of a safetensors header, and nothing else of JSON: an object of tensor entries and string pairs, in one
 * pass, with memory bounded by the header's own size. Whether the numbers make sense is reader.c's business. */
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "ckpt/safetensors/safetensors_impl.h"

enum { MAX_DEPTH = 32 }; /* of values that we skip */

typedef struct parser {
    tess_st_header *out;
    const char *path;
    const uint8_t *begin, *at, *end;
} parser;

#define BAD_JSON(p, ...)                                                                                              \
    (TESS_FAIL(TESS_E_FORMAT, __VA_ARGS__), tess_fail_context(TESS_E_FORMAT,                                          \
                                                              "%s: the header is not the JSON of a safetensors file " \
                                                              "(InvalidHeaderDeserialization), at byte %zu of it",    \
                                                              (p)->path, (size_t)((p)->at - (p)->begin)))

static void skip_space(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
        p->at++;
}

/* The next byte that is not white space, or 0 at the end. */
static uint8_t peek(parser *p)
{
    skip_space(p);
    return p->at < p->end ? *p->at : 0;
}

static tess_status expect(parser *p, char c)
{
    if (peek(p) != (uint8_t)c)
        return BAD_JSON(p, "'%c' expected", c);
    p->at++;
    return TESS_OK;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static tess_status parse_hex4(parser *p, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        int digit = p->at < p->end ? hex_digit(*p->at) : -1;
        if (digit < 0)
            return BAD_JSON(p, "four hexadecimal digits expected after \\u");
        *value = *value << 4 | (uint32_t)digit;
    }
    return TESS_OK;
}

/* Behind "\u". Appends the code point as UTF-8; six bytes of input never give more than three of output, twelve never
 * more than four, so the text cannot outgrow the header. */
static tess_status parse_unicode_escape(parser *p)
{
    uint32_t code, low;
    TESS_TRY(parse_hex4(p, &code));
    if (code >= 0xd800 && code < 0xdc00) {
        if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u')
            return BAD_JSON(p, "a lone surrogate");
        p->at += 2;
        TESS_TRY(parse_hex4(p, &low));
        if (low < 0xdc00 || low > 0xdfff)
            return BAD_JSON(p, "a lone surrogate");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return BAD_JSON(p, "a lone surrogate");
    }
    if (code == 0)
        return BAD_JSON(p, "a NUL character inside a string");
    uint8_t bytes[4];
    int n = tess_utf8_encode(code, bytes);
    memcpy(p->out->text + p->out->text_size, bytes, (size_t)n);
    p->out->text_size += (size_t)n;
    return TESS_OK;
}

/* Appends the decoded string and a NUL to the text; *start is where it begins there. */
static tess_status parse_string(parser *p, size_t *start)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    tess_st_header *out = p->out;
    TESS_TRY(expect(p, '"'));
    *start = out->text_size;
    for (;;) {
        if (p->at == p->end)
            return BAD_JSON(p, "the string has no end");
        uint8_t c = *p->at;
        if (c == '"')
            break;
        if (c < 0x20)
            return BAD_JSON(p, "a control character inside a string");
        p->at++;
        if (c != '\\') {
            out->text[out->text_size++] = (char)c;
            continue;
        }
        uint8_t escape = p->at < p->end ? *p->at : 0;
        const char *known = escape == 0 ? NULL : strchr(from, escape);
        if (escape == 'u') {
            p->at++;
            TESS_TRY(parse_unicode_escape(p));
        } else if (known != NULL) {
            p->at++;
            out->text[out->text_size++] = to[known - from];
        } else {
            return BAD_JSON(p, "an unknown escape in a string");
        }
    }
    p->at++;
    out->text[out->text_size++] = '\0';
    return TESS_OK;
}

/* Digits only: no sign, fraction, exponent or leading zero. */
static tess_status parse_u64(parser *p, uint64_t *value)
{
    uint8_t c = peek(p);
    if (c < '0' || c > '9')
        return BAD_JSON(p, "a whole number of at least 0 expected");
    const uint8_t *first = p->at;
    *value = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*p->at - '0'), value))
            return BAD_JSON(p, "a number over 18446744073709551615");
    if (*first == '0' && p->at - first > 1)
        return BAD_JSON(p, "a number with leading zeros");
    if (p->at < p->end && (*p->at == '.' || *p->at == 'e' || *p->at == 'E'))
        return BAD_JSON(p, "a whole number expected");
    return TESS_OK;
}

/* -?(0|[1-9]d*)(.d+)?([eE][+-]?d+)? of a value that nobody asks for. */
static tess_status skip_number(parser *p)
{
    p->at += p->at < p->end && *p->at == '-';
    const uint8_t *first = p->at;
#define DIGITS()                                             \
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') \
    p->at++
    DIGITS();
    bool good = p->at > first && !(*first == '0' && p->at - first > 1);
    if (good && p->at < p->end && *p->at == '.') {
        first = ++p->at;
        DIGITS();
        good = p->at > first;
    }
    if (good && p->at < p->end && (*p->at | 0x20) == 'e') {
        p->at++;
        p->at += p->at < p->end && (*p->at == '+' || *p->at == '-');
        first = p->at;
        DIGITS();
        good = p->at > first;
    }
#undef DIGITS
    return good ? TESS_OK : BAD_JSON(p, "a value expected");
}

static tess_status skip_word(parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return BAD_JSON(p, "a value expected");
    p->at += n;
    return TESS_OK;
}

static tess_status skip_value(parser *p, int depth);

static tess_status skip_container(parser *p, char close, int depth)
{
    size_t text;
    p->at++;
    if (peek(p) == (uint8_t)close) {
        p->at++;
        return TESS_OK;
    }
    for (;;) {
        if (close == '}') {
            size_t mark = p->out->text_size;
            TESS_TRY(parse_string(p, &text));
            p->out->text_size = mark;
            TESS_TRY(expect(p, ':'));
        }
        TESS_TRY(skip_value(p, depth + 1));
        if (peek(p) != ',')
            return expect(p, close);
        p->at++;
    }
}

/* Fields of a tensor entry that we do not know are legal (the reference ignores them); they must still be JSON. */
static tess_status skip_value(parser *p, int depth)
{
    size_t mark = p->out->text_size, text;
    if (depth > MAX_DEPTH)
        return BAD_JSON(p, "values nested deeper than %d", MAX_DEPTH);
    switch (peek(p)) {
    case '{':
        return skip_container(p, '}', depth);
    case '[':
        return skip_container(p, ']', depth);
    case '"':
        TESS_TRY(parse_string(p, &text));
        p->out->text_size = mark;
        return TESS_OK;
    case 't':
        return skip_word(p, "true");
    case 'f':
        return skip_word(p, "false");
    case 'n':
        return skip_word(p, "null");
    default:
        return skip_number(p);
    }
}

/* Makes room for one more element. */
static tess_status reserve(tess_mem *mem, size_t n, size_t *capacity, size_t size, void **array)
{
    if (n < *capacity)
        return TESS_OK;
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    TESS_TRY(tess_mem_grow(mem, TESS_POOL_MISC, wanted * size, "safetensors header", array));
    *capacity = wanted;
    return TESS_OK;
}

static tess_status parse_metadata(parser *p)
{
    tess_st_header *out = p->out;
    if (peek(p) == 'n')
        return skip_word(p, "null");
    TESS_TRY(expect(p, '{'));
    if (peek(p) == '}') {
        p->at++;
        return TESS_OK;
    }
    for (;;) {
        TESS_TRY(reserve(out->mem, out->n_pairs, &out->pairs_capacity, sizeof(out->pairs[0]), (void **)&out->pairs));
        tess_st_pair *pair = &out->pairs[out->n_pairs];
        TESS_TRY(parse_string(p, &pair->key));
        TESS_TRY(expect(p, ':'));
        if (peek(p) != '"')
            return BAD_JSON(p, "__metadata__ key '%s': a string expected", out->text + pair->key);
        TESS_TRY(parse_string(p, &pair->value));
        out->n_pairs++;
        if (peek(p) != ',')
            return expect(p, '}');
        p->at++;
    }
}

static tess_status parse_shape(parser *p, tess_st_raw *raw)
{
    TESS_TRY(expect(p, '['));
    if (peek(p) == ']') {
        p->at++;
        return TESS_OK;
    }
    for (;;) {
        uint64_t extent;
        TESS_TRY(parse_u64(p, &extent));
        if (raw->n_dims == TESS_ST_MAX_DIMS)
            return TESS_FAIL(TESS_E_UNSUPPORTED, "%s: tensor '%s' has more than %d dimensions", p->path,
                             p->out->text + raw->name, TESS_ST_MAX_DIMS);
        raw->dim[raw->n_dims++] = extent;
        if (peek(p) != ',')
            return expect(p, ']');
        p->at++;
    }
}

static tess_status parse_dtype(parser *p, tess_st_raw *raw)
{
    tess_st_header *out = p->out;
    size_t text;
    TESS_TRY(parse_string(p, &text));
    raw->dtype = tess_st_dtype_number(out->text + text, out->text_size - text - 1);
    out->text_size = text; /* only names and metadata stay */
    if (raw->dtype < 0)
        return BAD_JSON(p, "tensor '%s': unknown dtype '%.32s'", out->text + raw->name, out->text + text);
    return TESS_OK;
}

static tess_status parse_field(parser *p, tess_st_raw *raw, unsigned *seen)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    tess_st_header *out = p->out;
    size_t text;
    TESS_TRY(parse_string(p, &text));
    out->text_size = text;
    unsigned field = 0;
    while (field < 3 && strcmp(out->text + text, fields[field]) != 0)
        field++;
    TESS_TRY(expect(p, ':'));
    if (field == 3)
        return skip_value(p, 0);
    if (*seen & 1u << field)
        return BAD_JSON(p, "tensor '%s': '%s' given twice", out->text + raw->name, fields[field]);
    *seen |= 1u << field;
    if (field == 0)
        return parse_dtype(p, raw);
    if (field == 1)
        return parse_shape(p, raw);
    TESS_TRY(expect(p, '['));
    TESS_TRY(parse_u64(p, &raw->begin));
    TESS_TRY(expect(p, ','));
    TESS_TRY(parse_u64(p, &raw->end));
    return expect(p, ']');
}

static tess_status parse_tensor(parser *p, size_t name)
{
    tess_st_header *out = p->out;
    TESS_TRY(reserve(out->mem, out->n_raws, &out->raws_capacity, sizeof(out->raws[0]), (void **)&out->raws));
    tess_st_raw *raw = &out->raws[out->n_raws];
    *raw = (tess_st_raw){.name = name};
    unsigned seen = 0;
    TESS_TRY(expect(p, '{'));
    for (;;) {
        TESS_TRY(parse_field(p, raw, &seen));
        if (peek(p) != ',')
            break;
        p->at++;
    }
    TESS_TRY(expect(p, '}'));
    if (seen != 7)
        return BAD_JSON(p, "tensor '%s': '%s' is missing", out->text + name,
                        !(seen & 1)   ? "dtype"
                        : !(seen & 2) ? "shape"
                                      : "data_offsets");
    out->n_raws++;
    return TESS_OK;
}

static tess_status parse_top(parser *p)
{
    bool metadata_seen = false;
    TESS_TRY(expect(p, '{'));
    if (peek(p) == '}') {
        p->at++;
        return TESS_OK;
    }
    for (;;) {
        size_t name;
        TESS_TRY(parse_string(p, &name));
        TESS_TRY(expect(p, ':'));
        if (strcmp(p->out->text + name, "__metadata__") == 0) {
            if (metadata_seen)
                return BAD_JSON(p, "'__metadata__' given twice");
            metadata_seen = true;
            TESS_TRY(parse_metadata(p));
        } else {
            TESS_TRY(parse_tensor(p, name));
        }
        if (peek(p) != ',')
            return expect(p, '}');
        p->at++;
    }
}

static tess_status check_utf8(const char *path, const uint8_t *json, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        int n = json[i] < 0x80 ? 1 : tess_utf8_decode(json + i, size - i, &code_point);
        TESS_CHECK(
            n > 0, TESS_E_FORMAT,
            "%s: byte %zu of the header is not UTF-8: the file is damaged or no safetensors file (InvalidHeader)", path,
            i);
        i += (size_t)n;
    }
    return TESS_OK;
}

tess_status tess_st_header_parse(tess_mem *mem, const char *path, const uint8_t *json, size_t size,
                                 tess_st_header *header)
{
    *header = (tess_st_header){.mem = mem};
    TESS_TRY(check_utf8(path, json, size));
    /* A decoded string with its NUL is shorter than the same string in quotes. */
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, size, "names of a safetensors header", (void **)&header->text));
    parser p = {.out = header, .path = path, .begin = json, .at = json, .end = json + size};
    TESS_TRY(parse_top(&p));
    skip_space(&p);
    if (p.at != p.end)
        return BAD_JSON(&p, "something follows the object");
    return TESS_OK;
}

void tess_st_header_free(tess_st_header *header)
{
    tess_mem_free(header->mem, header->text);
    tess_mem_free(header->mem, header->raws);
    tess_mem_free(header->mem, header->pairs);
    *header = (tess_st_header){0};
}
