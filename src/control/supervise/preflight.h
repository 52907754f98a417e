/* `tessera doctor preflight`: checks this host, or every host of a job, before the job, and starts ranks that check how
 * they work together. */
#ifndef TESS_CONTROL_SUPERVISE_PREFLIGHT_H
#define TESS_CONTROL_SUPERVISE_PREFLIGHT_H

#include "control/supervise/preflight_config.h"
#include "control/supervise/start_ranks.h"

enum { TESS_PREFLIGHT_NOT_READY = 4 }; /* exit code: a check failed, or the ranks do not meet */

typedef struct tess_preflight {
    const char *only; /* names of the wanted checks, NULL: all */
    tess_preflight_config config;
    tess_probe_plan plan;
    void (*doing)(int n_ranks); /* shows what begins: the checks of n_ranks ranks, or, with 0, those of this machine */
    int (*show)(void *self, const tess_probe_report *report); /* called once, on rank 0; returns the exit code */
    void *self;
} tess_preflight;

/* Check `i` of a group, NULL after the last: those of doctor/probe, and those of a configuration. */
const tess_probe_check *tess_preflight_check_at(tess_probe_group group, int i);

/* TESS_E_INVALID: --only names no check; the message may name the one that was meant. */
tess_status tess_preflight_check_names(const char *only);

/* `ranks` is ignored in a rank of a launcher; `command` starts a rank. Prints why it could not look; returns the exit
 * code. */
int tess_preflight_run(tess_preflight *preflight, const tess_ranks *ranks, const tess_own_command *command);

#endif
