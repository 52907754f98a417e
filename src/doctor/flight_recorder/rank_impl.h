/* The content of one dump: entry.c reads one entry, fr_rank.c all of them, fr_read.c merges the ranks. */
#ifndef TESS_DOCTOR_FLIGHT_RECORDER_RANK_IMPL_H
#define TESS_DOCTOR_FLIGHT_RECORDER_RANK_IMPL_H

#include "doctor/flight_recorder/dump_impl.h"
#include "doctor/flight_recorder/names_impl.h"
#include "diagnosis/history.h"

enum { FR_MOST_GROUPS = 1024, FR_MOST_ENTRIES = 1 << 20, FR_MOST_FRAMES = 256 };

/* A process group, as one rank knows it. */
typedef struct fr_group {
    uint64_t key; /* hash of its name */
    char name[64], desc[64];
    int *ranks; /* of the job; NULL: entries mention the group, but pg_config does not */
    int n_ranks;
    uint64_t team;      /* hash; set by fr_read.c when ranks is NULL */
    size_t newest;      /* 1 + index of its newest collective among the rank's records, 0: none */
    bool newest_is_out; /* it is retired, but may have failed (settle_newest) */
} fr_group;

typedef struct fr_rank {
    int rank;
    bool is_read;
    char why[TESS_HISTORY_LONG_TEXT]; /* what is odd, or why it could not be read */
    char version[16], library[32];
    fr_group *groups;
    size_t n_groups;
    tess_record *records; /* team: index of the group, until fr_read.c replaces it by the hash */
    size_t n_records;     /* capacity: a power of two, as history.c needs */
    bool lost_any;
    bool has_own; /* our own dump: the rest of its rank and history follows (own_impl.h) */
    tess_rank_history own;
    tess_history_source own_source;
    uint64_t own_now_ns;
} fr_rank;

typedef struct fr_entry {
    tess_record record; /* without its team */
    fr_name name;
    const char *group, *desc;
    int64_t record_id;
    bool is_message, retired;
} fr_entry;

/* The entry borrows its texts from the dump. TESS_E_FORMAT says what is wrong, but not where. */
tess_status fr_entry_read(dump *dump, dump_value value, fr_entry *entry);

/* Reads a whole dump. After a failure there is nothing to free. */
tess_status fr_rank_read(tess_mem *mem, const char *path, fr_rank *rank);
void fr_rank_free(tess_mem *mem, fr_rank *rank);
bool fr_group_has(const fr_group *group, int rank);

/* Adds a sentence to `why`. */
void fr_rank_note(fr_rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
