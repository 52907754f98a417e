/* Access to the values of a pickle. */
#include <string.h>

#include "base/pickle/pickle_impl.h"

const tess_pickle_value *tess_pickle_root(const tess_pickle *pickle)
{
    return pickle->root;
}

const tess_pickle_value *tess_pickle_get(const tess_pickle_value *dict, const char *key)
{
    if (dict == NULL || dict->kind != TESS_PICKLE_DICT)
        return NULL;
    size_t n = strlen(key);
    for (size_t i = dict->n; i >= 2; i -= 2) {
        const tess_pickle_value *name = dict->items[i - 2];
        if (name->kind == TESS_PICKLE_TEXT && name->n == n && memcmp(name->text, key, n) == 0)
            return dict->items[i - 1];
    }
    return NULL;
}

const tess_pickle_value *tess_pickle_at(const tess_pickle_value *sequence, size_t index)
{
    if (sequence == NULL || sequence->kind < TESS_PICKLE_LIST || sequence->kind > TESS_PICKLE_SET)
        return NULL;
    return index < sequence->n ? sequence->items[index] : NULL;
}

const char *tess_pickle_text(const tess_pickle_value *value)
{
    return value != NULL && value->kind == TESS_PICKLE_TEXT ? value->text : NULL;
}

bool tess_pickle_is(const tess_pickle_value *value, const char *name)
{
    return value != NULL && value->kind == TESS_PICKLE_OBJECT && strcmp(value->object->name, name) == 0;
}

const char *tess_pickle_kind_name(int kind)
{
    static const char *const names[] = {
        "None",   "a bool",  "an integer", "an integer", "a float", "bytes",     "text",
        "a list", "a tuple", "a set",      "a dict",     "a name",  "an object", "a persistent id",
    };
    return kind >= 0 && kind <= TESS_PICKLE_PERSISTENT ? names[kind] : "nothing";
}
