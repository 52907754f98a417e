/* Turns the configuration into the options of the parts of reinforcement learning, and checks that they fit together.
 */
#include <string.h>

#include "parallel/pipeline/pipeline.h"
#include "rl/rl_impl.h"
#include "rl/rl_task.h"

static tess_policy_kind policy_of(const tess_config *c)
{
    switch ((tess_rl_algorithm)c->rl.algorithm) {
    case TESS_RL_GSPO:
        return TESS_POLICY_GSPO;
    case TESS_RL_CISPO:
        return TESS_POLICY_CISPO;
    default:
        return TESS_POLICY_PPO;
    }
}

static tess_correction correction_of(const tess_config *c)
{
    const tess_correction asked = (tess_correction)c->rl.correction;
    return c->rl.on_mismatch == TESS_MISMATCH_CORRECT && asked == TESS_CORRECT_NONE ? TESS_CORRECT_TIS : asked;
}

/* The configured reduction, or the one in the paper of the algorithm. */
static tess_reduction_kind reduction_of(const tess_config *c)
{
    if (c->rl.reduction > 0)
        return (tess_reduction_kind)(c->rl.reduction - 1);
    switch ((tess_rl_algorithm)c->rl.algorithm) {
    case TESS_RL_GSPO:
        return TESS_REDUCE_SEQ_MEAN_TOKEN_MEAN;
    case TESS_RL_DR_GRPO:
        return TESS_REDUCE_CONSTANT;
    default:
        return TESS_REDUCE_TOKEN_MEAN;
    }
}

tess_policy_options rl_policy_of(const tess_config *c, double kl_beta)
{
    return (tess_policy_options){.kind = policy_of(c),
                                 .clip_low = c->rl.clip_low,
                                 .clip_high = c->rl.clip_high,
                                 .dual_clip = c->rl.dual_clip,
                                 .kl_beta = c->rl.kl_in_reward ? 0 : kl_beta,
                                 .kl = (tess_kl_kind)c->rl.kl,
                                 .entropy_coef = c->rl.entropy_coef,
                                 .correction = correction_of(c),
                                 .correction_low = c->rl.correction_low,
                                 .correction_high = c->rl.correction_high,
                                 .opsm_delta = c->rl.opsm_delta,
                                 .reduction = reduction_of(c),
                                 .constant = c->rl.constant > 0 ? c->rl.constant : (double)c->rollout.max_new_tokens};
}

tess_dpo_options rl_dpo_of(const tess_config *c)
{
    return (tess_dpo_options){.kind = (tess_dpo_kind)(c->rl.algorithm - TESS_RL_DPO),
                              .beta = c->rl.dpo_beta,
                              .label_smoothing = c->rl.label_smoothing};
}

static bool is_set(const tess_option_table *table, const tess_config *c)
{
    for (int i = 0; i < table->section->n_rows; i++)
        if (!tess_options_is_default(&table->section->rows[i], tess_options_section(table, c)))
            return true;
    return false;
}

bool tess_rl_is_meant(const tess_config *c)
{
    static const char *const sections[] = {"rollout", "reward", "rl", "reference", "critic"};
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    for (int t = 0; t < n_tables; t++)
        for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++)
            if (strcmp(tables[t].section->name, sections[s]) == 0 && is_set(&tables[t], c))
                return true;
    return false;
}

bool rl_wants_reference(const tess_config *c)
{
    return rl_has_pairs(c) || c->rl.kl_beta > 0;
}

/* Takes the memory for sums of every number of micro-batches that a step may have. It depends on how long the samples
 * are; with replicas, some numbers need an exchange of leaves, and the plan cannot know which come. */
static tess_status reserve_sums(tess_engine *e)
{
    const int64_t most = tess_config_micro_batches(e->config) * e->at.degree[TESS_AXIS_CP];
    for (int64_t n = 1; n <= most; n++)
        TESS_TRY(tess_fsdp_reserve(e->fsdp, n));
    return TESS_OK;
}

