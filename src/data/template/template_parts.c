/* Looks up attributes and items of values, as jinja2's immutable sandbox does. value.name is a method or, if there is
 * none, the entry of a dictionary with that name; value[key] looks in the opposite order. Methods that change a list or
 * a dictionary do not exist. */
#include "data/template/template_impl.h"

/* Returns the method of this name; NULL: values of this kind have no such method. */
static const template_builtin *find_method(const template_run *run, const template_value *value, template_text name)
{
    switch (value->kind) {
    case TEMPLATE_STRING:
        return template_find(run, TEMPLATE_STRING_METHODS, name);
    case TEMPLATE_DICT:
        return template_find(run, TEMPLATE_DICT_METHODS, name);
    case TEMPLATE_LIST:
    case TEMPLATE_TUPLE:
        return template_find(run, TEMPLATE_LIST_METHODS, name);
    case TEMPLATE_LOOP:
        return template_find(run, TEMPLATE_LOOP_METHODS, name);
    default:
        return NULL;
    }
}

static tess_status bind_method(template_run *run, const template_value *self, const template_builtin *method,
                               template_value *out)
{
    out->kind = TEMPLATE_METHOD;
    TESS_TRY(template_alloc(&run->arena, sizeof(template_method), &out->method));
    *out->method = (template_method){*self, method};
    return TESS_OK;
}

static tess_status no_part(template_run *run, const template_value *value, template_text name, template_value *out)
{
    if (value->kind == TEMPLATE_UNDEFINED)
        return template_wrong(run, value, "taking a part");
    return template_undefined(run, out, "'%.*s' of a value of type %s", (int)(name.size < 80 ? name.size : 80),
                              name.data, template_type(value));
}

static tess_status loop_attribute(template_run *run, const template_value *value, template_text name,
                                  template_value *out)
{
    const template_loop *loop = value->loop;
    int64_t index = (int64_t)loop->index, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        template_value value;
    } parts[] = {{"index", template_int(index + 1)},
                 {"index0", template_int(index)},
                 {"revindex", template_int(n - index)},
                 {"revindex0", template_int(n - index - 1)},
                 {"first", template_bool(index == 0)},
                 {"last", template_bool(index == n - 1)},
                 {"length", template_int(n)},
                 {"depth", template_int(1)},
                 {"depth0", template_int(0)}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (template_text_is(name, parts[i].name)) {
            *out = parts[i].value;
            return TESS_OK;
        }
    }
    bool previous = template_text_is(name, "previtem"), next = template_text_is(name, "nextitem");
    if ((previous && index > 0) || (next && index + 1 < n)) {
        *out = loop->items->item[previous ? index - 1 : index + 1];
        return TESS_OK;
    }
    return no_part(run, value, name, out);
}

/* Returns the value of a name in a dict or a namespace. */
static const template_value *find_named(template_run *run, const template_value *value, template_text name)
{
    return value->kind == TEMPLATE_DICT || value->kind == TEMPLATE_NAMESPACE
               ? template_dict_find(run, value->dict, name)
               : NULL;
}

tess_status template_attribute(template_run *run, const template_value *value, template_text name, template_value *out)
{
    const template_builtin *method = find_method(run, value, name);
    if (method != NULL)
        return bind_method(run, value, method, out);
    const template_value *found = find_named(run, value, name);
    if (found != NULL) {
        *out = *found;
        return TESS_OK;
    }
    return value->kind == TEMPLATE_LOOP ? loop_attribute(run, value, name, out) : no_part(run, value, name, out);
}

/* Converts an index of a list of n items to a position; negative ones count from the end. False: it is outside. */
static bool place_of(int64_t index, size_t n, size_t *place)
{
    int64_t at = index < 0 ? index + (int64_t)n : index;
    *place = (size_t)at;
    return at >= 0 && at < (int64_t)n;
}

static tess_status index_item(template_run *run, const template_value *value, int64_t index, template_value *out)
{
    size_t place;
    bool string = value->kind == TEMPLATE_STRING;
    TESS_TRY(template_step(run, string ? value->text.size / 64 : 0));
    size_t n = string ? template_characters(value->text) : value->list->n;
    if (!place_of(index, n, &place))
        return template_undefined(run, out, "item %lld of a %s of %zu", (long long)index, template_type(value), n);
    if (!string) {
        *out = value->list->item[place];
        return TESS_OK;
    }
    size_t begin = template_offset(value->text, (int64_t)place), end = template_offset(value->text, (int64_t)place + 1);
    *out = template_string(value->text.data + begin, end - begin);
    return TESS_OK;
}

tess_status template_item(template_run *run, const template_value *value, const template_value *key,
                          template_value *out)
{
    int64_t index;
    bool indexed = value->kind == TEMPLATE_STRING || (template_is_list(value) && value->kind != TEMPLATE_VIEW);
    if (indexed && template_as_int(key, &index))
        return index_item(run, value, index, out);
    if (value->kind == TEMPLATE_DICT) {
        TESS_TRY(template_step(run, value->dict->n / 16));
        const template_value *found = template_dict_get(run, value->dict, key);
        if (found != NULL) {
            *out = *found;
            return TESS_OK;
        }
    }
    if (key->kind != TEMPLATE_STRING)
        return no_part(run, value, template_text_of("an item"), out);
    return template_attribute(run, value, key->text, out);
}
