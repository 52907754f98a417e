/* The filter tojson: like Python's json.dumps, with the arguments that transformers adds. */
#include <math.h>
#include <string.h>

#include "data/template/template_impl.h"

typedef struct json_style {
    bool ascii, sorted;
    template_text indent;    /* data NULL: everything is on one line */
    template_text item, key; /* separators between items, and after keys */
} json_style;

static tess_status put_escape(uint32_t c, tess_buffer *out)
{
    static const char names[] = "\bb\tt\nn\ff\rr\"\"\\\\";
    for (size_t i = 0; i + 1 < sizeof(names); i += 2)
        if ((uint32_t)names[i] == c)
            return tess_buffer_printf(out, "\\%c", names[i + 1]);
    if (c < 0x10000)
        return tess_buffer_printf(out, "\\u%04x", c);
    c -= 0x10000;
    return tess_buffer_printf(out, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

static tess_status put_string(template_text text, bool ascii, tess_buffer *out)
{
    uint32_t c;
    TESS_TRY(tess_buffer_append(out, "\"", 1));
    for (size_t at = 0, n; at < text.size; at += n) {
        n = (size_t)template_decode(text, at, &c);
        if (c < 0x20 || c == '"' || c == '\\' || (ascii && c > 126))
            TESS_TRY(c == 127 ? tess_buffer_append(out, "\x7f", 1) : put_escape(c, out));
        else
            TESS_TRY(tess_buffer_append(out, text.data + at, n));
    }
    return tess_buffer_append(out, "\"", 1);
}

static tess_status put_scalar(template_run *run, const template_value *value, const json_style *style, tess_buffer *out)
{
    char text[48];
    if (value->kind == TEMPLATE_STRING)
        return put_string(value->text, style->ascii, out);
    if (value->kind == TEMPLATE_NONE)
        return tess_buffer_append(out, "null", 4);
    if (value->kind == TEMPLATE_BOOL)
        return tess_buffer_printf(out, "%s", value->truth ? "true" : "false");
    if (value->kind == TEMPLATE_INT)
        return tess_buffer_printf(out, "%lld", (long long)value->integer);
    if (value->kind != TEMPLATE_FLOAT)
        return template_wrong(run, value, "tojson");
    TEMPLATE_CHECK(!value->rough, run,
                   "tojson: a number of 2^63 or more cannot be written: an integer's last digits are not known");
    if (isnan(value->real) || isinf(value->real))
        return tess_buffer_printf(out, "%s", isnan(value->real) ? "NaN" : value->real > 0 ? "Infinity" : "-Infinity");
    return tess_buffer_printf(out, "%s", template_float(value->real, text, sizeof(text)));
}

static tess_status put(template_run *run, const template_value *value, const json_style *style, int level,
                       tess_buffer *out);

static tess_status new_line(const json_style *style, int level, tess_buffer *out)
{
    if (style->indent.data == NULL)
        return TESS_OK;
    TESS_TRY(tess_buffer_append(out, "\n", 1));
    for (int i = 0; i < level; i++)
        TESS_TRY(tess_buffer_append(out, style->indent.data, style->indent.size));
    return TESS_OK;
}

static tess_status begin_item(const json_style *style, size_t i, int level, tess_buffer *out)
{
    if (i > 0)
        TESS_TRY(tess_buffer_append(out, style->item.data, style->item.size));
    return new_line(style, level + 1, out);
}

static tess_status put_list(template_run *run, const template_list *list, const json_style *style, int level,
                            tess_buffer *out)
{
    TESS_TRY(tess_buffer_append(out, "[", 1));
    for (size_t i = 0; i < list->n; i++) {
        TESS_TRY(begin_item(style, i, level, out));
        TESS_TRY(put(run, &list->item[i], style, level + 1, out));
    }
    if (list->n > 0)
        TESS_TRY(new_line(style, level, out));
    return tess_buffer_append(out, "]", 1);
}

/* Sorts the entries of a dictionary by their keys. Insertion sort is enough, because there are few entries. */
static tess_status sort_entries(template_run *run, const template_dict *dict, size_t *order)
{
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = i;
        for (int above = 1; at > 0; at--) {
            TESS_TRY(template_step(run, 1));
            TESS_TRY(template_compare(run, &dict->key[order[at - 1]], &dict->key[i], &above));
            if (above <= 0)
                break;
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    return TESS_OK;
}

static tess_status put_key(template_run *run, const template_value *key, const json_style *style, tess_buffer *out)
{
    bool quoted = key->kind != TEMPLATE_STRING;
    TEMPLATE_CHECK(!quoted || key->kind == TEMPLATE_NONE || template_is_number(key), run, "tojson: a key of type %s",
                   template_type(key));
    if (quoted)
        TESS_TRY(tess_buffer_append(out, "\"", 1));
    TESS_TRY(put_scalar(run, key, style, out));
    return quoted ? tess_buffer_append(out, "\"", 1) : TESS_OK;
}

static tess_status put_dict(template_run *run, const template_dict *dict, const json_style *style, int level,
                            tess_buffer *out)
{
    size_t *order;
    TESS_TRY(template_alloc(&run->arena, dict->n * sizeof(*order), &order));
    for (size_t i = 0; i < dict->n; i++)
        order[i] = i;
    if (style->sorted)
        TESS_TRY(sort_entries(run, dict, order));
    TESS_TRY(tess_buffer_append(out, "{", 1));
    for (size_t i = 0; i < dict->n; i++) {
        TESS_TRY(begin_item(style, i, level, out));
        TESS_TRY(put_key(run, &dict->key[order[i]], style, out));
        TESS_TRY(tess_buffer_append(out, style->key.data, style->key.size));
        TESS_TRY(put(run, &dict->value[order[i]], style, level + 1, out));
    }
    if (dict->n > 0)
        TESS_TRY(new_line(style, level, out));
    return tess_buffer_append(out, "}", 1);
}

static tess_status put(template_run *run, const template_value *value, const json_style *style, int level,
                       tess_buffer *out)
{
    size_t begin = out->size;
    TESS_TRY(template_enter(run));
    if (value->kind == TEMPLATE_LIST || value->kind == TEMPLATE_TUPLE)
        TESS_TRY(put_list(run, value->list, style, level, out));
    else if (value->kind == TEMPLATE_DICT)
        TESS_TRY(put_dict(run, value->dict, style, level, out));
    else
        TESS_TRY(put_scalar(run, value, style, out));
    template_leave(run);
    TEMPLATE_CHECK(out->size <= TEMPLATE_MEMORY, run, "it writes more than %d MiB", TEMPLATE_MEMORY >> 20);
    return template_step(run, (out->size - begin) / 64);
}

static tess_status read_indent(template_run *run, const template_value *value, json_style *style)
{
    int64_t n;
    if (value == NULL || value->kind == TEMPLATE_NONE)
        return TESS_OK;
    style->item = template_text_of(",");
    if (value->kind == TEMPLATE_STRING) {
        style->indent = value->text;
        return TESS_OK;
    }
    TEMPLATE_CHECK(template_as_int(value, &n) && n <= 64, run, "tojson: indent is a string or a number up to 64");
    char *spaces;
    n = n < 0 ? 0 : n;
    TESS_TRY(template_alloc(&run->arena, (size_t)n + 1, &spaces));
    memset(spaces, ' ', (size_t)n);
    style->indent = (template_text){spaces, (size_t)n};
    return TESS_OK;
}

static tess_status read_style(template_run *run, const template_args *args, json_style *style)
{
    const template_value *ascii = template_arg(args, 0, "ensure_ascii"), *sorted = template_arg(args, 3, "sort_keys");
    const template_value *separators = template_arg(args, 2, "separators");
    style->ascii = ascii != NULL && template_truth(ascii);
    style->sorted = sorted != NULL && template_truth(sorted);
    TESS_TRY(read_indent(run, template_arg(args, 1, "indent"), style));
    if (separators == NULL || separators->kind == TEMPLATE_NONE)
        return TESS_OK;
    TEMPLATE_CHECK((separators->kind == TEMPLATE_TUPLE || separators->kind == TEMPLATE_LIST) &&
                       separators->list->n == 2 && separators->list->item[0].kind == TEMPLATE_STRING &&
                       separators->list->item[1].kind == TEMPLATE_STRING,
                   run, "tojson: separators are two strings");
    style->item = separators->list->item[0].text;
    style->key = separators->list->item[1].text;
    return TESS_OK;
}

tess_status template_tojson(template_run *run, const template_value *value, const template_args *args,
                            template_value *out)
{
    json_style style = {.item = template_text_of(", "), .key = template_text_of(": ")};
    tess_buffer buffer = {.mem = run->arena.mem};
    TESS_TRY(read_style(run, args, &style));
    return template_take(run, &buffer, put(run, value, &style, 0, &buffer), out);
}
