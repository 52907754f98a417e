/* The stack machine that runs a pickle: the functions that its opcodes share. */
#include <string.h>

#include "base/pickle/pickle_machine_impl.h"

tess_status machine_take(machine *m, uint64_t n, const uint8_t **bytes)
{
    *bytes = m->data + m->at;
    TESS_CHECK(n <= m->size - m->at, TESS_E_FORMAT, "cut off: %llu bytes should follow, %zu do", (unsigned long long)n,
               m->size - m->at);
    m->at += n;
    return TESS_OK;
}

tess_status machine_take_uint(machine *m, size_t n, uint64_t *value)
{
    const uint8_t *bytes;
    *value = 0;
    TESS_TRY(machine_take(m, n, &bytes));
    for (size_t i = n; i-- > 0;)
        *value = *value << 8 | bytes[i];
    return TESS_OK;
}

tess_status machine_take_counted(machine *m, size_t width, const char **bytes, size_t *n)
{
    const uint8_t *at;
    uint64_t length;
    TESS_TRY(machine_take_uint(m, width, &length));
    TESS_TRY(machine_take(m, length, &at));
    *bytes = (const char *)at;
    *n = length;
    return TESS_OK;
}

tess_status machine_take_line(machine *m, const char **line, size_t *n)
{
    const uint8_t *begin = m->data + m->at;
    const uint8_t *end = m->at < m->size ? memchr(begin, '\n', m->size - m->at) : NULL;
    TESS_CHECK(end != NULL, TESS_E_FORMAT, "cut off: its line does not end");
    *line = (const char *)begin;
    *n = (size_t)(end - begin);
    m->at += *n + 1;
    return TESS_OK;
}

tess_status machine_grow(machine *m, void **array, size_t *room, size_t n, size_t element)
{
    if (n < *room)
        return TESS_OK;
    size_t more = *room == 0 ? 64 : *room * 2;
    while (more <= n)
        more *= 2;
    TESS_TRY(pickle_charge(m->pickle, (more - *room) * element));
    TESS_TRY(tess_mem_grow(m->pickle->mem, TESS_POOL_MISC, more * element, "pickle", array));
    *room = more;
    return TESS_OK;
}

tess_status machine_push(machine *m, tess_pickle_value *value)
{
    TESS_TRY(machine_grow(m, (void **)&m->stack, &m->stack_room, m->n_stack, sizeof(*m->stack)));
    m->stack[m->n_stack++] = value;
    return TESS_OK;
}

tess_status machine_top(machine *m, tess_pickle_value **value)
{
    size_t floor = m->n_marks > 0 ? m->marks[m->n_marks - 1] : 0;
    *value = NULL;
    TESS_CHECK(m->n_stack > floor, TESS_E_FORMAT, "there is no value on the stack");
    *value = m->stack[m->n_stack - 1];
    return TESS_OK;
}

tess_status machine_pop(machine *m, tess_pickle_value **value)
{
    TESS_TRY(machine_top(m, value));
    m->n_stack--;
    return TESS_OK;
}

tess_status machine_pop_to_mark(machine *m, tess_pickle_value ***items, size_t *n)
{
    TESS_CHECK(m->n_marks > 0, TESS_E_FORMAT, "there is no mark");
    size_t height = m->marks[--m->n_marks];
    *items = m->stack != NULL ? m->stack + height : NULL; /* NULL if a mark is the first thing in the pickle */
    *n = m->n_stack - height;
    m->n_stack = height;
    return TESS_OK;
}
