/* Filters of one value, text or number. template_sequences.c has the filters of sequences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/template/template_impl.h"

static tess_status change_case(const template_use *c)
{
    template_value text;
    TESS_TRY(template_str(c->run, c->value, &text));
    return template_change_case(c->run, text.text, (template_case)c->variant, c->out);
}

/* Writes text in title case. Words begin after spaces, hyphens and opening brackets. */
static tess_status put_title(const template_use *c, template_text text, tess_buffer *out)
{
    template_value piece;
    for (size_t at = 0; at < text.size;) {
        size_t end = at;
        for (uint32_t code; end < text.size; end += (size_t)template_decode(text, end, &code)) {
            template_decode(text, end, &code);
            if (end > at && (template_is_space(code) || (code < 128 && code > 0 && strchr("-({[<", (int)code) != NULL)))
                break;
        }
        TESS_TRY(template_change_case(c->run, (template_text){text.data + at, end - at}, CASE_CAPITAL, &piece));
        TESS_TRY(template_print(c->run, &piece, out));
        uint32_t code;
        for (at = end; at < text.size; at += (size_t)template_decode(text, at, &code)) {
            size_t n = (size_t)template_decode(text, at, &code);
            if (!template_is_space(code) && (code >= 128 || code == 0 || strchr("-({[<", (int)code) == NULL))
                break;
            TESS_TRY(tess_buffer_append(out, text.data + at, n));
        }
    }
    return TESS_OK;
}

static tess_status title(const template_use *c)
{
    template_value text;
    tess_buffer buffer = {.mem = c->run->arena.mem};
    TESS_TRY(template_str(c->run, c->value, &text));
    return template_take(c->run, &buffer, put_title(c, text.text, &buffer), c->out);
}

static tess_status trim(const template_use *c)
{
    template_value text;
    const template_value *set = template_arg(c->args, 0, "chars");
    TESS_TRY(template_str(c->run, c->value, &text));
    template_text chars = set != NULL && set->kind == TEMPLATE_STRING ? set->text : (template_text){0};
    TESS_TRY(template_step(c->run, text.text.size / 64 * (1 + chars.size / 16)));
    text.text = template_strip(text.text, chars, SIDE_BOTH);
    *c->out = text;
    return TESS_OK;
}

static tess_status replace(const template_use *c)
{
    template_value text, args[3];
    const template_value *count = template_arg(c->args, 2, "count");
    const char *const names[] = {"old", "new"};
    TESS_TRY(template_str(c->run, c->value, &text));
    for (size_t i = 0; i < 2; i++) {
        const template_value *given = template_arg(c->args, i, names[i]);
        TEMPLATE_CHECK(given != NULL, c->run, "replace takes what is replaced and by what");
        TESS_TRY(template_str(c->run, given, &args[i]));
    }
    args[2] = count != NULL ? *count : template_none();
    const template_args call = {.item = args, .n = 3};
    return template_use_name(c->run, TEMPLATE_STRING_METHODS, template_text_of("replace"), &text, &call, c->out);
}

static tess_status to_string(const template_use *c)
{
    return template_str(c->run, c->value, c->out);
}

static tess_status to_markup(const template_use *c)
{
    TESS_TRY(template_str(c->run, c->value, c->out));
    c->out->markup = true;
    return TESS_OK;
}

static tess_status to_json(const template_use *c)
{
    return template_tojson(c->run, c->value, c->args, c->out);
}

static tess_status use_default(const template_use *c)
{
    const template_value *other = template_arg(c->args, 0, "default_value");
    const template_value *falsy = template_arg(c->args, 1, "boolean");
    bool missing =
        c->value->kind == TEMPLATE_UNDEFINED || (falsy != NULL && template_truth(falsy) && !template_truth(c->value));
    *c->out = !missing ? *c->value : other != NULL ? *other : template_string("", 0);
    return TESS_OK;
}

/* ---- Numbers ---- */
static tess_status whole_of(const template_use *c, double real)
{
    TEMPLATE_CHECK(real > -0x1p63 && real < 0x1p63, c->run, "an integer is larger than 64 bits");
    *c->out = template_int((int64_t)real);
    return TESS_OK;
}

