/* The launcher's parts.
 *
 *   launcher.c         the main loop, requests to stop, deadlines
 *   launch_ranks.c     starting ranks, signals to them
 *   launch_end.c       how a rank ended, the root cause
 *   launch_recover.c   deciding about a failure, and recovery */
#ifndef TESS_CONTROL_LAUNCH_LAUNCHER_IMPL_H
#define TESS_CONTROL_LAUNCH_LAUNCHER_IMPL_H

#include "job/job_memory.h"
#include "control/launch/child.h"
#include "control/launch/launcher.h"
#include "control/launch/watchdog/job_record.h"
#include "control/launch/watchdog/watchdog.h"

/* The work of a child: a program, or a function of this process. */
typedef struct launch_payload {
    char *const *argv;
    int (*fn)(void *context);
    void *context;
    int report_fd; /* a failed exec writes its errno here; -1: nobody reads it */
} launch_payload;

/* The current failure; all zero while nothing has failed. */
typedef struct launch_failing {
    double failed_s; /* when the first rank failed, 0: not yet */
    int failed_code; /* its exit code */
    bool terminated; /* SIGTERM was sent after it */
    bool ended_here; /* the launcher's signal ended the root cause, not a failure of its own */
    bool decided;
} launch_failing;

/* A recovery. */
typedef struct launch_recovery {
    bool gathering;  /* waiting for the others to be ready */
    bool unreported; /* ranks have been replaced, but have not met yet */
    double since_s;  /* when the failure was seen */
    int rank;        /* the rank that failed */
    int n_replaced;
    char report[2048]; /* report of that failure */
} launch_recovery;

typedef struct launcher {
    tess_job job;
    int n_ranks, n_running;
    pid_t *pids; /* (n_ranks) 0: has ended; one block with `stopped` and `died` */
    launch_payload what;
    tess_launch_options options;
    tess_mem *mem;
    tess_watchdog *watchdog;
    watchdog_job_record record;
    tess_child_signals signals;
    int stop_signal; /* SIGINT or SIGTERM once it came */
    int stop_code;   /* exit code of ranks that stopped after it, or because they had requested it themselves */
    double stop_s;   /* when it came */
    bool *stopped;   /* (n_ranks) ended because of it */
    bool *died;      /* (n_ranks) the rank's newest process died of a signal */
    bool overdue;    /* ranks did not stop in time */
    bool killed;     /* SIGKILL was sent to all */
    bool timed_out;
    int suspect; /* rank under suspicion, -1: none, or the root cause is known */
    int cause;   /* the root cause, -1: not known, or nothing has failed */
    int stuck;   /* the rank that the root cause waited for without success, -1: none */
    launch_failing failing;
    launch_recovery recovery;
    tess_launch_result *result;
} launcher;

/* ---- launch_ranks.c ---- */
/* Reports `line`, and stores it among the notices. `rank` and `step`: what it is about, -1: none. */
void launch_notice(const launcher *l, tess_notice_kind kind, int rank, int64_t step, const char *line);
/* Starts the ranks that have no process. */
tess_status launch_start_ranks(launcher *l);
void launch_signal_all(const launcher *l, int signal);
/* Sends a request to stop, which came as `signal`, to the ranks that do not look for one. from_terminal: the ranks got
 * the same signal. will_join: ranks that have not joined yet are let come. */
void launch_ask_ranks(const launcher *l, bool from_terminal, bool will_join);
void launch_kill_all(launcher *l);

/* ---- launch_end.c ---- */
void launch_note_end(launcher *l, int rank, int state);
/* Follows a failure to its root cause, once that rank has ended or waits for the decision. */
void launch_find_cause(launcher *l);
/* Writes the report of the root cause, once all facts are known. */
void launch_report_failure(launcher *l);
/* Reports a killed rank at once: the operator should not wait for the others to end. */
void launch_report_kill(launcher *l);
/* True once the system has had time to report an OOM kill. */
bool launch_is_settled(const launcher *l);

/* Opens what watches the job until it ends, and writes its record then. */
tess_status launch_open_watchdog(launcher *l);
void launch_close_watchdog(launcher *l);

/* ---- launch_recover.c ---- */
/* Takes the next step of a recovery, if any: decides, or goes on. */
void launch_recover(launcher *l);
/* Tells waiting ranks that there will be no recovery. */
void launch_give_up(launcher *l);

#endif
