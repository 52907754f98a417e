/* The launcher: starts the ranks of a job on this host, owns their shared memory, watches them, and names the root
 * cause when one is lost. It runs outside every rank and takes part in no collective.
 *
 * Asked to, it replaces what was lost (launch_recover.c): the others keep their processes and what they keep in memory
 * (job/persist/persist.h), and all meet again as a job that has just begun. */
#ifndef TESS_LAUNCH_LAUNCHER_H
#define TESS_LAUNCH_LAUNCHER_H

#include <stdatomic.h>
#include <sys/types.h>

#include "tessera/memory.h"
#include "trace/ring.h"

struct tess_job;         /* job/job_memory.h */
struct tess_persist_set; /* job/persist/persist.h */
struct tess_notices;     /* trace/notice.h */

/* What is done once ranks were lost. */
typedef enum tess_launch_action {
    TESS_LAUNCH_END,    /* the job ends as it failed */
    TESS_LAUNCH_HOT,    /* processes in place of those that ended; the others stay */
    TESS_LAUNCH_RESTART /* the job ends, and the caller launches it anew: with other words, or another number of ranks
                         */
} tess_launch_action;

/* Ranks have ended that should not have. */
typedef struct tess_launch_failure {
    int rank;              /* with which it began */
    const char *host;      /* where that one ran; "" in a job of one host */
    int signal, exit_code; /* how that one ended; signal 0: it exited with the code */
    tess_status status;    /* with which it gave up, TESS_OK: it left no word (tess_runtime_report_status) */
    bool stuck;            /* others gave up waiting for it */
    int64_t step;          /* that it was in; -1: in none */
    char phase[TESS_TRACE_PHASE_BYTES]; /* of it, "": not known */
    int situation;                      /* tess_situation: killed, crashed, OOM-killed, stopped, ... */
    int n_ranks, n_ended;               /* of the job; whose processes have ended by now */
    int64_t steps;                      /* done by the job, as the ranks show it; -1: not known */
    double ran_s;                       /* since the job began, or last began anew */
    int n_before;                       /* times that it began anew before */
    bool stopping;      /* the job has been asked to stop: it may still be replaced, to save what is kept */
    const char *report; /* "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ..." */
} tess_launch_failure;

typedef struct tess_launch_decision {
    tess_launch_action action;
    bool reported;    /* whoever decided has told of the failure, too */
    const char *line; /* with these words, which are kept among the job's notices; NULL: it has not */
} tess_launch_decision;

typedef struct tess_launch_result {
    int exit_code;             /* of the job: 0; the root cause's exit code, 128 + signal; 130 after SIGINT */
    int rank0_code;            /* of rank 0, likewise */
    int failed_rank;           /* root cause, -1: none */
    bool reported;             /* `notice` has heard the report */
    tess_launch_action action; /* that was decided on last; END when nothing was to be decided */
    int n_recovered;           /* times that the job began anew */
    bool asked_to_stop;        /* by a signal, to the launcher or to a rank, or at once */
    int stop_signal;           /* SIGINT or SIGTERM: by that, to the launcher; 0: none came */
    bool left;                 /* no rank died of a signal: one that was asked to stop has done so in its own time */
    char report[2048]; /* "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ...", "" when all is well */
} tess_launch_result;

/* That the others get once a rank is lost, where nobody says else. */
#define TESS_LAUNCH_GRACE_S 5.0

typedef struct tess_launch_options {
    const char *program; /* the file that is run as argv[0]; NULL: argv[0] says which, looked for as a shell does */
    double grace_s;      /* that the others get once a rank is lost */
    const char *trace_folder; /* the ranks find it as TESSERA_TRACE (tess_runtime_keep_trace); NULL: none */
    double soft_timeout_s;    /* whoever keeps others waiting for longer is told to `notice`; 0: never */
    double timeout_s;         /* deadline of a collective, 0: not known */
    bool waits_on;            /* ranks do not give up then: a notice says so */
    bool usr1_stops;          /* SIGUSR1 asks to stop, as SIGTERM does; else it is passed on to the ranks */
    bool stops_at_once;       /* the ranks are asked to stop before they begin: they save what is kept, and leave */
    double stop_grace_s;      /* that ranks get once they are asked to stop, told to `notice`; 0: for ever */
    int n_before;             /* times that the same job was launched and began anew before: drills count lives */
    void (*notice)(void *self, const char *line); /* hears a line while the job runs; NULL: nobody does */
    struct tess_notices *notices; /* of earlier lives of the job, and afterwards of this one too; NULL: none are kept */
    const int64_t *omitted;       /* (JOB_OMITTED) read whenever the job begins: tess_launch_omits; NULL: nothing is */
    const struct tess_persist_set *persist; /* a block a rank, inherited by it; borrowed; NULL: none */
    /* Says what is to be done about a failure, once its root cause is known. What it takes is time that the job stands
     * still. NULL: always END. */
    void (*decide)(void *self, const tess_launch_failure *failure, tess_launch_decision *decision);
    /* Some 20 times a second while ranks run: pids (n_ranks), 0 of a rank that has ended. May be NULL. */
    void (*tick)(void *self, const struct tess_job *job, const pid_t *pids);
    void *self;
} tess_launch_options;

/* Runs argv[0] with argv as n_ranks processes, which find the job through their environment. Signals SIGINT, SIGTERM
 * and SIGUSR1 sent to the launcher reach every rank, SIGUSR2 as SIGINT; a second one ends them at once. Returns when
 * all have ended: after a rank was lost the others get options->grace_s to return TESS_E_PEER_LOST and exit, then
 * SIGTERM, then SIGKILL; or, when that is decided, to await that the job begins anew. */
tess_status tess_launch(int n_ranks, char *const *argv, const tess_launch_options *options, tess_launch_result *result);

/* The same with forked children that run fn(context) and exit with its return value (tests). timeout_s 0: none. */
tess_status tess_launch_function(int n_ranks, int (*fn)(void *context), void *context, double grace_s, double timeout_s,
                                 tess_launch_result *result);

/* With all options. */
tess_status tess_launch_function_with(int n_ranks, int (*fn)(void *context), void *context,
                                      const tess_launch_options *options, double timeout_s, tess_launch_result *result);

#endif
