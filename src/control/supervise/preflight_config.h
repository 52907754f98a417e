/* Checks a configuration for `tessera doctor preflight`, and computes from it the figures that checks of hosts need. */
#ifndef TESS_CONTROL_SUPERVISE_PREFLIGHT_CONFIG_H
#define TESS_CONTROL_SUPERVISE_PREFLIGHT_CONFIG_H

#include "doctor/probe/probe.h"
#include "config/config.h"

typedef struct tess_preflight_config {
    const char *path; /* path of the file; NULL: no file */
    char *const *overrides;
    int n_overrides;
    tess_config config; /* the configuration; zero if there is no valid one */
    tess_status loaded;
    char error[1024]; /* message of the status `loaded` */
    double n_params;  /* number of parameters of the model; 0: not known */
    char model_error[1024];
} tess_preflight_config;

/* Loads the configuration from `path` and `overrides`, and the sizes of the model. Errors become findings later.
 * Free it with tess_config_free. */
void tess_preflight_read(tess_preflight_config *read);

/* Adds the configuration's figures to the plan, whose n_ranks must be set. `world`: number of all ranks. */
void tess_preflight_plan(const tess_preflight_config *read, int world, tess_probe_plan *plan);

/* Runs the checks of the configuration that `only` names. */
void tess_preflight_look(const tess_preflight_config *read, int world, const char *only, tess_probe_findings *findings);

#endif
