/* Chooses the ranks that transfer a host's data, and the size of rounds, by operation and size. The table comes from
 * `tessera bench comm --tune`. Results do not depend on it, but all ranks must use the same table. */
#ifndef TESS_COMM_HOSTS_CHOICE_H
#define TESS_COMM_HOSTS_CHOICE_H

#include "tessera/memory.h"
#include "tessera/status.h"
#include "trace/ring.h"

enum {
    HOSTS_STRIPED, /* every rank of a host exchanges data with the rank of the same index on each other host */
    HOSTS_LEADERS, /* only the first rank of a host exchanges data */
    HOSTS_WAYS
};

enum {
    HOSTS_LEAST_ROUND_BYTES = 4096,
    HOSTS_MOST_ROUND_BYTES = 8 << 20,
    /* default: large enough for the network, and small enough to stay in a cache between two copies */
    HOSTS_PLAIN_ROUND_BYTES = 512 << 10,
    TUNING_ROWS = 32 /* maximum number of rows for an operation */
};

#define HOSTS_ANY_BYTES UINT64_MAX /* upper bound of an operation's last row */

typedef struct tess_hosts_choice {
    int way;            /* HOSTS_STRIPED, HOSTS_LEADERS */
    size_t round_bytes; /* size of a rank's part of a round */
} tess_hosts_choice;

/* The tuning table: rows for each operation, sorted by size. An operation without rows uses the defaults. */
typedef struct tess_tuning tess_tuning;

/* Returns the choice for an operation. `kind`: a tess_trace_op. `bytes`: size of the larger of a rank's two buffers;
 * equal on all ranks. If `tuning` is NULL: striped, HOSTS_PLAIN_ROUND_BYTES. */
tess_hosts_choice tess_hosts_choose(const tess_tuning *tuning, int kind, uint64_t bytes);

/* Returns "striped" or "leaders"; NULL: no such way. */
const char *tess_hosts_way_name(int way);
/* Whether an operation may have rows: its data is moved in rounds. */
bool tess_tuning_knows(int kind);

tess_status tess_tuning_create(tess_mem *mem, tess_tuning **tuning); /* makes a table without rows */
void tess_tuning_free(tess_tuning **tuning);
/* Appends a row for `kind`. It applies to sizes above the bound of the row before, up to `up_to_bytes`. Returns
 * TESS_E_INVALID if the bound does not grow, the choice is out of range, or there are too many rows. */
tess_status tess_tuning_add(tess_tuning *tuning, int kind, uint64_t up_to_bytes, tess_hosts_choice choice);
/* Creates a table with one choice for all operations and sizes. */
tess_status tess_tuning_of(tess_mem *mem, tess_hosts_choice choice, tess_tuning **tuning);
/* Returns a hash that is equal on every machine for tables with equal choices; 0: NULL. */
uint64_t tess_tuning_hash(const tess_tuning *tuning);

/* ---- choice_file.c
 *
 * {"tessera_tuning": 1, "date": "...", "machine": "...", ...
 *  "operations": {"all_gather": [{"up_to_bytes": 65536, "way": "leaders", "round_bytes": 65536},
 *                                {"up_to_bytes": null, "way": "striped", "round_bytes": 524288}], ...}}
 *
 * An operation's last row, and no other, has null for a bound. Other keys are for people. */
/* Reads a table. Errors: TESS_E_NOT_FOUND, TESS_E_IO; TESS_E_FORMAT names file, operation and row. */
tess_status tess_tuning_load(tess_mem *mem, const char *path, tess_tuning **tuning);
/* Parses a table from text. `what` names the source in messages. */
tess_status tess_tuning_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_tuning **tuning);

/* A fact about the origin of a table. */
typedef struct tess_tuning_fact {
    const char *key, *text;
} tess_tuning_fact;

/* Writes the table atomically. Returns TESS_E_INVALID if an operation's last row has a bound. */
tess_status tess_tuning_write(const tess_tuning *tuning, const tess_tuning_fact *facts, int n_facts, const char *path);

/* Gets row `i` of `kind`. Returns false if there is no such row. */
bool tess_tuning_row(const tess_tuning *tuning, int kind, int i, uint64_t *up_to_bytes, tess_hosts_choice *choice);

#endif
