#include "verify/on_policy_choice.h"

#include <math.h>

#include "base/core/options.h"

static const double large_model_percent = 20, tight_budget_percent = 25;
static const double acceptable_below = 20, thinkable_below = 40;

static const char *const algorithms[] = {"ppo", "grpo", "dpo", "sft"};
static const char *const sizes[] = {"small", "medium", "large"};
static const char *const budgets[] = {"tight", "medium", "abundant"};

tess_status tess_on_policy_question_parse(const char *algorithm, const char *size, const char *budget,
                                          double acceptable_percent, tess_on_policy_question *q)
{
    int a, s, b;
    TESS_TRY(tess_options_choose("algorithm", algorithm, algorithms, 4, &a));
    TESS_TRY(tess_options_choose("size", size, sizes, 3, &s));
    TESS_TRY(tess_options_choose("budget", budget, budgets, 3, &b));
    TESS_CHECK(isfinite(acceptable_percent) && acceptable_percent >= 0, TESS_E_INVALID,
               "an acceptable slowdown of %g%%: state what may be paid, 0 or more", acceptable_percent);
    *q = (tess_on_policy_question){(tess_algorithm_kind)a, (tess_size_class)s, (tess_budget)b, acceptable_percent};
    return TESS_OK;
}

static void add_reason(tess_on_policy_answer *a, const char *text)
{
    a->reasons[a->n_reasons++] = text;
}

static void add_alternative(tess_on_policy_answer *a, const char *text)
{
    a->alternatives[a->n_alternatives++] = text;
}

static void refuse(tess_on_policy_answer *a, const char *reason)
{
    a->use = false;
    a->confidence = TESS_CONFIDENCE_MEDIUM;
    add_reason(a, reason);
}

tess_on_policy_answer tess_on_policy_choose(const tess_on_policy_question *q)
{
    tess_on_policy_answer a = {.confidence = TESS_CONFIDENCE_LOW};
    if (q->algorithm == TESS_KIND_DPO || q->algorithm == TESS_KIND_SFT) {
        add_reason(&a, "the algorithm draws nothing from the policy that it trains");
        add_alternative(&a, "standard training");
        return a;
    }
    a.use = true;
    a.confidence = TESS_CONFIDENCE_HIGH;
    add_reason(&a, "ratios of PPO and GRPO are 1 where the policy that draws is the one that trains");
    if (q->size == TESS_SIZE_LARGE && q->acceptable_percent < large_model_percent)
        refuse(&a, "a large model pays more than the 20% that may not be paid");
    else if (q->size == TESS_SIZE_LARGE)
        add_reason(&a, "it helps a large model to stay stable");
    if (q->budget == TESS_BUDGET_TIGHT && q->acceptable_percent < tight_budget_percent)
        refuse(&a, "a tight budget cannot pay 25%");
    else if (q->budget == TESS_BUDGET_TIGHT)
        add_reason(&a, "the budget is tight: weigh the slowdown against fewer runs that diverge");
    else if (q->budget == TESS_BUDGET_ABUNDANT)
        add_reason(&a, "the budget allows it");
    if (a.use)
        return a;
    add_alternative(&a, "give the generator new weights every N steps");
    add_alternative(&a, "watch the policy lag, and do so when it grows");
    add_alternative(&a, "exact on-policy in evaluation alone");
    return a;
}

const char *tess_confidence_name(tess_confidence confidence)
{
    static const char *const names[] = {"low", "medium", "high"};
    return names[confidence];
}

double tess_on_policy_slowdown(double standard, double exact)
{
    return (exact / standard - 1) * 100;
}

const char *tess_on_policy_cost_band(double slowdown_percent)
{
    if (slowdown_percent < acceptable_below)
        return "acceptable (below 20%)";
    return slowdown_percent < thinkable_below ? "large (20 to 40%): consider whether it is worth it"
                                              : "too large (40% or more): it needs to be made faster";
}
