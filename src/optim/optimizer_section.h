/* Options of the optimizer, and of its learning rate over the steps. */
#ifndef TESS_OPTIM_OPTIMIZER_SECTION_H
#define TESS_OPTIM_OPTIMIZER_SECTION_H

#include "base/core/options.h"

typedef struct tess_optimizer_section {
    int name; /* tess_optimizer_kind */
    double lr, beta1, beta2, eps, weight_decay, momentum;
    bool nesterov;
    int muon_rate, state_dtype; /* tess_muon_rate, tess_precision */
} tess_optimizer_section;

typedef struct tess_lr_scheduler_section {
    int64_t warmup_steps, steps;
    int decay_type; /* tess_schedule_kind */
    double min_lr_factor, decay_ratio;
} tess_lr_scheduler_section;

/* The steps of the learning rate's schedule, in a run of `training_steps`. */
static inline int64_t tess_lr_scheduler_steps(const tess_lr_scheduler_section *scheduler, int64_t training_steps)
{
    return scheduler->steps > 0 ? scheduler->steps : training_steps;
}

/* Sets the warm-up that was left open, and shortens one that is longer than the schedule. */
void tess_lr_scheduler_fit(tess_lr_scheduler_section *scheduler, int64_t training_steps);

extern const tess_option_section tess_section_optimizer;
extern const tess_option_section tess_section_lr_scheduler;

#endif
