#include "rl/algo/rl_advantage.h"

#include <math.h>
#include <stddef.h>

/* Statistics of scored rewards. */
typedef struct reward_stats {
    int64_t n;
    double mean, std; /* std is 0 for fewer than two rewards */
    bool equal;
} reward_stats;

static bool has_reward(const bool *scored, int64_t i)
{
    return scored == NULL || scored[i];
}

static reward_stats stats_of(const double *reward, const bool *scored, int64_t begin, int64_t end)
{
    reward_stats stats = {.equal = true};
    double first = 0, sum = 0, squares = 0;
    for (int64_t i = begin; i < end; i++) {
        if (!has_reward(scored, i))
            continue;
        first = stats.n++ == 0 ? reward[i] : first;
        stats.equal = stats.equal && reward[i] == first;
        sum += reward[i];
    }
    if (stats.equal) { /* a rounded mean would differ from equal rewards */
        stats.mean = first;
        return stats;
    }
    stats.mean = sum / (double)stats.n;
    for (int64_t i = begin; i < end; i++)
        squares += has_reward(scored, i) ? (reward[i] - stats.mean) * (reward[i] - stats.mean) : 0;
    stats.std = sqrt(squares / (double)(stats.n - 1));
    return stats;
}

static double one_advantage(tess_advantage_kind kind, double eps, double reward, const reward_stats *group,
                            const reward_stats *step)
{
    double centred = group->n < 2 ? reward : reward - group->mean;
    switch (kind) {
    case TESS_ADV_GRPO:
        return group->n < 2 || group->equal ? centred : centred / (group->std + eps);
    case TESS_ADV_RLOO:
        return group->n < 2 ? centred : centred * (double)group->n / (double)(group->n - 1);
    case TESS_ADV_BATCH_STD:
        return step->equal ? centred : centred / (step->std + eps);
    case TESS_ADV_DR_GRPO:
    case TESS_ADV_REINFORCE_PP_BASELINE:
        return centred;
    case TESS_ADV_REINFORCE_PP:
    case TESS_ADV_GAE:
        break;
    }
    return reward;
}

static tess_status check_rewards(const double *reward, const bool *scored, int64_t n, const int64_t *group,
                                 int64_t n_groups)
{
    TESS_CHECK(n_groups >= 0 && group[0] == 0 && group[n_groups] == n, TESS_E_INVALID,
               "advantages: the %lld groups are samples %lld to %lld of %lld", (long long)n_groups, (long long)group[0],
               (long long)group[n_groups], (long long)n);
    for (int64_t g = 0; g < n_groups; g++)
        TESS_CHECK(group[g] <= group[g + 1], TESS_E_INVALID, "advantages: group %lld ends before it begins",
                   (long long)g);
    for (int64_t i = 0; i < n; i++)
        TESS_CHECK(!has_reward(scored, i) || isfinite(reward[i]), TESS_E_NOT_FINITE,
                   "advantages: the reward of sample %lld is %g; a reward that is missing is null", (long long)i,
                   reward[i]);
    return TESS_OK;
}

tess_status tess_group_advantages(tess_advantage_kind kind, double eps, const double *reward, const bool *scored,
                                  int64_t n, const int64_t *group, int64_t n_groups, double *advantage)
{
    TESS_TRY(check_rewards(reward, scored, n, group, n_groups));
    reward_stats step = stats_of(reward, scored, 0, n);
    for (int64_t g = 0; g < n_groups; g++) {
        reward_stats own = stats_of(reward, scored, group[g], group[g + 1]);
        for (int64_t i = group[g]; i < group[g + 1]; i++)
            advantage[i] = has_reward(scored, i) ? one_advantage(kind, eps, reward[i], &own, &step) : 0;
    }
    return TESS_OK;
}

double tess_overlong_penalty(int64_t length, int64_t max_length, int64_t buffer, double factor)
{
    int64_t excess = length - (max_length - buffer);
    return excess > 0 ? -factor * (double)excess / (double)buffer : 0;
}
