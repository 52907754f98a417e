/* Writes pickles of protocol 2, which every Python since 2.3 reads: whole values, or opcode by opcode. */
#ifndef TESS_BASE_PICKLE_PICKLE_WRITE_H
#define TESS_BASE_PICKLE_PICKLE_WRITE_H

#include <jansson.h>

#include "base/text/text.h"

/* Appends the value as a whole pickle. Objects become dicts, arrays become lists, integers become ints of any size.
 * Recurses as deep as the value is nested. TESS_E_NOMEM. */
tess_status tess_pickle_write(const json_t *value, tess_buffer *out);

/* ---- Opcodes, with the names of Python's pickle.py. A pickle is BEGIN, one value, STOP. ---- */
#define TESS_PICKLE_BEGIN "\x80\x02"
#define TESS_PICKLE_STOP "."
#define TESS_PICKLE_NIL "N"
#define TESS_PICKLE_FALSE "\x89"
#define TESS_PICKLE_MARK "("       /* begins a tuple, or items */
#define TESS_PICKLE_MAKE_TUPLE "t" /* makes a tuple of the values since MARK */
#define TESS_PICKLE_NO_ITEMS ")"   /* () */
#define TESS_PICKLE_NEW_LIST "]("  /* values follow, then FILL_LIST */
#define TESS_PICKLE_FILL_LIST "e"
#define TESS_PICKLE_NEW_DICT "}(" /* keys and values follow, then FILL_DICT */
#define TESS_PICKLE_FILL_DICT "u"
#define TESS_PICKLE_CALL "R"         /* calls a name with a tuple */
#define TESS_PICKLE_INSTANCE ")\x81" /* makes an instance of a class, without arguments */
#define TESS_PICKLE_SET_STATE "b"    /* sets the state of an object: a value, usually a dict */
#define TESS_PICKLE_BY_ID "Q"        /* makes an object that is stored elsewhere; the newest value is its id */
#define TESS_PICKLE_DROP "0"

tess_status tess_pickle_put(tess_buffer *out, const char *opcodes);
tess_status tess_pickle_put_int(tess_buffer *out, int64_t value);
tess_status tess_pickle_put_text(tess_buffer *out, const char *text, size_t n);
tess_status tess_pickle_put_name(tess_buffer *out, const char *module, const char *name); /* a class or function */
/* Appends the value as tess_pickle_write does, without BEGIN and STOP */
tess_status tess_pickle_put_json(tess_buffer *out, const json_t *value);
/* tess_pickle_memoize: stores the newest value in the memo under a number
 * tess_pickle_put_memoized: pushes the value that is stored under the number */
tess_status tess_pickle_memoize(tess_buffer *out, uint32_t number);
tess_status tess_pickle_put_memoized(tess_buffer *out, uint32_t number);

#endif
