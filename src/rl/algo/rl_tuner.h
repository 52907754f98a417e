/* Advice on hyperparameters from the numbers of a run: sentences, starting points, when to stop. Pure functions. */
#ifndef TESS_RL_ALGO_RL_TUNER_H
#define TESS_RL_ALGO_RL_TUNER_H

#include <stdbool.h>
#include <stdint.h>

/* One step of a run, oldest first in a history. NaN: not measured. */
typedef struct tess_tuner_step {
    double clip_fraction, kl, ratio_mean, entropy, reward, loss;
    double approx_kl; /* distance from the weights that drew the rollout: mean of r - 1 - log r */
    double kl_pull;   /* size of the KL's derivative by log p / size of the rewards' derivative */
} tess_tuner_step;

/* Limits of the mean over the newest `window` steps, except where a member says otherwise. */
typedef struct tess_tuner_limits {
    int window;
    double clip_high, clip_low; /* share of tokens */
    double kl_high, kl_low;
    double ratio_high, ratio_low;
    double entropy_share; /* collapse: the entropy is below this share of its mean in the first `window` steps */
    int plateau; /* number of steps: the reward does not rise from their first to their second half by more than the
                    noise */
    double pull_high; /* one term of the loss dominates */
    double kl_target; /* the newest step's approx_kl is too far from this target; 0: not checked */
    double spike;     /* the newest loss is this many standard deviations from the mean of the window before it */
} tess_tuner_limits;

/* Returns the default limits: 10 steps; .5/.05, .5/.01, 2/.5; a tenth; 100 steps; 1; no target; 6. */
extern const tess_tuner_limits tess_tuner_default_limits;

typedef enum tess_advice_kind {
    TESS_ADVICE_STABLE, /* the only kind in its list: there is no advice */
    TESS_ADVICE_CLIP_HIGH,
    TESS_ADVICE_CLIP_LOW,
    TESS_ADVICE_KL_HIGH,
    TESS_ADVICE_KL_LOW,
    TESS_ADVICE_RATIO,
    TESS_ADVICE_ENTROPY_COLLAPSE,
    TESS_ADVICE_REWARD_PLATEAU,
    TESS_ADVICE_LOSS_SPIKE,
    TESS_ADVICE_KL_TOO_FAR,
    TESS_ADVICE_KL_DOMINATES
} tess_advice_kind;

typedef struct tess_advice {
    tess_advice_kind kind;
    char text[192]; /* "clip fraction 0.62 is above 0.5: updates are too large; lower ..." */
} tess_advice;

enum { TESS_ADVICE_MAX = 10 };

/* Writes the advice on a history of n steps to `advice` (TESS_ADVICE_MAX) and returns its number: 0 if n is 0,
 * otherwise at least 1. Numbers that were not measured are not judged. On policy (every ratio is 1), no clipping and
 * a KL of 0 are expected. */
int tess_tuner_diagnose(const tess_tuner_limits *limits, const tess_tuner_step *history, int64_t n,
                        tess_advice *advice);

/* Whether the remaining updates of a rollout should be skipped, because approx_kl is above 1.5 times the target or
 * NaN. target 0: never. */
bool tess_kl_too_far(double approx_kl, double target);

/* A starting point for a kind of task. */
typedef struct tess_tuner_preset {
    const char *task;                       /* "llm_rlhf", "llm_grpo", "game_ai", "default" */
    double clip, kl_beta, entropy_coef, lr; /* clip: both sides */
    double correction_high;                 /* limit of TIS; 0: none */
} tess_tuner_preset;

enum { TESS_TUNER_PRESETS = 4 };
extern const tess_tuner_preset tess_tuner_presets[TESS_TUNER_PRESETS];

/* Finds a starting point by name. NULL: the name is unknown. */
const tess_tuner_preset *tess_tuner_preset_find(const char *task);

#endif
