/* Calls functions, and the methods of lists, dictionaries and loops. */
#include <stdio.h>
#include <time.h>

#include "data/template/template_impl.h"

/* ---- Functions ---- */
static tess_status call_range(const template_use *c)
{
    int64_t bound[3] = {0, 0, 1};
    for (size_t i = 0; i < c->args->n; i++)
        if (!template_as_int(&c->args->item[i], &bound[c->args->n == 1 ? 1 : i]))
            return template_wrong(c->run, &c->args->item[i], "range");
    TEMPLATE_CHECK(bound[2] != 0, c->run, "range: the step is 0");
    TESS_TRY(template_list_new(c->run, TEMPLATE_RANGE_OF, c->out));
    for (int64_t i = bound[0]; bound[2] > 0 ? i < bound[1] : i > bound[1];) {
        const template_value value = template_int(i);
        TEMPLATE_CHECK(c->out->list->n < TEMPLATE_RANGE, c->run, "range: more than %d numbers", TEMPLATE_RANGE);
        TESS_TRY(template_list_add(c->run, c->out->list, &value));
        if (__builtin_add_overflow(i, bound[2], &i))
            break;
    }
    return TESS_OK;
}

/* namespace(...) and dict(...): takes the entries of a dictionary or of pairs, then the named arguments. */
static tess_status make_dict(template_run *run, const template_args *args, template_kind kind, template_value *out)
{
    TEMPLATE_CHECK(args->n <= 1, run, "namespace and dict take at most one argument without a name");
    TESS_TRY(template_dict_new(run, kind, out));
    if (args->n == 1) {
        const template_value *from = &args->item[0];
        if (from->kind != TEMPLATE_DICT && from->kind != TEMPLATE_NAMESPACE)
            return template_wrong(run, from, "making a dictionary");
        for (size_t i = 0; i < from->dict->n; i++)
            TESS_TRY(template_dict_set(run, out->dict, &from->dict->key[i], &from->dict->value[i]));
    }
    for (size_t i = 0; i < args->n_named; i++) {
        const template_value key = template_string(args->name[i].data, args->name[i].size);
        TESS_TRY(template_dict_set(run, out->dict, &key, &args->named[i]));
    }
    return TESS_OK;
}

static tess_status call_namespace(const template_use *c)
{
    return make_dict(c->run, c->args, TEMPLATE_NAMESPACE, c->out);
}

static tess_status call_dict(const template_use *c)
{
    return make_dict(c->run, c->args, TEMPLATE_DICT, c->out);
}

static tess_status call_raise(const template_use *c)
{
    template_value text = template_string("", 0);
    if (c->args->n > 0)
        TESS_TRY(template_str(c->run, &c->args->item[0], &text));
    *c->out = template_none();
    return TEMPLATE_FAIL(c->run, "the template refuses it: %.*s", (int)(text.text.size < 400 ? text.text.size : 400),
                         text.text.data);
}

static tess_status call_strftime(const template_use *c)
{
    char format[256], text[1024];
    struct tm now;
    time_t seconds = (time_t)c->run->now_s;
    TEMPLATE_CHECK(c->args->n == 1 && c->args->item[0].kind == TEMPLATE_STRING &&
                       c->args->item[0].text.size < sizeof(format),
                   c->run, "strftime_now takes a format of at most 255 bytes");
    snprintf(format, sizeof(format), "%.*s", (int)c->args->item[0].text.size, c->args->item[0].text.data);
    TEMPLATE_CHECK(gmtime_r(&seconds, &now) != NULL, c->run, "strftime_now: the time has no date");
    return template_copy(c->run, text, strftime(text, sizeof(text), format, &now), c->out);
}

static const template_builtin functions[] = {{"range", call_range, 0, 1, 3, NULL},
                                             {"namespace", call_namespace, 0, 0, TEMPLATE_ANY, NULL},
                                             {"dict", call_dict, 0, 0, TEMPLATE_ANY, NULL},
                                             {"raise_exception", call_raise, 0, 0, TEMPLATE_ANY, NULL},
                                             {"strftime_now", call_strftime, 0, 1, 1, NULL}};
TEMPLATE_TABLE(template_functions, functions, NULL);

/* ---- Methods of dictionaries ---- */
typedef enum dict_view { KEYS, VALUES, ITEMS } dict_view;

