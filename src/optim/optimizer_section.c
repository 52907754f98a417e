#include "optim/optimizer_section.h"

#include "base/core/option_rows.h"

SECTION(optimizer, "the update of the weights", TESS_OPTIMIZER_OPTIONS);

SECTION(lr_scheduler, "learning rate over time", TESS_LR_SCHEDULER_OPTIONS);

void tess_lr_scheduler_fit(tess_lr_scheduler_section *scheduler, int64_t training_steps)
{
    enum { DEFAULT_WARMUP = 100 };
    const int64_t steps = tess_lr_scheduler_steps(scheduler, training_steps);
    if (scheduler->warmup_steps < 0)
        scheduler->warmup_steps = DEFAULT_WARMUP;
    if (scheduler->warmup_steps > steps)
        scheduler->warmup_steps = steps;
}
