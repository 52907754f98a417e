/* Methods of strings, with the behaviour of Python's str. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/template/template_impl.h"

/* ---- Arguments ---- */
/* Takes a string argument at `place`. *text.data NULL: not given, or None. */
static tess_status take_text(const template_use *c, size_t place, template_text *text)
{
    const template_value *value = template_arg(c->args, place, place == 0 ? "sep" : NULL);
    *text = (template_text){0};
    if (value == NULL || value->kind == TEMPLATE_NONE)
        return TESS_OK;
    if (value->kind != TEMPLATE_STRING)
        return template_wrong(c->run, value, "a method of strings");
    *text = value->text;
    return TESS_OK;
}

static tess_status need_text(const template_use *c, size_t place, template_text *text)
{
    TESS_TRY(take_text(c, place, text));
    TEMPLATE_CHECK(text->data != NULL, c->run, "a method of strings needs a string as its argument");
    return TESS_OK;
}

static tess_status take_int(const template_use *c, size_t place, const char *name, int64_t *value)
{
    const template_value *given = template_arg(c->args, place, name);
    if (given != NULL && given->kind != TEMPLATE_NONE && !template_as_int(given, value))
        return template_wrong(c->run, given, "an integer argument");
    return TESS_OK;
}

static tess_status give_text(const template_use *c, template_text text)
{
    *c->out = template_string(text.data, text.size);
    return TESS_OK;
}

static template_text part(template_text text, size_t begin, size_t end)
{
    return (template_text){text.data + begin, end - begin};
}

static tess_status add_text(const template_use *c, template_text text)
{
    const template_value value = template_string(text.data, text.size);
    return template_list_add(c->run, c->out->list, &value);
}

/* Counts the steps of a search that may compare all of `other` at each position of the string. */
static tess_status pay_search(const template_use *c, template_text other)
{
    return template_step(c->run, c->value->text.size / 64 * (1 + other.size / 16));
}

/* ---- Cutting ---- */
static tess_status strip(const template_use *c)
{
    template_text set;
    TESS_TRY(take_text(c, 0, &set));
    TESS_TRY(pay_search(c, set));
    return give_text(c, template_strip(c->value->text, set, (template_side)c->variant));
}

static tess_status split_at_spaces(const template_use *c, int64_t most)
{
    uint32_t code;
    template_text rest = template_strip(c->value->text, (template_text){0}, SIDE_LEFT);
    while (rest.size > 0) {
        size_t end = 0;
        for (size_t n; end < rest.size; end += n) {
            n = (size_t)template_decode(rest, end, &code);
            if (template_is_space(code))
                break;
        }
        if (most >= 0 && (int64_t)c->out->list->n >= most)
            return add_text(c, template_strip(rest, (template_text){0}, SIDE_RIGHT));
        TESS_TRY(add_text(c, part(rest, 0, end)));
        rest = template_strip(part(rest, end, rest.size), (template_text){0}, SIDE_LEFT);
    }
    return TESS_OK;
}

static tess_status split(const template_use *c)
{
    template_text separator;
    int64_t most = -1;
    size_t begin = 0, at;
    TESS_TRY(take_text(c, 0, &separator));
    TESS_TRY(take_int(c, 1, "maxsplit", &most));
    TESS_TRY(template_list_new(c->run, TEMPLATE_LIST, c->out));
    if (separator.data == NULL)
        return split_at_spaces(c, most);
    TEMPLATE_CHECK(separator.size > 0, c->run, "split: the separator is empty");
    while ((most < 0 || (int64_t)c->out->list->n < most) &&
           (at = template_find_text(c->value->text, separator, begin)) != SIZE_MAX) {
        TESS_TRY(add_text(c, part(c->value->text, begin, at)));
        begin = at + separator.size;
    }
    return add_text(c, part(c->value->text, begin, c->value->text.size));
}

static void reverse(template_list *list)
{
    for (size_t i = 0; i < list->n / 2; i++) {
        template_value value = list->item[i];
        list->item[i] = list->item[list->n - 1 - i];
        list->item[list->n - 1 - i] = value;
    }
}

static tess_status rsplit(const template_use *c)
{
    template_text separator;
    int64_t most = -1;
    size_t end = c->value->text.size, at;
    TESS_TRY(take_text(c, 0, &separator));
    TESS_TRY(take_int(c, 1, "maxsplit", &most));
    if (most < 0)
        return split(c);
    if (separator.data == NULL)
        return template_fail(c->run->line, TESS_E_UNSUPPORTED, "rsplit with a limit needs a separator");
    TEMPLATE_CHECK(separator.size > 0, c->run, "rsplit: the separator is empty");
    TESS_TRY(pay_search(c, separator));
    TESS_TRY(template_list_new(c->run, TEMPLATE_LIST, c->out));
    while ((int64_t)c->out->list->n < most && (at = template_find_last(c->value->text, separator, end)) != SIZE_MAX) {
        TESS_TRY(add_text(c, part(c->value->text, at + separator.size, end)));
        end = at;
    }
    TESS_TRY(add_text(c, part(c->value->text, 0, end)));
    reverse(c->out->list);
    return TESS_OK;
}

