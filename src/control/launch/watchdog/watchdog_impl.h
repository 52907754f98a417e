/* Internal to the watchdog: which ranks others wait for, what those ranks are doing, what is usual, and how it is
 * reported. */
#ifndef TESS_CONTROL_LAUNCH_WATCHDOG_WATCHDOG_IMPL_H
#define TESS_CONTROL_LAUNCH_WATCHDOG_WATCHDOG_IMPL_H

#include "base/os/oom.h"
#include "base/os/process_facts.h"
#include "base/os/stack.h"
#include "job/board_waits.h"
#include "job/patience.h"
#include "control/launch/watchdog/watchdog.h"
#include "diagnosis/history.h"
#include "diagnosis/missed.h"
#include "diagnosis/pace.h"

/* ---- watchdog_waits.c: the ranks that others wait for, from the board ---- */
/* When the oldest unfinished operation of a rank's device was enqueued, and since when it has been the oldest. */
typedef struct watchdog_device {
    uint64_t enqueued_ns, since_ns;
} watchdog_device;

/* The waits of a job. All arrays have one element per rank of the job. */
typedef struct watchdog_waits {
    int n; /* number of ranks that others wait for and that wait for none themselves */
    tess_missed *list;
    watchdog_device *devices;
    bool *reached;          /* scratch */
    tess_board_waits board; /* the waits as the board shows them */
} watchdog_waits;

/* Creates the arrays. Free them with watchdog_waits_free, also after a failure; `waits` must be zeroed before. */
tess_status watchdog_waits_create(tess_mem *mem, int world, watchdog_waits *waits);
void watchdog_waits_free(tess_mem *mem, watchdog_waits *waits);
/* Finds the waits. `joined_ns`: when the first rank was seen to have joined; 0: none has yet. */
void watchdog_find_waits(const tess_job *job, uint64_t joined_ns, watchdog_waits *waits);
/* Returns the number of ranks that wait for `rank`, directly or through others. */
int watchdog_count_waiters(const tess_job *job, int rank, watchdog_waits *waits);

/* ---- classify.c: what a late rank is doing, from two looks at its process ---- */
typedef struct watchdog_finding {
    tess_situation situation;
    char why[JOB_WHY_BYTES]; /* text that follows "it is ": "stopped (state T)" */
} watchdog_finding;

/* The board row of a late rank, and the set of ranks that it waits for. */
typedef struct watchdog_row {
    tess_board_copy copy;
    const uint64_t *awaited;
    int world;
} watchdog_row;

void watchdog_classify(const watchdog_row *row, const tess_process_facts *before, const tess_process_facts *after,
                       watchdog_finding *finding);

/* ---- stragglers.c: ranks that are slow in every step while the job runs. Each finding of diagnosis/pace becomes a
 * line for people, at most one per minute. ---- */
enum { WATCHDOG_STRAGGLER_LINE = 256 };

typedef struct watchdog_stragglers {
    const tess_job *job;
    tess_pace *pace;
    int rank; /* rank that was reported last; -1: none, or it is as fast as the others again */
    tess_phase phase;
    uint64_t sampled_ns, reported_ns;
} watchdog_stragglers;

/* Begins the search for stragglers; `job` is borrowed. */
tess_status watchdog_stragglers_begin(tess_mem *mem, const tess_job *job, watchdog_stragglers *stragglers);

/* Checks all ranks' counters; call it some 20 times a second. It reads a few words per rank at most ten times a
 * second. It asks the system only about ranks of this host that have done a step. Returns whether `line` has news
 * about a rank of this host. */
bool watchdog_stragglers_look(watchdog_stragglers *stragglers, uint64_t now_ns, char line[WATCHDOG_STRAGGLER_LINE]);

/* ---- all_stopped.c: whether all ranks are stopped ---- */
#define WATCHDOG_STOPPED "stopped (state T: by SIGSTOP or ctrl-Z)"

typedef struct watchdog_halt {
    bool is_on;        /* all ranks were stopped at the last look */
    bool is_said;      /* this was reported; some ranks may run again */
    uint64_t since_ns; /* when the halt began; 0: there is none */
    uint64_t looked_ns;
    uint64_t notice; /* 1 + the number of its notice; 0: none yet */
} watchdog_halt;

/* ---- A rank that others wait for ---- */
typedef struct watchdog_stall {
    bool is_on, is_seen;
    int waiter;
    uint64_t since_ns;
    bool is_looked_at; /* the process was looked at once; `first` holds what was seen */
    uint64_t look_ns;  /* time of the next look */
    tess_process_facts first;
    watchdog_finding finding;       /* WELL: the process was not examined yet */
    tess_situation reported;        /* situation that was reported last; WELL: none */
    uint64_t reported_ns, pause_ns; /* time of that report, and the pause until the next one */
    bool deadline_reported;
    uint64_t notice; /* 1 + the number of its notice; 0: none yet */
    char who[160];   /* "rank 3 kept 7 ranks waiting" */
    char in[480];    /* "in all_reduce #7 ...; it was stopped" */
    char stack[480]; /* stack of the rank during the stall; "": not read */
} watchdog_stall;

typedef struct watchdog_death {
    int pid;
    uint64_t ended_ns; /* 0: no end is open */
} watchdog_death;

struct tess_watchdog {
    tess_mem *mem;
    const tess_job *job;
    tess_watchdog_options options;
    uint64_t looked_ns, joined_ns;
    watchdog_waits waits;
    watchdog_patience patience;
    tess_stack_probe probe;
    int probed; /* rank whose stack is being read; -1: none */
    tess_oom_watch oom;
    watchdog_stragglers stragglers;
    watchdog_halt halt;
    watchdog_stall *stalls; /* (world) in one block with the watchdog, like the following arrays */
    watchdog_death *deaths; /* (world) */
    uint64_t *awaited;      /* scratch set of ranks */
    int *stopped;           /* (world) scratch list of ranks */
};

/* Returns the process of a rank; 0: not known. */
static inline int watchdog_pid_of(const tess_watchdog *w, int rank)
{
    int pid = atomic_load(&w->job->rows[rank].pid);
    return pid == 0 && w->options.pids != NULL ? (int)w->options.pids[rank] : pid;
}

/* Reports once that all ranks are stopped, and once that they run again. Cheap while the first rank runs. */
void watchdog_look_at_halt(tess_watchdog *w, uint64_t now_ns);

/* ---- watchdog_report.c: lines for people ---- */
/* Reports a stall. `ranks`: those that became due at the same time; the line describes the first. */
void watchdog_report_stall(tess_watchdog *w, const int *ranks, int n, double waited_s);
void watchdog_report_stack(const tess_watchdog *w, int rank, double waited_s, const tess_stack *stack);
void watchdog_report_came(const tess_watchdog *w, int rank, double waited_s);

#endif
