/* Checks the result's promise: no cycle, and no deeper than callers may recurse. */
#include "base/pickle/pickle_impl.h"

enum { UNSEEN, OPEN, DONE };

static tess_status measure(tess_pickle_value *value, int depth, const char *what);

/* Measures one part of a value: an object's, or an item. */
static tess_status measure_part(tess_pickle_value *part, int depth, uint16_t *height, const char *what)
{
    if (part == NULL)
        return TESS_OK;
    TESS_TRY(measure(part, depth + 1, what));
    if (part->height + 1 > *height)
        *height = (uint16_t)(part->height + 1);
    return TESS_OK;
}

static tess_status measure_parts(tess_pickle_value *value, int depth, uint16_t *height, const char *what)
{
    if (value->kind == TESS_PICKLE_OBJECT) {
        const tess_pickle_object *object = value->object;
        tess_pickle_value *parts[] = {object->args, object->named, object->state, object->list, object->dict};
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
            TESS_TRY(measure_part(parts[i], depth, height, what));
    } else if ((value->kind >= TESS_PICKLE_LIST && value->kind <= TESS_PICKLE_DICT) ||
               value->kind == TESS_PICKLE_PERSISTENT) {
        for (size_t i = 0; i < value->n; i++)
            TESS_TRY(measure_part(value->items[i], depth, height, what));
    }
    return TESS_OK;
}

/* Visits each value once; the recursion ends at the greatest depth. */
static tess_status measure(tess_pickle_value *value, int depth, const char *what)
{
    TESS_CHECK(value->mark != OPEN, TESS_E_FORMAT, "%s: %s contains itself", what, tess_pickle_kind_name(value->kind));
    TESS_CHECK(depth + value->height <= TESS_PICKLE_MAX_DEPTH, TESS_E_FORMAT, "%s: values are nested more than %d deep",
               what, TESS_PICKLE_MAX_DEPTH);
    if (value->mark == DONE)
        return TESS_OK;
    uint16_t height = 0;
    value->mark = OPEN;
    TESS_TRY(measure_parts(value, depth, &height, what));
    value->mark = DONE;
    value->height = height;
    return TESS_OK;
}

tess_status pickle_check_graph(tess_pickle_value *root, const char *what)
{
    return measure(root, 0, what);
}
