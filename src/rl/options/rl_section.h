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

/* clang-format off */
#define TESS_RL_OPTIONS(OPTION)                                                                                        \
    /* tess_rl_algorithm */                                                                                            \
    OPTION(CHOICE, rl, algorithm, BITS, "grpo",                                                                        \
           "grpo|dr_grpo|rloo|batch_std|reinforce_pp|reinforce_pp_baseline|gspo|cispo|ppo|dpo|ipo|hinge",              \
           "how rewards become gradients; the last three train on pairs of answers and draw none")                     \
    OPTION(FLOAT, rl, clip_low, BITS, "0.2", 0, 1e6,                                                                   \
           "ratios of new to old probabilities are clipped at 1 - clip_low")                                           \
    OPTION(FLOAT, rl, clip_high, BITS, "0.2", 0, 1e6,                                                                  \
           "ratios of new to old probabilities are clipped at 1 + clip_high")                                          \
    OPTION(FLOAT, rl, dual_clip, BITS, "0", 0, 1e6,                                                                    \
           "largest ratio of tokens with a negative advantage; 0: no limit")                                           \
    OPTION(FLOAT, rl, kl_beta, BITS, "0", 0, 1e6,                                                                      \
           "weight of the divergence from the reference; 0: no reference is kept")                                     \
    /* k1, k2, k3 */                                                                                                   \
    OPTION(CHOICE, rl, kl, BITS, "k3", "k1|k2|k3",                                                                     \
           "estimator of the divergence from the reference (by Schulman); k1 only with rl.kl_in_reward")               \
    OPTION(                                                                                                            \
        BOOL, rl, kl_in_reward, BITS, "false",                                                                         \
        "subtract an answer's divergence from its reward, before the baseline, instead of adding it to the loss")      \
    OPTION(FLOAT, rl, kl_target, BITS, "0", 0, 1e6,                                                                    \
           "adapt kl_beta until the divergence from the reference is this large; 0: kl_beta stays as it is")           \
    OPTION(FLOAT, rl, kl_horizon, BITS, "10000", 1, 1e12, "number of samples over which kl_beta adapts")               \
    OPTION(FLOAT, rl, entropy_coef, BITS, "0", -1e6, 1e6,                                                              \
           "weight of the entropy in the loss; a positive weight rewards entropy")                                     \
    /* 0: auto, else 1 + tess_reduction_kind */                                                                        \
    OPTION(CHOICE, rl, reduction, BITS, "auto", "auto|token_mean|seq_mean_token_mean|seq_mean_token_sum|constant",     \
           "divisor of the losses of a step's tokens: all of its tokens; each sequence's tokens, then the "            \
           "sequences; the sequences; the sequences and rl.constant. auto: seq_mean_token_mean for gspo, constant "    \
           "for dr_grpo, else token_mean")                                                                             \
    OPTION(FLOAT, rl, constant, BITS, "0", 0, 1e12,                                                                    \
           "divisor of the losses with reduction=constant, together with the number of sequences; 0: "                 \
           "rollout.max_new_tokens")                                                                                   \
    OPTION(INT, rl, updates, BITS, "1", 1, 65536,                                                                      \
           "number of optimizer steps that share one rollout; each trains on its part of the prompts")                 \
    OPTION(INT, rl, epochs, BITS, "1", 1, 65536, "number of times that each part of a rollout is trained on")          \
    /* tess_correction */                                                                                              \
    OPTION(CHOICE, rl, correction, BITS, "none", "none|tis|icepop|sequence_mask",                                      \
           "correction of samples that other weights drew: tis: weigh each token by the clamped ratio; icepop: "       \
           "drop tokens whose ratio is outside; sequence_mask: drop sequences whose mean ratio is outside. "           \
           "Log-probabilities are computed again")                                                                     \
    OPTION(FLOAT, rl, correction_low, BITS, "0", 0, 1e6, "smallest ratio that rl.correction accepts")                  \
    OPTION(FLOAT, rl, correction_high, BITS, "2", 0, 1e6, "largest ratio that rl.correction accepts")                  \
    OPTION(FLOAT, rl, opsm_delta, BITS, "0", 0, 1e6,                                                                   \
           "drop sequences with a negative advantage whose log-probabilities moved by more than this per token; 0: "   \
           "keep all")                                                                                                 \
    /* stop, warn, correct */                                                                                          \
    OPTION(CHOICE, rl, on_mismatch, BITS, "stop", "stop|warn|correct",                                                 \
           "if training and rollout give a token other log-probabilities: end the run, warn, or compute them again "   \
           "and correct")                                                                                              \
    OPTION(BOOL, rl, filter, BITS, "false",                                                                            \
           "leave out prompts whose samples all have the same reward, and draw others (DAPO)")                         \
    OPTION(INT, rl, max_rounds, BITS, "16", 1, 65536,                                                                  \
           "number of times that rl.filter draws missing prompts for one rollout")                                     \
    OPTION(INT, rl, overlong_tokens, BITS, "0", 0, 1e9,                                                                \
           "number of tokens before rollout.max_new_tokens over which the penalty for long answers grows from 0 to "   \
           "overlong_penalty; 0: no penalty")                                                                          \
    OPTION(FLOAT, rl, overlong_penalty, BITS, "1", 0, 1e6,                                                             \
           "penalty of an answer of rollout.max_new_tokens tokens, if rl.overlong_tokens is set")                      \
    OPTION(FLOAT, rl, gamma, BITS, "1", 0, 1, "discount of later rewards in ppo and reinforce_pp")                     \
    OPTION(FLOAT, rl, lambda, BITS, "1", 0, 1, "decay of generalised advantages (GAE) in ppo")                         \
    OPTION(FLOAT, rl, value_clip, BITS, "0.2", 0, 1e6,                                                                 \
           "largest change of a value from its old one in the loss of ppo; 0: no limit")                               \
    OPTION(FLOAT, rl, eps, BITS, "1e-6", 0, 1,                                                                         \
           "number that is added to the deviations by which rewards are divided")                                      \
    OPTION(BOOL, rl, norm_advantages, BITS, "false",                                                                   \
           "shift and scale the advantages of a rollout's tokens to mean 0 and deviation 1")                           \
    OPTION(FLOAT, rl, dpo_beta, BITS, "0.1", 0, 1e6,                                                                   \
           "weight of the divergence from the reference in dpo, ipo and hinge")                                        \
    OPTION(FLOAT, rl, label_smoothing, BITS, "0", 0, 0.5,                                                              \
           "share of the pairs that dpo assumes to be in the wrong order")                                             \
    OPTION(FLOAT, rl, max_lag, NOTHING, "0", 0, 1e12,                                                                  \
           "warn if the weights that drew a rollout are older than this many steps in the mean; 0: never")             \
    OPTION(INT, rl, keep_journals, NOTHING, "0", 0, 1e9,                                                               \
           "number of newest rollouts whose samples stay in job.dump_folder/rl; 0: all")                               \
    /* cost, lpt, karmarkar_karp */                                                                                    \
    OPTION(CHOICE, rl, balance, BITS, "cost", "cost|lpt|karmarkar_karp",                                               \
           "order of samples in micro-batches: cost: as full as possible, the most expensive first; lpt, "             \
           "karmarkar_karp: all cost about the same")                                                                  \
    /* both, rollout, train */                                                                                         \
    OPTION(CHOICE, rl, phase, BITS, "both", "both|rollout|train",                                                      \
           "rollout: draw and keep samples, train nothing; train: train on samples that were kept, draw nothing")
/* clang-format on */

typedef struct tess_rl_section {
    TESS_RL_OPTIONS(TESS_OPTION_FIELD)
} tess_rl_section;

extern const tess_option_section tess_section_rl;

#endif
