/* Advice on the settings, from the figures of the steps that this process has seen. Not thread-safe. */
#ifndef TESS_RL_ADVICE_H
#define TESS_RL_ADVICE_H

#include "rl/algo/rl_tuner.h"
#include "tessera/memory.h"

/* All zero: no step yet. */
typedef struct rl_advice {
    tess_tuner_step *steps; /* (n) owned */
    size_t n, room;
    unsigned held; /* bit k: advice of kind k held after the newest step */
} rl_advice;

/* Adds the figures of a step, which are copied. */
tess_status rl_advice_add(tess_mem *mem, rl_advice *advice, const tess_tuner_step *step);

/* Diagnoses all steps. Writes the advice that did not hold after the previous call, and returns its number. */
int rl_advice_news(rl_advice *advice, const tess_tuner_limits *limits, tess_advice news[TESS_ADVICE_MAX]);

void rl_advice_free(tess_mem *mem, rl_advice *advice);

#endif