tess_status rl_models_create(tess_engine *policy, const tess_reporter *reporter, tess_reference **reference,
                             tess_critic **critic)
{
    const tess_config *c = policy->config;
    const tess_reference_options of_reference = {c->reference.path, c->reference.update_interval, c->reference.ema};
    const tess_critic_options of_critic = {.path = c->critic.path, .lr = c->critic.lr};
    if (rl_wants_reference(c))
        TESS_TRY_CTX(tess_reference_create(policy, &of_reference, reporter, reference), "reference");
    if (rl_has_values(c) && !rl_shares_trunk(c))
        TESS_TRY_CTX(tess_critic_create(policy, &of_critic, reporter, critic), "critic");
    TESS_TRY_CTX(reserve_sums(policy), "sums of gradients");
    if (*critic != NULL)
        TESS_TRY_CTX(reserve_sums(tess_critic_engine(*critic)), "sums of the critic's gradients");
    return TESS_OK;
}

static tess_status check_drawing(tess_config *c)
{
    TESS_CHECK(c->rollout.prompts % c->rl.updates == 0, TESS_E_INVALID,
               "rl.updates: %lld steps do not share %lld prompts evenly: give a divisor of rollout.prompts",
               (long long)c->rl.updates, (long long)c->rollout.prompts);
    for (int i = 0; i < c->rollout.stop.n; i++)
        TESS_CHECK(c->rollout.stop.item[i][0] != '\0', TESS_E_INVALID, "rollout.stop: an empty text ends nothing");
    TESS_CHECK(c->rollout.max_new_tokens < c->training.seq_len, TESS_E_INVALID,
               "rollout.max_new_tokens: answers of %lld tokens leave no room for a prompt in training.seq_len=%lld",
               (long long)c->rollout.max_new_tokens, (long long)c->training.seq_len);
    if (c->rollout.in_flight == 0)
        c->rollout.in_flight = 2 * c->rollout.prompts;
    TESS_CHECK(c->rollout.in_flight >= c->rollout.prompts, TESS_E_INVALID,
               "rollout.in_flight: %lld prompts under way never make a rollout of %lld",
               (long long)c->rollout.in_flight, (long long)c->rollout.prompts);
    TESS_CHECK(!c->rl.filter || c->rollout.n > 1, TESS_E_INVALID,
               "rl.filter: one sample of a prompt has no other to differ from: set rollout.n=2 or more");
    TESS_CHECK(c->rl.kl_beta == 0 || c->rl.kl != TESS_KL_K1 || c->rl.kl_in_reward, TESS_E_INVALID,
               "rl.kl=k1: its gradient says nothing on average: set rl.kl=k2 or k3, or rl.kl_in_reward=true");
    TESS_CHECK(c->rollout.budget_tokens == 0 || c->rollout.lag == 0, TESS_E_INVALID,
               "rollout.lag=1 and rollout.budget_tokens: samples that go on from rollout to rollout are drawn by the "
               "newest weights; leave one of the two out");
    if (c->rollout.max_prompt_tokens == 0)
        c->rollout.max_prompt_tokens = c->training.seq_len - c->rollout.max_new_tokens;
    return TESS_OK;
}

/* Pairs come from the data, not from the policy. */
static tess_status check_pairs(tess_config *c)
{
    c->rollout.n = 2; /* chosen, rejected */
    c->rl.updates = 1;
    TESS_CHECK(c->rollout.lag == 0 && c->rollout.budget_tokens == 0, TESS_E_INVALID,
               "rl.algorithm: pairs are not drawn: leave rollout.lag and rollout.budget_tokens out");
    TESS_CHECK(c->rl.phase == TESS_RL_BOTH, TESS_E_INVALID, "rl.phase: pairs are not drawn: there is one phase");
    TESS_CHECK(!c->rl.filter, TESS_E_INVALID, "rl.filter: pairs have no rewards that could differ");
    if (c->rollout.max_prompt_tokens == 0)
        c->rollout.max_prompt_tokens = c->training.seq_len - 1;
    return TESS_OK;
}

