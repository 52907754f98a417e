/* Functions, and the methods of lists, dictionaries and loops. */
#include <stdio.h>
#include <time.h>

#include "data/template/template_impl.h"

/* ---- Functions ---- */
static tess_status call_range(template_run *run, const template_args *args, template_value *out)
{
    int64_t bound[3] = {0, 0, 1};
    TESS_TRY(template_check_args(run, args, 1, 3, NULL, "range"));
    for (size_t i = 0; i < args->n; i++)
        if (!template_as_int(&args->item[i], &bound[args->n == 1 ? 1 : i]))
            return template_wrong(run, &args->item[i], "range");
    TEMPLATE_CHECK(bound[2] != 0, run, "range: the step is 0");
    TESS_TRY(template_list_new(run, TEMPLATE_RANGE_OF, out));
    for (int64_t i = bound[0]; bound[2] > 0 ? i < bound[1] : i > bound[1];) {
        const template_value value = template_int(i);
        TEMPLATE_CHECK(out->list->n < TEMPLATE_RANGE, run, "range: more than %d numbers", TEMPLATE_RANGE);
        TESS_TRY(template_list_add(run, out->list, &value));
        if (__builtin_add_overflow(i, bound[2], &i))
            break;
    }
    return TESS_OK;
}

/* namespace(...) and dict(...): what a dictionary or pairs hold, then the named ones. */
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

static tess_status call_namespace(template_run *run, const template_args *args, template_value *out)
{
    return make_dict(run, args, TEMPLATE_NAMESPACE, out);
}

static tess_status call_dict(template_run *run, const template_args *args, template_value *out)
{
    return make_dict(run, args, TEMPLATE_DICT, out);
}

static tess_status call_raise(template_run *run, const template_args *args, template_value *out)
{
    template_value text = template_string("", 0);
    if (args->n > 0)
        TESS_TRY(template_str(run, &args->item[0], &text));
    *out = template_none();
    return TEMPLATE_FAIL(run, "the template refuses it: %.*s", (int)(text.text.size < 400 ? text.text.size : 400),
                         text.text.data);
}

static tess_status call_strftime(template_run *run, const template_args *args, template_value *out)
{
    char format[256], text[1024];
    struct tm now;
    time_t seconds = (time_t)run->now_s;
    TESS_TRY(template_check_args(run, args, 1, 1, NULL, "strftime_now"));
    TEMPLATE_CHECK(args->n == 1 && args->item[0].kind == TEMPLATE_STRING && args->item[0].text.size < sizeof(format),
                   run, "strftime_now takes a format of at most 255 bytes");
    snprintf(format, sizeof(format), "%.*s", (int)args->item[0].text.size, args->item[0].text.data);
    TEMPLATE_CHECK(gmtime_r(&seconds, &now) != NULL, run, "strftime_now: the time has no date");
    return template_copy(run, text, strftime(text, sizeof(text), format, &now), out);
}

static const struct {
    const char *name;
    tess_status (*call)(template_run *run, const template_args *args, template_value *out);
} functions[] = {{"range", call_range},
                 {"namespace", call_namespace},
                 {"dict", call_dict},
                 {"raise_exception", call_raise},
                 {"strftime_now", call_strftime}};
enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

bool template_is_function(template_text name)
{
    for (size_t i = 0; i < N_FUNCTIONS; i++)
        if (template_text_is(name, functions[i].name))
            return true;
    return false;
}

/* ---- Methods ---- */
static tess_status make_view(template_run *run, const template_dict *dict, template_text name, template_value *out)
{
    TESS_TRY(template_list_new(run, TEMPLATE_VIEW, out));
    for (size_t i = 0; i < dict->n; i++) {
        template_value pair = template_text_is(name, "keys") ? dict->key[i] : dict->value[i];
        if (template_text_is(name, "items")) {
            TESS_TRY(template_list_new(run, TEMPLATE_TUPLE, &pair));
            TESS_TRY(template_list_add(run, pair.list, &dict->key[i]));
            TESS_TRY(template_list_add(run, pair.list, &dict->value[i]));
        }
        TESS_TRY(template_list_add(run, out->list, &pair));
    }
    return TESS_OK;
}

