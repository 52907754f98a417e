/* Predicts the memory that a rank takes in addition to the policy's training: reference, critic, and drawing.
 * Training's activations are freed while a rank draws. */
#include "base/core/round_up.h"
#include "engine/model/adapter.h"
#include "rl/rl_impl.h"
#include "rl/sync/weight_sync.h"

enum { ALIGNMENT = 64 };

/* ---- The reference ---- */
/* Returns the bytes of the host's copy that are not mapped from its file. */
static tess_status copy_bytes(tess_mem *mem, const tess_config *c, const tess_model *model, const char *path,
                              double *bytes)
{
    const tess_dtype dtype = tess_engine_activations(c).dtype;
    tess_weights *weights = NULL;
    tess_status status = TESS_OK;
    if (c->reference.update_interval == 0 && path[0] != '\0')
        TESS_TRY(tess_weights_open(mem, path, model, NULL, &weights));
    *bytes = 0;
    for (int i = 0; status == TESS_OK && i < tess_model_n_params(model); i++) {
        const void *mapped = NULL;
        const size_t n = (size_t)tess_shape_count(&tess_model_param(model, i)->shape) * tess_dtype_size(dtype);
        if (weights != NULL)
            status = tess_weights_map(weights, dtype, i, &mapped);
        *bytes += mapped == NULL ? (double)tess_round_up(n, ALIGNMENT) : 0;
    }
    tess_weights_close(&weights);
    return status;
}

/* Returns the bytes of log-probabilities and entropies, in addition to the executor's memory. */
static double evaluating_bytes(const tess_model *model, const tess_config *c)
{
    const tess_executor_options o = tess_engine_activations(c);
    const tess_executor_options pass = {.dtype = o.dtype, .max_tokens = o.max_tokens, .max_position = o.max_position};
    return (double)tess_executor_bytes(model, &pass) + 2.0 * (double)o.max_tokens * sizeof(float);
}

/* The first of a host's ranks counts the copy. */
static tess_status add_reference(tess_mem *mem, const tess_model_config *policy, const tess_memory_plan *plan, int rank,
                                 tess_memory_of_rank *r)
{
    const tess_config *c = plan->config;
    rl_first_weights first;
    tess_model *model;
    double copy = 0;
    TESS_TRY(rl_first_weights_find(c, policy, c->reference.path, "reference", &first));
    TESS_TRY(tess_model_create(mem, &first.config, &model));
    tess_status status = copy_bytes(mem, c, model, first.path, &copy);
    r->pool[TESS_POOL_PARAMS] += rank % plan->n_local == 0 ? copy : 0;
    r->pool[TESS_POOL_PARAMS] += c->reference.update_interval > 0 ? r->n_primary * sizeof(float) : 0;
    r->pool[TESS_POOL_ACTIVATIONS] += evaluating_bytes(model, c);
    tess_model_destroy(&model);
    return status;
}

/* ---- The critic ---- */
/* Predicts the critic's memory, which is that of a separate training. */
static tess_status predict_critic(tess_mem *mem, const tess_model_config *policy, const tess_memory_plan *plan,
                                  int rank, tess_memory_of_rank *r)
{
    const tess_config *c = plan->config;
    tess_memory_plan own = *plan;
    rl_first_weights first;
    own.second = true; /* its shards are in host memory */
    own.saves_beside = own.holds = false;
    TESS_TRY(tess_critic_find(c, policy, c->critic.path, &first));
    return tess_memory_predict_rank(mem, &first.config, &own, rank, r);
}

/* ---- Drawing ---- */
/* Whether this rank draws. Trainers answer held-out prompts even if other ranks draw the rollouts. */
static bool draws(const tess_config *c)
{
    const bool evaluates = c->validation.enable && c->validation.files.n > 0;
    return !rl_has_pairs(c) && (evaluates || (c->rollout.ranks == 0 && c->rl.phase != TESS_RL_TRAIN));
}

/* Adds the bytes of buckets of weights for ranks that only draw; the first trainers serve one of these each. */
static tess_status add_sending(tess_mem *mem, const tess_model_config *policy, const tess_config *c, int rank,
                               double *sum)
{
    tess_model *model;
    double bytes[2] = {0}; /* bytes of parameters that train, and of frozen ones */
    const double size = (double)tess_dtype_size(tess_engine_activations(c).dtype);
    if (rank >= c->rollout.ranks)
        return TESS_OK;
    TESS_TRY(tess_model_create(mem, policy, &model));
    tess_config_freeze(c, model);
    for (int i = 0; i < tess_model_n_params(model); i++) {
        const tess_param *param = tess_model_param(model, i);
        bytes[param->frozen] += (double)tess_shape_count(&param->shape) * size;
    }
    const double most = bytes[0] > bytes[1] ? bytes[0] : bytes[1], bucket = (double)c->rollout.sync_bytes;
    *sum += TESS_WEIGHT_SYNC_BUCKETS * (bucket < most ? bucket : most);
    tess_model_destroy(&model);
    return TESS_OK;
}

/* ---- All ---- */
/* Adds what a rank takes in addition to the training `r` of the policy. */
static tess_status add_beside(tess_mem *mem, const tess_model_config *policy, const tess_memory_plan *plan, int rank,
                              tess_memory_of_rank *r)
{
    const tess_config *c = plan->config;
    tess_memory_of_rank beside = {.n_primary = r->n_primary}, critic = {.work = 0}, drawing = {.work = 0};
    if (rl_wants_reference(c))
        TESS_TRY_CTX(add_reference(mem, policy, plan, rank, &beside), "reference");
    if (rl_has_values(c) && !rl_shares_trunk(c))
        TESS_TRY_CTX(predict_critic(mem, policy, plan, rank, &critic), "critic");
    if (draws(c))
        TESS_TRY_CTX(tess_memory_of_drawing(policy, c, rank, &drawing), "drawing");
    double *computes = tess_memory_of_device(r) > 0 ? r->device : r->pool; /* pools of the policy's device */
    const double work = computes == r->pool ? r->work + critic.work : 0;   /* kernels keep their work space */
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        r->pool[pool] += beside.pool[pool] + critic.pool[pool];
        r->disk[pool] += critic.disk[pool];
        r->device[pool] += critic.device[pool];
    }
    const double beside_training = computes == r->pool ? beside.pool[TESS_POOL_ACTIVATIONS] : 0;
    const double trains = computes[TESS_POOL_ACTIVATIONS] - beside_training;
    const double draws_in = drawing.pool[TESS_POOL_ACTIVATIONS] + work;
    computes[TESS_POOL_ACTIVATIONS] += draws(c) && draws_in > trains ? draws_in - trains : 0;
    computes[TESS_POOL_KV_CACHE] += drawing.pool[TESS_POOL_KV_CACHE];
    return add_sending(mem, policy, c, rank, &r->pool[TESS_POOL_COMM]);
}

tess_status rl_predict_memory(tess_mem *mem, const tess_model_config *policy, const tess_memory_plan *given, int rank,
                              tess_memory_of_rank *r)
{
    tess_memory_plan plan = *given;
    plan.holds = draws(plan.config);
    TESS_TRY(tess_memory_predict_rank(mem, policy, &plan, rank, r));
    return add_beside(mem, policy, &plan, rank, r);
}
