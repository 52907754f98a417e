/* The plan for what the ranks of a run print (control/launch/output), from the configuration. */
#ifndef TESS_CONTROL_LAUNCH_OUTPUT_RUN_OUTPUT_H
#define TESS_CONTROL_LAUNCH_OUTPUT_RUN_OUTPUT_H

#include "config/config.h"
#include "control/launch/output/output_plan.h"

typedef struct tess_run_output {
    tess_output_plan plan; /* points into the configuration and to `folder` */
    char folder[4096];
} tess_run_output;

/* Whether the configuration asks for files, so that the first rank's output is kept, too. */
bool tess_run_output_is_asked(const tess_config *config);
/* Makes the plan, which lives as long as config and *output. joins: another launcher has started the ranks and has
 * their output. TESS_E_INVALID: a text is not in torchrun's syntax, or that launcher is to keep the output. */
tess_status tess_run_output_plan(const tess_config *config, bool joins, tess_run_output *output);

#endif
