/* The loss that a step of reinforcement learning minimises, and the step's metrics over all ranks. */
#include <math.h>
#include <string.h>

#include "rl/rl_micro.h"
#include "tessera/comm.h"

static bool needs_whole(const rl *r)
{
    return rl_has_pairs(r->config) || tess_policy_needs_whole(&r->policy);
}

/* Returns the number of micro-batches whose sums this rank counts. If ranks divide the tokens, each counts its own. If
 * they are sums of whole samples (`whole`), every rank has the same ones, and only the first counts them. */
static int64_t n_counted(const rl *r, bool whole)
{
    const bool counts = tess_engine_counts(r->engine) && (!whole || r->engine->at.place[TESS_AXIS_CP] == 0);
    return counts ? r->micro->n_own : 0;
}

/* ---- Pairs ---- */
static tess_status grade_pairs(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                               float *dlogprob, float *dentropy)
{
    rl_micro_batch *b = self;
    const tess_dpo_options options = rl_dpo_of(b->r->config);
    const tess_dpo_rows rows = {.n_rows = b->rows.n_rows,
                                .n_pairs = b->rows.n_seqs / 2,
                                .cu = b->cu,
                                .mask = b->mask,
                                .reference = b->rows.reference};
    (void)begin, (void)n, (void)entropy, (void)dentropy; /* all rows in one call */
    memset(&b->pair_sums, 0, sizeof(b->pair_sums));
    return tess_dpo_grade(&options, &rows, logprob, dlogprob, &b->pair_sums);
}

static tess_status judge_pairs(rl *r, tess_engine_report *report)
{
    int64_t all[TESS_DPO_SUM_WORDS] = {0};
    tess_dpo_sums sums;
    for (int64_t i = 0; i < n_counted(r, needs_whole(r)); i++) {
        const rl_micro_batch *b = &r->micro->own[i];
        int64_t words[TESS_DPO_SUM_WORDS];
        if (b->r == NULL)
            continue;
        tess_dpo_sums_pack(&b->pair_sums, words);
        for (int k = 0; k < TESS_DPO_SUM_WORDS; k++)
            all[k] += words[k];
    }
    TESS_TRY(tess_all_reduce(r->team, all, all, TESS_DPO_SUM_WORDS, TESS_I64, TESS_SUM, NULL));
    tess_dpo_sums_unpack(all, &sums);
    report->loss = tess_exact_value(&sums.sum[TESS_DPO_SUM_LOSS]) / report->divisor;
    rl_report_pairs(r, &sums);
    return rl_report_drift(r);
}

/* ---- Values ---- */
/* A critic's loss is the mean over the step's rows. If the value head is on the policy, the step has the policy's
 * divisor, and the mean is multiplied by the loss's coefficient. */
static float scale_of(const rl *r)
{
    const rl_micro_batches *m = r->micro;
    if (!rl_shares_trunk(r->config))
        return 1;
    return m->n_valued > 0 ? (float)(r->config->critic.coef * m->divisor / (double)m->n_valued) : 0;
}

tess_status rl_grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    rl_micro_batch *b = self;
    const float scale = scale_of(b->r);
    memset(&b->value_sums, 0, sizeof(b->value_sums)); /* a step may run again */
    TESS_TRY(tess_value_grade(b->r->config->rl.value_clip, b->valued, value, b->value, b->returns, n, dvalue,
                              &b->value_sums));
    for (int64_t t = 0; t < n; t++)
        dvalue[t] *= scale;
    return TESS_OK;
}

tess_status rl_values_sum(rl *r)
{
    int64_t all[TESS_VALUE_SUM_WORDS] = {0}, words[TESS_VALUE_SUM_WORDS];
    for (int64_t i = 0; i < n_counted(r, true); i++) {
        if (r->micro->own[i].r == NULL)
            continue;
        tess_value_sums_pack(&r->micro->own[i].value_sums, words);
        for (int k = 0; k < TESS_VALUE_SUM_WORDS; k++)
            all[k] += words[k];
    }
    TESS_TRY(tess_all_reduce(r->team, all, all, TESS_VALUE_SUM_WORDS, TESS_I64, TESS_SUM, NULL));
    tess_value_sums_unpack(all, &r->value_sums);
    return TESS_OK;
}

/* ---- Samples ---- */
static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    rl_micro_batch *b = self;
    const rl_rows *rows = &b->r->rows;
    if (b->first_begin < 0 || begin == b->first_begin) { /* a step may run again */
        b->first_begin = begin;
        memset(&b->sums, 0, sizeof(b->sums));
        b->n_checked = b->n_differ = 0;
        b->first_differs = INT64_MAX;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = b->place[begin + i];
        if (!b->mask[begin + i] || rows->version[at] != b->r->engine->step)
            continue;
        b->n_checked++;
        if (memcmp(&logprob[i], &b->drawn[begin + i], sizeof(float)) == 0)
            continue;
        b->n_differ++;
        b->first_differs = at < b->first_differs ? at : b->first_differs;
    }
    return tess_policy_grade(&b->r->policy, &b->rows, begin, n, logprob, entropy, dlogprob, dentropy, &b->sums);
}

