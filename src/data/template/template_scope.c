/* Looks up names in a chain of scopes, innermost first. A loop's body has a scope for each item, a macro has one for
 * each call. */
#include "data/template/template_impl.h"

tess_status template_scope_new(template_run *run, template_scope *parent, template_scope **scope)
{
    TESS_TRY(template_alloc(&run->arena, sizeof(template_scope), scope));
    (*scope)->parent = parent;
    return TESS_OK;
}

tess_status template_scope_set(template_run *run, template_scope *scope, template_text name,
                               const template_value *value)
{
    const template_value key = template_string(name.data, name.size);
    return template_dict_set(run, &scope->names, &key, value);
}

const template_value *template_scope_find(template_run *run, const template_scope *scope, template_text name)
{
    const template_value *found = NULL;
    for (; scope != NULL && found == NULL; scope = scope->parent)
        found = template_dict_find(run, &scope->names, name);
    return found;
}