/* Checks the options of ranks that only draw. */
static tess_status check_ranks(tess_config *c)
{
    const long long n = (long long)c->rollout.ranks;
    if (n == 0)
        return TESS_OK;
    TESS_CHECK(!rl_has_pairs(c), TESS_E_INVALID, "rollout.ranks: pairs are not drawn: leave it out");
    TESS_CHECK(c->rl.phase == TESS_RL_BOTH, TESS_E_INVALID,
               "rollout.ranks: with rl.phase=%s no rank has anything to do beside the others: leave one of the two out",
               c->rl.phase == TESS_RL_TRAIN ? "train" : "rollout");
    TESS_CHECK(
        c->elastic.min_ranks == 0 || c->elastic.min_ranks > n, TESS_E_INVALID,
        "elastic.min_ranks: of %lld ranks, rollout.ranks=%lld leave none to train: set elastic.min_ranks=%lld or "
        "more",
        (long long)c->elastic.min_ranks, n, n + 1);
    TESS_CHECK(!c->checkpoint.memory_copies, TESS_E_INVALID,
               "checkpoint.memory_copies: memory that outlives a launch does not say which of its ranks only drew: "
               "leave it or "
               "rollout.ranks out");
    if (c->rollout.lag > 0) /* a rollout's weights are older than the weights that outlive a rank */
        c->recovery.hot = false;
    return TESS_OK;
}

static tess_status check_critic(tess_config *c)
{
    c->model.value_head = rl_shares_trunk(c);
    TESS_CHECK(
        !c->model.value_head || c->critic.path[0] == '\0', TESS_E_INVALID,
        "critic.path: with critic.trunk=shared values come from the policy's layers, and there is no other model: "
        "leave critic.path out");
    TESS_CHECK(c->training.loss_scale == 1 || !rl_has_values(c) || rl_shares_trunk(c), TESS_E_INVALID,
               "training.loss_scale: a critic with a trunk of its own would have a scale of its own, which no "
               "checkpoint holds: set critic.trunk=shared, or the scale to 1");
    return TESS_OK;
}

/* Checks recovery: state that only checkpoints hold is lost with a rank. */
static tess_status check_recovery(tess_config *c)
{
    if ((rl_has_values(c) && !rl_shares_trunk(c)) || (rl_wants_reference(c) && c->reference.update_interval > 0))
        c->recovery.hot = false;
    TESS_CHECK(
        c->recovery.hot || !c->checkpoint.memory_copies, TESS_E_INVALID,
        "checkpoint.memory_copies: a critic with a trunk of its own, and a reference that follows the policy, are "
        "kept in checkpoints alone: leave one of the two out");
    return TESS_OK;
}

/* An adapter's reference is the model without it. */
static tess_status check_adapter(const tess_config *c)
{
    if (c->lora.rank == 0 && c->lora.path[0] == '\0')
        return TESS_OK;
    TESS_CHECK(c->reference.update_interval == 0, TESS_E_INVALID,
               "reference.update_interval: with lora the reference is the model without its adapter, which never "
               "changes: leave it at 0");
    TESS_CHECK(!rl_shares_trunk(c), TESS_E_INVALID,
               "critic.trunk: with lora the policy's layers and its value head are frozen, and values could not learn: "
               "set critic.trunk=own");
    return TESS_OK;
}

/* Checks the options of ranks that have parts of the model. */
static tess_status check_parallelism(const tess_config *c)
{
    TESS_CHECK(c->rollout.ranks == 0 || (tess_config_model_ranks(c) == c->parallelism.context_parallel_degree &&
                                         c->parallelism.expert_parallel_degree == 1),
               TESS_E_UNSUPPORTED,
               "rollout.ranks: ranks that only draw have the whole model: leave it out, or set "
               "parallelism.tensor_parallel_degree=1, pipeline_parallel_degree=1 and expert_parallel_degree=1");
    TESS_CHECK(c->parallelism.tensor_parallel_degree == 1 || !rl_has_values(c), TESS_E_UNSUPPORTED,
               "rl.algorithm: a value head is not cut over tensor-parallel ranks: set "
               "parallelism.tensor_parallel_degree=1 (pipelines and every sharding strategy will do), or another "
               "algorithm");
    TESS_CHECK(c->parallelism.pipeline_parallel_schedule_csv[0] == '\0', TESS_E_UNSUPPORTED,
               "parallelism.pipeline_parallel_schedule_csv: its order is that of one number of micro-batches, and a "
               "step has as many as its samples fill: leave it out (parallelism.pipeline_parallel_schedule)");
    return TESS_OK;
}

