/* Opcodes that push plain values. */
#include <string.h>

#include "base/pickle/pickle_machine_impl.h"

tess_status pickle_op_none(machine *m)
{
    return machine_push(m, m->none);
}

tess_status pickle_op_true(machine *m)
{
    return machine_push(m, m->yes);
}

tess_status pickle_op_false(machine *m)
{
    return machine_push(m, m->no);
}

typedef tess_status (*line_fn)(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value);

static tess_status push_line(machine *m, line_fn read)
{
    const char *line;
    size_t n;
    tess_pickle_value *value;
    TESS_TRY(machine_take_line(m, &line, &n));
    TESS_TRY(read(m->pickle, line, n, &value));
    return machine_push(m, value);
}

tess_status pickle_op_int(machine *m)
{
    size_t left = m->size - m->at;
    if (left >= 3 && memcmp(m->data + m->at, "01\n", 3) == 0) {
        m->at += 3;
        return pickle_op_true(m);
    }
    if (left >= 3 && memcmp(m->data + m->at, "00\n", 3) == 0) {
        m->at += 3;
        return pickle_op_false(m);
    }
    return push_line(m, pickle_read_int);
}

tess_status pickle_op_long(machine *m)
{
    return push_line(m, pickle_read_int);
}

tess_status pickle_op_float(machine *m)
{
    return push_line(m, pickle_read_float);
}

tess_status pickle_op_string(machine *m)
{
    return push_line(m, pickle_read_quoted);
}

tess_status pickle_op_unicode(machine *m)
{
    return push_line(m, pickle_read_escaped);
}

tess_status pickle_op_binint(machine *m)
{
    uint64_t bits;
    tess_pickle_value *value;
    TESS_TRY(machine_take_uint(m, m->op == 'J' ? 4 : m->op == 'M' ? 2 : 1, &bits));
    TESS_TRY(pickle_make_int(m->pickle, m->op == 'J' ? (int32_t)bits : (int64_t)bits, &value));
    return machine_push(m, value);
}

tess_status pickle_op_binlong(machine *m)
{
    const uint8_t *bytes;
    size_t n;
    tess_pickle_value *value;
    TESS_TRY(machine_take_counted(m, m->op == 0x8a ? 1 : 4, &bytes, &n));
    TESS_TRY(pickle_read_bytes_int(m->pickle, bytes, n, &value));
    return machine_push(m, value);
}

tess_status pickle_op_binfloat(machine *m)
{
    const uint8_t *bytes;
    uint64_t bits = 0;
    tess_pickle_value *value;
    TESS_TRY(machine_take(m, 8, &bytes));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_FLOAT, &value));
    memcpy(&value->real, &bits, sizeof(bits));
    return machine_push(m, value);
}

static tess_status push_text(machine *m, size_t width)
{
    const uint8_t *bytes;
    size_t n;
    tess_pickle_value *value;
    TESS_TRY(machine_take_counted(m, width, &bytes, &n));
    TESS_TRY(pickle_make_text(m->pickle, bytes, n, &value));
    return machine_push(m, value);
}

tess_status pickle_op_text_1(machine *m)
{
    return push_text(m, 1);
}

tess_status pickle_op_text_4(machine *m)
{
    return push_text(m, 4);
}

tess_status pickle_op_text_8(machine *m)
{
    return push_text(m, 8);
}

tess_status pickle_op_bytes(machine *m)
{
    const uint8_t *bytes;
    size_t n;
    tess_pickle_value *value;
    TESS_TRY(machine_take_counted(m, m->op == 'C' ? 1 : m->op == 'B' ? 4 : 8, &bytes, &n));
    TESS_TRY(pickle_make_string(m->pickle, TESS_PICKLE_BYTES, bytes, n, &value));
    return machine_push(m, value);
}
