/* Advises whether a stack that generates and trains with two different engines should pay for exact on-policy
 * training, and judges a price. (This engine pays nothing: it generates with training's own kernels.) */
#ifndef TESS_VERIFY_ON_POLICY_CHOICE_H
#define TESS_VERIFY_ON_POLICY_CHOICE_H

#include "tessera/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum tess_algorithm_kind { TESS_KIND_PPO, TESS_KIND_GRPO, TESS_KIND_DPO, TESS_KIND_SFT } tess_algorithm_kind;
/* limits: 1 B and 10 B parameters */
typedef enum tess_size_class { TESS_SIZE_SMALL, TESS_SIZE_MEDIUM, TESS_SIZE_LARGE } tess_size_class;
typedef enum tess_budget { TESS_BUDGET_TIGHT, TESS_BUDGET_MEDIUM, TESS_BUDGET_ABUNDANT } tess_budget;
typedef enum tess_confidence { TESS_CONFIDENCE_LOW, TESS_CONFIDENCE_MEDIUM, TESS_CONFIDENCE_HIGH } tess_confidence;

typedef struct tess_on_policy_question {
    tess_algorithm_kind algorithm;
    tess_size_class size;
    tess_budget budget;
    double acceptable_percent; /* slowdown that is acceptable */
} tess_on_policy_question;

enum { TESS_CHOICE_REASONS = 4 };

typedef struct tess_on_policy_answer {
    bool use;
    tess_confidence confidence;
    const char *reasons[TESS_CHOICE_REASONS], *alternatives[TESS_CHOICE_REASONS]; /* static texts */
    int n_reasons, n_alternatives;
} tess_on_policy_answer;

/* Parses the words of a question: "grpo", "medium" (small: below 1 B parameters, medium: to 10 B, large), "tight".
 * TESS_E_INVALID: a word is unknown (the message names the choices), or the slowdown is invalid. */
tess_status tess_on_policy_question_parse(const char *algorithm, const char *size, const char *budget,
                                          double acceptable_percent, tess_on_policy_question *question);

/* Answers a question. PPO and GRPO need exact on-policy training, DPO and SFT do not. Some must do without: a large
 * model that may not become 20% slower, and a tight budget that cannot pay 25%. If the algorithm needs it and the
 * price forbids it, the answer has medium confidence. */
tess_on_policy_answer tess_on_policy_choose(const tess_on_policy_question *question);
const char *tess_confidence_name(tess_confidence confidence);

/* Returns (exact / standard - 1) * 100, for two times of a step. */
double tess_on_policy_slowdown(double standard, double exact);
/* Returns a sentence that judges a slowdown: below 20% it is acceptable, below 40% worth considering, otherwise too
 * high. */
const char *tess_on_policy_cost_band(double slowdown_percent);

#endif
