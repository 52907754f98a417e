/* Formats values as str() and repr() do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "data/template/template_impl.h"

/* Formats the shortest digits that read back to the same value, in Python's layout. */
const char *template_float(double value, char *text, size_t size)
{
    char digits[40], plain[40];
    int precision = 0, n = 0;
    if (isnan(value) || isinf(value)) {
        snprintf(text, size, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return text;
    }
    do {
        snprintf(digits, sizeof(digits), "%.*e", precision, value);
    } while (strtod(digits, NULL) != value && ++precision < 17);
    char *e = strchr(digits, 'e');
    int exponent = atoi(e + 1);
    const char *sign = digits[0] == '-' ? "-" : "";
    for (char *at = digits; at < e; at++)
        if (*at >= '0' && *at <= '9')
            plain[n++] = *at;
    plain[n] = '\0';
    if (exponent < -4 || exponent >= 16)
        snprintf(text, size, "%s%c%s%se%c%02d", sign, plain[0], n > 1 ? "." : "", plain + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    else if (exponent < 0)
        snprintf(text, size, "%s0.%.*s%s", sign, -exponent - 1, "0000", plain);
    else if (n <= exponent + 1)
        snprintf(text, size, "%s%s%.*s.0", sign, plain, exponent + 1 - n, "0000000000000000");
    else
        snprintf(text, size, "%s%.*s.%s", sign, exponent + 1, plain, plain + exponent + 1);
    return text;
}

/* Whether repr() shows the character unchanged. */
static bool is_printable(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    bool other = category == UTF8PROC_CATEGORY_CN || category >= UTF8PROC_CATEGORY_CC;
    bool separator = category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP;
    return c == ' ' || (!other && !separator);
}

static tess_status repr_character(uint32_t c, char quote, template_text text, tess_buffer *out)
{
    const char *escapes = "\nn\rr\tt", *found = c != 0 && c < 128 ? strchr(escapes, (int)c) : NULL;
    if (found != NULL && (found - escapes) % 2 == 0)
        return tess_buffer_printf(out, "\\%c", found[1]);
    if (c == (uint32_t)quote || c == '\\')
        return tess_buffer_printf(out, "\\%c", (int)c);
    if (is_printable(c))
        return tess_buffer_append(out, text.data, text.size);
    return tess_buffer_printf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static tess_status repr_string(template_text text, tess_buffer *out)
{
    bool single = memchr(text.data, '\'', text.size) != NULL, both = memchr(text.data, '"', text.size) != NULL;
    char quote = single && !both ? '"' : '\'';
    uint32_t c;
    TESS_TRY(tess_buffer_append(out, &quote, 1));
    for (size_t at = 0, n; at < text.size; at += n) {
        n = (size_t)template_decode(text, at, &c);
        TESS_TRY(repr_character(c, quote, (template_text){text.data + at, n}, out));
    }
    return tess_buffer_append(out, &quote, 1);
}

static tess_status repr_items(template_run *run, const template_value *value, tess_buffer *out)
{
    bool tuple = value->kind == TEMPLATE_TUPLE;
    const template_list *list = value->list;
    TESS_TRY(tess_buffer_append(out, tuple ? "(" : "[", 1));
    for (size_t i = 0; i < list->n; i++) {
        if (i > 0)
            TESS_TRY(tess_buffer_append(out, ", ", 2));
        TESS_TRY(template_repr(run, &list->item[i], out));
    }
    if (tuple && list->n == 1)
        TESS_TRY(tess_buffer_append(out, ",", 1));
    return tess_buffer_append(out, tuple ? ")" : "]", 1);
}

static tess_status repr_dict(template_run *run, const template_dict *dict, tess_buffer *out)
{
    TESS_TRY(tess_buffer_append(out, "{", 1));
    for (size_t i = 0; i < dict->n; i++) {
        if (i > 0)
            TESS_TRY(tess_buffer_append(out, ", ", 2));
        TESS_TRY(template_repr(run, &dict->key[i], out));
        TESS_TRY(tess_buffer_append(out, ": ", 2));
        TESS_TRY(template_repr(run, &dict->value[i], out));
    }
    return tess_buffer_append(out, "}", 1);
}

static tess_status repr_scalar(template_run *run, const template_value *value, tess_buffer *out)
{
    char text[48];
    switch (value->kind) {
    case TEMPLATE_NONE:
        return tess_buffer_append(out, "None", 4);
    case TEMPLATE_BOOL:
        return tess_buffer_printf(out, "%s", value->truth ? "True" : "False");
    case TEMPLATE_INT:
        return tess_buffer_printf(out, "%lld", (long long)value->integer);
    case TEMPLATE_FLOAT:
        TEMPLATE_CHECK(!value->rough, run,
                       "a number of 2^63 or more cannot be written: an integer's last digits are not known");
        return tess_buffer_printf(out, "%s", template_float(value->real, text, sizeof(text)));
    case TEMPLATE_UNDEFINED:
        return tess_buffer_append(out, "Undefined", 9);
    default: /* Python would show an address here */
        return template_fail(run->line, TESS_E_UNSUPPORTED, "a value of type %s cannot be written",
                             template_type(value));
    }
}

tess_status template_repr(template_run *run, const template_value *value, tess_buffer *out)
{
    size_t begin = out->size;
    TESS_TRY(template_enter(run));
    if (value->kind == TEMPLATE_STRING)
        TESS_TRY(repr_string(value->text, out));
    else if (value->kind == TEMPLATE_LIST || value->kind == TEMPLATE_TUPLE)
        TESS_TRY(repr_items(run, value, out));
    else if (value->kind == TEMPLATE_DICT)
        TESS_TRY(repr_dict(run, value->dict, out));
    else
        TESS_TRY(repr_scalar(run, value, out));
    template_leave(run);
    TEMPLATE_CHECK(out->size <= TEMPLATE_MEMORY, run, "it writes more than %d MiB", TEMPLATE_MEMORY >> 20);
    return template_step(run, (out->size - begin) / 64);
}

tess_status template_print(template_run *run, const template_value *value, tess_buffer *out)
{
    if (value->kind == TEMPLATE_UNDEFINED)
        return TESS_OK;
    if (value->kind != TEMPLATE_STRING)
        return template_repr(run, value, out);
    TEMPLATE_CHECK(out->size + value->text.size <= TEMPLATE_MEMORY, run, "it writes more than %d MiB",
                   TEMPLATE_MEMORY >> 20);
    TESS_TRY(template_step(run, value->text.size / 64));
    return tess_buffer_append(out, value->text.data, value->text.size);
}

tess_status template_str(template_run *run, const template_value *value, template_value *out)
{
    tess_buffer buffer = {.mem = run->arena.mem};
    *out = *value;
    if (value->kind == TEMPLATE_STRING)
        return TESS_OK;
    return template_take(run, &buffer, template_print(run, value, &buffer), out);
}
