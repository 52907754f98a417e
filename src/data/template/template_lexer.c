/* Splits a template into tokens, as jinja2's lexer does with trim_blocks and lstrip_blocks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/template/template_impl.h"

typedef struct lexer {
    template_arena *arena;
    template_tokens *tokens;
    /* Line ends are all
     * */
    template_text text;
    size_t at;
    uint32_t line;
    bool line_starts; /* the last token ended with a line end */
} lexer;

/* ---- Basics ---- */
static bool looking_at(const lexer *l, size_t at, const char *word)
{
    size_t size = strlen(word);
    return l->text.size - at >= size && memcmp(l->text.data + at, word, size) == 0;
}

static tess_status add(lexer *l, const template_token *token)
{
    template_tokens *t = l->tokens;
    if (t->n == t->room) {
        size_t room = t->room > 0 ? 2 * t->room : 256;
        template_token *grown;
        TESS_TRY(template_alloc(l->arena, room * sizeof(*grown), &grown));
        if (t->n > 0)
            memcpy(grown, t->item, t->n * sizeof(*grown));
        t->item = grown;
        t->room = room;
    }
    t->item[t->n++] = *token;
    return TESS_OK;
}

static tess_status add_kind(lexer *l, template_token_kind kind, size_t begin, size_t end)
{
    const template_token token = {.kind = kind, .line = l->line, .text = {l->text.data + begin, end - begin}};
    return add(l, &token);
}

/* Moves to position `to`, and counts lines. */
static void move(lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->text.data[l->at] == '\n';
}

/* Returns the position after the spaces at `at`; spaces are those of Python's \s. */
static size_t skip_spaces(const lexer *l, size_t at)
{
    while (at < l->text.size) {
        uint32_t c;
        int n = template_decode(l->text, at, &c);
        if (!template_is_space(c))
            break;
        at += (size_t)n;
    }
    return at;
}

/* ---- Text between tags ---- */
/* Adds the text before a tag. The tag's sign and kind determine how many of the spaces at the end of the text are
 * removed. */
static tess_status add_data(lexer *l, size_t begin, size_t end, char sign, bool output)
{
    template_text data = {l->text.data + begin, end - begin};
    if (sign == '-') {
        data = template_strip(data, (template_text){0}, SIDE_RIGHT);
    } else if (sign != '+' && !output) {
        size_t line = data.size;
        while (line > 0 && data.data[line - 1] != '\n')
            line--;
        const template_text last = {data.data + line, data.size - line};
        if ((line > 0 || l->line_starts) && template_strip(last, (template_text){0}, SIDE_RIGHT).size == 0)
            data.size = line;
    }
    return data.size > 0 ? add_kind(l, TOKEN_DATA, begin, begin + data.size) : TESS_OK;
}

static size_t find(const lexer *l, size_t from, const char *word)
{
    const char *at = memmem(l->text.data + from, l->text.size - from, word, strlen(word));
    return at != NULL ? (size_t)(at - l->text.data) : l->text.size;
}

/* Returns the position after the end of a tag at `at`. "-%}" also consumes the spaces after it, "%}" one line end. 0:
 * the tag does not end there. */
static size_t tag_end(const lexer *l, size_t at, const char *closing, bool trims, bool plus)
{
    size_t size = strlen(closing);
    if (at < l->text.size && l->text.data[at] == '-' && looking_at(l, at + 1, closing))
        return skip_spaces(l, at + 1 + size);
    if (plus && at < l->text.size && l->text.data[at] == '+' && looking_at(l, at + 1, closing))
        return at + 1 + size;
    if (!looking_at(l, at, closing))
        return 0;
    return at + size + (trims && looking_at(l, at + size, "\n"));
}

