#include "recover/ladder.h"

#include <stdio.h>

void tess_ladder_begin(tess_ladder *ladder, tess_ladder_recompute recompute, int64_t every_n, int64_t local_batch,
                       int64_t global_batch)
{
    *ladder = (tess_ladder){.recompute = recompute,
                            .every_n = every_n,
                            .local_batch = local_batch,
                            .global_batch = global_batch,
                            .same_bits = true};
    if (recompute == TESS_LADDER_EVERY_N && every_n == 1)
        ladder->recompute = TESS_LADDER_FULL;
}

static int64_t largest_proper_divisor(int64_t n)
{
    for (int64_t factor = 2; factor * factor <= n; factor++)
        if (n % factor == 0)
            return n / factor;
    return 1;
}

bool tess_ladder_climb(tess_ladder *ladder)
{
    if (ladder->recompute == TESS_LADDER_NONE || (ladder->recompute == TESS_LADDER_EVERY_N && ladder->every_n > 2)) {
        ladder->recompute = TESS_LADDER_EVERY_N;
        ladder->every_n = 2;
    } else if (ladder->recompute == TESS_LADDER_EVERY_N) {
        ladder->recompute = TESS_LADDER_FULL;
    } else if (ladder->local_batch > 1 && largest_proper_divisor(ladder->local_batch) >= ladder->least_batch) {
        ladder->local_batch = largest_proper_divisor(ladder->local_batch);
        ladder->same_bits = false;
    } else {
        return false;
    }
    ladder->n_rungs++;
    return true;
}

int tess_ladder_overrides(const tess_ladder *ladder, char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT])
{
    int n = 0;
    if (ladder->n_rungs == 0)
        return 0;
    snprintf(overrides[n++], TESS_LADDER_TEXT, "activation_checkpoint.mode=%s",
             ladder->recompute == TESS_LADDER_FULL ? "full" : "every_n");
    if (ladder->recompute == TESS_LADDER_EVERY_N)
        snprintf(overrides[n++], TESS_LADDER_TEXT, "activation_checkpoint.every_n=%lld", (long long)ladder->every_n);
    if (ladder->same_bits)
        return n;
    snprintf(overrides[n++], TESS_LADDER_TEXT, "training.local_batch_size=%lld", (long long)ladder->local_batch);
    /* Set even if the configuration derived it: it must not change. */
    snprintf(overrides[n++], TESS_LADDER_TEXT, "training.global_batch_size=%lld", (long long)ladder->global_batch);
    return n;
}

const char *tess_ladder_report(const tess_ladder *ladder, char *text, size_t size)
{
    if (!ladder->same_bits)
        snprintf(text, size,
                 "training.local_batch_size=%lld from here on, the global batch stays %lld rows: NOT the bits of the "
                 "run so far, sums of gradients are rounded in another order",
                 (long long)ladder->local_batch, (long long)ladder->global_batch);
    else if (ladder->recompute == TESS_LADDER_EVERY_N)
        snprintf(text, size, "activation_checkpoint.mode=every_n, every_n=%lld from here on: slower, the same bits",
                 (long long)ladder->every_n);
    else
        snprintf(text, size, "activation_checkpoint.mode=full from here on: slower, the same bits");
    return text;
}
