/* The messages between trainers and ranks that only draw, except for weights (sync/weight_sync.h). A rank that only
 * draws receives messages from one trainer (tess_weight_sync_source), in order. The first of these ranks answers the
 * first trainer. */
#ifndef TESS_RL_RL_MESSAGES_H
#define TESS_RL_RL_MESSAGES_H

#include "base/core/rng.h"
#include "rl/rl_impl.h"
#include "rl/sync/weight_sync.h"

enum { RL_TAG_MESSAGE = 1, RL_TAG_RESULT = 2 };

typedef enum rl_message_kind {
    RL_MESSAGE_WEIGHTS, /* weights of `step`, with digest `weights`, follow */
    RL_MESSAGE_ORDER,   /* rollout `state` is to be collected; with may_draw, by the weights of `step` */
    RL_MESSAGE_END
} rl_message_kind;

/* A message to a rank that draws. */
typedef struct rl_message {
    int64_t kind;
    int64_t step;               /* optimizer steps that made the weights */
    uint64_t weights;           /* tess_weights_digest */
    uint64_t identity, kernels; /* values of the trainers, which must be equal here */
    rl_state state;
    int64_t may_draw, restored; /* the same as in rl_collect and rl */
    int64_t interrupted;        /* part of RL_MESSAGE_END */
} rl_message;

/* The answer of the first rank that only draws, after all of them have collected the rollout; `bytes` of the chosen
 * samples follow. */
typedef struct rl_result {
    int64_t bytes;
    rl_state after;
    rl_rollout_facts facts;
} rl_result;

/* `all` has all ranks of the job: first the trainers, then the ranks that only draw. */
static inline tess_weight_sync rl_sync_over(tess_team *all, const tess_config *config)
{
    return (tess_weight_sync){.all = all,
                              .n_trainers = tess_config_trainers(config, tess_team_size(all)),
                              .bucket_bytes = (size_t)config->rollout.sync_bytes};
}

static inline tess_weight_sync rl_sync_of(const rl *r)
{
    return rl_sync_over(tess_runtime_team(tess_trainer_runtime(r->trainer)), r->config);
}

static inline uint64_t rl_kernels_of(const rl *r)
{
    return tess_hash_text(tess_stream_kernels(rl_stream(r))->name);
}

#endif
