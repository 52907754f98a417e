/* Filters of sequences: lists, and other values that can be iterated. */
#include <stdlib.h>
#include <string.h>

#include "data/template/template_impl.h"

static tess_status own_items(const template_use *c, const template_list **items)
{
    return template_items(c->run, c->value, items);
}

/* ---- Attributes ---- */
/* Follows a path such as "a.b.0" from an item; a number is an index. */
static tess_status walk(template_run *run, const template_value *item, const template_value *path, template_value *out)
{
    *out = *item;
    if (path->kind != TEMPLATE_STRING)
        return template_item(run, item, path, out);
    for (size_t begin = 0; begin <= path->text.size;) {
        size_t dot = template_find_text(path->text, template_text_of("."), begin);
        size_t end = dot == SIZE_MAX ? path->text.size : dot;
        template_value key = template_string(path->text.data + begin, end - begin), from = *out;
        char *rest;
        long index = strtol(path->text.data + begin, &rest, 10);
        if (end > begin && rest == path->text.data + end)
            key = template_int(index);
        TESS_TRY(template_item(run, &from, &key, out));
        begin = end + 1;
    }
    return TESS_OK;
}

/* Returns the attribute of an item that `attribute` names; NULL: the item itself. */
static tess_status part_of(template_run *run, const template_value *item, const template_value *attribute,
                           template_value *out)
{
    *out = *item;
    return attribute != NULL && attribute->kind != TEMPLATE_NONE ? walk(run, item, attribute, out) : TESS_OK;
}

/* ---- Choosing ---- */
/* Returns the arguments after the first `skipped`. */
static template_args behind(const template_args *args, size_t skipped)
{
    template_args rest = *args;
    size_t n = skipped < args->n ? skipped : args->n;
    rest.item += n;
    rest.n -= n;
    return rest;
}

/* Makes an empty iterator, and returns the items from which a filter fills it. None counts as an empty list. */
static tess_status begin_iterator(const template_use *c, const template_list **items)
{
    static const template_list none = {.n = 0};
    *items = &none;
    TESS_TRY(template_list_new(c->run, TEMPLATE_ITERATOR, c->out));
    return template_truth(c->value) ? own_items(c, items) : TESS_OK;
}

/* Variant bit 0: keeps the items that fail the test; bit 1: tests an attribute, which the first argument names. */
static tess_status choose(const template_use *c)
{
    bool rejects = (c->variant & 1) != 0, attribute = (c->variant & 2) != 0;
    size_t skipped = attribute ? 1 : 0;
    const template_list *items;
    TEMPLATE_CHECK(c->args->n >= skipped, c->run, "selectattr and rejectattr take the name of an attribute");
    const template_value *test = c->args->n > skipped ? &c->args->item[skipped] : NULL;
    TEMPLATE_CHECK(test == NULL || test->kind == TEMPLATE_STRING, c->run, "the name of a test is a string");
    const template_args rest = behind(c->args, skipped + 1);
    TESS_TRY(begin_iterator(c, &items));
    for (size_t i = 0; i < items->n; i++) {
        template_value value;
        template_value passes;
        TESS_TRY(part_of(c->run, &items->item[i], attribute ? &c->args->item[0] : NULL, &value));
        passes = value;
        if (test != NULL)
            TESS_TRY(template_use_name(c->run, TEMPLATE_TESTS, test->text, &value, &rest, &passes));
        if (template_truth(&passes) != rejects)
            TESS_TRY(template_list_add(c->run, c->out->list, &items->item[i]));
    }
    return TESS_OK;
}

static tess_status map(const template_use *c)
{
    const template_list *items;
    const template_value *attribute = template_arg(c->args, SIZE_MAX, "attribute");
    const template_value *other = template_arg(c->args, SIZE_MAX, "default");
    TEMPLATE_CHECK((attribute != NULL) == (c->args->n == 0), c->run,
                   "map takes attribute=NAME or the name of a filter");
    TEMPLATE_CHECK(attribute != NULL || c->args->item[0].kind == TEMPLATE_STRING, c->run,
                   "the name of a filter is a string");
    const template_args rest = behind(c->args, 1);
    TESS_TRY(begin_iterator(c, &items));
    for (size_t i = 0; i < items->n; i++) {
        template_value value;
        if (attribute == NULL)
            TESS_TRY(
                template_use_name(c->run, TEMPLATE_FILTERS, c->args->item[0].text, &items->item[i], &rest, &value));
        else
            TESS_TRY(walk(c->run, &items->item[i], attribute, &value));
        if (value.kind == TEMPLATE_UNDEFINED && attribute != NULL && other != NULL)
            value = *other;
        TESS_TRY(template_list_add(c->run, c->out->list, &value));
    }
    return TESS_OK;
}

