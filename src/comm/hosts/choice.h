/* Chooses the ranks that carry a host's bytes, and the size of rounds: the table that `tessera bench comm --tune`
 * writes, by operation and size. Results do not depend on it, but all ranks must choose alike. */
#ifndef TESS_COMM_HOSTS_CHOICE_H
#define TESS_COMM_HOSTS_CHOICE_H

#include "tessera/memory.h"
#include "tessera/status.h"
#include "trace/ring.h"

enum {
    HOSTS_STRIPED, /* all ranks of a host, each to and from those of the same index */
    HOSTS_LEADERS, /* its first rank alone */
    HOSTS_WAYS
};

enum {
    HOSTS_LEAST_ROUND_BYTES = 4096,
    HOSTS_MOST_ROUND_BYTES = 8 << 20,
    HOSTS_PLAIN_ROUND_BYTES = 512 << 10, /* the default: large enough for the network, small enough to stay in a cache
                                            between two copies */
    TUNING_ROWS = 32                     /* most rows of an operation */
};

#define HOSTS_ANY_BYTES UINT64_MAX /* the bound of an operation's last row */

typedef struct tess_hosts_choice {
    int way;            /* HOSTS_STRIPED, HOSTS_LEADERS */
    size_t round_bytes; /* size of a rank's part of a round */
} tess_hosts_choice;

/* Rows of each operation, by size. An operation without rows has the defaults. */
typedef struct tess_tuning tess_tuning;

/* `kind`: a tess_trace_op. `bytes`: of the larger of a rank's two buffers, equal on all ranks. `tuning` may be NULL:
 * striped, HOSTS_PLAIN_ROUND_BYTES. */
tess_hosts_choice tess_hosts_choose(const tess_tuning *tuning, int kind, uint64_t bytes);

/* "striped", "leaders"; NULL: no such way. */
const char *tess_hosts_way_name(int way);
/* True for operations that may have rows: those whose data goes in rounds. */
bool tess_tuning_knows(int kind);

tess_status tess_tuning_create(tess_mem *mem, tess_tuning **tuning); /* makes a table without rows */
void tess_tuning_free(tess_tuning **tuning);
/* The next row of `kind`: for sizes above those of the row before, up to `up_to_bytes`. TESS_E_INVALID: the bound does
 * not grow, the choice is out of range, or there are too many rows. */
tess_status tess_tuning_add(tess_tuning *tuning, int kind, uint64_t up_to_bytes, tess_hosts_choice choice);
/* One choice for everything. */
tess_status tess_tuning_of(tess_mem *mem, tess_hosts_choice choice, tess_tuning **tuning);
/* Tables that choose alike have equal hashes, on every machine; 0: NULL. */
uint64_t tess_tuning_hash(const tess_tuning *tuning);

/* ---- choice_file.c
 *
 * {"tessera_tuning": 1, "date": "...", "machine": "...", ...
 *  "operations": {"all_gather": [{"up_to_bytes": 65536, "way": "leaders", "round_bytes": 65536},
 *                                {"up_to_bytes": null, "way": "striped", "round_bytes": 524288}], ...}}
 *
 * An operation's last row, and no other, has null for a bound. Other keys are for people. */
/* TESS_E_NOT_FOUND, TESS_E_IO; TESS_E_FORMAT: names file, operation and row. */
tess_status tess_tuning_load(tess_mem *mem, const char *path, tess_tuning **tuning);
/* `what` names the source in messages. */
tess_status tess_tuning_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_tuning **tuning);

/* A fact about the origin of a table. */
typedef struct tess_tuning_fact {
    const char *key, *text;
} tess_tuning_fact;

/* Atomically. TESS_E_INVALID: an operation's last row has a bound. */
tess_status tess_tuning_write(const tess_tuning *tuning, const tess_tuning_fact *facts, int n_facts, const char *path);

/* Row `i` of `kind`; false: it has no such row. */
bool tess_tuning_row(const tess_tuning *tuning, int kind, int i, uint64_t *up_to_bytes, tess_hosts_choice *choice);

#endif
