/* What people are told of a step that is no number. */
#include <stdio.h>

#include "train/numbers/numbers_impl.h"

static void describe_place(const tess_numbers *n, const tess_replay *replay, char *text, size_t size)
{
    const tess_bad_number *b = &replay->first;
    const tess_config *c = n->engine->config;
    char where[96] = "", others[64] = "";
    if (b->stage == TESS_BAD_NONE || b->stage == TESS_BAD_LOSS) {
        snprintf(text, size, b->stage == TESS_BAD_LOSS ? "the loss of rank %d" : "no single value", b->rank);
        return;
    }
    if (b->stage == TESS_BAD_COMPUTED || b->stage == TESS_BAD_GRADIENT)
        snprintf(where, sizeof(where), ", micro-batch %lld of 0..%lld", (long long)b->micro,
                 (long long)(c->training.global_batch_size / c->training.local_batch_size - 1));
    if (b->stage == TESS_BAD_SUM && replay->culprit < 0 && !replay->repeats)
        snprintf(others, sizeof(others), "; who made it is not known, numbers.check=always would tell");
    else if (replay->n_ranks > 1)
        snprintf(others, sizeof(others), "; %d ranks see it at this place", replay->n_ranks);
    snprintf(text, size, "rank %d%s%s: %s is %g at row %lld, column %lld (%lld of %lld values are bad%s)", b->rank,
             b->stage == TESS_BAD_SUM ? " owns the rows" : "", where, b->tensor, b->value, (long long)b->row,
             (long long)b->column, (long long)b->n_bad, (long long)b->n_values, others);
}

static const char *advice(const tess_replay *replay)
{
    if (!replay->repeats)
        return "the same computation was well the second time: a fault of memory or processor, or a race; `tessera "
               "doctor preflight` checks the machine";
    switch (replay->first.stage) {
    case TESS_BAD_WEIGHT:
        return "the weights were bad before this step: go back to a checkpoint";
    case TESS_BAD_COMPUTED:
        return "all weights were finite: lower optimizer.lr, or look at this micro-batch's data";
    default:
        return "every micro-batch was finite, their sum is too large: lower optimizer.lr";
    }
}

void tess_bad_describe(const tess_numbers *n, const tess_engine_report *report, const tess_replay *replay, char *text,
                       size_t size)
{
    char place[512];
    describe_place(n, replay, place, sizeof(place));
    snprintf(text, size, "step %lld: loss %g, gradient norm %g: %s %s; %s", (long long)n->engine->step + 1,
             report->loss, report->grad_norm,
             replay->repeats ? "first came" : "computed again it is well; what was seen first:", place, advice(replay));
}
