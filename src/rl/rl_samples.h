/* The samples of a rollout, read from a journal for people and programs. */
#ifndef TESS_RL_RL_SAMPLES_H
#define TESS_RL_RL_SAMPLES_H

#include "rl/rl_sample.h"

typedef struct rl_samples {
    tess_mem *mem;
    rl_sample *sample; /* (n) each sample once, by number, as it was last written */
    size_t n, room;
} rl_samples;

/* Reads the samples of a rollout from the newest run that drew it. Free them also after an error. A rollout without
 * files has no samples. */
tess_status rl_samples_read(tess_mem *mem, const char *folder, int64_t rollout, rl_samples *samples);
void rl_samples_free(rl_samples *samples);

#endif
