/* Reads one dump file, pickle or JSON, through one interface. A value that is missing or of another kind reads as
 * absent; the caller reports it if it is needed. */
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
    uint64_t looks; /* left to spend: a pickle of n bytes can describe far more than n items (see pickle.h) */
} dump;

/* TESS_E_FORMAT names the file and the position in it. */
tess_status dump_open(tess_mem *mem, const char *path, dump *dump);
void dump_close(dump *dump);
/* Whether the file begins like a dump. */
bool dump_is(const char *path);

bool dump_present(dump_value value); /* not absent, None or null */
bool dump_is_dict(dump_value value);
bool dump_is_list(dump_value value);
dump_value dump_get(dump_value dict, const char *key);
size_t dump_length(dump_value list);
dump_value dump_at(dump *dump, dump_value list, size_t index); /* also absent when `looks` is used up */
bool dump_int(dump_value value, int64_t *integer);             /* also a number as text: "12" */
bool dump_true(dump_value value);
const char *dump_text(dump_value value);

/* Visits the members of a dict. Keys are text; integer keys are formatted. */
typedef tess_status (*dump_visit)(void *context, const char *key, dump_value value);
tess_status dump_each(dump_value dict, dump_visit visit, void *context);

#endif
