#include "control/recover/ladder.h"

#include <stdarg.h>
#include <stdio.h>

/* The part of a layer that is cheapest to recompute: no attention, and little compared with the feed-forward part,
 * whose rung is every second layer. */
#define SELECTED "attention_inputs,residual"

void tess_ladder_begin(tess_ladder *ladder, tess_ladder_recompute recompute, int64_t every_n, int64_t local_batch,
                       int64_t global_batch)
{
    *ladder = (tess_ladder){.recompute = recompute,
                            .every_n = every_n,
                            .local_batch = local_batch,
                            .global_batch = global_batch,
                            .chose = recompute == TESS_LADDER_SELECTIVE,
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

/* Moves to the next rung of recomputation. Every second layer may keep more than the configuration has selected, so
 * that rung may be skipped; recomputing all layers never keeps more. */
static bool recompute_more(tess_ladder *ladder)
{
    bool every_second = (ladder->recompute == TESS_LADDER_SELECTIVE && !ladder->chose) ||
                        (ladder->recompute == TESS_LADDER_EVERY_N && ladder->every_n > 2);
    if (ladder->recompute == TESS_LADDER_FULL)
        return false;
    if (ladder->recompute == TESS_LADDER_NONE) {
        ladder->recompute = TESS_LADDER_SELECTIVE;
    } else if (every_second) {
        ladder->recompute = TESS_LADDER_EVERY_N;
        ladder->every_n = 2;
    } else {
        ladder->recompute = TESS_LADDER_FULL;
    }
    ladder->newest = TESS_LADDER_RECOMPUTED;
    return true;
}

static bool offload_more(tess_ladder *ladder)
{
    for (unsigned what = 1; what < TESS_LADDER_DISK_END; what <<= 1)
        if (ladder->may_offload & ~ladder->offloaded & what) {
            ladder->offloaded |= what;
            ladder->newest = TESS_LADDER_OFFLOADED;
            return true;
        }
    return false;
}

static bool shrink_batch(tess_ladder *ladder)
{
    int64_t smaller = largest_proper_divisor(ladder->local_batch);
    if (ladder->local_batch == 1 || smaller < ladder->least_batch)
        return false;
    ladder->local_batch = smaller;
    ladder->same_bits = false;
    ladder->newest = TESS_LADDER_SHRUNK;
    return true;
}

bool tess_ladder_climb(tess_ladder *ladder)
{
    bool climbed = recompute_more(ladder) || offload_more(ladder) || shrink_batch(ladder);
    ladder->n_rungs += climbed;
    return climbed;
}

typedef struct override_list {
    char (*text)[TESS_LADDER_TEXT];
    int n;
} override_list;

__attribute__((format(printf, 2, 3))) static void add(override_list *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(list->text[list->n++], TESS_LADDER_TEXT, format, arguments);
    va_end(arguments);
}

static void add_recompute(const tess_ladder *ladder, override_list *list)
{
    static const char *const modes[] = {"none", "selective", "every_n", "full"};
    add(list, "activation_checkpoint.mode=%s", modes[ladder->recompute]);
    if (ladder->recompute == TESS_LADDER_SELECTIVE)
        add(list, "activation_checkpoint.recompute=" SELECTED);
    if (ladder->recompute == TESS_LADDER_EVERY_N)
        add(list, "activation_checkpoint.every_n=%lld", (long long)ladder->every_n);
    if (ladder->chose && ladder->recompute != TESS_LADDER_SELECTIVE) {
        add(list, "activation_checkpoint.recompute=");
        add(list, "activation_checkpoint.budget=0");
    }
}

int tess_ladder_overrides(const tess_ladder *ladder, char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT])
{
    override_list list = {overrides, 0};
    if (ladder->n_rungs == 0)
        return 0;
    add_recompute(ladder, &list);
    if (ladder->offloaded & TESS_LADDER_ACTIVATIONS)
        add(&list, "offload.activations=true");
    if (ladder->offloaded & TESS_LADDER_OPTIMIZER)
        add(&list, "offload.optimizer=true");
    if (ladder->offloaded & TESS_LADDER_PARAMS) {
        add(&list, "offload.params=true");
        add(&list, "offload.grads=true");
    }
    if (ladder->same_bits)
        return list.n;
    add(&list, "training.local_batch_size=%lld", (long long)ladder->local_batch);
    /* Set even if the configuration derived it, because it must not change. */
    add(&list, "training.global_batch_size=%lld", (long long)ladder->global_batch);
    return list.n;
}

static const char *newest_on_disk(const tess_ladder *ladder)
{
    return ladder->offloaded >= TESS_LADDER_PARAMS      ? "offload.params=true, offload.grads=true"
           : ladder->offloaded >= TESS_LADDER_OPTIMIZER ? "offload.optimizer=true"
                                                        : "offload.activations=true";
}

const char *tess_ladder_report(const tess_ladder *ladder, char *text, size_t size)
{
    if (ladder->newest == TESS_LADDER_SHRUNK)
        snprintf(text, size,
                 "training.local_batch_size=%lld from here on, the global batch stays %lld rows: NOT the bits of the "
                 "run so far, sums of gradients are rounded in another order",
                 (long long)ladder->local_batch, (long long)ladder->global_batch);
    else if (ladder->newest == TESS_LADDER_OFFLOADED)
        snprintf(text, size, "%s from here on: slower, the same bits", newest_on_disk(ladder));
    else if (ladder->recompute == TESS_LADDER_SELECTIVE)
        snprintf(text, size,
                 "activation_checkpoint.mode=selective, recompute=" SELECTED " from here on: slower, the same bits");
    else if (ladder->recompute == TESS_LADDER_EVERY_N)
        snprintf(text, size, "activation_checkpoint.mode=every_n, every_n=%lld from here on: slower, the same bits",
                 (long long)ladder->every_n);
    else
        snprintf(text, size, "activation_checkpoint.mode=full from here on: slower, the same bits");
    return text;
}
