/* Decides on which host each rank of a job runs, and which rank each process becomes. Pure functions of the cards
 * that the processes exchange. */
#ifndef TESS_JOB_PLACE_H
#define TESS_JOB_PLACE_H

#include "job/job_memory.h"

/* Facts that a process reports about itself when it joins. Hosts exchange these bytes. */
typedef struct tess_card {
    char host[JOB_NAME_BYTES];
    uint64_t host_key;    /* equal on two processes if they can share memory */
    uint64_t config_hash; /* 0: not compared */
    uint64_t version_hash, program_hash, ways_hash;
    uint64_t cores_hash; /* hash of the set of cores that the process may use */
    tess_kernels_offer kernels;
    int32_t core;           /* first core that the process may use, in the machine's order (hwloc); -1: not known */
    int32_t pid;            /* process id on its host */
    int32_t torchrun_rank;  /* value of RANK in its environment; -1: none */
    int32_t torchrun_world; /* value of WORLD_SIZE in its environment; -1: none */
} tess_card;

typedef struct tess_placement {
    int n_hosts;
    int n[JOB_MAX_HOSTS]; /* (n_hosts) number of ranks on each host */
    int *rank;            /* rank of a process, by the launcher's number; one block with the next two */
    int *process;         /* the launcher's number, by rank */
    int *host;            /* by rank; hosts are numbered in the order of their first process */
} tess_placement;

/* Fills this process's card, except for what the options say, core and the torchrun numbers. TESSERA_HOST replaces the
 * name of the host; different names are different hosts. */
void tess_card_fill(tess_card *card);

/* Numbers the ranks. Ranks of a host are consecutive, because the pairs and quads of the canonical sum are to be
 * neighbours; inside a host they are ordered by core, then by the launcher's number. Free with tess_placement_free,
 * also after a failure. TESS_E_INVALID: more hosts than a job can have; two processes with one number in torchrun's
 * variables, or different world sizes. The message names the processes. */
tess_status tess_place(tess_mem *mem, const tess_card *cards, int n, tess_placement *placement);
void tess_placement_free(tess_mem *mem, tess_placement *placement);

#endif
