/* Values with the meaning that Python gives them: makes, converts, compares and adds them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "data/template/template_impl.h"

/* ---- Errors and budgets ---- */
tess_status template_fail(uint32_t line, tess_status status, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return TESS_FAIL(status, "line %u: %s", line, text);
}

tess_status template_wrong(template_run *run, const template_value *value, const char *operation)
{
    if (value->kind == TEMPLATE_UNDEFINED)
        return TEMPLATE_FAIL(run, "%.*s is undefined", (int)value->text.size, value->text.data);
    return TEMPLATE_FAIL(run, "%s is not possible with a value of type %s", operation, template_type(value));
}

tess_status template_step(template_run *run, size_t n)
{
    TEMPLATE_CHECK(n < TEMPLATE_STEPS && (run->steps += (int64_t)n) < TEMPLATE_STEPS, run, "it takes too many steps");
    return TESS_OK;
}

tess_status template_enter(template_run *run)
{
    TEMPLATE_CHECK(run->depth < TEMPLATE_RUN_DEPTH, run, "it is nested or calls macros more than %d deep",
                   TEMPLATE_RUN_DEPTH);
    run->depth++;
    return template_step(run, 1);
}

/* ---- Making values ---- */
tess_status template_undefined(template_run *run, template_value *out, const char *what, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(text, sizeof(text), what, arguments);
    va_end(arguments);
    TESS_TRY(template_copy(run, text, strlen(text), out));
    out->kind = TEMPLATE_UNDEFINED;
    return TESS_OK;
}

tess_status template_copy(template_run *run, const char *data, size_t size, template_value *out)
{
    char *copy;
    TESS_TRY(template_step(run, size / 64));
    TESS_TRY(template_alloc(&run->arena, size + 1, &copy));
    if (size > 0)
        memcpy(copy, data, size);
    *out = template_string(copy, size);
    return TESS_OK;
}

tess_status template_take(template_run *run, tess_buffer *text, tess_status status, template_value *out)
{
    if (status == TESS_OK)
        status = template_copy(run, text->data, text->size, out);
    tess_buffer_free(text);
    return status;
}

tess_status template_list_new(template_run *run, template_kind kind, template_value *out)
{
    out->kind = kind;
    return template_alloc(&run->arena, sizeof(template_list), &out->list);
}

/* Doubles the room of an array in the arena. */
static tess_status grow(template_run *run, size_t n, size_t *room, template_value **array)
{
    template_value *grown;
    size_t more = *room > 0 ? 2 * *room : 4;
    TESS_TRY(template_alloc(&run->arena, more * sizeof(*grown), &grown));
    if (n > 0)
        memcpy(grown, *array, n * sizeof(*grown));
    *array = grown;
    *room = more;
    return TESS_OK;
}

tess_status template_list_add(template_run *run, template_list *list, const template_value *value)
{
    TESS_TRY(template_step(run, 1));
    if (list->n == list->room)
        TESS_TRY(grow(run, list->n, &list->room, &list->item));
    list->item[list->n++] = *value;
    return TESS_OK;
}

tess_status template_dict_new(template_run *run, template_kind kind, template_value *out)
{
    out->kind = kind;
    return template_alloc(&run->arena, sizeof(template_dict), &out->dict);
}

tess_status template_dict_set(template_run *run, template_dict *dict, const template_value *key,
                              const template_value *value)
{
    template_value *old = (template_value *)template_dict_get(run, dict, key);
    TESS_TRY(template_step(run, 1 + dict->n / 16));
    if (old != NULL) {
        *old = *value;
        return TESS_OK;
    }
    size_t room = dict->room;
    if (dict->n == dict->room) {
        TESS_TRY(grow(run, dict->n, &room, &dict->key));
        TESS_TRY(grow(run, dict->n, &dict->room, &dict->value));
    }
    dict->key[dict->n] = *key;
    dict->value[dict->n++] = *value;
    return TESS_OK;
}

const template_value *template_dict_get(template_run *run, const template_dict *dict, const template_value *key)
{
    for (size_t i = 0; i < dict->n; i++)
        if (template_equal(run, &dict->key[i], key))
            return &dict->value[i];
    return NULL;
}

const template_value *template_dict_find(template_run *run, const template_dict *dict, template_text key)
{
    run->steps += (int64_t)dict->n / 16;
    for (size_t i = 0; i < dict->n; i++)
        if (dict->key[i].kind == TEMPLATE_STRING && dict->key[i].text.size == key.size &&
            memcmp(dict->key[i].text.data, key.data, key.size) == 0)
            return &dict->value[i];
    return NULL;
}

