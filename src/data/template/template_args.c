/* Access to the arguments of calls, filters and tests. */
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