static tess_status splitlines(const template_use *c)
{
    const template_value *keep = template_arg(c->args, 0, "keepends");
    template_text line;
    size_t with_end;
    TESS_TRY(template_list_new(c->run, TEMPLATE_LIST, c->out));
    for (size_t at = 0; template_next_line(c->value->text, &at, &line, &with_end);) {
        if (keep != NULL && template_truth(keep))
            line.size = with_end;
        TESS_TRY(add_text(c, line));
    }
    return TESS_OK;
}

/* Variant 1: splits at the last separator. */
static tess_status partition(const template_use *c)
{
    template_text separator;
    TESS_TRY(need_text(c, 0, &separator));
    TEMPLATE_CHECK(separator.size > 0, c->run, "partition: the separator is empty");
    TESS_TRY(pay_search(c, separator));
    TESS_TRY(template_list_new(c->run, TEMPLATE_TUPLE, c->out));
    size_t at = c->variant == 1 ? template_find_last(c->value->text, separator, c->value->text.size)
                                : template_find_text(c->value->text, separator, 0);
    const template_text none = {"", 0};
    bool found = at != SIZE_MAX, first = found || c->variant == 0;
    size_t end = found ? at : c->value->text.size;
    TESS_TRY(add_text(c, first ? part(c->value->text, 0, end) : none));
    TESS_TRY(add_text(c, found ? separator : none));
    return add_text(c, found   ? part(c->value->text, at + separator.size, c->value->text.size)
                       : first ? none
                               : c->value->text);
}

/* ---- Looking ---- */
static bool begins_or_ends(template_text self, template_text with, bool ends)
{
    size_t from = ends ? self.size - with.size : 0;
    return with.size <= self.size && memcmp(self.data + from, with.data, with.size) == 0;
}

/* Variant 1: endswith. */
static tess_status starts_with(const template_use *c)
{
    bool found = false;
    const template_value *with = template_arg(c->args, 0, NULL);
    TEMPLATE_CHECK(with != NULL && c->args->n == 1, c->run, "startswith and endswith take one argument here");
    size_t n = with->kind == TEMPLATE_TUPLE ? with->list->n : 1;
    for (size_t i = 0; i < n && !found; i++) {
        const template_value *one = with->kind == TEMPLATE_TUPLE ? &with->list->item[i] : with;
        if (one->kind != TEMPLATE_STRING)
            return template_wrong(c->run, one, "startswith or endswith");
        found = begins_or_ends(c->value->text, one->text, c->variant == 1);
    }
    *c->out = template_bool(found);
    return TESS_OK;
}

/* Variant bit 0: finds the last occurrence; bit 1: fails if there is none. */
static tess_status find(const template_use *c)
{
    template_text needle;
    TESS_TRY(need_text(c, 0, &needle));
    TEMPLATE_CHECK(c->args->n == 1, c->run, "find and index take one argument here");
    TESS_TRY(pay_search(c, needle));
    size_t at = (c->variant & 1) != 0 ? template_find_last(c->value->text, needle, c->value->text.size)
                                      : template_find_text(c->value->text, needle, 0);
    TEMPLATE_CHECK(at != SIZE_MAX || (c->variant & 2) == 0, c->run, "index: the string is not there");
    *c->out = template_int(at == SIZE_MAX ? -1 : (int64_t)template_characters(part(c->value->text, 0, at)));
    return TESS_OK;
}

static tess_status count(const template_use *c)
{
    template_text needle;
    int64_t n = 0;
    TESS_TRY(need_text(c, 0, &needle));
    for (size_t at = 0; needle.size > 0 && (at = template_find_text(c->value->text, needle, at)) != SIZE_MAX; n++)
        at += needle.size;
    *c->out = template_int(needle.size > 0 ? n : (int64_t)template_characters(c->value->text) + 1);
    return TESS_OK;
}

static bool is_alphanumeric(uint32_t code)
{
    return template_is_letter(code) || template_is_digit(code);
}

/* Whether the string is not empty and all of its characters pass the variant's test. */
static tess_status is_all(const template_use *c)
{
    static bool (*const tests[])(uint32_t) = {template_is_digit, template_is_letter, is_alphanumeric,
                                              template_is_space};
    uint32_t code;
    bool all = c->value->text.size > 0;
    for (size_t at = 0; at < c->value->text.size && all;) {
        at += (size_t)template_decode(c->value->text, at, &code);
        all = tests[c->variant](code);
    }
    *c->out = template_bool(all);
    return TESS_OK;
}

