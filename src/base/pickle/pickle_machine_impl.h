/* The stack machine's state, its primitives (pickle_machine.c), and what the opcodes (opcodes.c) do (ops_*.c). */
#ifndef TESS_BASE_PICKLE_PICKLE_MACHINE_IMPL_H
#define TESS_BASE_PICKLE_PICKLE_MACHINE_IMPL_H

#include "base/pickle/pickle_impl.h"

typedef struct machine {
    tess_pickle *pickle;
    const tess_pickle_options *options;
    const uint8_t *data;
    size_t size, at; /* at: the next byte */
    tess_pickle_value **stack;
    size_t n_stack, stack_room;
    size_t *marks; /* heights of the stack */
    size_t n_marks, marks_room;
    tess_pickle_value **memo;
    size_t n_memo, memo_room; /* n_memo: entries that are set */
    tess_pickle_value *none, *yes, *no;
    uint8_t op;
    bool stopped;
} machine;

/* Bytes of the pickle: TESS_E_FORMAT when it is cut off. */
tess_status machine_take(machine *m, uint64_t n, const uint8_t **bytes);
tess_status machine_take_uint(machine *m, size_t n, uint64_t *value); /* of n bytes, little-endian */
tess_status machine_take_counted(machine *m, size_t width, const uint8_t **bytes, size_t *n); /* after their number */
tess_status machine_take_line(machine *m, const char **line, size_t *n);

tess_status machine_grow(machine *m, void **array, size_t *room, size_t n, size_t element); /* room for element `n` */
tess_status machine_push(machine *m, tess_pickle_value *value);
tess_status machine_top(machine *m, tess_pickle_value **value); /* above the newest mark */
tess_status machine_pop(machine *m, tess_pickle_value **value);
/* Takes what lies above the newest mark. The items stay in place until the next push. */
tess_status machine_pop_to_mark(machine *m, tess_pickle_value ***items, size_t *n);

tess_status pickle_op_proto(machine *m);
tess_status pickle_op_frame(machine *m);
tess_status pickle_op_stop(machine *m);
tess_status pickle_op_mark(machine *m);
tess_status pickle_op_pop_mark(machine *m);
tess_status pickle_op_pop(machine *m);
tess_status pickle_op_dup(machine *m);
tess_status pickle_op_put(machine *m);
tess_status pickle_op_binput(machine *m);
tess_status pickle_op_memoize(machine *m);
tess_status pickle_op_get(machine *m);
tess_status pickle_op_binget(machine *m);
tess_status pickle_op_none(machine *m);
tess_status pickle_op_true(machine *m);
tess_status pickle_op_false(machine *m);
tess_status pickle_op_int(machine *m);
tess_status pickle_op_long(machine *m);
tess_status pickle_op_float(machine *m);
tess_status pickle_op_string(machine *m);
tess_status pickle_op_unicode(machine *m);
tess_status pickle_op_binint(machine *m);
tess_status pickle_op_binlong(machine *m);
tess_status pickle_op_binfloat(machine *m);
tess_status pickle_op_text_1(machine *m);
tess_status pickle_op_text_4(machine *m);
tess_status pickle_op_text_8(machine *m);
tess_status pickle_op_bytes(machine *m);
tess_status pickle_op_empty_list(machine *m);
tess_status pickle_op_empty_tuple(machine *m);
tess_status pickle_op_empty_dict(machine *m);
tess_status pickle_op_empty_set(machine *m);
tess_status pickle_op_list(machine *m);
tess_status pickle_op_tuple(machine *m);
tess_status pickle_op_dict(machine *m);
tess_status pickle_op_frozenset(machine *m);
tess_status pickle_op_short_tuple(machine *m);
tess_status pickle_op_appends(machine *m);
tess_status pickle_op_setitems(machine *m);
tess_status pickle_op_additems(machine *m);
tess_status pickle_op_append(machine *m);
tess_status pickle_op_setitem(machine *m);
tess_status pickle_op_global(machine *m);
tess_status pickle_op_stack_global(machine *m);
tess_status pickle_op_call(machine *m);
tess_status pickle_op_newobj_ex(machine *m);
tess_status pickle_op_inst(machine *m);
tess_status pickle_op_obj(machine *m);
tess_status pickle_op_build(machine *m);
tess_status pickle_op_persid(machine *m);
tess_status pickle_op_binpersid(machine *m);
tess_status pickle_op_extension(machine *m);
tess_status pickle_op_buffer(machine *m);

#endif
