/* Reads values of the pickle that are not tensors: integers, attributes, keys. */
#include <inttypes.h>
#include <string.h>

#include "ckpt/formats/torch_impl.h"

bool torch_read_int(const tess_pickle_value *value, int64_t *out)
{
    if (value == NULL || value->kind != TESS_PICKLE_INT)
        return false;
    *out = value->integer;
    return true;
}

tess_status torch_read_ints(const tess_pickle_value *value, int64_t *out, int room, int *n)
{
    *n = 0;
    if (tess_pickle_is(value, "torch.Size"))
        value = tess_pickle_at(value->object->args, 0);
    TESS_CHECK(value != NULL && (value->kind == TESS_PICKLE_TUPLE || value->kind == TESS_PICKLE_LIST), TESS_E_FORMAT,
               "whole numbers expected");
    TESS_CHECK(value->n <= (size_t)room, TESS_E_UNSUPPORTED, "%zu dimensions: at most %d are read", value->n, room);
    for (size_t i = 0; i < value->n; i++)
        TESS_CHECK(torch_read_int(value->items[i], &out[i]), TESS_E_FORMAT, "a whole number expected, not %s",
                   tess_pickle_kind_name(value->items[i]->kind));
    *n = (int)value->n;
    return TESS_OK;
}

const tess_pickle_value *torch_attribute(const tess_pickle_value *object, const char *key)
{
    if (object == NULL || object->kind != TESS_PICKLE_OBJECT || object->object->state == NULL)
        return NULL;
    const tess_pickle_value *state = object->object->state;
    return tess_pickle_get(state->kind == TESS_PICKLE_TUPLE ? tess_pickle_at(state, 1) : state, key);
}

bool torch_key(const tess_pickle_value *value, char *text, size_t size)
{
    int n = -1;
    if (value->kind == TESS_PICKLE_TEXT && memchr(value->text, '\0', value->n) == NULL)
        n = snprintf(text, size, "%s", value->text);
    else if (value->kind == TESS_PICKLE_INT)
        n = snprintf(text, size, "%" PRId64, value->integer);
    else if (value->kind == TESS_PICKLE_BOOL)
        n = snprintf(text, size, "%s", value->flag ? "True" : "False");
    return n >= 0 && (size_t)n < size;
}
