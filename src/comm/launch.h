/* The launcher: starts the ranks of a job on this host, owns their shared memory, watches them, and names the root
 * cause when one is lost. It runs outside every rank and takes part in no collective. */
#ifndef TESS_COMM_LAUNCH_H
#define TESS_COMM_LAUNCH_H

#include "tessera/types.h"

typedef struct tess_launch_result {
    int exit_code;     /* of the job: 0; the root cause's exit code, 128 + signal; 130 after SIGINT */
    int rank0_code;    /* of rank 0, likewise */
    int failed_rank;   /* root cause, -1: none */
    bool told;         /* `notice` has heard the report */
    char report[2048]; /* "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ...", "" when all is well */
} tess_launch_result;

typedef struct tess_launch_options {
    double grace_s;           /* that the others get once a rank is lost */
    const char *trace_folder; /* the ranks find it as TESSERA_TRACE (tess_runtime_keep_trace); NULL: none */
    double soft_timeout_s;    /* whoever keeps others waiting for longer is told to `notice`; 0: never */
    double timeout_s;         /* deadline of a collective, 0: not known */
    bool waits_on;            /* ranks do not give up then: a notice says so */
    void (*notice)(void *self, const char *line); /* hears a line while the job runs; NULL: nobody does */
    void *self;
} tess_launch_options;

/* Runs argv[0] with argv as n_ranks processes, which find the job through their environment. Signals SIGINT, SIGTERM
 * and SIGUSR1 sent to the launcher reach every rank, SIGUSR2 as SIGINT. Returns when all have ended: after a rank was
 * lost the others get options->grace_s to return TESS_E_PEER_LOST and exit, then SIGTERM, then SIGKILL. */
tess_status tess_launch(int n_ranks, char *const *argv, const tess_launch_options *options, tess_launch_result *result);

/* The same with forked children that run fn(context) and exit with its return value (tests). timeout_s 0: none. */
tess_status tess_launch_function(int n_ranks, int (*fn)(void *context), void *context, double grace_s, double timeout_s,
                                 tess_launch_result *result);

/* With all options. */
tess_status tess_launch_function_with(int n_ranks, int (*fn)(void *context), void *context,
                                      const tess_launch_options *options, double timeout_s, tess_launch_result *result);

/* True inside a process that a launcher started. */
bool tess_launch_is_rank(void);

#endif
