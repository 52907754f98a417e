/* Options of the optimizer, and of its learning rate over the steps. */
#ifndef TESS_OPTIM_OPTIMIZER_SECTION_H
#define TESS_OPTIM_OPTIMIZER_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_OPTIMIZER_OPTIONS(OPTION)                                                                                 \
    /* tess_optimizer_kind */                                                                                          \
    OPTION(CHOICE, optimizer, name, LAYOUT_AND_BITS, "adamw", "adamw|adam|sgd|muon|adamw8bit",                         \
           "update rule; muon updates matrices of layers, and adamw the rest; adamw8bit keeps 8-bit moments for "      \
           "matrices of layers")                                                                                       \
    OPTION(FLOAT, optimizer, lr, BITS, "3e-4", 0, 1e6, "peak learning rate; 1e-6 by default in `tessera rl`")          \
    OPTION(FLOAT, optimizer, beta1, LAYOUT_AND_BITS, "0.9", 0, 0.999999, "decay of the first moment")                  \
    OPTION(FLOAT, optimizer, beta2, LAYOUT_AND_BITS, "0.95", 0, 0.999999, "decay of the second moment")                \
    OPTION(FLOAT, optimizer, eps, LAYOUT_AND_BITS, "1e-8", 0, 1,                                                       \
           "number that is added to the root of the second moment")                                                    \
    OPTION(FLOAT, optimizer, weight_decay, LAYOUT_AND_BITS, "0.1", 0, 1e3,                                             \
           "weight decay, decoupled from the gradient (adam and sgd add it to the gradient); norms and biases have "   \
           "none")                                                                                                     \
    OPTION(FLOAT, optimizer, momentum, LAYOUT_AND_BITS, "0.95", 0, 0.999999,                                           \
           "momentum of sgd and muon; 0: sgd has no state")                                                            \
    OPTION(BOOL, optimizer, nesterov, LAYOUT_AND_BITS, "true", "use Nesterov's momentum in sgd and muon")              \
    /* tess_muon_rate */                                                                                               \
    OPTION(                                                                                                            \
        CHOICE, optimizer, muon_rate, LAYOUT_AND_BITS, "match_rms", "match_rms|original",                              \
        "muon's step for a matrix of R by C: lr 0.2 sqrt(max(R, C)), as far as adamw; or lr sqrt(max(1, R / C))")      \
    /* tess_precision */                                                                                               \
    OPTION(CHOICE, optimizer, state_dtype, LAYOUT_AND_BITS, "float32", "bfloat16|float32",                             \
           "dtype of moments; bfloat16: rounded up or down at random, the same on any number of ranks")
/* clang-format on */

typedef struct tess_optimizer_section {
    TESS_OPTIMIZER_OPTIONS(TESS_OPTION_FIELD)
} tess_optimizer_section;

/* clang-format off */
#define TESS_LR_SCHEDULER_OPTIONS(OPTION)                                                                              \
    OPTION(INT, lr_scheduler, warmup_steps, BITS, "-1", -1, 1e12,                                                      \
           "steps of linear warm-up from 0; -1: 100, or all steps of the schedule if there are fewer")                 \
    OPTION(INT, lr_scheduler, steps, BITS, "0", 0, 1e12,                                                               \
           "length of the schedule in steps; its last learning rate is kept afterwards; 0: training.steps")            \
    /* tess_schedule_kind */                                                                                           \
    OPTION(CHOICE, lr_scheduler, decay_type, BITS, "cosine", "constant|linear|cosine|wsd",                             \
           "shape after the rise; wsd: constant, then linear over decay_ratio of the steps")                           \
    OPTION(FLOAT, lr_scheduler, min_lr_factor, BITS, "0.1", 0, 1, "last learning rate divided by the peak")            \
    OPTION(FLOAT, lr_scheduler, decay_ratio, BITS, "0.2", 0, 1, "share of the steps over which wsd decays")
/* clang-format on */

typedef struct tess_lr_scheduler_section {
    TESS_LR_SCHEDULER_OPTIONS(TESS_OPTION_FIELD)
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
