/* Opcodes that move values: protocol and frames, marks, the memo. */
#include "base/pickle/pickle_machine_impl.h"

tess_status pickle_op_proto(machine *m)
{
    uint64_t protocol;
    TESS_TRY(machine_take_uint(m, 1, &protocol));
    TESS_CHECK(protocol <= 5, TESS_E_UNSUPPORTED, "protocol %llu: 0 to 5 are read", (unsigned long long)protocol);
    return TESS_OK;
}

tess_status pickle_op_frame(machine *m)
{
    uint64_t length;
    TESS_TRY(machine_take_uint(m, 8, &length));
    TESS_CHECK(length <= m->size - m->at, TESS_E_FORMAT, "cut off: a frame of %llu bytes, %zu follow",
               (unsigned long long)length, m->size - m->at);
    return TESS_OK;
}

tess_status pickle_op_stop(machine *m)
{
    m->stopped = true;
    return machine_pop(m, &m->pickle->root);
}

tess_status pickle_op_mark(machine *m)
{
    TESS_TRY(machine_grow(m, (void **)&m->marks, &m->marks_room, m->n_marks, sizeof(*m->marks)));
    m->marks[m->n_marks++] = m->n_stack;
    return TESS_OK;
}

tess_status pickle_op_pop_mark(machine *m)
{
    tess_pickle_value **items;
    size_t n;
    return machine_pop_to_mark(m, &items, &n);
}

tess_status pickle_op_pop(machine *m)
{
    tess_pickle_value *value;
    if (m->n_marks > 0 && m->marks[m->n_marks - 1] == m->n_stack)
        return pickle_op_pop_mark(m);
    return machine_pop(m, &value);
}

tess_status pickle_op_dup(machine *m)
{
    tess_pickle_value *value;
    TESS_TRY(machine_top(m, &value));
    return machine_push(m, value);
}

/* No writer uses memo numbers beyond the number of bytes that it writes. */
static tess_status remember(machine *m, uint64_t index)
{
    tess_pickle_value *value;
    TESS_TRY(machine_top(m, &value));
    TESS_CHECK(index < m->size, TESS_E_FORMAT, "memo %llu in a pickle of %zu bytes", (unsigned long long)index,
               m->size);
    TESS_TRY(machine_grow(m, (void **)&m->memo, &m->memo_room, index, sizeof(*m->memo)));
    m->n_memo += m->memo[index] == NULL;
    m->memo[index] = value;
    return TESS_OK;
}

static tess_status recall(machine *m, uint64_t index)
{
    TESS_CHECK(index < m->memo_room && m->memo[index] != NULL, TESS_E_FORMAT, "memo %llu was never set",
               (unsigned long long)index);
    return machine_push(m, m->memo[index]);
}

static tess_status take_index(machine *m, uint64_t *index)
{
    const char *line;
    size_t n;
    *index = 0;
    TESS_TRY(machine_take_line(m, &line, &n));
    TESS_CHECK(n >= 1 && n <= 18, TESS_E_FORMAT, "a memo number of %zu digits", n);
    for (size_t i = 0; i < n; i++) {
        TESS_CHECK(line[i] >= '0' && line[i] <= '9', TESS_E_FORMAT, "'%.*s' is not a memo number", (int)n, line);
        *index = *index * 10 + (uint64_t)(line[i] - '0');
    }
    return TESS_OK;
}

tess_status pickle_op_put(machine *m)
{
    uint64_t index;
    TESS_TRY(take_index(m, &index));
    return remember(m, index);
}

tess_status pickle_op_binput(machine *m)
{
    uint64_t index;
    TESS_TRY(machine_take_uint(m, m->op == 'q' ? 1 : 4, &index));
    return remember(m, index);
}

tess_status pickle_op_memoize(machine *m)
{
    return remember(m, m->n_memo);
}

tess_status pickle_op_get(machine *m)
{
    uint64_t index;
    TESS_TRY(take_index(m, &index));
    return recall(m, index);
}

tess_status pickle_op_binget(machine *m)
{
    uint64_t index;
    TESS_TRY(machine_take_uint(m, m->op == 'h' ? 1 : 4, &index));
    return recall(m, index);
}
