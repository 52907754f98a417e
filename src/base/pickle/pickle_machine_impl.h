/* The stack machine that runs a pickle: its state, and the functions (pickle_machine.c) that its opcodes (opcodes.c)
 * share. */
#ifndef TESS_BASE_PICKLE_PICKLE_MACHINE_IMPL_H
#define TESS_BASE_PICKLE_PICKLE_MACHINE_IMPL_H

#include "base/pickle/pickle_impl.h"

typedef struct machine {
    tess_pickle *pickle;
    const struct pickle_opcode *op; /* the opcode that runs */
    const uint8_t *data;
    size_t size, at; /* data[at] is the next byte */
    tess_pickle_value **stack;
    size_t n_stack, stack_room;
    size_t *marks; /* stack heights at which the open marks were set */
    size_t n_marks, marks_room;
    tess_pickle_value **memo;
    size_t n_memo, memo_room; /* n_memo: entries that are set */
    tess_pickle_value *none, *yes, *no;
    bool stopped;
} machine;

typedef struct pickle_opcode {
    const char *name;
    tess_status (*run)(machine *m);
    /* Bytes of the number that follows the opcode (0: a line of text follows), or number of values that it takes */
    size_t width;
    tess_pickle_kind kind;
    pickle_reader *read; /* reader of the text or bytes that follow */
} pickle_opcode;

/* Takes n bytes from the pickle. TESS_E_FORMAT: the pickle is cut off. */
tess_status machine_take(machine *m, uint64_t n, const uint8_t **bytes);
tess_status machine_take_uint(machine *m, size_t n, uint64_t *value); /* an integer of n bytes, little-endian */
/* Takes a byte count of `width` bytes, and that number of bytes. */
tess_status machine_take_counted(machine *m, size_t width, const char **bytes, size_t *n);
tess_status machine_take_line(machine *m, const char **line, size_t *n);

/* Makes room for element `n` */
tess_status machine_grow(machine *m, void **array, size_t *room, size_t n, size_t element);
tess_status machine_push(machine *m, tess_pickle_value *value);
/* The newest value, which must be above the newest mark */
tess_status machine_top(machine *m, tess_pickle_value **value);
tess_status machine_pop(machine *m, tess_pickle_value **value);
/* Takes the values above the newest mark. The items stay valid until the next push. */
tess_status machine_pop_to_mark(machine *m, tess_pickle_value ***items, size_t *n);

#endif
