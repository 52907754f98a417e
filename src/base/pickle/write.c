#include "base/pickle/write.h"

#include <string.h>

static tess_status put(tess_buffer *out, char opcode)
{
    return tess_buffer_append(out, &opcode, 1);
}

/* An opcode and a number of `width` bytes, little-endian. */
static tess_status put_uint(tess_buffer *out, char opcode, uint64_t value, size_t width)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    TESS_TRY(put(out, opcode));
    return tess_buffer_append(out, bytes, width);
}

static tess_status put_int(tess_buffer *out, int64_t value)
{
    if (value >= INT32_MIN && value <= INT32_MAX)
        return put_uint(out, 'J', (uint64_t)value, 4);
    TESS_TRY(put(out, (char)0x8a)); /* LONG1: 8 bytes follow */
    return put_uint(out, 8, (uint64_t)value, 8);
}

static tess_status put_text(tess_buffer *out, const char *text, size_t n)
{
    TESS_CHECK(n <= UINT32_MAX, TESS_E_INVALID, "a text of %zu bytes", n);
    TESS_TRY(put_uint(out, 'X', n, 4));
    return tess_buffer_append(out, text, n);
}

static tess_status put_real(tess_buffer *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return put_uint(out, 'G', __builtin_bswap64(bits), 8);
}

static tess_status put_value(tess_buffer *out, const json_t *value);

static tess_status put_list(tess_buffer *out, const json_t *list)
{
    TESS_TRY(tess_buffer_append(out, "](", 2));
    for (size_t i = 0; i < json_array_size(list); i++)
        TESS_TRY(put_value(out, json_array_get(list, i)));
    return put(out, 'e');
}

static tess_status put_dict(tess_buffer *out, const json_t *object)
{
    const char *key;
    json_t *value;
    TESS_TRY(tess_buffer_append(out, "}(", 2));
    json_object_foreach ((json_t *)object, key, value) {
        TESS_TRY(put_text(out, key, strlen(key)));
        TESS_TRY(put_value(out, value));
    }
    return put(out, 'u');
}

static tess_status put_value(tess_buffer *out, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return put_dict(out, value);
    case JSON_ARRAY:
        return put_list(out, value);
    case JSON_STRING:
        return put_text(out, json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        return put_int(out, json_integer_value(value));
    case JSON_REAL:
        return put_real(out, json_real_value(value));
    case JSON_TRUE:
        return put(out, (char)0x88);
    case JSON_FALSE:
        return put(out, (char)0x89);
    default:
        return put(out, 'N');
    }
}

tess_status tess_pickle_write(const json_t *value, tess_buffer *out)
{
    TESS_TRY(tess_buffer_append(out, "\x80\x02", 2));
    TESS_TRY(put_value(out, value));
    return put(out, '.');
}