/* ---- Ends and lengths ---- */
/* Variant 1: last. */
static tess_status end(const template_use *c)
{
    const template_list *items;
    bool last = c->variant == 1;
    TESS_TRY(own_items(c, &items));
    if (items->n == 0)
        return template_undefined(c->run, c->out, "the %s item of nothing", last ? "last" : "first");
    *c->out = items->item[last ? items->n - 1 : 0];
    return TESS_OK;
}

static tess_status length(const template_use *c)
{
    int64_t n;
    TESS_TRY(template_length(c->run, c->value, &n));
    *c->out = template_int(n);
    return TESS_OK;
}

static tess_status copy_items(const template_use *c, const template_list *items, template_kind kind)
{
    template_value list;
    TESS_TRY(template_list_new(c->run, kind, &list));
    for (size_t i = 0; i < items->n; i++)
        TESS_TRY(template_list_add(c->run, list.list, &items->item[i]));
    *c->out = list;
    return TESS_OK;
}

static tess_status to_list(const template_use *c)
{
    const template_list *items;
    TESS_TRY(own_items(c, &items));
    return copy_items(c, items, TEMPLATE_LIST);
}

static tess_status put_text(const template_use *c, const template_list *items, bool backwards, tess_buffer *out)
{
    for (size_t i = 0; i < items->n; i++)
        TESS_TRY(template_print(c->run, &items->item[backwards ? items->n - 1 - i : i], out));
    return TESS_OK;
}

static tess_status reverse(const template_use *c)
{
    const template_list *items;
    tess_buffer buffer = {.mem = c->run->arena.mem};
    TESS_TRY(own_items(c, &items));
    if (c->value->kind == TEMPLATE_STRING)
        return template_take(c->run, &buffer, put_text(c, items, true, &buffer), c->out);
    TESS_TRY(copy_items(c, items, TEMPLATE_ITERATOR));
    for (size_t i = 0; i < items->n; i++)
        c->out->list->item[i] = items->item[items->n - 1 - i];
    return TESS_OK;
}

static tess_status put_joined(const template_use *c, const template_list *items, tess_buffer *out)
{
    const template_value *between = template_arg(c->args, 0, "d"), *attribute = template_arg(c->args, 1, "attribute");
    for (size_t i = 0; i < items->n; i++) {
        template_value value;
        if (i > 0 && between != NULL)
            TESS_TRY(template_print(c->run, between, out));
        TESS_TRY(part_of(c->run, &items->item[i], attribute, &value));
        TESS_TRY(template_print(c->run, &value, out));
    }
    return TESS_OK;
}

static tess_status join(const template_use *c)
{
    const template_list *items;
    tess_buffer buffer = {.mem = c->run->arena.mem};
    TESS_TRY(own_items(c, &items));
    return template_take(c->run, &buffer, put_joined(c, items, &buffer), c->out);
}

/* ---- Order ---- */
/* Returns the key by which an item is compared: an attribute, or the item. Strings are compared without case unless
 * `cased`. */
static tess_status key_of(const template_use *c, const template_value *item, const template_value *attribute,
                          bool cased, template_value *key)
{
    TESS_TRY(part_of(c->run, item, attribute, key));
    if (key->kind == TEMPLATE_STRING && !cased)
        return template_change_case(c->run, key->text, CASE_LOWER, key);
    return TESS_OK;
}

static bool flag(const template_use *c, size_t place, const char *name)
{
    const template_value *value = template_arg(c->args, place, name);
    return value != NULL && template_truth(value);
}

