/* Clips gradients element by element, as torch.nn.utils.clip_grad_value_. */
#ifndef TESS_OPTIM_CLIP_H
#define TESS_OPTIM_CLIP_H

#include "base/os/threads.h"

/* Limits each g (n) to [-most, most]; NaN stays NaN. Doing it twice has no further effect. */
void tess_clip_values(tess_threads *threads, float *g, int64_t n, float most);

#endif
