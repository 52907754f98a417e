/* Gradients by their elements, as torch.nn.utils.clip_grad_value_. */
#ifndef TESS_OPTIM_CLIP_H
#define TESS_OPTIM_CLIP_H

#include "base/os/threads.h"

/* Each g (n) into [-most, most]; a NaN stays one. Done again it changes nothing. */
void tess_clip_values(tess_threads *threads, float *g, int64_t n, float most);

#endif
