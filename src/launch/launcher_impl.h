/* The launcher's parts.
 *
 *   launcher.c         the round, requests to stop, deadlines
 *   launch_ranks.c     starting ranks, signals to them
 *   launch_end.c       what became of a rank, who was to blame
 *   launch_recover.c   deciding what follows a failure, and beginning anew */
#ifndef TESS_LAUNCH_LAUNCHER_IMPL_H
#define TESS_LAUNCH_LAUNCHER_IMPL_H

#include "job/job_memory.h"
#include "launch/child.h"
#include "launch/launcher.h"
#include "launch/watchdog/job_record.h"
#include "launch/watchdog/watchdog.h"

/* What a child runs: a program, or a function of this one. */
typedef struct launch_payload {
    char *const *argv;
    int (*fn)(void *context);
    void *context;
    int report_fd; /* errno of a failed exec is written here; -1: nobody would read it */
} launch_payload;

/* The failure at hand; all zero while there is none. */
typedef struct launch_failing {
    double failed_s; /* when the first rank failed, 0: not yet */
    int failed_code; /* its exit code */
    bool terminated; /* SIGTERM was sent after it */
    bool ended_here; /* the root cause did not end by itself: its signal was this launcher's */
    bool decided;
} launch_failing;

/* Beginning anew. */
typedef struct launch_recovery {
    bool gathering;  /* waits for the others to be ready */
    bool unreported; /* ranks have been replaced, but have not met yet */
    double since_s;  /* the failure */
    int rank;        /* that failed */
    int n_replaced;
    char report[2048]; /* of that failure */
} launch_recovery;

typedef struct launcher {
    tess_job job;
    int n_ranks, n_running;
    pid_t pids[JOB_MAX_RANKS]; /* 0: has ended */
    launch_payload what;
    tess_launch_options options;
    tess_mem *mem;
    tess_watchdog *watchdog;
    watchdog_job_record record;
    tess_child_signals signals;
    int stop_signal;             /* SIGINT or SIGTERM once it came */
    int stop_code;               /* with which ranks ended after it, or when they had asked for it themselves */
    double stop_s;               /* when it came */
    bool stopped[JOB_MAX_RANKS]; /* has ended because of it */
    bool died[JOB_MAX_RANKS];    /* of a signal, the rank's newest process */
    bool overdue;                /* they did not stop in time */
    bool killed;                 /* SIGKILL was sent to all */
    bool timed_out;
    double begin_s; /* when the job began, or last began anew */
    int suspect;    /* the rank that a failure leads to, -1: none, or the root cause is known */
    int cause;      /* the root cause, -1: not known, or there is none */
    int stuck;      /* the rank that it waited for in vain, -1: none */
    launch_failing failing;
    launch_recovery recovery;
    tess_launch_result *result;
} launcher;

/* ---- launch_ranks.c ---- */
/* Tells `line` to whoever listens, and keeps it; `rank` and `step` that it is about, -1: none. */
void launch_notice(const launcher *l, tess_notice_kind kind, int rank, int64_t step, const char *line);
/* Starts the ranks that have no process. */
tess_status launch_start_ranks(launcher *l);
void launch_signal_all(const launcher *l, int signal, bool only_absent);
void launch_kill_all(launcher *l);

/* ---- launch_end.c ---- */
void launch_note_end(launcher *l, int rank, int state);
/* Follows a failure to its root cause, once that one has ended or awaits what is decided. */
void launch_find_cause(launcher *l);
/* The root cause in words, once all that can be known of it is. */
void launch_report_failure(launcher *l);
/* A rank that was killed has no more to say, and whoever is on call should not wait for the others to end. */
void launch_report_kill(launcher *l);
/* The system has had time to say that it was the one who killed: for want of memory. */
bool launch_is_settled(const launcher *l);

/* What watches the job from its beginning to its end, of which it writes down what there is to say. */
tess_status launch_open_watchdog(launcher *l);
void launch_close_watchdog(launcher *l);

/* ---- launch_recover.c ---- */
/* A look at whether something is to be decided, or goes on. */
void launch_recover(launcher *l);
/* Nobody is to wait for the job to begin anew any more. */
void launch_give_up(launcher *l);

#endif