/* Merges two sorted halves of order[0 .. n), stably. */
static tess_status merge(const template_use *c, const template_value *keys, size_t *order, size_t *scratch, size_t n,
                         bool down)
{
    size_t half = n / 2, i = 0, j = half, k = 0;
    int above;
    while (i < half && j < n) {
        TESS_TRY(template_step(c->run, 1));
        TESS_TRY(template_compare(c->run, &keys[order[i]], &keys[order[j]], &above));
        scratch[k++] = (down ? above < 0 : above > 0) ? order[j++] : order[i++];
    }
    while (i < half)
        scratch[k++] = order[i++];
    memcpy(order, scratch, k * sizeof(*order));
    return TESS_OK;
}

static tess_status merge_sort(const template_use *c, const template_value *keys, size_t *order, size_t *scratch,
                              size_t n, bool down)
{
    if (n < 2)
        return TESS_OK;
    TESS_TRY(merge_sort(c, keys, order, scratch, n / 2, down));
    TESS_TRY(merge_sort(c, keys, order + n / 2, scratch, n - n / 2, down));
    return merge(c, keys, order, scratch, n, down);
}

static tess_status sort_by(const template_use *c, const template_list *items, const template_value *keys, bool down)
{
    size_t *order;
    template_value sorted;
    TESS_TRY(template_alloc(&c->run->arena, 2 * items->n * sizeof(*order), &order));
    for (size_t i = 0; i < items->n; i++)
        order[i] = i;
    TESS_TRY(merge_sort(c, keys, order, order + items->n, items->n, down));
    TESS_TRY(template_list_new(c->run, TEMPLATE_LIST, &sorted));
    for (size_t i = 0; i < items->n; i++)
        TESS_TRY(template_list_add(c->run, sorted.list, &items->item[order[i]]));
    *c->out = sorted;
    return TESS_OK;
}

static tess_status make_keys(const template_use *c, const template_list *items, const template_value *attribute,
                             bool cased, template_value **keys)
{
    TESS_TRY(template_alloc(&c->run->arena, items->n * sizeof(**keys), keys));
    for (size_t i = 0; i < items->n; i++)
        TESS_TRY(key_of(c, &items->item[i], attribute, cased, &(*keys)[i]));
    return TESS_OK;
}

static tess_status sort(const template_use *c)
{
    const template_list *items;
    template_value *keys;
    TESS_TRY(own_items(c, &items));
    TESS_TRY(make_keys(c, items, template_arg(c->args, 2, "attribute"), flag(c, 1, "case_sensitive"), &keys));
    return sort_by(c, items, keys, flag(c, 0, "reverse"));
}

/* Makes a tuple (key, value) of each entry of a dictionary. */
static tess_status pairs_of(const template_use *c, template_value *pairs)
{
    const template_args none = {0};
    return template_use_name(c->run, TEMPLATE_DICT_METHODS, template_text_of("items"), c->value, &none, pairs);
}

static tess_status sort_dict(const template_use *c)
{
    const template_value *by = template_arg(c->args, 1, "by");
    template_value pairs, index;
    template_value *keys;
    if (c->value->kind != TEMPLATE_DICT)
        return template_wrong(c->run, c->value, "dictsort");
    index = template_int(by != NULL && by->kind == TEMPLATE_STRING && template_text_is(by->text, "value"));
    TESS_TRY(pairs_of(c, &pairs));
    TESS_TRY(make_keys(c, pairs.list, &index, flag(c, 0, "case_sensitive"), &keys));
    return sort_by(c, pairs.list, keys, flag(c, 2, "reverse"));
}

/* Variant 1: max. */
static tess_status extreme(const template_use *c)
{
    const template_list *items;
    template_value *keys;
    size_t best = 0;
    TESS_TRY(own_items(c, &items));
    if (items->n == 0)
        return template_undefined(c->run, c->out, "an item of nothing");
    TESS_TRY(make_keys(c, items, template_arg(c->args, 1, "attribute"), flag(c, 0, "case_sensitive"), &keys));
    for (size_t i = 1; i < items->n; i++) {
        int above;
        TESS_TRY(template_compare(c->run, &keys[i], &keys[best], &above));
        best = (c->variant == 1 ? above > 0 : above < 0) ? i : best;
    }
    *c->out = items->item[best];
    return TESS_OK;
}

