/* One dump file, pickle or JSON, behind one way of looking. Values that are not there, or of another kind, read as
 * absent: who needs one says so. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_DUMP_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_DUMP_IMPL_H

#include <jansson.h>

#include "base/pickle/pickle.h"

/* Both NULL: absent. */
typedef struct dump_value {
    const json_t *json;
    const tess_pickle_value *pickle;
} dump_value;

typedef struct dump {
    json_t *json;
    tess_pickle *pickle;
    dump_value root;
    uint64_t looks; /* that are left: a pickle of n bytes can describe far more than n items (see pickle.h) */
} dump;

/* TESS_E_FORMAT names the file and the place in it. */
tess_status dump_open(tess_mem *mem, const char *path, dump *dump);
void dump_close(dump *dump);
/* True: the file begins as a dump does. */
bool dump_is(const char *path);

bool dump_present(dump_value value); /* there, and not None or null */
bool dump_is_dict(dump_value value);
bool dump_is_list(dump_value value);
dump_value dump_get(dump_value dict, const char *key);
size_t dump_length(dump_value list);
dump_value dump_at(dump *dump, dump_value list, size_t index); /* absent, too, when there were too many looks */
bool dump_int(dump_value value, int64_t *integer);             /* also a number in text: "12" */
bool dump_true(dump_value value);
const char *dump_text(dump_value value);

/* Members of a dict. The key is text; integers are written out. */
typedef tess_status (*dump_visit)(void *context, const char *key, dump_value value);
tess_status dump_each(dump_value dict, dump_visit visit, void *context);

#endif
