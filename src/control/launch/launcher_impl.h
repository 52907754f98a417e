/* Internal to the launcher: its state and its parts.
 *
 *   launcher.c         the main loop, requests to stop, deadlines
 *   launch_ranks.c     start of ranks, signals to them
 *   launch_end.c       how a rank ended, the root cause, the record of a failure
 *   launch_recover.c   deciding about a failure, and recovery */
#ifndef TESS_CONTROL_LAUNCH_LAUNCHER_IMPL_H
#define TESS_CONTROL_LAUNCH_LAUNCHER_IMPL_H

#include "job/job_memory.h"
#include "control/launch/child.h"
#include "control/launch/launcher.h"
#include "control/launch/output/rank_output.h"
#include "control/launch/watchdog/job_record.h"
#include "control/launch/watchdog/watchdog.h"

/* The work of a child: a program, or a function of this process. */
typedef struct launch_payload {
    char *const *argv;
    int (*fn)(void *context);
    void *context;
    int report_fd; /* descriptor to which a failed exec writes its errno; -1: none */
} launch_payload;

/* The current failure. All members are zero while nothing has failed. */
typedef struct launch_failing {
    double failed_s; /* when the first rank failed; 0: not yet */
    int failed_code; /* its exit code */
    bool terminated; /* SIGTERM was sent because of it */
    bool ended_here; /* the root cause was ended by a signal of the launcher, not by a failure of its own */
    bool decided;
} launch_failing;

/* The state of a recovery. */
typedef struct launch_recovery {
    bool gathering;  /* the launcher waits for the other ranks to be ready */
    bool unreported; /* ranks have been replaced, but have not joined yet, and this is not reported */
    double since_s;  /* when the failure was noticed */
    int rank;        /* the rank that failed */
    int n_replaced;
    char report[2048]; /* report of that failure */
} launch_recovery;

typedef struct launcher {
    tess_job job;
    int n_ranks, n_running;
    pid_t *pids; /* (n_ranks) 0: the rank has ended; one block with `stopped` and `died` */
    launch_payload what;
    tess_launch_options options;
    tess_mem *mem;
    tess_watchdog *watchdog;
    watchdog_job_record record;
    rank_output *output; /* NULL: the ranks have the streams of this process */
    tess_child_signals signals;
    int stop_signal; /* SIGINT or SIGTERM, once it came */
    int stop_code;   /* exit code of ranks that stopped because of it, or because they had requested it themselves */
    double stop_s;   /* when it came */
    bool *stopped;   /* (n_ranks) the rank ended because of it */
    bool *died;      /* (n_ranks) the rank's newest process was killed by a signal */
    bool overdue;    /* ranks did not stop in time */
    bool killed;     /* SIGKILL was sent to all ranks */
    bool timed_out;
    int suspect; /* suspected rank; -1: none, or the root cause is known */
    int cause;   /* rank of the root cause; -1: not known, or nothing has failed */
    int stuck;   /* rank that the root cause waited for without success; -1: none */
    launch_failing failing;
    launch_recovery recovery;
    tess_launch_result *result;
} launcher;

/* ---- launch_ranks.c ---- */
/* Reports `line`, and stores it as a notice. `rank` and `step`: what it is about; -1: none. */
void launch_notice(const launcher *l, tess_notice_kind kind, int rank, int64_t step, const char *line);
/* Starts the ranks that have no process. */
tess_status launch_start_ranks(launcher *l);
void launch_signal_all(const launcher *l, int signal);
/* Sends a request to stop, which came as `signal`, to the ranks that do not look for one. from_terminal: the
 * terminal has sent them the same signal. will_join: ranks that have not joined yet get no signal, so that they can
 * join. */
void launch_ask_ranks(const launcher *l, bool from_terminal, bool will_join);
void launch_kill_all(launcher *l);

/* ---- launch_end.c ---- */
void launch_note_end(launcher *l, int rank, int state);
/* Follows a failure to its root cause, once the failed rank has ended or waits for the decision. */
void launch_find_cause(launcher *l);
/* Writes the report of the root cause, once all facts are known. */
void launch_report_failure(launcher *l);
/* Reports a killed rank at once, so that the operator need not wait until the other ranks have ended. */
void launch_report_kill(launcher *l);
/* Whether the system has had time to report an OOM kill. */
bool launch_is_settled(const launcher *l);

/* Records why the job did not end well, while the job's memory is there. */
void launch_note_failure(const launcher *l);

/* Creates the watchdog, which watches the job until it ends and then writes its record. */
tess_status launch_open_watchdog(launcher *l);
void launch_close_watchdog(launcher *l);

/* ---- launch_recover.c ---- */
/* Takes the next step of a recovery, if there is one: makes the decision, or continues. */
void launch_recover(launcher *l);
/* Tells waiting ranks that the job will not recover. */
void launch_give_up(launcher *l);

#endif