static tess_status from_object(template_run *run, const json_t *json, template_value *out)
{
    TESS_TRY(template_dict_new(run, TEMPLATE_DICT, out));
    for (void *at = json_object_iter((json_t *)json); at != NULL; at = json_object_iter_next((json_t *)json, at)) {
        const char *name = json_object_iter_key(at);
        const template_value key = template_string(name, strlen(name));
        template_value value;
        TESS_TRY(template_from_json(run, json_object_iter_value(at), &value));
        TESS_TRY(template_dict_set(run, out->dict, &key, &value));
    }
    return TESS_OK;
}

static tess_status from_array(template_run *run, const json_t *json, template_value *out)
{
    TESS_TRY(template_list_new(run, TEMPLATE_LIST, out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        template_value value;
        TESS_TRY(template_from_json(run, json_array_get(json, i), &value));
        TESS_TRY(template_list_add(run, out->list, &value));
    }
    return TESS_OK;
}

tess_status template_from_json(template_run *run, const json_t *json, template_value *out)
{
    tess_status status = TESS_OK;
    *out = template_none();
    TESS_TRY(template_enter(run));
    if (json_is_object(json))
        status = from_object(run, json, out);
    else if (json_is_array(json))
        status = from_array(run, json, out);
    else if (json_is_string(json))
        *out = template_string(json_string_value(json), json_string_length(json));
    else if (json_is_integer(json))
        *out = template_int(json_integer_value(json));
    else if (json_is_real(json))
        *out = (template_value){
            .kind = TEMPLATE_FLOAT, .real = json_real_value(json), .rough = fabs(json_real_value(json)) >= 0x1p63};
    else if (json_is_boolean(json))
        *out = template_bool(json_is_true(json));
    template_leave(run);
    return status;
}

/* ---- The type of a value ---- */
const char *template_type(const template_value *value)
{
    static const char *const names[] = {[TEMPLATE_UNDEFINED] = "Undefined", [TEMPLATE_NONE] = "NoneType",
                                        [TEMPLATE_BOOL] = "bool",           [TEMPLATE_INT] = "int",
                                        [TEMPLATE_FLOAT] = "float",         [TEMPLATE_STRING] = "str",
                                        [TEMPLATE_LIST] = "list",           [TEMPLATE_TUPLE] = "tuple",
                                        [TEMPLATE_RANGE_OF] = "range",      [TEMPLATE_VIEW] = "dict_view",
                                        [TEMPLATE_ITERATOR] = "generator",  [TEMPLATE_DICT] = "dict",
                                        [TEMPLATE_NAMESPACE] = "Namespace", [TEMPLATE_LOOP] = "LoopContext",
                                        [TEMPLATE_MACRO] = "Macro",         [TEMPLATE_FUNCTION] = "function",
                                        [TEMPLATE_METHOD] = "method"};
    return names[value->kind];
}

bool template_is_number(const template_value *value)
{
    return value->kind == TEMPLATE_BOOL || value->kind == TEMPLATE_INT || value->kind == TEMPLATE_FLOAT;
}

bool template_as_int(const template_value *value, int64_t *out)
{
    *out = value->kind == TEMPLATE_BOOL ? value->truth : value->kind == TEMPLATE_INT ? value->integer : 0;
    return value->kind == TEMPLATE_BOOL || value->kind == TEMPLATE_INT;
}

double template_as_real(const template_value *value)
{
    int64_t integer;
    return template_as_int(value, &integer) ? (double)integer : value->real;
}

bool template_is_list(const template_value *value)
{
    return value->kind >= TEMPLATE_LIST && value->kind <= TEMPLATE_VIEW;
}

bool template_truth(const template_value *value)
{
    if (template_is_list(value))
        return value->list->n > 0;
    switch (value->kind) {
    case TEMPLATE_UNDEFINED:
    case TEMPLATE_NONE:
        return false;
    case TEMPLATE_STRING:
        return value->text.size > 0;
    case TEMPLATE_DICT:
        return value->dict->n > 0;
    default:
        return !template_is_number(value) || template_as_real(value) != 0;
    }
}

/* ---- Comparing ---- */
static bool equal_dicts(template_run *run, const template_dict *a, const template_dict *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; i < a->n && equal; i++) {
        const template_value *other = template_dict_get(run, b, &a->key[i]);
        equal = other != NULL && template_equal(run, &a->value[i], other);
    }
    return equal;
}

static bool equal_lists(template_run *run, const template_list *a, const template_list *b)
{
    bool equal = a->n == b->n;
    for (size_t i = 0; i < a->n && equal; i++)
        equal = template_equal(run, &a->item[i], &b->item[i]);
    return equal;
}

