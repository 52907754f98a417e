/* Arguments of calls, filters and tests. */
#include "data/template/template_impl.h"

const template_value *template_arg(const template_args *args, size_t place, const char *name)
{
    if (place < args->n)
        return &args->item[place];
    for (size_t i = 0; i < args->n_named && name != NULL; i++)
        if (template_text_is(args->name[i], name))
            return &args->named[i];
    return NULL;
}

static bool is_known(template_text name, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++)
        if (template_text_is(name, *names))
            return true;
    return false;
}

tess_status template_check_args(template_run *run, const template_args *args, size_t least, size_t most,
                                const char *const *names, const char *what)
{
    TEMPLATE_CHECK(args->n <= most && args->n + args->n_named >= least, run, "%s takes %zu to %zu arguments, not %zu",
                   what, least, most, args->n + args->n_named);
    for (size_t i = 0; i < args->n_named; i++)
        TEMPLATE_CHECK(is_known(args->name[i], names), run, "%s has no argument '%.*s'", what, (int)args->name[i].size,
                       args->name[i].data);
    return TESS_OK;
}
