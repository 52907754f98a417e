/* Adds up the metrics of a run: tokens, time, where the time went, and whether losses are sound. */
#ifndef TESS_DOCTOR_RUN_RUN_NUMBERS_H
#define TESS_DOCTOR_RUN_RUN_NUMBERS_H

#include "tessera/clock.h"
#include "tessera/memory.h"

typedef struct tess_run_numbers {
    int64_t n_steps, first_step, last_step; /* steps with a line; 0: none */
    int64_t n_tokens;                       /* tokens of all steps up to the last */
    double step_s, rank_s;                  /* seconds in steps; the same times the number of ranks */
    double phase_s[TESS_PHASE_COUNT];       /* seconds of rank 0 in each phase of steps */
    double hidden_s;                        /* seconds of communication that overlapped with computing */
    double newest_tps, newest_mfu;          /* means of about the newest ten lines */
    double newest_step_s;
    int n_ranks;     /* ranks of the newest step; 0: not known */
    int64_t n_bad;   /* losses that are not finite */
    int64_t n_jumps; /* losses above three times the one before */
    double loss;     /* the newest */
} tess_run_numbers;

/* Adds a line of metrics.jsonl. Lines of evaluations, and others of another form, are ignored. */
void tess_run_numbers_add(tess_run_numbers *numbers, const char *line, size_t n);

/* Reads metrics.jsonl in a run's folder, to its end. TESS_E_NOT_FOUND: there is none, or it has no step. */
tess_status tess_run_numbers_read(const char *folder, tess_run_numbers *numbers);

/* Growth of the memory in use by all ranks between the middle and the end of memory.jsonl, as a fraction. False: there
 * are too few lines. */
bool tess_run_memory_growth(const char *folder, double *growth);

#endif