/* Compares numbers. Integers are compared as integers, because floats cannot distinguish large ones. */
static int order_numbers(const template_value *a, const template_value *b)
{
    int64_t x, y;
    if (template_as_int(a, &x) && template_as_int(b, &y))
        return (x > y) - (x < y);
    double u = template_as_real(a), v = template_as_real(b);
    return (u > v) - (u < v);
}

static bool equal_inside(template_run *run, const template_value *a, const template_value *b)
{
    bool equal = false;
    if (run->depth++ >= TEMPLATE_RUN_DEPTH)
        run->steps = TEMPLATE_STEPS; /* makes the next step fail */
    else if (run->steps < TEMPLATE_STEPS)
        equal = a->kind == TEMPLATE_DICT ? equal_dicts(run, a->dict, b->dict) : equal_lists(run, a->list, b->list);
    run->depth--;
    return equal;
}

bool template_equal(template_run *run, const template_value *a, const template_value *b)
{
    run->steps++;
    if (template_is_number(a) && template_is_number(b))
        return order_numbers(a, b) == 0 && !isnan(template_as_real(a)) && !isnan(template_as_real(b));
    if (a->kind != b->kind)
        return false;
    if (template_is_list(a) || a->kind == TEMPLATE_DICT)
        return equal_inside(run, a, b);
    switch (a->kind) {
    case TEMPLATE_UNDEFINED:
    case TEMPLATE_NONE:
        return true;
    case TEMPLATE_STRING:
    case TEMPLATE_FUNCTION:
        run->steps += (int64_t)a->text.size / 64;
        return a->text.size == b->text.size && memcmp(a->text.data, b->text.data, a->text.size) == 0;
    default: /* kinds that are compared by identity */
        return (const void *)a->list == (const void *)b->list;
    }
}

static int order_text(template_text a, template_text b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.data, b.data, n);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

tess_status template_compare(template_run *run, const template_value *a, const template_value *b, int *order)
{
    *order = 0;
    if (template_is_number(a) && template_is_number(b)) {
        *order = order_numbers(a, b);
        return TESS_OK;
    }
    if (a->kind == TEMPLATE_UNDEFINED || b->kind == TEMPLATE_UNDEFINED)
        return template_wrong(run, a->kind == TEMPLATE_UNDEFINED ? a : b, "comparing");
    if (a->kind == TEMPLATE_STRING && b->kind == TEMPLATE_STRING) {
        *order = order_text(a->text, b->text);
        return TESS_OK;
    }
    TEMPLATE_CHECK(a->kind == b->kind && (a->kind == TEMPLATE_LIST || a->kind == TEMPLATE_TUPLE), run,
                   "values of the types %s and %s have no order", template_type(a), template_type(b));
    size_t n = a->list->n < b->list->n ? a->list->n : b->list->n;
    TESS_TRY(template_enter(run));
    for (size_t i = 0; i < n && *order == 0; i++)
        if (!template_equal(run, &a->list->item[i], &b->list->item[i]))
            TESS_TRY(template_compare(run, &a->list->item[i], &b->list->item[i], order));
    template_leave(run);
    if (*order == 0)
        *order = (a->list->n > b->list->n) - (a->list->n < b->list->n);
    return TESS_OK;
}

bool template_order_holds(template_op op, int order)
{
    return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
}

tess_status template_contains(template_run *run, const template_value *container, const template_value *item, bool *out)
{
    *out = false;
    if (container->kind == TEMPLATE_DICT) {
        TESS_TRY(template_step(run, container->dict->n / 16));
        *out = template_dict_get(run, container->dict, item) != NULL;
        return TESS_OK;
    }
    if (container->kind == TEMPLATE_STRING) {
        TEMPLATE_CHECK(item->kind == TEMPLATE_STRING, run,
                       "'in' looks for a string in a string, not for a value of type %s", template_type(item));
        TESS_TRY(template_step(run, container->text.size / 64));
        *out = template_find_text(container->text, item->text, 0) != SIZE_MAX;
        return TESS_OK;
    }
    const template_list *items;
    TESS_TRY(template_items(run, container, &items));
    TESS_TRY(template_step(run, items->n));
    for (size_t i = 0; i < items->n && !*out; i++)
        *out = template_equal(run, &items->item[i], item);
    return TESS_OK;
}

/* ---- Many values in one ---- */
static tess_status list_characters(template_run *run, template_text text, template_list *list)
{
    uint32_t c;
    for (size_t at = 0; at < text.size;) {
        int n = template_decode(text, at, &c);
        const template_value value = template_string(text.data + at, (size_t)n);
        TESS_TRY(template_list_add(run, list, &value));
        at += (size_t)n;
    }
    return TESS_OK;
}

