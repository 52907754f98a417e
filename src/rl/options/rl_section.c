#include "rl/options/rl_section.h"

#include "base/core/option_rows.h"

static const tess_option rl[] = {
    CHOICE(rl, algorithm, BITS, "grpo",
           "grpo|dr_grpo|rloo|batch_std|reinforce_pp|reinforce_pp_baseline|gspo|cispo|ppo|dpo|ipo|hinge",
           "how rewards become gradients; the last three train on pairs of answers and draw none"),
    FLOAT(rl, clip_low, BITS, "0.2", 0, 1e6, "ratios are clipped at 1 - clip_low"),
    FLOAT(rl, clip_high, BITS, "0.2", 0, 1e6, "and at 1 + clip_high"),
    FLOAT(rl, dual_clip, BITS, "0", 0, 1e6, "bound of the ratio where the advantage is below 0; 0: none"),
    FLOAT(rl, kl_beta, BITS, "0", 0, 1e6, "weight of the divergence from the reference; 0: no reference is kept"),
    CHOICE(rl, kl, BITS, "k3", "k1|k2|k3", "estimator of that divergence (Schulman's); k1 in rewards alone"),
    BOOL(rl, kl_in_reward, BITS, "false",
         "subtract an answer's divergence from its reward, before the baseline, instead of adding it to the loss"),
    FLOAT(rl, kl_target, BITS, "0", 0, 1e6, "adapt kl_beta to this divergence; 0: leave it"),
    FLOAT(rl, kl_horizon, BITS, "10000", 1, 1e12, "samples in which kl_beta adapts"),
    FLOAT(rl, entropy_coef, BITS, "0", -1e6, 1e6, "weight of the entropy, which the loss rewards"),
    CHOICE(rl, reduction, BITS, "auto", "auto|token_mean|seq_mean_token_mean|seq_mean_token_sum|constant",
           "divisor of the losses of a step's tokens: all of its tokens; each sequence's tokens, then the sequences; "
           "the sequences; the sequences and rl.constant. auto: seq_mean_token_mean for gspo, constant for "
           "dr_grpo, else token_mean"),
    FLOAT(rl, constant, BITS, "0", 0, 1e12,
          "reduction=constant: divides, with the sequences, the sum of a step's tokens; 0: rollout.max_new_tokens"),
    INT(rl, updates, BITS, "1", 1, 65536, "optimizer steps that share one rollout, each on its part of the prompts"),
    INT(rl, epochs, BITS, "1", 1, 65536, "times that each part is trained on"),
    CHOICE(rl, correction, BITS, "none", "none|tis|icepop|sequence_mask",
           "samples drawn by other weights: weigh each token by the clamped ratio; drop tokens whose ratio is outside; "
           "drop sequences whose mean ratio is. Their log-probabilities are computed again before each rollout"),
    FLOAT(rl, correction_low, BITS, "0", 0, 1e6, "least ratio of the correction"),
    FLOAT(rl, correction_high, BITS, "2", 0, 1e6, "greatest ratio of the correction"),
    FLOAT(rl, opsm_delta, BITS, "0", 0, 1e6,
          "drop sequences of negative advantage that have moved by more than this per token; 0: keep all"),
    CHOICE(rl, on_mismatch, BITS, "stop", "stop|warn|correct",
           "if training and rollout give a token other log-probabilities: end the run, warn, or compute them again and "
           "correct"),
    BOOL(rl, filter, BITS, "false", "leave out prompts whose samples all have the same reward, and draw others (DAPO)"),
    INT(rl, max_rounds, BITS, "16", 1, 65536, "filter: times that missing prompts are drawn for one rollout"),
    INT(rl, overlong_tokens, BITS, "0", 0, 1e9,
        "tokens before rollout.max_new_tokens over which a penalty grows from 0 to overlong_penalty; 0: none"),
    FLOAT(rl, overlong_penalty, BITS, "1", 0, 1e6, "see overlong_tokens"),
    FLOAT(rl, gamma, BITS, "1", 0, 1, "ppo, reinforce_pp: discount of later rewards"),
    FLOAT(rl, lambda, BITS, "1", 0, 1, "ppo: decay of generalised advantages"),
    FLOAT(rl, value_clip, BITS, "0.2", 0, 1e6, "ppo: how far a value may move from its old one; 0: anywhere"),
    FLOAT(rl, eps, BITS, "1e-6", 0, 1, "added to deviations that rewards are divided by"),
    BOOL(rl, norm_advantages, BITS, "false", "advantages of a rollout's tokens get mean 0 and deviation 1"),
    FLOAT(rl, dpo_beta, BITS, "0.1", 0, 1e6, "dpo, ipo, hinge: weight of the divergence from the reference"),
    FLOAT(rl, label_smoothing, BITS, "0", 0, 0.5, "dpo: share of pairs that may be the wrong way round"),
    FLOAT(rl, max_lag, NOTHING, "0", 0, 1e12,
          "advise when the weights that drew a rollout are older than this many steps in the mean; 0: never"),
    INT(rl, keep_journals, NOTHING, "0", 0, 1e9, "newest rollouts whose samples stay in job.dump_folder/rl; 0: all"),
    CHOICE(rl, balance, BITS, "cost", "cost|lpt|karmarkar_karp",
           "micro-batches: cost: as full as they get, the dearest first; lpt, karmarkar_karp: all cost about the same"),
    CHOICE(rl, phase, BITS, "both", "both|rollout|train",
           "rollout: draw and keep samples, train nothing; train: on samples that were kept, drawing none"),
};
const tess_option_section tess_section_rl = SECTION("rl", "reinforcement learning (tessera rl)", rl);
