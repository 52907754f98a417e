/* Checks that training, evaluation and generation are one policy: that the log-probabilities of the same tokens have
 * the same bits in training's forward pass, in evaluation and in generation with a cache, however tokens are
 * batched, chunked, ordered and accompanied. Also measures what does change bits: the kernel table, the precision,
 * the temperature.
 *
 * The policy is p = softmax(logits / T) of the given weights. The check runs in one process and does not change the
 * weights. */
#ifndef TESS_VERIFY_ON_POLICY_H
#define TESS_VERIFY_ON_POLICY_H

#include "base/report/form.h"
#include "nn/model.h"

enum { TESS_ON_POLICY_CASES = 128, TESS_ON_POLICY_PROMPTS = 4096, TESS_ON_POLICY_TEXT = 112 };

typedef enum tess_on_policy_engine {
    TESS_ENGINE_TRAINING,
    TESS_ENGINE_EVALUATION,
    TESS_ENGINE_GENERATION,
    TESS_ENGINE_COUNT
} tess_on_policy_engine;

const char *tess_on_policy_engine_name(tess_on_policy_engine engine);

typedef struct tess_on_policy_prompt {
    const int32_t *ids; /* (n) */
    int64_t n;          /* one or more */
} tess_on_policy_prompt;

/* A planted difference that tests whether the check finds and names it. In the engine's tensor `what` of `unit`
 * (tess_watch), one bit is flipped in every row of a call except the first, so it appears only in batches. what "":
 * none. */
typedef struct tess_on_policy_fault {
    tess_on_policy_engine engine;
    int unit;
    char what[32];
} tess_on_policy_fault;

/* Parses "generation:2:attention output". TESS_E_INVALID: the message names the choices. */
tess_status tess_on_policy_fault_parse(const char *text, const tess_model *model, tess_on_policy_fault *fault);

typedef struct tess_on_policy_plan {
    const tess_model *model; /* the whole model; borrowed, like all pointers here */
    const void *const *w[2]; /* its parameters in TESS_F32 and in TESS_BF16, in host memory */
    tess_dtype dtype;        /* dtype of the policy */
    const char *kernels;     /* kernel table of the policy; NULL: the best one of the machine */
    const char *against;     /* one other kernel table, or "none"; NULL: all tables that the machine can run */
    const char *device;      /* name for tess_device_open */
    double temperature;      /* temperature of the policy, greater than 0 */
    int n_threads;           /* one or more */
    const tess_on_policy_prompt *prompts;
    int n_prompts;      /* 1 to TESS_ON_POLICY_PROMPTS */
    int64_t new_tokens; /* number of tokens drawn for each prompt, at least 1 */
    uint64_t seed;      /* seed of the draws */
    tess_on_policy_fault fault;
    void (*note)(void *self, const char *text); /* reports progress; may be NULL */
    void *self;
} tess_on_policy_plan;

typedef struct tess_on_policy_case {
    char group[16];   /* group of settings: "batch size" */
    char setting[72]; /* setting that was compared: "generation, 2 at once" */
    bool must_equal;
    char skipped[TESS_ON_POLICY_TEXT]; /* why it was not run; "": it was */
    /* generation: texts that had to give back their pages; tokens that were read for another text */
    int64_t turned_out, shared;
    /* n_different: once a text continues with a differently drawn token, all its further tokens count */
    int64_t n_tokens, n_different;
    double max_abs; /* over tokens of both; infinite if a value is not finite */
    /* First token that differs, by sequence, then by position. */
    int sequence;
    int64_t position;
    int32_t token, other_token;      /* tokens at that position; they differ if another one was drawn */
    float here, there;               /* log-probability of the token in this setting, and in the reference */
    char layer[TESS_ON_POLICY_TEXT]; /* first tensor that differs, if it was searched for; "": it was not */
} tess_on_policy_case;

typedef struct tess_on_policy_result {
    char kernels[32];
    tess_dtype dtype;
    double temperature;
    int n_prompts;
    int64_t n_tokens; /* number of predicted tokens */
    int n;
    tess_on_policy_case cases[TESS_ON_POLICY_CASES];
} tess_on_policy_result;

/* Runs the check; differences are no error. Memory: activations of one micro-batch of all texts, and the cache.
 * Calls with the same plan are not thread-safe. TESS_E_INVALID: a prompt is empty, does not fit the model with its
 * new tokens, or holds an invalid token; or the temperature or kernel table is invalid. */
tess_status tess_on_policy_verify(tess_mem *mem, const tess_on_policy_plan *plan, tess_on_policy_result *result);

/* Returns the first case that must be equal and is not, or NULL if there is none. */
const tess_on_policy_case *tess_on_policy_first(const tess_on_policy_result *result);

/* Prints a table of the cases, what differs and where, and the conclusion; or the same for programs: version 1. */
tess_status tess_on_policy_print(const tess_on_policy_result *result, tess_form_style style, tess_buffer *out);

#endif
