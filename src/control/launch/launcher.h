/* The launcher: starts the ranks of a job on this host, owns their shared memory, watches them, and names the root
 * cause when one is lost. It runs outside all ranks and takes part in no collective.
 *
 * On request it replaces lost ranks (launch_recover.c): the others keep their processes and their persistent memory
 * (job/persist/persist.h), and all meet again as a job that has just begun. */
#ifndef TESS_CONTROL_LAUNCH_LAUNCHER_H
#define TESS_CONTROL_LAUNCH_LAUNCHER_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/core/reporter.h"
#include "job/failure.h"
#include "tessera/memory.h"

struct tess_job;         /* job/job_memory.h */
struct tess_persist_set; /* job/persist/persist.h */
struct tess_notices;     /* trace/notice.h */
struct tess_rank_past;   /* job/job_memory.h */

typedef struct tess_launch_decision {
    tess_action action; /* STOP: the job ends as it failed; RESTART: it ends, and the caller launches it again */
    bool reported;      /* the decision has reported the failure, too */
    const char *line;   /* the line of that report, which joins the job's notices; NULL: not reported */
} tess_launch_decision;

typedef struct tess_launch_result {
    int exit_code;      /* code of the job: 0; the root cause's exit code, 128 + signal; 130 after SIGINT */
    int rank0_code;     /* code of rank 0, of the same form */
    int failed_rank;    /* root cause, -1: none */
    bool reported;      /* the reporter has got the report */
    tess_action action; /* last decision; STOP when there was nothing to decide */
    int n_recovered;    /* number of recoveries */
    bool asked_to_stop; /* a signal to the launcher or a rank asked, or it was so from the start (stops_at_once) */
    int stop_signal;    /* signal that the launcher got: SIGINT or SIGTERM; 0: none */
    bool left;          /* no rank died of a signal: those asked to stop did so in their own time */
    char report[2048];  /* "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ...", "" when all is well */
} tess_launch_result;

/* The report of a job whose ranks were killed because they were asked to stop, and why. */
#define TESS_STOPPED_BY_OPERATOR "stopped by the operator (%s: the ranks were killed)"
#define TESS_STOPPED_LATE "asked to stop, and not done in time"
#define TESS_STOPPED_TWICE "asked to stop twice"

/* Default of options->grace_s. */
#define TESS_LAUNCH_GRACE_S 5.0

typedef struct tess_launch_options {
    const char *program;      /* executable file run as argv[0]; NULL: argv[0], searched as a shell does */
    double grace_s;           /* seconds for the others to end once a rank is lost */
    const char *trace_folder; /* passed to the ranks as TESSERA_TRACE (tess_runtime_keep_trace); NULL: none */
    double soft_timeout_s;    /* a rank that keeps others waiting for longer is reported; 0: never */
    double timeout_s;         /* deadline of a collective, 0: not known */
    bool waits_on;            /* ranks do not give up at the deadline: a notice reports that */
    bool usr1_stops;          /* SIGUSR1 asks to stop, as SIGTERM does; else the ranks get it */
    bool heeds_stop;          /* all ranks look for requests to stop; else those that have not looked get a signal */
    bool stops_at_once;       /* ranks are asked to stop before they begin: they save persistent memory, and leave */
    double stop_grace_s;      /* seconds that ranks get after a request to stop, reported; 0: no limit */
    int n_before;             /* times that the same job was launched or recovered before */
    tess_reporter reporter;   /* gets a line whenever there is news while the job runs */
    struct tess_notices *notices; /* notices of earlier lives, and at the end also of this one; NULL: not collected */
    struct tess_rank_past *past;  /* (n_past) of earlier lives, and at the end also of this one; NULL: none */
    int n_past;                   /* ranks after that have no past */
    const int64_t *omitted;       /* (JOB_OMITTED) read whenever the job begins: tess_launch_omits; NULL: none */
    const struct tess_persist_set *persist; /* one block per rank, inherited by it; borrowed; NULL: none */
    /* Decides about a failure, once its root cause is known. The job stands still meanwhile. NULL: always STOP. */
    void (*decide)(void *self, const tess_failure *failure, tess_launch_decision *decision);
    /* Some 20 times a second while ranks run: pids (n_ranks), 0 of a rank that has ended. May be NULL. */
    void (*tick)(void *self, const struct tess_job *job, const pid_t *pids);
    void *self;
    /* Looks after children of the caller that are no ranks, as often. May be NULL. */
    void (*look)(void *helpers);
    /* Called by a warden when its rank has ended; `past` includes that process. May be NULL. */
    void (*ended)(void *self, int rank, const struct tess_rank_past *past);
    /* Appends what is kept of the work of a job that was killed after `steps` steps, because it was asked to stop: ";
     * newest checkpoint: step 40, 2 steps lost". May be NULL. */
    void (*kept)(void *helpers, int64_t steps, char *text, size_t size);
    void *helpers;
} tess_launch_options;

/* Runs argv[0] with argv as n_ranks processes, which find the job through their environment. SIGINT and SIGTERM ask
 * the ranks to stop, SIGUSR2 as SIGINT does, SIGHUP as SIGTERM does unless it is ignored. A second signal other than
 * SIGHUP ends them at once. Returns when all have ended. After a rank was lost the others get options->grace_s to
 * return TESS_E_PEER_LOST and exit, then SIGTERM, then SIGKILL; or, when the decision is to recover, they wait for
 * that. */
tess_status tess_launch(int n_ranks, char *const *argv, const tess_launch_options *options, tess_launch_result *result);

/* The same with forked children that exit with the return value of fn(context) (tests). timeout_s 0: none. */
tess_status tess_launch_function(int n_ranks, int (*fn)(void *context), void *context, double grace_s, double timeout_s,
                                 tess_launch_result *result);

/* The same with all options. */
tess_status tess_launch_function_with(int n_ranks, int (*fn)(void *context), void *context,
                                      const tess_launch_options *options, double timeout_s, tess_launch_result *result);

#endif
