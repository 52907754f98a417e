/* What `tessera doctor preflight` makes of a configuration: its own findings, and numbers for the checks of hosts. */
#ifndef TESS_SUPERVISE_PREFLIGHT_CONFIG_H
#define TESS_SUPERVISE_PREFLIGHT_CONFIG_H

#include "doctor/probe/probe.h"
#include "train/train_config.h"

extern const tess_probe_check tess_preflight_config_checks[];
extern const int tess_preflight_n_config_checks;

typedef struct tess_preflight_config {
    const char *path; /* NULL: there is none */
    char *const *overrides;
    int n_overrides;
    tess_config config; /* the defaults where there is none, or where it is bad */
    tess_status loaded;
    char error[1024]; /* why it is bad */
    double n_params;  /* 0: not known */
    char model_error[1024];
} tess_preflight_config;

/* Reads the file and the model's sizes; `path` and `overrides` are in `read` already. What is wrong becomes a finding
 * later, so there is no status. */
void tess_preflight_read(tess_preflight_config *read);

/* Fills in what the configuration says of the plan; n_ranks of it are known. `world`: ranks in all. */
void tess_preflight_plan(const tess_preflight_config *read, int world, tess_probe_plan *plan);

/* The wanted ones of the configuration's own checks. */
void tess_preflight_look(const tess_preflight_config *read, int world, const char *only, tess_probe_findings *findings);

#endif
