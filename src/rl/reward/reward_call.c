/* Turns graders' answers about a call's items into results. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rl/reward/reward_impl.h"

tess_status reward_too_many(int64_t failed, int64_t n_all, double max_failures, const char *newest)
{
    char text[sizeof(((tess_reward_failures *)NULL)->newest)];
    snprintf(text, sizeof(text), "%s", newest); /* it may be part of the message that this one replaces */
    return TESS_FAIL(TESS_E_INVALID, "%lld of %lld rewards failed, reward.max_failures allows %g of them; %s",
                     (long long)failed, (long long)n_all, max_failures, text);
}

tess_status reward_call_failed(reward_call *call, int64_t i, const char *grader)
{
    tess_reward_result *result = &call->out[i];
    char message[sizeof(call->failures->newest)];
    snprintf(message, sizeof(message), "%s", tess_error_message());
    unsigned long long id = (unsigned long long)call->items[i].id;
    *result = (tess_reward_result){0};
    snprintf(result->why, sizeof(result->why), "%s: %s", grader, message);
    snprintf(call->failures->newest, sizeof(call->failures->newest), "grader '%s', item %llu: %s", grader, id, message);
    call->failures->n_failed++;
    if (++call->failed > call->allowed)
        return reward_too_many(call->failed, call->n_all, call->max_failures, call->failures->newest);
    tess_error_clear();
    return TESS_OK;
}

tess_status reward_call_answered(reward_call *call, int64_t i, const char *grader, double weight,
                                 const reward_answer *answer)
{
    tess_reward_result *result = &call->out[i];
    if (answer->is_null) {
        result->scored = false;
        return TESS_OK;
    }
    double value = result->value + weight * answer->value;
    const bool fits = result->n_parts + answer->n_parts <= TESS_REWARD_PARTS;
    if (!fits)
        TESS_FAIL(TESS_E_FORMAT, "more than %d rewards for one item", TESS_REWARD_PARTS);
    else if (!isfinite(value))
        TESS_FAIL(TESS_E_FORMAT, "the weighted sum of the rewards is not finite");
    if (!fits || !isfinite(value))
        return reward_call_failed(call, i, grader);
    memcpy(result->part + result->n_parts, answer->part, (size_t)answer->n_parts * sizeof(answer->part[0]));
    result->n_parts += answer->n_parts;
    result->value = value;
    return TESS_OK;
}
