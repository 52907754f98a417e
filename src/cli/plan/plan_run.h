/* The commands of `tessera plan` load a configuration, its model, a machine and a planner first, and free them last. */
#ifndef TESS_CLI_PLAN_PLAN_RUN_H
#define TESS_CLI_PLAN_PLAN_RUN_H

#include "cli/plan/load_machine.h"
#include "config/config.h"
#include "plan/plan.h"

typedef struct cli_plan_run {
    tess_mem *mem;
    tess_config config;
    tess_model_config model;
    tess_kernel_times times; /* those of this machine, if the plan is for it */
    char times_path[CLI_TIMES_PATH];
    tess_machine machine; /* borrows `times` */
    tess_planner *planner;
} cli_plan_run;

/* Loads a configuration, from a file if the first word is a path, and its model. */
tess_status cli_plan_run_load(cli_plan_run *run, char *const *words, int n_words);
/* Loads the machine of --machine, and the times from the folder `cache` if it is this machine (load_machine.h), and
 * makes the planner. */
tess_status cli_plan_run_on(cli_plan_run *run, const char *machine, const char *cache, double price);
/* Fixes the rows of a step, so that layouts of the same configuration have equal ones. */
tess_status cli_plan_run_fix_batch(cli_plan_run *run, int n_ranks);
/* Returns the plan's request, which borrows the run. */
tess_plan_request cli_plan_run_request(const cli_plan_run *run, int n_ranks);
void cli_plan_run_end(cli_plan_run *run);

#endif