/* Checks whether the tag that begins at `at` is "raw" or "endraw". Returns where it ends, or 0. */
static size_t raw_tag(const lexer *l, size_t at, const char *word)
{
    bool ends = strcmp(word, "endraw") == 0;
    if (!looking_at(l, at, "{%"))
        return 0;
    at += 2;
    if (at < l->text.size && (l->text.data[at] == '-' || l->text.data[at] == '+'))
        at++;
    at = skip_spaces(l, at);
    if (!looking_at(l, at, word))
        return 0;
    return tag_end(l, skip_spaces(l, at + strlen(word)), "%}", ends, ends);
}

static char sign_at(const lexer *l, size_t at)
{
    char c = at < l->text.size ? l->text.data[at] : '\0';
    return c == '-' || c == '+' ? c : '\0';
}

static void move_behind_tag(lexer *l, size_t to)
{
    move(l, to);
    l->line_starts = l->text.data[to - 1] == '\n';
}

static tess_status lex_raw(lexer *l, size_t begin)
{
    uint32_t line = l->line;
    move_behind_tag(l, begin);
    for (size_t at = find(l, begin, "{%"); at < l->text.size; at = find(l, at + 2, "{%")) {
        size_t end = raw_tag(l, at, "endraw");
        if (end == 0)
            continue;
        TESS_TRY(add_data(l, begin, at, sign_at(l, at + 2), false));
        move_behind_tag(l, end);
        return TESS_OK;
    }
    return template_fail(line, TESS_E_FORMAT, "{%% raw %%} without {%% endraw %%}");
}

static tess_status lex_comment(lexer *l, size_t begin)
{
    uint32_t line = l->line;
    for (size_t at = find(l, begin, "#}"); at < l->text.size; at = find(l, at + 2, "#}")) {
        size_t mark = at > begin && (l->text.data[at - 1] == '-' || l->text.data[at - 1] == '+') ? at - 1 : at;
        move_behind_tag(l, tag_end(l, mark, "#}", true, true));
        return TESS_OK;
    }
    return template_fail(line, TESS_E_FORMAT, "a comment {# without #}");
}

/* ---- Inside tags ---- */
static bool is_name_byte(char c, bool first)
{
    unsigned char u = (unsigned char)c;
    bool letter = (u | 32) >= 'a' && (u | 32) <= 'z', digit = u >= '0' && u <= '9';
    return u >= 0x80 || c == '_' || letter || (!first && digit);
}

static bool is_digit_at(const lexer *l, size_t at)
{
    return at < l->text.size && (unsigned)(l->text.data[at] - '0') < 10;
}

/* Skips digits, which may have single underscores between them. */
static size_t skip_digits(const lexer *l, size_t at)
{
    while (is_digit_at(l, at) || (at < l->text.size && l->text.data[at] == '_' && is_digit_at(l, at + 1)))
        at++;
    return at;
}

static tess_status lex_number(lexer *l)
{
    char digits[64];
    size_t begin = l->at, end = skip_digits(l, begin), n = 0;
    bool real = false, after_dot = begin > 0 && l->text.data[begin - 1] == '.';
    if (!after_dot && looking_at(l, end, ".") && is_digit_at(l, end + 1)) {
        end = skip_digits(l, end + 1);
        real = true;
    }
    size_t exponent = end + 1;
    if (!after_dot && end < l->text.size && (l->text.data[end] | 32) == 'e') {
        exponent += exponent < l->text.size && strchr("+-", l->text.data[exponent]) != NULL;
        if (is_digit_at(l, exponent)) {
            end = skip_digits(l, exponent);
            real = true;
        }
    }
    for (size_t i = begin; i < end && n + 1 < sizeof(digits); i++)
        if (l->text.data[i] != '_')
            digits[n++] = l->text.data[i];
    digits[n] = '\0';
    template_token token = {
        .kind = real ? TOKEN_FLOAT : TOKEN_INT, .line = l->line, .text = {l->text.data + begin, end - begin}};
    errno = 0;
    token.real = real ? strtod(digits, NULL) : 0;
    token.integer = real ? 0 : strtoll(digits, NULL, 10);
    if (n + 1 == sizeof(digits) || (errno == ERANGE && !real))
        return template_fail(l->line, TESS_E_UNSUPPORTED, "the number %s is too large", digits);
    l->at = end;
    return add(l, &token);
}

