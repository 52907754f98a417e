/* Shared by the reader and the writer of dumps. fr_files.c finds dumps, dump.c opens one, entry.c and own.c read an
 * entry, fr_rank.c reads a whole dump, and fr_read.c merges the ranks. fr_write.c writes dumps, and fr_names.c maps
 * names. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_FLIGHT_RECORDER_IMPL_H

#include <jansson.h>

#include "base/pickle/pickle.h"
#include "diagnosis/history.h"

/* ---- fr_files.c: the dumps in a folder, and the rank of each ---- */
typedef struct fr_file {
    int rank;
    bool is_json;
    char name[256];
} fr_file;

typedef struct fr_files {
    tess_mem *mem;
    const char *folder;
    fr_file *file; /* sorted by rank, one per rank; a pickle is preferred to JSON because it holds more */
    size_t n;
} fr_files;

tess_status fr_files_list(tess_mem *mem, const char *folder, fr_files *files);
void fr_files_free(fr_files *files);

/* ---- dump.c: one file, pickle or JSON. A value that is missing or has another type reads as absent; the caller
 * reports an error if it needs the value. ---- */
/* A value of a dump. If both pointers are NULL, the value is absent. */
typedef struct dump_value {
    const json_t *json;
    const tess_pickle_value *pickle;
} dump_value;

typedef struct dump {
    json_t *json;
    tess_pickle *pickle;
    dump_value root;
    /* remaining budget of element reads: a pickle of n bytes can describe far more than n items (see pickle.h) */
    uint64_t looks;
} dump;

/* Opens a dump. TESS_E_FORMAT names the file and the position in it. */
tess_status dump_open(tess_mem *mem, const char *path, dump *dump);
void dump_close(dump *dump);
/* Whether the file begins like a dump. */
bool dump_is(const char *path);

bool dump_present(dump_value value); /* false: absent, None or null */
bool dump_is_dict(dump_value value);
bool dump_is_list(dump_value value);
dump_value dump_get(dump_value dict, const char *key);
size_t dump_length(dump_value list);
dump_value dump_at(dump *dump, dump_value list, size_t index); /* also returns absent when `looks` is used up */
bool dump_int(dump_value value, int64_t *integer);             /* also accepts a number given as text: "12" */
bool dump_true(dump_value value);
const char *dump_text(dump_value value);

/* Called for each member of a dict. A key that is an integer is passed as text. */
typedef tess_status (*dump_visit)(void *context, const char *key, dump_value value);
tess_status dump_each(dump_value dict, dump_visit visit, void *context);

/* ---- fr_names.c: names of operations and element types in c10d and in Tessera ---- */
/* A parsed profiling name: "nccl:send 0->1", "gloo:all_reduce". */
typedef struct fr_name {
    char backend[16];
    char op[48];
    int peer; /* index of the peer in the group; -1: not a message, or a receive from any rank */
    tess_trace_op kind;
    bool by_output; /* the outputs, not the inputs, have the same size on all ranks */
    bool uneven;    /* sizes may differ between ranks */
} fr_name;

void fr_name_parse(const char *profiling_name, fr_name *name);

/* Whether the operation ends a coalesced group; it follows the members of the group. */
bool fr_name_ends_group(const fr_name *name);

/* Parses "BFloat16" and the like. Returns TESS_DTYPE_COUNT for a dtype that we do not have. */
tess_dtype fr_dtype_parse(const char *text);
const char *fr_dtype_name(int dtype);

/* Returns the name of the c10d operation that is closest to one of ours. */
const char *fr_op_name(int op);

/* ---- entry.c, fr_rank.c: the content of one dump ---- */
enum { FR_MOST_GROUPS = 1024, FR_MOST_ENTRIES = 1 << 20, FR_MOST_FRAMES = 256 };

/* A process group, as one rank knows it. */
typedef struct fr_group {
    uint64_t key; /* hash of its name */
    char name[64], desc[64];
    int *ranks; /* ranks of the job; NULL: entries mention the group, but pg_config does not */
    int n_ranks;
    int n_members;      /* number of members that the sizes of its operations show; 0: they do not show it */
    uint64_t team;      /* hash of the team; set by fr_read.c when ranks is NULL */
    size_t newest;      /* 1 + index of its newest collective among the rank's records, 0: none */
    bool newest_is_out; /* the newest collective is retired, but may have failed (settle_newest) */
} fr_group;

typedef struct fr_rank {
    int rank;
    bool is_read;
    char why[TESS_HISTORY_LONG_TEXT]; /* note on an unusual dump, or the reason why it could not be read */
    char version[16], library[32];
    fr_group *groups;
    size_t n_groups;
    int least_world;      /* lower bound of the number of ranks of the job */
    tess_record *records; /* `team` is the index of the group until fr_read.c replaces it by the hash */
    size_t n_records;     /* the capacity is a power of two, because history.c requires it */
    bool lost_any;
    bool has_own; /* the dump is Tessera's own: the following fields hold the rest of its rank and history */
    tess_rank_history own;
    tess_history_source own_source;
    uint64_t own_now_ns;
} fr_rank;

typedef struct fr_entry {
    tess_record record; /* record, except for its team */
    fr_name name;
    const char *group, *desc;
    int64_t record_id;
    int n_members; /* members of the group, from the ratio of an all_gather's sizes; 0: the sizes do not show it */
    bool is_message, retired;
} fr_entry;

/* Reads one entry. The entry borrows its texts from the dump. TESS_E_FORMAT says what is wrong, but not where. */
tess_status fr_entry_read(dump *dump, dump_value value, fr_entry *entry);

/* Reads a whole dump. After a failure there is nothing to free. */
tess_status fr_rank_read(tess_mem *mem, const char *path, fr_rank *rank);
void fr_rank_free(tess_mem *mem, fr_rank *rank);

/* Appends a sentence to `why`. */
void fr_rank_note(fr_rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- own.c: fields that c10d's schema lacks. They are stored under the key "tessera" of a dump and of each entry.
 * Other readers skip the key; our reader restores the history from it. ---- */
#define FR_OWN_KEY "tessera"

/* These two return the value of the key for an entry and for a dump, or NULL if memory runs out. */
json_t *fr_own_record_json(const tess_record *record, int64_t clock_offset_ns);
json_t *fr_own_rank_json(const tess_history *history, int rank);

/* These two replace fields of the record or rank by those under the key. They do nothing if the key is missing.
 * TESS_E_FORMAT says what is wrong. */
tess_status fr_own_read_record(dump_value entry, tess_record *record);
tess_status fr_own_read_rank(tess_mem *mem, dump *dump, fr_rank *rank);

/* Fills in the remaining fields of a rank's history; takes over the spans of `from`. */
void fr_own_fill(tess_rank_history *to, fr_rank *from);

#endif
