/* Opcodes that make and fill lists, tuples, dicts and sets. */
#include "base/pickle/pickle_machine_impl.h"

static tess_status push_empty(machine *m, tess_pickle_kind kind)
{
    tess_pickle_value *value;
    TESS_TRY(pickle_make(m->pickle, kind, &value));
    return machine_push(m, value);
}

tess_status pickle_op_empty_list(machine *m)
{
    return push_empty(m, TESS_PICKLE_LIST);
}

tess_status pickle_op_empty_tuple(machine *m)
{
    return push_empty(m, TESS_PICKLE_TUPLE);
}

tess_status pickle_op_empty_dict(machine *m)
{
    return push_empty(m, TESS_PICKLE_DICT);
}

tess_status pickle_op_empty_set(machine *m)
{
    return push_empty(m, TESS_PICKLE_SET);
}

static tess_status push_marked(machine *m, tess_pickle_kind kind)
{
    tess_pickle_value **items, *value;
    size_t n;
    TESS_TRY(machine_pop_to_mark(m, &items, &n));
    TESS_CHECK(kind != TESS_PICKLE_DICT || n % 2 == 0, TESS_E_FORMAT, "a key without a value");
    TESS_TRY(pickle_make(m->pickle, kind, &value));
    TESS_TRY(pickle_append(m->pickle, value, items, n));
    return machine_push(m, value);
}

tess_status pickle_op_list(machine *m)
{
    return push_marked(m, TESS_PICKLE_LIST);
}

tess_status pickle_op_tuple(machine *m)
{
    return push_marked(m, TESS_PICKLE_TUPLE);
}

tess_status pickle_op_dict(machine *m)
{
    return push_marked(m, TESS_PICKLE_DICT);
}

tess_status pickle_op_frozenset(machine *m)
{
    return push_marked(m, TESS_PICKLE_SET);
}

tess_status pickle_op_short_tuple(machine *m)
{
    tess_pickle_value *items[3], *value;
    size_t n = (size_t)(m->op - 0x85 + 1);
    for (size_t i = n; i-- > 0;)
        TESS_TRY(machine_pop(m, &items[i]));
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_TUPLE, &value));
    TESS_TRY(pickle_append(m->pickle, value, items, n));
    return machine_push(m, value);
}

/* The container that gets the items: the value itself, or the container part of an object whose class extends one. */
static tess_status find_container(machine *m, tess_pickle_kind kind, tess_pickle_value **container)
{
    TESS_TRY(machine_top(m, container));
    if ((*container)->kind == TESS_PICKLE_OBJECT) {
        tess_pickle_object *object = (*container)->object;
        tess_pickle_value **part = kind == TESS_PICKLE_DICT ? &object->dict : &object->list;
        if (*part == NULL)
            TESS_TRY(pickle_make(m->pickle, kind, part));
        *container = *part;
    }
    TESS_CHECK((*container)->kind == kind, TESS_E_FORMAT, "items for %s: expected %s",
               tess_pickle_kind_name((*container)->kind), tess_pickle_kind_name(kind));
    return TESS_OK;
}

static tess_status add_marked(machine *m, tess_pickle_kind kind)
{
    tess_pickle_value **items, *container;
    size_t n;
    TESS_TRY(machine_pop_to_mark(m, &items, &n));
    TESS_CHECK(kind != TESS_PICKLE_DICT || n % 2 == 0, TESS_E_FORMAT, "a key without a value");
    TESS_TRY(find_container(m, kind, &container));
    return pickle_append(m->pickle, container, items, n);
}

tess_status pickle_op_appends(machine *m)
{
    return add_marked(m, TESS_PICKLE_LIST);
}

tess_status pickle_op_setitems(machine *m)
{
    return add_marked(m, TESS_PICKLE_DICT);
}

tess_status pickle_op_additems(machine *m)
{
    return add_marked(m, TESS_PICKLE_SET);
}

tess_status pickle_op_append(machine *m)
{
    tess_pickle_value *item, *container;
    TESS_TRY(machine_pop(m, &item));
    TESS_TRY(find_container(m, TESS_PICKLE_LIST, &container));
    return pickle_append(m->pickle, container, &item, 1);
}

tess_status pickle_op_setitem(machine *m)
{
    tess_pickle_value *pair[2], *container;
    TESS_TRY(machine_pop(m, &pair[1]));
    TESS_TRY(machine_pop(m, &pair[0]));
    TESS_TRY(find_container(m, TESS_PICKLE_DICT, &container));
    return pickle_append(m->pickle, container, pair, 2);
}