/* Returns a hexadecimal number of `n` digits at `at`; -1: there is no such number. */
static int64_t hex_at(const lexer *l, size_t at, size_t n)
{
    int64_t value = 0;
    for (size_t i = at; i < at + n; i++) {
        char c = i < l->text.size ? l->text.data[i] : '\0';
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* Decodes the escape after the backslash at `at`: writes the character, and returns the number of bytes consumed; 0:
 * not an escape. */
static size_t unescape(const lexer *l, size_t at, char **to)
{
    static const char plain[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    char c = l->text.data[at];
    if (c == '\n')
        return 1;
    for (size_t i = 0; i + 1 < sizeof(plain); i += 2) {
        if (plain[i] == c) {
            *(*to)++ = plain[i + 1];
            return 1;
        }
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, used = digits + 1;
    int64_t value = digits > 0 ? hex_at(l, at + 1, digits) : -1;
    if (c >= '0' && c <= '7')
        for (used = 0, value = 0; used < 3 && (unsigned)(l->text.data[at + used] - '0') < 8; used++)
            value = 8 * value + (l->text.data[at + used] - '0');
    uint8_t bytes[4];
    if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    int n = tess_utf8_encode((uint32_t)value, bytes);
    memcpy(*to, bytes, (size_t)n);
    *to += n;
    return used;
}

static tess_status lex_string(lexer *l)
{
    char quote = l->text.data[l->at], *copy, *to;
    size_t begin = l->at + 1, end = begin;
    while (end < l->text.size && l->text.data[end] != quote)
        end += l->text.data[end] == '\\' ? 2 : 1;
    if (end >= l->text.size)
        return template_fail(l->line, TESS_E_FORMAT, "a string without its closing %c", quote);
    TESS_TRY(template_alloc(l->arena, end - begin + 1, &copy));
    to = copy;
    for (size_t at = begin; at < end;) {
        if (l->text.data[at] != '\\') {
            *to++ = l->text.data[at++];
            continue;
        }
        size_t used = unescape(l, at + 1, &to);
        if (used == 0 && strchr("xuUN", l->text.data[at + 1]) != NULL)
            return template_fail(l->line, TESS_E_FORMAT, "the escape \\%c is not valid", l->text.data[at + 1]);
        if (used == 0)
            *to++ = '\\'; /* other escapes are kept as they are */
        at += 1 + used;
    }
    const template_token token = {.kind = TOKEN_STRING, .line = l->line, .text = {copy, (size_t)(to - copy)}};
    move(l, end + 1);
    return add(l, &token);
}

/* The brackets that are open, innermost last. */
typedef struct brackets {
    char closing[TEMPLATE_DEPTH];
    int n;
} brackets;

static tess_status balance(const lexer *l, brackets *open, char c)
{
    const char *opening = strchr("([{", c), *closing = strchr(")]}", c);
    if (opening != NULL && open->n == TEMPLATE_DEPTH)
        return template_fail(l->line, TESS_E_INVALID, "more than %d brackets are open", TEMPLATE_DEPTH);
    if (opening != NULL)
        open->closing[open->n++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    if (closing != NULL && open->n == 0)
        return template_fail(l->line, TESS_E_FORMAT, "unexpected '%c'", c);
    if (closing != NULL && open->closing[--open->n] != c)
        return template_fail(l->line, TESS_E_FORMAT, "unexpected '%c', expected '%c'", c, open->closing[open->n]);
    return TESS_OK;
}

static tess_status lex_operator(lexer *l, brackets *open)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (!looking_at(l, l->at, operators[i]))
            continue;
        size_t size = strlen(operators[i]);
        if (size == 1)
            TESS_TRY(balance(l, open, operators[i][0]));
        TESS_TRY(add_kind(l, TOKEN_OPERATOR, l->at, l->at + size));
        l->at += size;
        return TESS_OK;
    }
    return template_fail(l->line, TESS_E_FORMAT, "unexpected character '%c'", l->text.data[l->at]);
}

static tess_status lex_tag(lexer *l, bool output)
{
    brackets open = {.n = 0};
    uint32_t line = l->line;
    while (l->at < l->text.size) {
        size_t end = open.n > 0 ? 0 : tag_end(l, l->at, output ? "}}" : "%}", !output, !output);
        if (end > 0) {
            TESS_TRY(add_kind(l, output ? TOKEN_OUTPUT_END : TOKEN_BLOCK_END, l->at, l->at));
            move_behind_tag(l, end);
            return TESS_OK;
        }
        char c = l->text.data[l->at];
        size_t name = l->at;
        while (name < l->text.size && is_name_byte(l->text.data[name], name == l->at))
            name++;
        if (skip_spaces(l, l->at) > l->at) {
            move(l, skip_spaces(l, l->at));
        } else if (is_digit_at(l, l->at)) {
            TESS_TRY(lex_number(l));
        } else if (name > l->at) {
            TESS_TRY(add_kind(l, TOKEN_NAME, l->at, name));
            l->at = name;
        } else if (c == '"' || c == '\'') {
            TESS_TRY(lex_string(l));
        } else {
            TESS_TRY(lex_operator(l, &open));
        }
    }
    return template_fail(line, TESS_E_FORMAT, "a tag %s without %s", output ? "{{" : "{%", output ? "}}" : "%}");
}

/* Finds the next "{{", "{%" or "{#". */
static size_t find_tag(const lexer *l, size_t from)
{
    for (size_t at = find(l, from, "{"); at + 1 < l->text.size; at = find(l, at + 1, "{")) {
        char c = l->text.data[at + 1];
        if (c == '{' || c == '%' || c == '#')
            return at;
    }
    return l->text.size;
}

static tess_status lex_all(lexer *l)
{
    while (l->at < l->text.size) {
        size_t begin = l->at, at = find_tag(l, begin);
        if (at == l->text.size) {
            TESS_TRY(add_kind(l, TOKEN_DATA, begin, l->text.size));
            move(l, l->text.size);
            break;
        }
        char kind = l->text.data[at + 1], sign = sign_at(l, at + 2);
        size_t raw = raw_tag(l, at, "raw"), inside = at + 2 + (sign != '\0');
        TESS_TRY(add_data(l, begin, at, sign, kind == '{'));
        move(l, at);
        if (raw > 0) {
            TESS_TRY(lex_raw(l, raw));
        } else if (kind == '#') {
            TESS_TRY(lex_comment(l, inside));
        } else {
            TESS_TRY(add_kind(l, kind == '{' ? TOKEN_OUTPUT_BEGIN : TOKEN_BLOCK_BEGIN, at, inside));
            l->at = inside;
            TESS_TRY(lex_tag(l, kind == '{'));
        }
    }
    return add_kind(l, TOKEN_END, l->text.size, l->text.size);
}

tess_status template_lex(template_arena *arena, template_text text, template_tokens *tokens)
{
    char *copy;
    size_t n = 0;
    *tokens = (template_tokens){0};
    TESS_TRY(template_alloc(arena, text.size + 8, &copy)); /* zeroes follow the text, so that looking ahead is safe */
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\r' && i + 1 < text.size && text.data[i + 1] == '\n')
            continue;
        copy[n++] = (char)(text.data[i] == '\r' ? '\n' : text.data[i]);
    }
    n -= n > 0 && copy[n - 1] == '\n';
    copy[n] = '\0';
    lexer l = {.arena = arena, .tokens = tokens, .text = {copy, n}, .line = 1, .line_starts = true};
    return lex_all(&l);
}
