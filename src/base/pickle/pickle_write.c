#include "base/pickle/pickle_write.h"

#include <string.h>

tess_status tess_pickle_put(tess_buffer *out, const char *opcodes)
{
    return tess_buffer_append(out, opcodes, strlen(opcodes));
}

/* Appends an opcode and an integer of `width` bytes, little-endian. */
static tess_status put_uint(tess_buffer *out, uint8_t opcode, uint64_t value, size_t width)
{
    uint8_t bytes[9] = {opcode};
    for (size_t i = 0; i < width; i++)
        bytes[1 + i] = (uint8_t)(value >> 8 * i);
    return tess_buffer_append(out, bytes, 1 + width);
}

tess_status tess_pickle_put_int(tess_buffer *out, int64_t value)
{
    if (value >= INT32_MIN && value <= INT32_MAX)
        return put_uint(out, 'J', (uint64_t)value, 4);
    TESS_TRY(tess_pickle_put(out, "\x8a")); /* LONG1: 8 bytes follow */
    return put_uint(out, 8, (uint64_t)value, 8);
}

tess_status tess_pickle_put_text(tess_buffer *out, const char *text, size_t n)
{
    TESS_CHECK(n <= UINT32_MAX, TESS_E_INVALID, "a text of %zu bytes", n);
    TESS_TRY(put_uint(out, 'X', n, 4));
    return tess_buffer_append(out, text, n);
}

tess_status tess_pickle_put_name(tess_buffer *out, const char *module, const char *name)
{
    return tess_buffer_printf(out, "c%s\n%s\n", module, name);
}

tess_status tess_pickle_memoize(tess_buffer *out, uint32_t number)
{
    return put_uint(out, 'r', number, 4);
}

tess_status tess_pickle_put_memoized(tess_buffer *out, uint32_t number)
{
    return put_uint(out, 'j', number, 4);
}

static tess_status put_list(tess_buffer *out, const json_t *list)
{
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_NEW_LIST));
    for (size_t i = 0; i < json_array_size(list); i++)
        TESS_TRY(tess_pickle_put_json(out, json_array_get(list, i)));
    return tess_pickle_put(out, TESS_PICKLE_FILL_LIST);
}

static tess_status put_dict(tess_buffer *out, const json_t *object)
{
    const char *key;
    json_t *value;
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_NEW_DICT));
    json_object_foreach ((json_t *)object, key, value) {
        TESS_TRY(tess_pickle_put_text(out, key, strlen(key)));
        TESS_TRY(tess_pickle_put_json(out, value));
    }
    return tess_pickle_put(out, TESS_PICKLE_FILL_DICT);
}

tess_status tess_pickle_put_json(tess_buffer *out, const json_t *value)
{
    uint64_t bits;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return put_dict(out, value);
    case JSON_ARRAY:
        return put_list(out, value);
    case JSON_STRING:
        return tess_pickle_put_text(out, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return tess_pickle_put_int(out, json_integer_value(value));
    case JSON_REAL:
        memcpy(&bits, &(double){json_real_value(value)}, sizeof(bits));
        return put_uint(out, 'G', __builtin_bswap64(bits), 8);
    case JSON_TRUE:
        return tess_pickle_put(out, "\x88");
    case JSON_FALSE:
        return tess_pickle_put(out, TESS_PICKLE_FALSE);
    default:
        return tess_pickle_put(out, TESS_PICKLE_NIL);
    }
}

tess_status tess_pickle_write(const json_t *value, tess_buffer *out)
{
    TESS_TRY(tess_pickle_put(out, TESS_PICKLE_BEGIN));
    TESS_TRY(tess_pickle_put_json(out, value));
    return tess_pickle_put(out, TESS_PICKLE_STOP);
}
