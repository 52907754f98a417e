/* Figures and texts computed from snapshots, for the pages that show them. */
#ifndef TESS_DOCTOR_TOP_TOP_FACTS_H
#define TESS_DOCTOR_TOP_TOP_FACTS_H

#include <jansson.h>

#include "doctor/top/snapshot.h"

/* ---- top_numbers.c: rates, shares of the step, and the rank that others wait for, from one snapshot or two. Pure
 * functions. ---- */
typedef struct tess_top_totals {
    int64_t step; /* step of the rank that is furthest; 0: none */
    double loss;  /* loss of that step; NaN: unknown */
    double step_s, tokens_per_s;
    int culprit;   /* rank that most ranks wait for, preferably one that itself waits for none; -1: none */
    int n_waiting; /* number of ranks that wait for the culprit */
    int waiter;    /* rank that has waited longest for the culprit */
    double waited_s;
    bool is_halted; /* all ranks are stopped, so none waits for another */
} tess_top_totals;

/* Computes the totals. `before` is an earlier snapshot of the job, or NULL. If given, rates cover the steps between
 * the two. */
tess_top_totals tess_top_sum(const tess_top_snapshot *now, const tess_top_snapshot *before);

/* Computes a rank's time in each tess_phase, as fractions of 1. Returns false if the rank has not finished a step
 * yet. `before` may be NULL. */
bool tess_top_shares(const tess_top_rank *now, const tess_top_rank *before, double share[TESS_PHASE_COUNT]);

/* Divides `width` cells among the phases by the largest-remainder method. The cells add up to `width`. */
void tess_top_cells(const double share[TESS_PHASE_COUNT], int width, int cells[TESS_PHASE_COUNT]);

/* Returns the number of ranks that `rank` waits for. *first is the lowest of them (-1: it waits for none). */
int tess_top_missing(const tess_top_snapshot *snapshot, int rank, int *first);

/* Returns whether a signal or a debugger has stopped the rank. */
bool tess_top_is_stopped(const tess_top_rank *rank);

/* ---- top_text.c: pieces of a snapshot as text. Each returns `text`. ---- */
const char *tess_top_bytes(double bytes, char *text, size_t size);              /* "312M", in at most 5 columns */
const char *tess_top_seconds(double seconds, char *text, size_t size);          /* "2.1s", "4m05s"; in at most 6 */
const char *tess_top_state(const tess_top_rank *rank, char *text, size_t size); /* "waits", "stopped", "SIGKILL" */
const char *tess_top_phase(const tess_top_rank *rank, char *text, size_t size); /* "backward 12" */
const char *tess_top_pools(const tess_top_rank *rank, char *text, size_t size); /* "par 12M gra 12M; on disk 24M" */
/* "all_gather #34 of 'world', layers 12" */
const char *tess_top_operation(const tess_fingerprint *op, const char *team, char *text, size_t size);
/* Explains why the rank is late: the watchdog's diagnosis, or, before there is one, what the snapshot shows:
 * "stopped, in backward 1" */
const char *tess_top_why(const tess_top_rank *rank, char *text, size_t size);
/* Says how the job ended, or what it has lost so far; "" if all is well. */
const char *tess_top_ending(const tess_top_snapshot *snapshot, char *text, size_t size);

/* ---- top_lines.c: the newest lines of files in the run's folder ---- */
typedef struct tess_top_lines {
    size_t n;
    char text[1 << 16]; /* (n) the end of the file: more than the lines that are shown */
} tess_top_lines;

/* Finds the folder of a job that keeps its traces in the subfolder "trace". Returns false if it keeps none. */
bool tess_top_folder(const tess_live_job *live, char folder[JOB_FOLDER_BYTES]);
/* Reads the end of a file. Errors as tess_os_map. `lines` is empty then. */
tess_status tess_top_lines_read(const char *folder, const char *name, tess_top_lines *lines);
/* Takes the last line off text[0..*n) and returns it (a new reference). Skips what is not JSON. NULL: none is left. */
json_t *tess_top_last_line(const char *text, size_t *n);
/* Returns the numbers of the newest step in lines of metrics.jsonl (a new reference); NULL: there is none. */
json_t *tess_top_metrics_of(const char *text, size_t n);

/* Finds in lines of alerts.jsonl what is wrong with the host of the job whose launcher is `pid`. Takes the newest
 * health alert. Writes "degraded: 2.1 GiB are free ...", as clean text; "" if all is well. Returns text. */
const char *tess_top_health_of(const char *lines, size_t n, int pid, char *text, size_t size);

#endif
