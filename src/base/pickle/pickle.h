/* Reads Python pickles from untrusted sources as data: protocols 0 to 5. It never imports, calls or looks up anything.
 *
 * A pickle is a program for a small stack machine. This reader builds plain values. Where Python would import a name
 * and call it, this reader makes an inert object with the name, its arguments and its state. It carries out only the
 * calls with which older protocols spell plain data: bytes (_codecs.encode), set, frozenset, bytearray, OrderedDict,
 * copyreg's _reconstructor, and getattr of a class, which gives a longer name.
 *
 * Values form a graph without cycles, at most TESS_PICKLE_MAX_DEPTH deep, so recursion over it is safe. Several paths
 * may lead to one value, so a walk over all paths can be long: bound it. */
#ifndef TESS_BASE_PICKLE_PICKLE_H
#define TESS_BASE_PICKLE_PICKLE_H

#include "tessera/memory.h"

enum { TESS_PICKLE_MAX_DEPTH = 128 };

typedef enum tess_pickle_kind {
    TESS_PICKLE_NONE,
    TESS_PICKLE_BOOL,
    TESS_PICKLE_INT,       /* fits int64_t */
    TESS_PICKLE_BIG,       /* an integer that does not fit: bytes, little-endian, two's complement */
    TESS_PICKLE_FLOAT,     /* a double */
    TESS_PICKLE_BYTES,     /* also bytearray, and strings of Python 2 that are not UTF-8 */
    TESS_PICKLE_TEXT,      /* UTF-8 */
    TESS_PICKLE_LIST,      /* items */
    TESS_PICKLE_TUPLE,     /* items */
    TESS_PICKLE_SET,       /* items; also frozenset */
    TESS_PICKLE_DICT,      /* items: key, value, key, value ... in the order written; the last of equal keys counts */
    TESS_PICKLE_NAME,      /* a class or function, by name */
    TESS_PICKLE_OBJECT,    /* stands for the result of calling a name */
    TESS_PICKLE_PERSISTENT /* items[0]: the id of an object outside of the pickle (torch.save: storages) */
} tess_pickle_kind;

typedef struct tess_pickle_value tess_pickle_value;

/* Members are NULL if the pickle lacks the part. */
typedef struct tess_pickle_object {
    const char *name;         /* "torch._utils._rebuild_tensor_v2" */
    tess_pickle_value *args;  /* tuple */
    tess_pickle_value *named; /* dict of named arguments */
    tess_pickle_value *state; /* the state that BUILD gave it */
    tess_pickle_value *list;  /* items appended to it, if its class extends list */
    tess_pickle_value *dict;  /* entries set in it, if its class extends dict */
} tess_pickle_object;

struct tess_pickle_value {
    uint8_t kind; /* tess_pickle_kind */
    uint8_t mark; /* used only by the reader */
    uint16_t height;
    size_t n; /* bytes (text, bytes, big, name), or items (list, tuple, set, persistent; dict: keys and values) */
    union {
        bool flag;
        int64_t integer;
        double real;
        const char *text; /* text, bytes, big, name; a NUL follows */
        tess_pickle_value **items;
        tess_pickle_object *object;
    };
};

/* Limits that the caller sets. All zero: any name is allowed (as inert data); values take at most 64 times the input
 * and at most 4 GiB. */
typedef struct tess_pickle_options {
    /* Allowed names: "torch._utils._rebuild_tensor_v2"; "torch.*": torch and all below it; NULL-terminated */
    const char *const *names;
    bool only_names;  /* refuse a pickle with any other name; if `names` is NULL, with any name at all */
    size_t max_bytes; /* memory for values */
} tess_pickle_options;

typedef struct tess_pickle tess_pickle;

/* Reads the first pickle in data[0, size). `what` names the source in messages. Values are copies (MISC) and live until
 * tess_pickle_destroy.
 *   TESS_E_FORMAT       malformed, cut off, too deep, or contains itself; the message names offset and opcode
 *   TESS_E_UNSUPPORTED  a name that `options` refuse, the extension registry, or out-of-band buffers
 *   TESS_E_NOMEM        larger than `options` allow */
tess_status tess_pickle_parse(tess_mem *mem, const void *data, size_t size, const char *what,
                              const tess_pickle_options *options, tess_pickle **pickle);
void tess_pickle_destroy(tess_pickle **pickle);

const tess_pickle_value *tess_pickle_root(const tess_pickle *pickle);

/* Returns the value of a text key of a dict; NULL: `dict` is not a dict (or NULL), or lacks the key. */
const tess_pickle_value *tess_pickle_get(const tess_pickle_value *dict, const char *key);
/* Returns an item of a list, tuple or set; NULL: no such item. */
const tess_pickle_value *tess_pickle_at(const tess_pickle_value *sequence, size_t index);
/* Returns the text; NULL: another kind of value, or NULL. */
const char *tess_pickle_text(const tess_pickle_value *value);
/* Whether the value is an object made by calling `name`. */
bool tess_pickle_is(const tess_pickle_value *value, const char *name);
const char *tess_pickle_kind_name(int kind); /* "a list" */

#endif