static tess_status list_keys(template_run *run, const template_dict *dict, template_list *list)
{
    for (size_t i = 0; i < dict->n; i++)
        TESS_TRY(template_list_add(run, list, &dict->key[i]));
    return TESS_OK;
}

tess_status template_items(template_run *run, const template_value *value, const template_list **items)
{
    template_value made;
    *items = value->list;
    if (template_is_list(value))
        return TESS_OK;
    TESS_TRY(template_list_new(run, TEMPLATE_LIST, &made));
    *items = made.list;
    switch (value->kind) {
    case TEMPLATE_UNDEFINED:
        return TESS_OK;
    case TEMPLATE_STRING:
        return list_characters(run, value->text, made.list);
    case TEMPLATE_DICT:
        return list_keys(run, value->dict, made.list);
    case TEMPLATE_ITERATOR:
        for (; value->list->next < value->list->n; value->list->next++)
            TESS_TRY(template_list_add(run, made.list, &value->list->item[value->list->next]));
        return TESS_OK;
    default:
        return template_wrong(run, value, "iterating");
    }
}

tess_status template_length(template_run *run, const template_value *value, int64_t *length)
{
    *length = 0;
    if (template_is_list(value))
        *length = (int64_t)value->list->n;
    else if (value->kind == TEMPLATE_STRING)
        *length = (int64_t)template_characters(value->text);
    else if (value->kind == TEMPLATE_DICT)
        *length = (int64_t)value->dict->n;
    else if (value->kind == TEMPLATE_LOOP)
        *length = (int64_t)value->loop->items->n;
    else if (value->kind != TEMPLATE_UNDEFINED)
        return template_wrong(run, value, "length");
    return TESS_OK;
}

tess_status template_escape(template_text text, tess_buffer *out)
{
    static const char *const escapes[] = {"&&amp;", "<&lt;", ">&gt;", "\"&#34;", "'&#39;"};
    for (size_t at = 0; at < text.size; at++) {
        const char *with = NULL;
        for (int i = 0; i < 5; i++)
            with = escapes[i][0] == text.data[at] ? escapes[i] + 1 : with;
        TESS_TRY(with != NULL ? tess_buffer_append(out, with, strlen(with))
                              : tess_buffer_append(out, text.data + at, 1));
    }
    return TESS_OK;
}

/* Adds two strings, one of which is markup; the other one is escaped. */
static tess_status add_markup(template_run *run, const template_value *a, const template_value *b, template_value *out)
{
    tess_buffer buffer = {.mem = run->arena.mem};
    tess_status status = TESS_OK;
    const template_value *const parts[] = {a, b};
    for (int i = 0; i < 2 && status == TESS_OK; i++)
        status = parts[i]->markup ? tess_buffer_append(&buffer, parts[i]->text.data, parts[i]->text.size)
                                  : template_escape(parts[i]->text, &buffer);
    TESS_TRY(template_take(run, &buffer, status, out));
    out->markup = true;
    return TESS_OK;
}

tess_status template_add(template_run *run, const template_value *a, const template_value *b, template_value *out)
{
    if (a->kind == TEMPLATE_STRING && b->kind == TEMPLATE_STRING && (a->markup || b->markup))
        return add_markup(run, a, b, out);
    if (a->kind == TEMPLATE_STRING && b->kind == TEMPLATE_STRING) {
        char *text;
        size_t size = a->text.size + b->text.size;
        TESS_TRY(template_step(run, size / 64));
        TESS_TRY(template_alloc(&run->arena, size + 1, &text));
        memcpy(text, a->text.data, a->text.size);
        memcpy(text + a->text.size, b->text.data, b->text.size);
        *out = template_string(text, size);
        return TESS_OK;
    }
    if (a->kind == TEMPLATE_UNDEFINED || b->kind == TEMPLATE_UNDEFINED)
        return template_wrong(run, a->kind == TEMPLATE_UNDEFINED ? a : b, "+");
    TEMPLATE_CHECK(a->kind == b->kind && (a->kind == TEMPLATE_LIST || a->kind == TEMPLATE_TUPLE), run,
                   "values of the types %s and %s cannot be added", template_type(a), template_type(b));
    template_value sum;
    TESS_TRY(template_list_new(run, a->kind, &sum));
    for (size_t i = 0; i < a->list->n; i++)
        TESS_TRY(template_list_add(run, sum.list, &a->list->item[i]));
    for (size_t i = 0; i < b->list->n; i++)
        TESS_TRY(template_list_add(run, sum.list, &b->list->item[i]));
    *out = sum;
    return TESS_OK;
}
