/* The parts of the pickle reader:
 * - arena.c allocates values
 * - pickle_machine.c and opcodes.c run opcodes
 * - literals.c parses values spelled as text
 * - pickle_names.c handles what Python would import and call
 * - graph.c checks that the result can be walked safely */
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
    const tess_pickle_options *options; /* borrowed from the caller while the pickle is read */
    arena_chunk *chunks;
    size_t limit, charged; /* bytes */
    tess_pickle_value *root;
    size_t size;
};

/* Makes a value from the bytes that follow an opcode. */
typedef tess_status pickle_reader(tess_pickle *pickle, const char *data, size_t n, tess_pickle_value **value);

/* arena.c */
tess_status pickle_charge(tess_pickle *pickle, size_t bytes); /* counts memory outside of the arena against the limit */
tess_status pickle_alloc(tess_pickle *pickle, size_t bytes, void **out);
tess_status pickle_make(tess_pickle *pickle, tess_pickle_kind kind, tess_pickle_value **value);
tess_status pickle_make_int(tess_pickle *pickle, int64_t integer, tess_pickle_value **value);
tess_status pickle_make_string(tess_pickle *pickle, tess_pickle_kind kind, const void *data, size_t n,
                               tess_pickle_value **value);
tess_status pickle_make_object(tess_pickle *pickle, const char *name, tess_pickle_value *args,
                               tess_pickle_value **value);
tess_status pickle_append(tess_pickle *pickle, tess_pickle_value *sequence, tess_pickle_value *const *items, size_t n);

/* Make TEXT, or BYTES if the data is not UTF-8 (lone surrogates, other encodings of Python 2). */
pickle_reader pickle_make_text, pickle_make_bytes;

/* literals.c: readers for lines of protocol 0, and for integers of any length */
pickle_reader pickle_read_int, pickle_read_bytes_int, pickle_read_float, pickle_read_quoted, pickle_read_escaped;

/* pickle_names.c */
/* TESS_E_UNSUPPORTED: the options refuse the name. */
tess_status pickle_make_name(tess_pickle *pickle, const char *module, size_t n_module, const char *name, size_t n_name,
                             tess_pickle_value **value);
/* Calls `callee` with `args`. The result is plain data for the few calls that only spell data, otherwise an inert
 * object. */
tess_status pickle_call(tess_pickle *pickle, tess_pickle_value *callee, tess_pickle_value *args,
                        tess_pickle_value **value);

/* graph.c */
tess_status pickle_check_graph(tess_pickle_value *root, const char *what);

#endif
