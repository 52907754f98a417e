/* Computes learning-rate schedules: a linear warm-up, then a shape. Steps are 1..steps. The warm-up reaches the full
 * rate at step warmup_steps, the decay reaches the lowest rate at step `steps`. */
#include "tessera/optim.h"

#include <math.h>

static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* How far the step is from `begin` (0) to `end` (1). */
static double progress(int64_t step, int64_t begin, int64_t end)
{
    return end > begin ? clamp01((double)(step - begin) / (double)(end - begin)) : step >= end;
}

double tess_schedule_lr(const tess_schedule *s, int64_t step)
{
    if (step < s->warmup_steps)
        return s->lr * (double)(step > 0 ? step : 0) / (double)s->warmup_steps;
    double left = 1; /* fraction between the lowest rate (0) and the full rate (1) */
    switch (s->kind) {
    case TESS_SCHEDULE_CONSTANT:
        break;
    case TESS_SCHEDULE_LINEAR:
        left = 1 - progress(step, s->warmup_steps, s->steps);
        break;
    case TESS_SCHEDULE_COSINE:
        left = 0.5 * (1 + cos(acos(-1.0) * progress(step, s->warmup_steps, s->steps)));
        break;
    case TESS_SCHEDULE_WSD: {
        int64_t decay_begin = s->steps - s->decay_steps;
        left = 1 - progress(step, decay_begin > s->warmup_steps ? decay_begin : s->warmup_steps, s->steps);
        break;
    }
    }
    return s->lr * (s->min_lr_factor + (1 - s->min_lr_factor) * left);
}