/* Sets the rows of the largest step, whose sequences all have the maximum length. A pair stays in one micro-batch. */
static void set_batch(tess_config *c)
{
    const int64_t local = c->training.local_batch_size, n = c->rollout.prompts / c->rl.updates * c->rollout.n;
    const int64_t fit = rl_has_pairs(c) && local > 1 ? local / 2 * 2 : local;
    const tess_coordinates at = tess_coordinates_of(&c->parallelism, 0);
    int64_t n_micro = (n + fit - 1) / fit;
    const int rounds = (int)tess_coordinates_rounds(&at, n_micro);
    const int filled = tess_pipeline_fill_up((tess_pipeline_kind)c->parallelism.pipeline_parallel_schedule,
                                             at.degree[TESS_AXIS_PP], rounds);
    if (at.degree[TESS_AXIS_PP] > 1 && filled > rounds)
        n_micro = (int64_t)filled * at.n_data;
    c->training.global_batch_size = n_micro * local;
}

tess_status rl_check(tess_config *c)
{
    TESS_TRY(check_parallelism(c));
    TESS_CHECK(c->training.freeze.n == 0, TESS_E_UNSUPPORTED,
               "tessera rl trains all of the policy, or its adapter (lora.rank): leave out training.freeze");
    TESS_TRY(check_adapter(c));
    TESS_CHECK(
        c->training.mixed_precision_param != TESS_PRECISION_F16, TESS_E_UNSUPPORTED,
        "training.mixed_precision_param: samples are drawn in float32 or bfloat16 (keys and values in pages have "
        "no float16): choose one of them");
    TESS_CHECK(
        !c->training.fp8 && c->training.gather == TESS_GATHER_VALUES, TESS_E_UNSUPPORTED,
        "training.fp8: samples are drawn without it, so they would be of another policy: set training.fp8=false");
    TESS_CHECK(c->training.passes == 1, TESS_E_INVALID,
               "training.passes: a loss of sequences is of whole micro-batches: set training.passes=1 and a smaller "
               "training.local_batch_size");
    TESS_CHECK(c->model.path[0] != '\0' || c->tokenizer.path[0] != '\0', TESS_E_INVALID,
               "tokenizer.path: name the policy's tokenizer; none is trained on prompts");
    TESS_CHECK(c->data.weights.n == 0, TESS_E_INVALID,
               "data.weights: the prompts of all files are one list: leave the weights out");
    TESS_CHECK(c->validation.patience == 0, TESS_E_INVALID,
               "validation.patience: answers are graded, an evaluation has no loss: leave it out");
    TESS_CHECK(!c->rl.kl_in_reward || c->rl.kl_beta > 0, TESS_E_INVALID,
               "rl.kl_in_reward: set rl.kl_beta, its weight, too");
    TESS_TRY(check_ranks(c));
    TESS_TRY(rl_has_pairs(c) ? check_pairs(c) : check_drawing(c));
    TESS_TRY(check_critic(c));
    TESS_TRY(check_recovery(c));
    set_batch(c);
    const tess_policy_options policy = rl_policy_of(c, c->rl.kl_beta);
    const tess_dpo_options dpo = rl_dpo_of(c);
    return rl_has_pairs(c) ? tess_dpo_options_check(&dpo) : tess_policy_options_check(&policy);
}

tess_reward_options rl_reward_of(const tess_config *c)
{
    return (tess_reward_options){.kind = c->reward.kind,
                                 .regex = c->reward.regex,
                                 .format = c->reward.format,
                                 .number_fallback = c->reward.number_fallback,
                                 .max_tokens = c->rollout.max_new_tokens,
                                 .overlong_tokens = c->rl.overlong_tokens,
                                 .max_failures = c->reward.max_failures,
                                 .workers = c->reward.workers,
                                 .in_flight = c->reward.in_flight,
                                 .timeout_s = c->reward.timeout_s,
                                 .start_s = c->reward.start_s,
                                 .command = &c->reward.command,
                                 .url = c->reward.url,
                                 .header_file = c->reward.header_file,
                                 .header_env = &c->reward.header_env,
                                 .retries = c->reward.retries,
                                 .sandbox = c->reward.sandbox == TESS_SANDBOX_BWRAP ? "bwrap" : "",
                                 .readable = &c->reward.readable,
                                 .env = &c->reward.env,
                                 .user = c->reward.user,
                                 .max_answer_bytes = c->reward.max_answer_bytes,
                                 .max_memory_bytes = c->reward.max_memory_bytes,
                                 .max_cpu_s = c->reward.max_cpu_s,
                                 .max_processes = c->reward.max_processes};
}
