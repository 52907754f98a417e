/* Options of reinforcement learning: algorithm, losses, corrections. */
#ifndef TESS_RL_OPTIONS_RL_SECTION_H
#define TESS_RL_OPTIONS_RL_SECTION_H

#include "base/core/options.h"

/* Algorithms in the order of rl.algorithm's choices. */
typedef enum tess_rl_algorithm {
    TESS_RL_GRPO,
    TESS_RL_DR_GRPO,
    TESS_RL_RLOO,
    TESS_RL_BATCH_STD,
    TESS_RL_REINFORCE_PP,
    TESS_RL_REINFORCE_PP_BASELINE,
    TESS_RL_GSPO,
    TESS_RL_CISPO,
    TESS_RL_PPO,
    TESS_RL_DPO,
    TESS_RL_IPO,
    TESS_RL_HINGE
} tess_rl_algorithm;

typedef enum tess_on_mismatch { TESS_MISMATCH_STOP, TESS_MISMATCH_WARN, TESS_MISMATCH_CORRECT } tess_on_mismatch;

typedef enum tess_rl_phase { TESS_RL_BOTH, TESS_RL_ROLLOUT, TESS_RL_TRAIN } tess_rl_phase;

typedef struct tess_rl_section {
    int algorithm; /* tess_rl_algorithm */
    double clip_low, clip_high, dual_clip;
    double kl_beta, kl_target, kl_horizon;
    int kl; /* k1, k2, k3 */
    bool kl_in_reward;
    double entropy_coef;
    int reduction; /* 0: auto, else 1 + tess_reduction_kind */
    double constant;
    int64_t updates, epochs;
    int correction; /* tess_correction */
    double correction_low, correction_high, opsm_delta;
    int on_mismatch; /* stop, warn, correct */
    bool filter;
    int64_t max_rounds;
    int64_t overlong_tokens;
    double overlong_penalty;
    double gamma, lambda, value_clip, eps;
    bool norm_advantages;
    double dpo_beta, label_smoothing, max_lag;
    int64_t keep_journals;
    int phase;   /* both, rollout, train */
    int balance; /* cost, lpt, karmarkar_karp */
} tess_rl_section;

extern const tess_option_section tess_section_rl;

#endif