static tess_status make_view(const template_use *c)
{
    const template_dict *dict = c->value->dict;
    TESS_TRY(template_list_new(c->run, TEMPLATE_VIEW, c->out));
    for (size_t i = 0; i < dict->n; i++) {
        template_value pair = c->variant == KEYS ? dict->key[i] : dict->value[i];
        if (c->variant == ITEMS) {
            TESS_TRY(template_list_new(c->run, TEMPLATE_TUPLE, &pair));
            TESS_TRY(template_list_add(c->run, pair.list, &dict->key[i]));
            TESS_TRY(template_list_add(c->run, pair.list, &dict->value[i]));
        }
        TESS_TRY(template_list_add(c->run, c->out->list, &pair));
    }
    return TESS_OK;
}

static tess_status copy_dict(const template_use *c)
{
    const template_args from = {.item = c->value, .n = 1};
    return make_dict(c->run, &from, TEMPLATE_DICT, c->out);
}

static tess_status get(const template_use *c)
{
    TESS_TRY(template_step(c->run, c->value->dict->n / 16));
    const template_value *found = template_dict_get(c->run, c->value->dict, &c->args->item[0]);
    *c->out = found != NULL ? *found : c->args->n == 2 ? c->args->item[1] : template_none();
    return TESS_OK;
}

static const template_builtin dict_methods[] = {{"keys", make_view, KEYS, 0, 0, NULL},
                                                {"values", make_view, VALUES, 0, 0, NULL},
                                                {"items", make_view, ITEMS, 0, 0, NULL},
                                                {"get", get, 0, 1, 2, NULL},
                                                {"copy", copy_dict, 0, 0, 0, NULL}};
TEMPLATE_TABLE(template_dict_methods, dict_methods, NULL);

/* ---- Methods of lists ---- */
static tess_status copy_list(const template_use *c)
{
    template_value empty;
    TESS_TRY(template_step(c->run, c->value->list->n));
    TESS_TRY(template_list_new(c->run, c->value->kind, &empty));
    return template_add(c->run, c->value, &empty, c->out);
}

/* The methods count and index of lists. Variant 1 returns the number of equal items, 0 the index of the first one. */
static tess_status look_for(const template_use *c)
{
    const template_list *list = c->value->list;
    int64_t n = 0, first = -1;
    TESS_TRY(template_step(c->run, list->n));
    for (size_t i = 0; i < list->n; i++) {
        bool same = template_equal(c->run, &list->item[i], &c->args->item[0]);
        first = same && first < 0 ? (int64_t)i : first;
        n += same;
    }
    TEMPLATE_CHECK(c->variant == 1 || first >= 0, c->run, "index: the value is not in the list");
    *c->out = template_int(c->variant == 1 ? n : first);
    return TESS_OK;
}

static const template_builtin list_methods[] = {
    {"index", look_for, 0, 1, 1, NULL}, {"count", look_for, 1, 1, 1, NULL}, {"copy", copy_list, 0, 0, 0, NULL}};
TEMPLATE_TABLE(template_list_methods, list_methods, NULL);

/* ---- Methods of loops ---- */
/* loop.changed(values): whether they differ from the values of its previous call in this loop. */
static tess_status call_changed(const template_use *c)
{
    template_loop *loop = c->value->loop;
    template_value now;
    TESS_TRY(template_list_new(c->run, TEMPLATE_TUPLE, &now));
    for (size_t i = 0; i < c->args->n; i++)
        TESS_TRY(template_list_add(c->run, now.list, &c->args->item[i]));
    bool changed = loop->changed == NULL || !template_equal(c->run, loop->changed, &now);
    if (changed) {
        template_value *kept;
        TESS_TRY(template_alloc(&c->run->arena, sizeof(*kept), &kept));
        *kept = now;
        loop->changed = kept;
    }
    *c->out = template_bool(changed);
    return TESS_OK;
}

static tess_status call_cycle(const template_use *c)
{
    TEMPLATE_CHECK(c->args->n > 0, c->run, "loop.cycle takes the values to choose from");
    *c->out = c->args->item[c->value->loop->index % c->args->n];
    return TESS_OK;
}

static const template_builtin loop_methods[] = {{"cycle", call_cycle, 0, 0, TEMPLATE_ANY, NULL},
                                                {"changed", call_changed, 0, 0, TEMPLATE_ANY, NULL}};
TEMPLATE_TABLE(template_loop_methods, loop_methods, NULL);

tess_status template_call(template_run *run, const template_value *function, const template_args *args,
                          template_value *out)
{
    if (function->kind == TEMPLATE_FUNCTION)
        return template_use_name(run, TEMPLATE_FUNCTIONS, function->text, NULL, args, out);
    if (function->kind == TEMPLATE_METHOD)
        return template_use_row(run, function->method->builtin, &function->method->self, args, out);
    TESS_TRY(template_step(run, 1));
    if (function->kind == TEMPLATE_MACRO)
        return run->call_macro(run, function->macro, args, NULL, out);
    return template_wrong(run, function, "calling");
}