static tess_status call_dict_method(template_run *run, const template_method *m, const template_args *args,
                                    template_value *out)
{
    const template_dict *dict = m->self.dict;
    bool get = template_text_is(m->name, "get");
    TESS_TRY(template_check_args(run, args, get ? 1 : 0, get ? 2 : 0, NULL, "a method of dictionaries"));
    if (template_text_is(m->name, "copy")) {
        const template_args from = {.item = &m->self, .n = 1};
        return make_dict(run, &from, TEMPLATE_DICT, out);
    }
    if (!get)
        return make_view(run, dict, m->name, out);
    TESS_TRY(template_step(run, dict->n / 16));
    const template_value *found = template_dict_get(run, dict, &args->item[0]);
    *out = found != NULL ? *found : args->n == 2 ? args->item[1] : template_none();
    return TESS_OK;
}

static tess_status call_list_method(template_run *run, const template_method *m, const template_args *args,
                                    template_value *out)
{
    const template_list *list = m->self.list;
    bool copies = template_text_is(m->name, "copy"), counts = template_text_is(m->name, "count");
    int64_t n = 0, first = -1;
    TESS_TRY(template_check_args(run, args, !copies, !copies, NULL, "a method of lists"));
    TESS_TRY(template_step(run, list->n));
    if (copies) {
        template_value empty;
        TESS_TRY(template_list_new(run, m->self.kind, &empty));
        return template_add(run, &m->self, &empty, out);
    }
    for (size_t i = 0; i < list->n; i++) {
        bool same = template_equal(run, &list->item[i], &args->item[0]);
        first = same && first < 0 ? (int64_t)i : first;
        n += same;
    }
    TEMPLATE_CHECK(counts || first >= 0, run, "index: the value is not in the list");
    *out = template_int(counts ? n : first);
    return TESS_OK;
}

/* loop.changed(values): whether they differ from those of its last call in this loop. */
static tess_status call_changed(template_run *run, template_loop *loop, const template_args *args, template_value *out)
{
    template_value now;
    TESS_TRY(template_list_new(run, TEMPLATE_TUPLE, &now));
    for (size_t i = 0; i < args->n; i++)
        TESS_TRY(template_list_add(run, now.list, &args->item[i]));
    bool changed = loop->changed == NULL || !template_equal(run, loop->changed, &now);
    if (changed) {
        template_value *kept;
        TESS_TRY(template_alloc(&run->arena, sizeof(*kept), &kept));
        *kept = now;
        loop->changed = kept;
    }
    *out = template_bool(changed);
    return TESS_OK;
}

static tess_status call_loop_method(template_run *run, const template_method *m, const template_args *args,
                                    template_value *out)
{
    if (template_text_is(m->name, "changed"))
        return call_changed(run, m->self.loop, args, out);
    TEMPLATE_CHECK(args->n > 0, run, "loop.cycle takes the values to choose from");
    *out = args->item[m->self.loop->index % args->n];
    return TESS_OK;
}

static tess_status call_method(template_run *run, const template_method *m, const template_args *args,
                               template_value *out)
{
    switch (m->self.kind) {
    case TEMPLATE_STRING:
        return template_string_method(run, m->self.text, m->name, args, out);
    case TEMPLATE_DICT:
        return call_dict_method(run, m, args, out);
    case TEMPLATE_LOOP:
        return call_loop_method(run, m, args, out);
    default:
        return call_list_method(run, m, args, out);
    }
}

tess_status template_call(template_run *run, const template_value *function, const template_args *args,
                          template_value *out)
{
    TESS_TRY(template_step(run, 1));
    if (function->kind == TEMPLATE_MACRO)
        return run->call_macro(run, function->macro, args, NULL, out);
    if (function->kind == TEMPLATE_METHOD)
        return call_method(run, function->method, args, out);
    for (size_t i = 0; i < N_FUNCTIONS && function->kind == TEMPLATE_FUNCTION; i++)
        if (template_text_is(function->text, functions[i].name))
            return functions[i].call(run, args, out);
    return template_wrong(run, function, "calling");
}
