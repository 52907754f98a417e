/* The launcher starts the ranks of a job on this host, owns their shared memory, and watches them. If a rank is
 * lost, it names the root cause. It runs outside all ranks and takes part in no collective.
 *
 * On request, it replaces lost ranks (launch_recover.c). The other ranks keep their processes and their persistent
 * memory (job/persist/persist.h), and all ranks join again as in a new job. */
#ifndef TESS_CONTROL_LAUNCH_LAUNCHER_H
#define TESS_CONTROL_LAUNCH_LAUNCHER_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/core/reporter.h"
#include "control/launch/output/output_plan.h"
#include "job/failure.h"
#include "tessera/memory.h"
#include "trace/error_file.h"

struct tess_job;         /* job/job_memory.h */
struct tess_persist_set; /* job/persist/persist.h */
struct tess_notices;     /* trace/notice.h */
struct tess_rank_past;   /* job/job_memory.h */

typedef struct tess_launch_decision {
    tess_action action; /* STOP: the job ends as failed; RESTART: it ends, and the caller launches it again */
    bool reported;      /* the decision has already reported the failure */
    const char *line;   /* line of that report, which is added to the job's notices; NULL: not reported */
} tess_launch_decision;

typedef struct tess_launch_result {
    int exit_code;      /* exit code of the job: 0, the root cause's exit code, 128 + signal, or 130 after SIGINT */
    int rank0_code;     /* exit code of rank 0, in the same form */
    int failed_rank;    /* rank of the root cause; -1: none */
    bool reported;      /* the report was sent to the reporter */
    tess_action action; /* last decision; STOP if there was none */
    int n_recovered;    /* number of recoveries */
    bool asked_to_stop; /* a signal to the launcher or to a rank asked to stop, or stops_at_once was set */
    int stop_signal;    /* signal that the launcher got, as SIGINT or SIGTERM; 0: none */
    bool left;          /* no rank was killed by a signal: ranks that were asked to stop ended by themselves */
    /* report of the root cause: "rank 3 was killed by signal 9 (SIGKILL) in reduce_scatter #5671 ..."; "": all is
     * well */
    char report[2048];
    bool has_record;        /* this process knows why the job did not end well */
    tess_error_file record; /* facts of that end; members that the launcher does not know are 0 */
} tess_launch_result;

/* Formats the report of a job whose ranks were killed because they were asked to stop, and the reason. */
#define TESS_STOPPED_BY_OPERATOR "stopped by the operator (%s: the ranks were killed)"
#define TESS_STOPPED_LATE "asked to stop, and not done in time"
#define TESS_STOPPED_TWICE "asked to stop twice"

/* Default value of options->grace_s. */
#define TESS_LAUNCH_GRACE_S 5.0

typedef struct tess_launch_options {
    const char *program;       /* executable file that is run with argv; NULL: argv[0], searched for as a shell does */
    double grace_s;            /* seconds in which the other ranks must end once a rank is lost */
    const char *trace_folder;  /* passed to the ranks as TESSERA_TRACE (tess_runtime_keep_trace); NULL: no traces */
    const char *record_folder; /* folder of error.json (record/error_record.h); NULL: none is written there */
    const tess_output_plan *output; /* plan for the ranks' output; NULL: ranks have the streams of this process */
    double soft_timeout_s;          /* seconds after which a rank that keeps others waiting is reported; 0: never */
    double timeout_s;               /* deadline of a collective in seconds; 0: not known */
    bool waits_on;                  /* ranks continue to wait after the deadline; a notice reports it */
    bool usr1_stops;                /* SIGUSR1 asks to stop, like SIGTERM; otherwise it is passed to the ranks */
    bool heeds_stop;        /* all ranks look for requests to stop; otherwise those that have not looked get a signal */
    bool stops_at_once;     /* ranks are asked to stop before they begin: they save persistent memory and leave */
    double stop_grace_s;    /* seconds that ranks have after a request to stop; this is reported. 0: no limit */
    int n_before;           /* number of earlier launches or recoveries of the same job */
    tess_reporter reporter; /* receives a line for each event while the job runs */
    /* notices of earlier lives; at the end also those of this life; NULL: not collected */
    struct tess_notices *notices;
    struct tess_rank_past *past; /* (n_past) past of ranks in earlier lives; at the end also in this one; NULL: none */
    int n_past;                  /* further ranks have no past */
    const int64_t *omitted;      /* (JOB_OMITTED) read whenever the job begins, by tess_launch_omits; NULL: none */
    const struct tess_persist_set *persist; /* one block per rank, which the rank inherits; borrowed; NULL: none */
    /* Decides about a failure once its root cause is known. The job stands still during the call. NULL: always STOP. */
    void (*decide)(void *self, const tess_failure *failure, tess_launch_decision *decision);
    /* Called before the ranks start, and some 20 times a second while they run. pids (n_ranks); 0: the rank does not
     * run. May be NULL. */
    void (*tick)(void *self, const struct tess_job *job, const pid_t *pids);
    void *self;
    /* Called as often, to look after children of the caller that are not ranks. May be NULL. */
    void (*look)(void *helpers);
    /* Called by a warden after its rank has ended. `past` includes the process that ended. May be NULL. */
    void (*ended)(void *self, int rank, const struct tess_rank_past *past);
    /* Appends what is kept of the work of a job that was killed after `steps` steps because it was asked to stop: ";
     * newest checkpoint: step 40, 2 steps lost". May be NULL. */
    void (*kept)(void *helpers, int64_t steps, char *text, size_t size);
    /* A change of the configuration that all ranks take over together. `due`: returns the step after which they leave
     * for it, 0: none; `step` is the newest one that a rank has begun. `change`: they have left; on failure nothing has
     * changed. `change_back`: they do not start with it; TESS_E_NOT_FOUND: there was no change, or a rank has begun a
     * step since. NULL: there is none. */
    int64_t (*change_due)(void *helpers, int64_t step);
    tess_status (*change)(void *helpers);
    tess_status (*change_back)(void *helpers);
    void *helpers;
} tess_launch_options;

/* Runs argv as n_ranks processes, which find the job through their environment. SIGINT and SIGTERM ask the ranks to
 * stop. SIGUSR2 acts like SIGINT. SIGHUP acts like SIGTERM unless it is ignored. A second signal other than SIGHUP
 * ends the ranks at once. Returns when all ranks have ended. If a rank is lost, the others have options->grace_s to
 * return TESS_E_PEER_LOST and exit; then they get SIGTERM, then SIGKILL. If the decision is to recover, they wait
 * for that instead. */
tess_status tess_launch(int n_ranks, char *const *argv, const tess_launch_options *options, tess_launch_result *result);

/* Does the same with forked children that exit with the return value of fn(context) (tests). timeout_s 0: none. */
tess_status tess_launch_function(int n_ranks, int (*fn)(void *context), void *context, double grace_s, double timeout_s,
                                 tess_launch_result *result);

/* Does the same with all options. */
tess_status tess_launch_function_with(int n_ranks, int (*fn)(void *context), void *context,
                                      const tess_launch_options *options, double timeout_s, tess_launch_result *result);

#endif
