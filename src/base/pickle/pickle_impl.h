/* Parts of the pickle reader: arena.c allocates values; opcodes.c, pickle_machine.c and ops_*.c run opcodes; literals.c
 * parses values spelled as text; pickle_names.c handles what Python would import and call; graph.c checks that the
 * result may be walked. */
#ifndef TESS_BASE_PICKLE_PICKLE_IMPL_H
#define TESS_BASE_PICKLE_PICKLE_IMPL_H

#include "base/pickle/pickle.h"

typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(16) uint8_t bytes[];
} arena_chunk;

struct tess_pickle {
    tess_mem *mem;
    arena_chunk *chunks;
    size_t limit, charged; /* bytes */
    tess_pickle_value *root;
    size_t size;
};

/* arena.c */
tess_status pickle_charge(tess_pickle *pickle, size_t bytes); /* counts memory that is not the arena's */
tess_status pickle_alloc(tess_pickle *pickle, size_t bytes, void **out);
tess_status pickle_make(tess_pickle *pickle, tess_pickle_kind kind, tess_pickle_value **value);
tess_status pickle_make_int(tess_pickle *pickle, int64_t integer, tess_pickle_value **value);
tess_status pickle_make_string(tess_pickle *pickle, tess_pickle_kind kind, const void *data, size_t n,
                               tess_pickle_value **value);
/* TEXT, or BYTES when it is not UTF-8 (lone surrogates, other encodings of Python 2). */
tess_status pickle_make_text(tess_pickle *pickle, const void *data, size_t n, tess_pickle_value **value);
tess_status pickle_make_object(tess_pickle *pickle, const char *name, tess_pickle_value *args,
                               tess_pickle_value **value);
tess_status pickle_append(tess_pickle *pickle, tess_pickle_value *sequence, tess_pickle_value *const *items, size_t n);

/* literals.c: lines of protocol 0, and integers of any length */
tess_status pickle_read_int(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value);
tess_status pickle_read_bytes_int(tess_pickle *pickle, const uint8_t *data, size_t n, tess_pickle_value **value);
tess_status pickle_read_float(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value);
tess_status pickle_read_quoted(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value);
tess_status pickle_read_escaped(tess_pickle *pickle, const char *line, size_t n, tess_pickle_value **value);

/* pickle_names.c */
tess_status pickle_make_name(tess_pickle *pickle, const tess_pickle_options *options, const char *module,
                             size_t n_module, const char *name, size_t n_name, tess_pickle_value **value);
/* Calls `callee` with `args`: plain data for the few calls that only spell data, else an inert object. */
tess_status pickle_call(tess_pickle *pickle, const tess_pickle_options *options, tess_pickle_value *callee,
                        tess_pickle_value *args, tess_pickle_value **value);

/* graph.c */
tess_status pickle_check_graph(tess_pickle_value *root, const char *what);

#endif