static tess_status to_int(const template_use *c)
{
    const template_value *other = template_arg(c->args, 0, "default"), *base = template_arg(c->args, 1, "base");
    const template_value *v = c->value;
    int64_t radix = 10, whole;
    double real;
    bool too_big = false;
    TEMPLATE_CHECK(base == NULL || template_as_int(base, &radix), c->run, "int: the base is not a number");
    *c->out = other != NULL ? *other : template_int(0);
    if (v->kind == TEMPLATE_UNDEFINED)
        return template_wrong(c->run, v, "int");
    if (template_as_int(v, &whole) ||
        (v->kind == TEMPLATE_STRING && template_read_int(v->text, radix, &whole, &too_big))) {
        TEMPLATE_CHECK(!too_big, c->run, "an integer is larger than 64 bits");
        *c->out = template_int(whole);
        return TESS_OK;
    }
    if (v->kind == TEMPLATE_FLOAT)
        return isnan(v->real) ? TESS_OK : whole_of(c, v->real);
    if (v->kind == TEMPLATE_STRING && template_read_real(v->text, &real) && isfinite(real))
        return whole_of(c, real);
    return TESS_OK;
}

static tess_status to_float(const template_use *c)
{
    const template_value *other = template_arg(c->args, 0, "default");
    double real = 0;
    if (c->value->kind == TEMPLATE_UNDEFINED)
        return template_wrong(c->run, c->value, "float");
    bool number = template_is_number(c->value);
    if (number)
        real = template_as_real(c->value);
    else
        number = c->value->kind == TEMPLATE_STRING && template_read_real(c->value->text, &real);
    *c->out = !number && other != NULL ? *other : TEMPLATE_OF(TEMPLATE_FLOAT, real, number ? real : 0);
    return TESS_OK;
}

static tess_status to_absolute(const template_use *c)
{
    int64_t whole;
    if (!template_is_number(c->value))
        return template_wrong(c->run, c->value, "abs");
    bool integer = template_as_int(c->value, &whole);
    TEMPLATE_CHECK(!integer || whole != INT64_MIN, c->run, "an integer is larger than 64 bits");
    *c->out =
        integer ? template_int(whole < 0 ? -whole : whole) : TEMPLATE_OF(TEMPLATE_FLOAT, real, fabs(c->value->real));
    return TESS_OK;
}

/* Rounds to `precision` digits after the point: to the nearest, up, or down. Ties are resolved to even by the
 * decimal digits of the float, as in Python. */
static tess_status round_number(const template_use *c)
{
    const template_value *digits = template_arg(c->args, 0, "precision"), *how = template_arg(c->args, 1, "method");
    int64_t precision = 0, whole;
    char text[400];
    if (!template_is_number(c->value))
        return template_wrong(c->run, c->value, "round");
    TEMPLATE_CHECK(digits == NULL || (template_as_int(digits, &precision) && precision >= 0 && precision <= 15), c->run,
                   "round: 0 to 15 digits are possible");
    double value = template_as_real(c->value), scale = pow(10, (double)precision);
    if (how != NULL && how->kind == TEMPLATE_STRING && !template_text_is(how->text, "common")) {
        bool up = template_text_is(how->text, "ceil");
        TEMPLATE_CHECK(up || template_text_is(how->text, "floor"), c->run, "round: common, ceil or floor");
        value = (up ? ceil(value * scale) : floor(value * scale)) / scale;
    } else if (template_as_int(c->value, &whole)) {
        *c->out = template_int(whole);
        return TESS_OK;
    } else {
        snprintf(text, sizeof(text), "%.*f", (int)precision, value);
        value = strtod(text, NULL);
    }
    *c->out = TEMPLATE_OF(TEMPLATE_FLOAT, real, value);
    return TESS_OK;
}

/* ---- Lines ---- */
/* Puts `width` before all lines but the first (before the first, too, if `first`; before empty ones if `blank`). jinja2
 * adds a line end before that, so that the text has a last line. */
static tess_status put_indented(template_text text, template_text width, bool first, bool blank, tess_buffer *out)
{
    template_text line;
    size_t at = 0, with_end;
    for (bool begins = true; template_next_line(text, &at, &line, &with_end); begins = false) {
        if (!begins)
            TESS_TRY(tess_buffer_append(out, "\n", 1));
        if (begins ? first : blank || line.size > 0)
            TESS_TRY(tess_buffer_append(out, width.data, width.size));
        TESS_TRY(tess_buffer_append(out, line.data, line.size));
    }
    return TESS_OK;
}

