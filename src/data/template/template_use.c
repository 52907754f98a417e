/* Finds filters, tests, functions and methods by name, checks their arguments and calls them. Each of these sets has
 * tables of rows. */
#include "data/template/template_impl.h"

static bool is_known(template_text name, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++)
        if (template_text_is(name, *names))
            return true;
    return false;
}

static tess_status check_args(template_run *run, const template_builtin *row, const template_args *args)
{
    TEMPLATE_CHECK(args->n <= row->most && args->n + args->n_named >= row->least, run,
                   "%s takes %zu to %zu arguments, not %zu", row->name, row->least, row->most, args->n + args->n_named);
    for (size_t i = 0; i < args->n_named; i++)
        TEMPLATE_CHECK(is_known(args->name[i], row->names), run, "%s has no argument '%.*s'", row->name,
                       (int)args->name[i].size, args->name[i].data);
    return TESS_OK;
}

const template_builtin *template_find(const template_run *run, template_set set, template_text name)
{
    for (const template_table *table = run->tables[set]; table != NULL; table = table->next)
        for (size_t i = 0; i < table->n; i++)
            if (template_text_is(name, table->rows[i].name))
                return &table->rows[i];
    return NULL;
}

tess_status template_use_row(template_run *run, const template_builtin *row, const template_value *value,
                             const template_args *args, template_value *out)
{
    const template_use use = {run, value, args, out, row->variant};
    TESS_TRY(template_step(run, 1 + (value != NULL && value->kind == TEMPLATE_STRING ? value->text.size / 64 : 0)));
    if (row->most != TEMPLATE_ANY)
        TESS_TRY(check_args(run, row, args));
    return row->use(&use);
}

tess_status template_use_name(template_run *run, template_set set, template_text name, const template_value *value,
                              const template_args *args, template_value *out)
{
    static const char *const kinds[TEMPLATE_SETS] = {"filter", "test",   "function", "method",
                                                     "method", "method", "method"};
    const template_builtin *row = template_find(run, set, name);
    if (row == NULL)
        return template_fail(run->line, TESS_E_UNSUPPORTED, "the %s '%.*s' is not supported", kinds[set],
                             (int)name.size, name.data);
    return template_use_row(run, row, value, args, out);
}