/* Variant 1: islower. */
static tess_status is_case(const template_use *c)
{
    *c->out = template_bool(template_is_case(c->value->text, c->variant == 1));
    return TESS_OK;
}

/* ---- Making others ---- */
static tess_status change_case(const template_use *c)
{
    return template_change_case(c->run, c->value->text, (template_case)c->variant, c->out);
}

/* Finds the next occurrence of `old`. An empty `old` occurs before every character and at the end. */
static size_t next_old(const template_use *c, template_text old, size_t from, bool first)
{
    if (old.size > 0)
        return template_find_text(c->value->text, old, from);
    if (first)
        return 0;
    return from >= c->value->text.size ? SIZE_MAX
                                       : from + template_offset(part(c->value->text, from, c->value->text.size), 1);
}

static tess_status put_replaced(const template_use *c, template_text old, template_text new, int64_t most,
                                tess_buffer *out)
{
    size_t begin = 0, at = next_old(c, old, 0, true);
    for (int64_t n = 0; at != SIZE_MAX && (most < 0 || n < most); n++) {
        TESS_TRY(template_step(c->run, 1 + (at - begin + new.size) / 64));
        TESS_TRY(tess_buffer_append(out, c->value->text.data + begin, at - begin));
        TESS_TRY(tess_buffer_append(out, new.data, new.size));
        TEMPLATE_CHECK(out->size <= TEMPLATE_MEMORY, c->run, "it writes more than %d MiB", TEMPLATE_MEMORY >> 20);
        begin = at + old.size;
        at = next_old(c, old, begin, false);
    }
    return tess_buffer_append(out, c->value->text.data + begin, c->value->text.size - begin);
}

static tess_status replace(const template_use *c)
{
    template_text old, new;
    int64_t most = -1;
    tess_buffer buffer = {.mem = c->run->arena.mem};
    TESS_TRY(need_text(c, 0, &old));
    TESS_TRY(need_text(c, 1, &new));
    TESS_TRY(take_int(c, 2, "count", &most));
    return template_take(c->run, &buffer, put_replaced(c, old, new, most, &buffer), c->out);
}

/* Variant 1: removesuffix. */
static tess_status remove_part(const template_use *c)
{
    template_text affix, self = c->value->text;
    TESS_TRY(need_text(c, 0, &affix));
    if (begins_or_ends(self, affix, c->variant == 1))
        self = c->variant == 1 ? part(self, 0, self.size - affix.size) : part(self, affix.size, self.size);
    return give_text(c, self);
}

static tess_status put_joined(const template_use *c, const template_list *items, tess_buffer *out)
{
    for (size_t i = 0; i < items->n; i++) {
        TEMPLATE_CHECK(items->item[i].kind == TEMPLATE_STRING, c->run, "join: item %zu is of type %s, not a string", i,
                       template_type(&items->item[i]));
        if (i > 0)
            TESS_TRY(tess_buffer_append(out, c->value->text.data, c->value->text.size));
        TESS_TRY(template_print(c->run, &items->item[i], out));
    }
    return TESS_OK;
}

static tess_status join(const template_use *c)
{
    const template_list *items;
    tess_buffer buffer = {.mem = c->run->arena.mem};
    const template_value *value = template_arg(c->args, 0, NULL);
    TEMPLATE_CHECK(value != NULL, c->run, "join takes what it joins");
    TESS_TRY(template_items(c->run, value, &items));
    return template_take(c->run, &buffer, put_joined(c, items, &buffer), c->out);
}

/* Returns the value that a field of format() refers to: the next argument, a number or a name. */
static tess_status find_field(const template_use *c, template_text field, size_t *next, const template_value **value)
{
    char name[64];
    char *end;
    TEMPLATE_CHECK(field.size < sizeof(name), c->run, "format: a field of %zu bytes", field.size);
    snprintf(name, sizeof(name), "%.*s", (int)field.size, field.data);
    unsigned long place = field.size == 0 ? (*next)++ : strtoul(name, &end, 10);
    bool numbered = field.size == 0 || (*end == '\0' && name[0] >= '0' && name[0] <= '9');
    if (strpbrk(name, ":!.[") != NULL)
        return template_fail(c->run->line, TESS_E_UNSUPPORTED, "format: the field {%s} is not supported", name);
    *value = template_arg(c->args, numbered ? place : SIZE_MAX, numbered ? NULL : name);
    TEMPLATE_CHECK(*value != NULL, c->run, "format: there is no value for the field {%s}", name);
    return TESS_OK;
}