static tess_status indent(const template_use *c)
{
    const template_value *width = template_arg(c->args, 0, "width"), *first = template_arg(c->args, 1, "first");
    const template_value *blank = template_arg(c->args, 2, "blank");
    tess_buffer buffer = {.mem = c->run->arena.mem};
    template_value text, line_end = template_string("\n", 1);
    char spaces[64];
    int64_t n = 4;
    bool string = width != NULL && width->kind == TEMPLATE_STRING;
    TESS_TRY(template_str(c->run, c->value, &text));
    TEMPLATE_CHECK(width == NULL || string || (template_as_int(width, &n) && n <= (int64_t)sizeof(spaces)), c->run,
                   "indent: the width is a string or a number up to 64");
    memset(spaces, ' ', sizeof(spaces));
    const template_text by = string ? width->text : (template_text){spaces, n > 0 ? (size_t)n : 0};
    TESS_TRY(template_step(c->run, text.text.size * (1 + by.size) / 64));
    TESS_TRY(template_add(c->run, &text, &line_end, &text));
    return template_take(c->run, &buffer,
                         put_indented(text.text, by, first != NULL && template_truth(first),
                                      blank != NULL && template_truth(blank), &buffer),
                         c->out);
}

static tess_status count_words(const template_use *c)
{
    template_value text, words;
    const template_args none = {0};
    TESS_TRY(template_str(c->run, c->value, &text));
    TESS_TRY(template_use_name(c->run, TEMPLATE_STRING_METHODS, template_text_of("split"), &text, &none, &words));
    *c->out = template_int((int64_t)words.list->n);
    return TESS_OK;
}

static tess_status escape(const template_use *c)
{
    template_value text;
    tess_buffer buffer = {.mem = c->run->arena.mem};
    TESS_TRY(template_str(c->run, c->value, &text));
    if (!text.markup)
        TESS_TRY(template_take(c->run, &buffer, template_escape(text.text, &buffer), &text));
    text.markup = true;
    *c->out = text;
    return TESS_OK;
}

/* value | format(a, b) */
static tess_status format(const template_use *c)
{
    template_value text, values;
    TESS_TRY(template_str(c->run, c->value, &text));
    TESS_TRY(template_list_new(c->run, TEMPLATE_TUPLE, &values));
    for (size_t i = 0; i < c->args->n; i++)
        TESS_TRY(template_list_add(c->run, values.list, &c->args->item[i]));
    return template_format(c->run, text.text, &values, c->out);
}

/* ---- The table ---- */
static const template_builtin filters[] = {
    {"upper", change_case, CASE_UPPER, 0, 0, NULL},
    {"lower", change_case, CASE_LOWER, 0, 0, NULL},
    {"capitalize", change_case, CASE_CAPITAL, 0, 0, NULL},
    {"title", title, 0, 0, 0, NULL},
    {"trim", trim, 0, 0, 1, TEMPLATE_NAMES("chars")},
    {"replace", replace, 0, 2, 3, TEMPLATE_NAMES("old", "new", "count")},
    {"string", to_string, 0, 0, 0, NULL},
    {"safe", to_markup, 0, 0, 0, NULL},
    {"tojson", to_json, 0, 0, 4, TEMPLATE_NAMES("ensure_ascii", "indent", "separators", "sort_keys")},
    {"default", use_default, 0, 0, 2, TEMPLATE_NAMES("default_value", "boolean")},
    {"d", use_default, 0, 0, 2, TEMPLATE_NAMES("default_value", "boolean")},
    {"int", to_int, 0, 0, 2, TEMPLATE_NAMES("default", "base")},
    {"float", to_float, 0, 0, 1, TEMPLATE_NAMES("default")},
    {"abs", to_absolute, 0, 0, 0, NULL},
    {"round", round_number, 0, 0, 2, TEMPLATE_NAMES("precision", "method")},
    {"indent", indent, 0, 0, 3, TEMPLATE_NAMES("width", "first", "blank")},
    {"wordcount", count_words, 0, 0, 0, NULL},
    {"escape", escape, 0, 0, 0, NULL},
    {"e", escape, 0, 0, 0, NULL},
    {"format", format, 0, 0, 64, NULL}};
TEMPLATE_TABLE(template_text_filters, filters, NULL);
