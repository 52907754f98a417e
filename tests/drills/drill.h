/* Drills: inject faults into jobs, and compare the launcher's reports with the truth. */
#ifndef TESS_TESTS_DRILLS_DRILL_H
#define TESS_TESTS_DRILLS_DRILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum drill_program {
    DRILL_JOB,  /* job.c */
    DRILL_TRAIN /* `tessera train` on a small model */
} drill_program;

/* One fault, and the reports that it requires: extended regular expressions, in which %d is the culprit. */
typedef struct drill {
    const char *name, *group; /* name, and the test that runs it */
    drill_program program;
    const char *fault; /* fault, without its rank and step */
    const char *says;  /* the line that is the verdict */
    const char *who;   /* the rank in that line; if two ranks tie, DRILL_TIE will do as well */
    const char *where; /* operation, label or phase in that line */
    const char *trace; /* `tessera trace`'s name for it */
    double limit_s;    /* limit, counted from the last honest rank's arrival */
    const char *words; /* one more for `tessera train`, NULL: none */
    bool goes_on;      /* the job would go on, or hang: it is ended once the verdict is there */
    int rank;          /* -1: any */
} drill;

extern const drill drills[];
extern const int n_drills;

/* The outcome of one run. */
typedef struct drill_outcome {
    bool said, right_rank, right_place, right_trace;
    double after_s;  /* the verdict, after the last honest rank's arrival */
    int n_noise;     /* lines besides the verdict */
    char text[8192]; /* all lines */
    char trace[512]; /* the first line of `tessera trace` */
} drill_outcome;

/* The place and time of the fault. */
typedef struct drill_place {
    int world, rank, step;
    bool untimed; /* the machine may be slow: other ranks may be reported before, and the verdict may take minutes */
} drill_place;

/* Runs the fault in a job that `tessera` starts. False: it could not be started; stderr has the reason. */
bool drill_run(const drill *drill, const char *tessera, const drill_place *place, drill_outcome *outcome);

/* Kills a rank or the launcher of a job `n` times and reads the traces. Returns the exit code: 0 when all were right.
 */
int drill_kills(const char *tessera, int n, uint64_t seed);
/* A job without faults; 0 when the launcher said nothing, or `untimed` nothing but that ranks came late. */
int drill_calm(const char *tessera, int64_t n_collectives, int64_t n_stalls, bool untimed);

/* Ranks of the jobs; they return their exit codes. */
int drill_job(int64_t n_steps);
int drill_count(void);
int drill_calm_rank(const char *what); /* "COLLECTIVES,STALLS" */

#endif
