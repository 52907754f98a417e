/* Opcodes that name, call and build: here they only make inert objects. */
#include "base/pickle/pickle_machine_impl.h"

static tess_status take_name(machine *m, tess_pickle_value **name)
{
    const char *module, *member;
    size_t n_module, n_member;
    TESS_TRY(machine_take_line(m, &module, &n_module));
    TESS_TRY(machine_take_line(m, &member, &n_member));
    return pickle_make_name(m->pickle, m->options, module, n_module, member, n_member, name);
}

tess_status pickle_op_global(machine *m)
{
    tess_pickle_value *name;
    TESS_TRY(take_name(m, &name));
    return machine_push(m, name);
}

tess_status pickle_op_stack_global(machine *m)
{
    tess_pickle_value *module, *member, *name;
    TESS_TRY(machine_pop(m, &member));
    TESS_TRY(machine_pop(m, &module));
    TESS_CHECK(module->kind == TESS_PICKLE_TEXT && member->kind == TESS_PICKLE_TEXT, TESS_E_FORMAT,
               "a name made of %s and %s", tess_pickle_kind_name(module->kind), tess_pickle_kind_name(member->kind));
    TESS_TRY(pickle_make_name(m->pickle, m->options, module->text, module->n, member->text, member->n, &name));
    return machine_push(m, name);
}

static tess_status call_and_push(machine *m, tess_pickle_value *callee, tess_pickle_value *args)
{
    tess_pickle_value *value;
    TESS_TRY(pickle_call(m->pickle, m->options, callee, args, &value));
    return machine_push(m, value);
}

/* REDUCE and NEWOBJ: making an object and calling its class give the same inert object. */
tess_status pickle_op_call(machine *m)
{
    tess_pickle_value *callee, *args;
    TESS_TRY(machine_pop(m, &args));
    TESS_TRY(machine_pop(m, &callee));
    return call_and_push(m, callee, args);
}

tess_status pickle_op_newobj_ex(machine *m)
{
    tess_pickle_value *callee, *args, *named, *value;
    TESS_TRY(machine_pop(m, &named));
    TESS_TRY(machine_pop(m, &args));
    TESS_TRY(machine_pop(m, &callee));
    TESS_CHECK(named->kind == TESS_PICKLE_DICT, TESS_E_FORMAT, "named arguments are %s",
               tess_pickle_kind_name(named->kind));
    TESS_TRY(pickle_call(m->pickle, m->options, callee, args, &value));
    if (value->kind == TESS_PICKLE_OBJECT)
        value->object->named = named;
    return machine_push(m, value);
}

tess_status pickle_op_inst(machine *m)
{
    tess_pickle_value **items, *name, *args;
    size_t n;
    TESS_TRY(take_name(m, &name));
    TESS_TRY(machine_pop_to_mark(m, &items, &n));
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_TUPLE, &args));
    TESS_TRY(pickle_append(m->pickle, args, items, n));
    return call_and_push(m, name, args);
}

tess_status pickle_op_obj(machine *m)
{
    tess_pickle_value **items, *args;
    size_t n;
    TESS_TRY(machine_pop_to_mark(m, &items, &n));
    TESS_CHECK(n >= 1, TESS_E_FORMAT, "an object without a class");
    tess_pickle_value *name = items[0];
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_TUPLE, &args));
    TESS_TRY(pickle_append(m->pickle, args, items + 1, n - 1));
    return call_and_push(m, name, args);
}

/* A value that has become plain data drops its state (attributes of an OrderedDict). */
tess_status pickle_op_build(machine *m)
{
    tess_pickle_value *state, *value;
    TESS_TRY(machine_pop(m, &state));
    TESS_TRY(machine_top(m, &value));
    if (value->kind == TESS_PICKLE_OBJECT)
        value->object->state = state;
    return TESS_OK;
}

static tess_status push_persistent(machine *m, tess_pickle_value *id)
{
    tess_pickle_value *value;
    TESS_TRY(pickle_make(m->pickle, TESS_PICKLE_PERSISTENT, &value));
    TESS_TRY(pickle_append(m->pickle, value, &id, 1));
    return machine_push(m, value);
}

tess_status pickle_op_persid(machine *m)
{
    const char *line;
    size_t n;
    tess_pickle_value *id;
    TESS_TRY(machine_take_line(m, &line, &n));
    TESS_TRY(pickle_make_text(m->pickle, line, n, &id));
    return push_persistent(m, id);
}

tess_status pickle_op_binpersid(machine *m)
{
    tess_pickle_value *id;
    TESS_TRY(machine_pop(m, &id));
    return push_persistent(m, id);
}

tess_status pickle_op_extension(machine *m)
{
    (void)m;
    return TESS_FAIL(TESS_E_UNSUPPORTED, "it names a class by a number of the writer's extension registry");
}

tess_status pickle_op_buffer(machine *m)
{
    (void)m;
    return TESS_FAIL(TESS_E_UNSUPPORTED, "a buffer that lies outside the pickle");
}