static tess_status unique(const template_use *c)
{
    const template_list *items;
    template_value *keys;
    TESS_TRY(own_items(c, &items));
    TESS_TRY(make_keys(c, items, template_arg(c->args, 1, "attribute"), flag(c, 0, "case_sensitive"), &keys));
    TESS_TRY(template_list_new(c->run, TEMPLATE_ITERATOR, c->out));
    for (size_t i = 0; i < items->n; i++) {
        bool seen = false;
        TESS_TRY(template_step(c->run, 1 + i / 8));
        for (size_t k = 0; k < i && !seen; k++)
            seen = template_equal(c->run, &keys[k], &keys[i]);
        if (!seen)
            TESS_TRY(template_list_add(c->run, c->out->list, &items->item[i]));
    }
    return TESS_OK;
}

static tess_status add_numbers(const template_use *c)
{
    const template_list *items;
    const template_value *attribute = template_arg(c->args, 0, "attribute"), *start = template_arg(c->args, 1, "start");
    template_value sum = start != NULL ? *start : template_int(0), value;
    int64_t a, b;
    TESS_TRY(own_items(c, &items));
    for (size_t i = 0; i < items->n; i++) {
        TESS_TRY(part_of(c->run, &items->item[i], attribute, &value));
        if (!template_is_number(&value) || !template_is_number(&sum))
            TESS_TRY(template_add(c->run, &sum, &value, &sum));
        else if (template_as_int(&sum, &a) && template_as_int(&value, &b) && !__builtin_add_overflow(a, b, &a))
            sum = template_int(a);
        else
            sum = TEMPLATE_OF(TEMPLATE_FLOAT, real, template_as_real(&sum) + template_as_real(&value));
    }
    *c->out = sum;
    return TESS_OK;
}

static tess_status items(const template_use *c)
{
    if (c->value->kind == TEMPLATE_UNDEFINED)
        return template_list_new(c->run, TEMPLATE_ITERATOR, c->out);
    if (c->value->kind != TEMPLATE_DICT)
        return template_wrong(c->run, c->value, "items");
    TESS_TRY(pairs_of(c, c->out));
    c->out->kind = TEMPLATE_ITERATOR;
    return TESS_OK;
}

static tess_status attribute(const template_use *c)
{
    const template_value *name = &c->args->item[0];
    TEMPLATE_CHECK(name->kind == TEMPLATE_STRING, c->run, "attr takes a name");
    return template_attribute(c->run, c->value, name->text, c->out);
}

/* ---- The table ---- */
static const template_builtin filters[] = {
    {"select", choose, 0, 0, 8, NULL},
    {"reject", choose, 1, 0, 8, NULL},
    {"selectattr", choose, 2, 1, 8, NULL},
    {"rejectattr", choose, 3, 1, 8, NULL},
    {"map", map, 0, 1, 8, TEMPLATE_NAMES("attribute", "default", "width", "separators")},
    {"first", end, 0, 0, 0, NULL},
    {"last", end, 1, 0, 0, NULL},
    {"length", length, 0, 0, 0, NULL},
    {"count", length, 0, 0, 0, NULL},
    {"list", to_list, 0, 0, 0, NULL},
    {"reverse", reverse, 0, 0, 0, NULL},
    {"join", join, 0, 0, 2, TEMPLATE_NAMES("d", "attribute")},
    {"sort", sort, 0, 0, 3, TEMPLATE_NAMES("reverse", "case_sensitive", "attribute")},
    {"dictsort", sort_dict, 0, 0, 3, TEMPLATE_NAMES("case_sensitive", "by", "reverse")},
    {"min", extreme, 0, 0, 2, TEMPLATE_NAMES("case_sensitive", "attribute")},
    {"max", extreme, 1, 0, 2, TEMPLATE_NAMES("case_sensitive", "attribute")},
    {"unique", unique, 0, 0, 2, TEMPLATE_NAMES("case_sensitive", "attribute")},
    {"sum", add_numbers, 0, 0, 2, TEMPLATE_NAMES("attribute", "start")},
    {"items", items, 0, 0, 0, NULL},
    {"attr", attribute, 0, 1, 1, NULL}};
TEMPLATE_TABLE(template_filters, filters, &template_text_filters);
