/* `tessera doctor preflight` checks this host, or every host of a job, before the job starts. It also starts ranks
 * that check how they work together. */
#ifndef TESS_CONTROL_SUPERVISE_PREFLIGHT_H
#define TESS_CONTROL_SUPERVISE_PREFLIGHT_H

#include "control/supervise/preflight_config.h"
#include "control/supervise/start_ranks.h"

enum { TESS_PREFLIGHT_NOT_READY = 4 }; /* exit code: a check failed, or the ranks could not join */

typedef struct tess_preflight {
    const char *only; /* names of the checks to run; NULL: all */
    tess_preflight_config config;
    tess_probe_plan plan;
    /* called when checks begin: those of n_ranks ranks, or, with 0, those of this machine */
    void (*doing)(int n_ranks);
    int (*show)(void *self, const tess_probe_report *report); /* called once, on rank 0; returns the exit code */
    void *self;
} tess_preflight;

/* TESS_E_INVALID: --only names no check; the message may suggest one. */
tess_status tess_preflight_check_names(const char *only);

/* Runs the checks. `ranks` is ignored in a rank of a launcher; `command` starts a rank. Prints why checks could not
 * run. Returns the exit code. */
int tess_preflight_run(tess_preflight *preflight, const tess_ranks *ranks, const tess_own_command *command);

#endif
