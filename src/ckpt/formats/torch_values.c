/* Values of the pickle that are not tensors. */
#include <inttypes.h>
#include <math.h>
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

/* ---- As JSON ---- */
static json_t *items_to_json(const tess_pickle_value *value, int *left)
{
    json_t *array = json_array();
    for (size_t i = 0; i<value->n && * left> 0; i++)
        json_array_append_new(array, torch_to_json(value->items[i], left));
    return array;
}

static json_t *dict_to_json(const tess_pickle_value *value, int *left)
{
    char key[1024];
    json_t *object = json_object();
    for (size_t i = 0; i + 1 < value->n && *left > 0; i += 2)
        if (torch_key(value->items[i], key, sizeof(key)))
            json_object_set_new(object, key, torch_to_json(value->items[i + 1], left));
    return object;
}

static void set_part(json_t *json, const char *key, const tess_pickle_value *part, int *left)
{
    if (part != NULL)
        json_object_set_new(json, key, torch_to_json(part, left));
}

static json_t *object_to_json(const tess_pickle_value *value, int *left)
{
    const tess_pickle_object *object = value->object;
    if (torch_is_tensor(value))
        return json_null();
    if (tess_pickle_is(value, "torch.Size"))
        return torch_to_json(tess_pickle_at(object->args, 0), left);
    json_t *json = json_object();
    json_object_set_new(json, "object", json_string(object->name));
    if (object->args != NULL && object->args->n > 0)
        set_part(json, "args", object->args, left);
    set_part(json, "named", object->named, left);
    set_part(json, "state", object->state, left);
    set_part(json, "list", object->list, left);
    set_part(json, "dict", object->dict, left);
    return json;
}

json_t *torch_to_json(const tess_pickle_value *value, int *left)
{
    if (value == NULL || *left <= 0)
        return json_null();
    *left -= 1;
    switch ((tess_pickle_kind)value->kind) {
    case TESS_PICKLE_BOOL:
        return json_boolean(value->flag);
    case TESS_PICKLE_INT:
        return json_integer(value->integer);
    case TESS_PICKLE_FLOAT:
        if (isnan(value->real))
            return json_string("NaN");
        return isinf(value->real) ? json_string(value->real < 0 ? "-Infinity" : "Infinity") : json_real(value->real);
    case TESS_PICKLE_TEXT:
    case TESS_PICKLE_NAME:
        *left -= (int)(value->n / 64 < INT32_MAX ? value->n / 64 : INT32_MAX);
        return json_stringn(value->text, value->n);
    case TESS_PICKLE_LIST:
    case TESS_PICKLE_TUPLE:
    case TESS_PICKLE_SET:
        return items_to_json(value, left);
    case TESS_PICKLE_DICT:
        return dict_to_json(value, left);
    case TESS_PICKLE_OBJECT:
        return object_to_json(value, left);
    default: /* bytes, integers beyond 64 bits, references */
        return json_null();
    }
}
