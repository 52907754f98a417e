/* A rehearsal: before the first step, ranks compare the operations that their steps will make. Each rank takes its own
 * from a dry rank (comm/dry/dry_runtime.h), so nothing is computed or moved. */
#ifndef TESS_COMM_REHEARSAL_REHEARSAL_H
#define TESS_COMM_REHEARSAL_REHEARSAL_H

#include "comm/work.h"

/* An operation of a step. */
typedef struct tess_planned {
    tess_fingerprint fp;
    char team[TESS_TRACE_NAME_BYTES];
    int size; /* number of ranks of its team */
    int peer; /* the dry job's rank at the other end of a message; -1: no message */
} tess_planned;

/* The operations of a rank, in order. */
typedef struct tess_rehearsal {
    tess_mem *mem; /* borrowed; not the memory of the dry rank */
    tess_planned *lines;
    size_t n, room;
    uint64_t hosts; /* how the rank's teams lie on hosts: those on one host make other operations */
    /* ranks of a group whose teams lie alike on hosts make the same operations in the same order, except on their
     * batch teams; stages of a pipeline are several groups */
    int group;
    /* name of the teams whose ranks have the same micro-batches; borrowed; NULL: none. Which operations such a team has
     * depends on its micro-batch */
    const char *batch_team;
    const char *what; /* the noun that `number` counts, such as "a step's micro-batches" */
    int64_t number;   /* a number that all ranks need equal */
} tess_rehearsal;

/* Adds an operation of a dry rank. Setup of teams and memory is left out. */
tess_status tess_rehearsal_add(tess_rehearsal *rehearsal, const tess_work *work);
void tess_rehearsal_free(tess_rehearsal *rehearsal);

/* Compares the rehearsals of the ranks of `whole`. Rank r of it is rank r of the dry jobs. Collective.
 * All of these must hold:
 * - ranks of a group whose teams lie alike on hosts use all teams but the batch team in the same order;
 * - ranks of a batch team whose teams lie alike on hosts use all teams in the same order, messages of their own team
 *   aside;
 * - ranks of a team make the same calls on it;
 * - each message is received as it is sent.
 * TESS_E_MISMATCH, on all ranks: the message shows the first difference, and names the ranks that differ from the
 * majority; `whole` is broken */
tess_status tess_rehearsal_compare(tess_team *whole, const tess_rehearsal *rehearsal);

#endif
