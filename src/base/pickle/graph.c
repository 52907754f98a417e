/* Checks what the reader promises about its result: no cycles, and a bounded depth, so that callers may recurse. */
#include "base/pickle/pickle_impl.h"

enum { UNSEEN, OPEN, DONE };

/* Computes the height of each value, visiting it once. The recursion ends at the greatest depth allowed. */
static tess_status measure(tess_pickle_value *value, int depth, const char *what)
{
    TESS_CHECK(value->mark != OPEN, TESS_E_FORMAT, "%s: %s contains itself", what, tess_pickle_kind_name(value->kind));
    TESS_CHECK(depth + value->height <= TESS_PICKLE_MAX_DEPTH, TESS_E_FORMAT, "%s: values are nested more than %d deep",
               what, TESS_PICKLE_MAX_DEPTH);
    if (value->mark == DONE)
        return TESS_OK;
    tess_pickle_value *members[5], **parts = NULL;
    size_t n = 0;
    if (value->kind == TESS_PICKLE_OBJECT) {
        const tess_pickle_object *object = value->object;
        tess_pickle_value *all[] = {object->args, object->named, object->state, object->list, object->dict};
        for (size_t i = 0; i < 5; i++)
            if (all[i] != NULL)
                members[n++] = all[i];
        parts = members;
    } else if ((value->kind >= TESS_PICKLE_LIST && value->kind <= TESS_PICKLE_DICT) ||
               value->kind == TESS_PICKLE_PERSISTENT) {
        parts = value->items;
        n = value->n;
    }
    uint16_t height = 0;
    value->mark = OPEN;
    for (size_t i = 0; i < n; i++) {
        TESS_TRY(measure(parts[i], depth + 1, what));
        if (parts[i]->height + 1 > height)
            height = (uint16_t)(parts[i]->height + 1);
    }
    value->mark = DONE;
    value->height = height;
    return TESS_OK;
}

tess_status pickle_check_graph(tess_pickle_value *root, const char *what)
{
    return measure(root, 0, what);
}