/* The values that are added over ranks. */
typedef struct judgement {
    int64_t words[TESS_POLICY_SUM_WORDS], checked, differ;
} judgement;

static tess_status sum_up(rl *r, judgement *all, tess_policy_sums *sums, int64_t *first_differs)
{
    const rl_micro_batches *m = r->micro;
    memset(all, 0, sizeof(*all));
    memset(sums, 0, sizeof(*sums));
    *first_differs = INT64_MAX;
    for (int64_t i = 0; i < n_counted(r, needs_whole(r)); i++) {
        const rl_micro_batch *b = &m->own[i];
        int64_t words[TESS_POLICY_SUM_WORDS];
        if (b->r == NULL)
            continue;
        tess_policy_sums_pack(&b->sums, words);
        for (int k = 0; k < TESS_POLICY_SUM_WORDS; k++)
            all->words[k] += words[k];
        for (int k = 0; k < TESS_POLICY_MAX_COUNT; k++)
            sums->max[k] = fmaxf(sums->max[k], b->sums.max[k]);
        all->checked += b->n_checked;
        all->differ += b->n_differ;
        *first_differs = b->first_differs < *first_differs && b->n_differ > 0 ? b->first_differs : *first_differs;
    }
    TESS_TRY(tess_all_reduce(r->team, all, all, sizeof(*all) / sizeof(int64_t), TESS_I64, TESS_SUM, NULL));
    TESS_TRY(tess_all_reduce(r->team, sums->max, sums->max, TESS_POLICY_MAX_COUNT, TESS_F32, TESS_MAX, NULL));
    TESS_TRY(tess_all_reduce(r->team, first_differs, first_differs, 1, TESS_I64, TESS_MIN, NULL));
    tess_policy_sums_unpack(all->words, sums);
    return TESS_OK;
}

/* Training and drawing are the same function of the same weights: any difference is a fault of the program or the
 * machine. */
static tess_status check_on_policy(const rl *r, const judgement *all, const tess_policy_sums *sums, int64_t place)
{
    int64_t i = 0;
    if (all->differ == 0 || r->config->rl.on_mismatch != TESS_MISMATCH_STOP)
        return TESS_OK;
    while (r->rows.begin[i + 1] <= place)
        i++;
    return TESS_FAIL(
        TESS_E_INVALID,
        "training and rollout disagree: %lld of %lld tokens have another log-probability (by up to %g); the "
        "first is token %lld of sample %lld, drawn with %g. `tessera verify on-policy` finds the layer; "
        "rl.on_mismatch=correct goes on with a correction",
        (long long)all->differ, (long long)all->checked, (double)sums->max[TESS_POLICY_MAX_DIFF],
        (long long)(place - r->rows.begin[i] + 1), (long long)r->rows.samples[i]->number, (double)r->rows.drawn[place]);
}

static tess_status judge_samples(rl *r, tess_engine_report *report)
{
    judgement all;
    tess_policy_sums sums;
    int64_t first_differs;
    TESS_TRY(sum_up(r, &all, &sums, &first_differs));
    report->loss = tess_policy_loss(&r->policy, &sums, r->micro->divisor);
    if (rl_shares_trunk(r->config)) {
        TESS_TRY(rl_values_sum(r));
        report->loss += r->config->critic.coef * tess_value_mean_loss(&r->value_sums);
    }
    r->figures.loss = report->loss;
    rl_report_step(r, &sums, r->micro->divisor, all.checked, all.differ);
    TESS_TRY(rl_report_drift(r));
    return check_on_policy(r, &all, &sums, first_differs);
}

/* Adapts the weight of the divergence for the following steps to the policy's divergence in this rollout. */
static double next_beta(rl *r)
{
    const tess_config *c = r->config;
    tess_kl_controller controller = {r->training.kl_beta, c->rl.kl_target, c->rl.kl_horizon};
    if ((r->engine->step + 1) % rl_steps_per_rollout(c) != 0)
        return r->training.kl_beta;
    if (c->rl.kl_target > 0 && r->reference != NULL && !rl_has_pairs(c))
        tess_kl_controller_update(&controller, r->figures.kl, r->rows.n_seqs);
    return r->next.kl_beta = controller.beta;
}

tess_status rl_judge(void *self, tess_engine_report *report)
{
    rl *r = self;
    TESS_TRY(rl_has_pairs(r->config) ? judge_pairs(r, report) : judge_samples(r, report));
    report->carry = next_beta(r);
    return TESS_OK;
}

tess_token_loss rl_loss_of(rl_micro_batch *b)
{
    const bool pairs = rl_has_pairs(b->r->config);
    return (tess_token_loss){.self = b,
                             .inv_temperature = rl_inv_temperature(b->r->config),
                             .whole = needs_whole(b->r),
                             .grade = pairs ? grade_pairs : grade,
                             .grade_values = rl_shares_trunk(b->r->config) ? rl_grade_values : NULL};
}