static tess_status put_fields(const template_use *c, tess_buffer *out)
{
    size_t next = 0;
    const template_value *value = NULL;
    for (size_t at = 0; at < c->value->text.size; at++) {
        char brace = c->value->text.data[at];
        bool twice = at + 1 < c->value->text.size && c->value->text.data[at + 1] == brace;
        if (brace != '{' && brace != '}') {
            TESS_TRY(tess_buffer_append(out, &brace, 1));
            continue;
        }
        if (twice) {
            TESS_TRY(tess_buffer_append(out, &brace, 1));
            at++;
            continue;
        }
        size_t end = brace == '{' ? template_find_text(c->value->text, template_text_of("}"), at) : SIZE_MAX;
        TEMPLATE_CHECK(end != SIZE_MAX, c->run, "format: a single %c", brace);
        TESS_TRY(find_field(c, part(c->value->text, at + 1, end), &next, &value));
        TESS_TRY(template_print(c->run, value, out));
        at = end;
    }
    return TESS_OK;
}

static tess_status format_fields(const template_use *c)
{
    tess_buffer buffer = {.mem = c->run->arena.mem};
    return template_take(c->run, &buffer, put_fields(c, &buffer), c->out);
}

/* ---- The table ---- */
static const char *const names[] = {"sep", "maxsplit", "keepends", "count", NULL};
static const template_builtin methods[] = {{"strip", strip, SIDE_BOTH, 0, 1, names},
                                           {"lstrip", strip, SIDE_LEFT, 0, 1, names},
                                           {"rstrip", strip, SIDE_RIGHT, 0, 1, names},
                                           {"split", split, 0, 0, 2, names},
                                           {"rsplit", rsplit, 0, 0, 2, names},
                                           {"splitlines", splitlines, 0, 0, 1, names},
                                           {"partition", partition, 0, 1, 1, names},
                                           {"rpartition", partition, 1, 1, 1, names},
                                           {"startswith", starts_with, 0, 1, 1, names},
                                           {"endswith", starts_with, 1, 1, 1, names},
                                           {"find", find, 0, 1, 1, names},
                                           {"rfind", find, 1, 1, 1, names},
                                           {"index", find, 2, 1, 1, names},
                                           {"rindex", find, 3, 1, 1, names},
                                           {"count", count, 0, 1, 1, names},
                                           {"isdigit", is_all, 0, 0, 0, names},
                                           {"isalpha", is_all, 1, 0, 0, names},
                                           {"isalnum", is_all, 2, 0, 0, names},
                                           {"isspace", is_all, 3, 0, 0, names},
                                           {"isupper", is_case, 0, 0, 0, names},
                                           {"islower", is_case, 1, 0, 0, names},
                                           {"upper", change_case, CASE_UPPER, 0, 0, names},
                                           {"lower", change_case, CASE_LOWER, 0, 0, names},
                                           {"title", change_case, CASE_TITLE, 0, 0, names},
                                           {"capitalize", change_case, CASE_CAPITAL, 0, 0, names},
                                           {"swapcase", change_case, CASE_SWAP, 0, 0, names},
                                           {"replace", replace, 0, 2, 3, names},
                                           {"removeprefix", remove_part, 0, 1, 1, names},
                                           {"removesuffix", remove_part, 1, 1, 1, names},
                                           {"join", join, 0, 1, 1, names},
                                           {"format", format_fields, 0, 0, TEMPLATE_ANY, NULL}};
TEMPLATE_TABLE(template_string_methods, methods, NULL);

/* ---- "..." % values ---- */
static tess_status put_formatted(template_run *run, template_text format, const template_list *values, tess_buffer *out)
{
    size_t used = 0;
    for (size_t at = 0; at < format.size; at++) {
        char kind = at + 1 < format.size ? format.data[at + 1] : '\0';
        if (format.data[at] != '%') {
            TESS_TRY(tess_buffer_append(out, format.data + at, 1));
            continue;
        }
        at++;
        if (kind == '%') {
            TESS_TRY(tess_buffer_append(out, "%", 1));
            continue;
        }
        if (kind != 's' && kind != 'd')
            return template_fail(run->line, TESS_E_UNSUPPORTED, "only %%s, %%d and %%%% are supported in a format");
        TEMPLATE_CHECK(used < values->n, run, "a format asks for more values than it is given");
        TEMPLATE_CHECK(kind == 's' || values->item[used].kind == TEMPLATE_INT, run, "%%d of a value of type %s",
                       template_type(&values->item[used]));
        TESS_TRY(template_print(run, &values->item[used++], out));
    }
    TEMPLATE_CHECK(used == values->n, run, "a format is given more values than it asks for");
    return TESS_OK;
}

tess_status template_format(template_run *run, template_text format, const template_value *values, template_value *out)
{
    tess_buffer buffer = {.mem = run->arena.mem};
    template_list one = {.item = (template_value *)values, .n = 1};
    return template_take(
        run, &buffer, put_formatted(run, format, values->kind == TEMPLATE_TUPLE ? values->list : &one, &buffer), out);
}
