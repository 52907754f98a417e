/* Checks that training, evaluation and generation are one policy: that the log-probabilities of the same tokens have
 * the same bits in training's forward pass, in evaluation and in generation with a cache, however tokens are batched,
 * chunked, ordered and accompanied. Also measures what does change bits: the kernel table, the precision, the
 * temperature.
 *
 * The policy is p = softmax(logits / T) of the weights given. Runs in one process and trains nothing: weights stay. */
#ifndef TESS_VERIFY_ON_POLICY_H
#define TESS_VERIFY_ON_POLICY_H

#include "base/text/text.h"
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
    int64_t n;          /* at least 1 */
} tess_on_policy_prompt;

/* A planted difference, to see that it is found and named: in the engine's tensor `what` of `unit` (tess_watch) a bit
 * of every row but the first of a call is turned over, so that it needs company to show. what "": none. */
typedef struct tess_on_policy_fault {
    tess_on_policy_engine engine;
    int unit;
    char what[32];
} tess_on_policy_fault;

/* "generation:2:attention output". TESS_E_INVALID names the choices. */
tess_status tess_on_policy_fault_parse(const char *text, const tess_model *model, tess_on_policy_fault *fault);

typedef struct tess_on_policy_plan {
    const tess_model *model; /* whole, as everything here borrowed */
    const void *const *w[2]; /* its parameters in TESS_F32 and TESS_BF16, memory of the host */
    tess_dtype dtype;        /* dtype of the policy */
    const char *kernels;     /* table of the policy; NULL: the best of the machine */
    const char *against;     /* one other table, "none", or NULL: each that the machine has */
    const char *device;      /* a name for tess_device_open */
    double temperature;      /* temperature of the policy, above 0 */
    int n_threads;           /* at least 1 */
    const tess_on_policy_prompt *prompts;
    int n_prompts;      /* 1 to TESS_ON_POLICY_PROMPTS */
    int64_t new_tokens; /* drawn for each, at least 1 */
    uint64_t seed;      /* seed of the draws */
    tess_on_policy_fault fault;
    void (*note)(void *self, const char *text); /* reports progress; may be NULL */
    void *self;
} tess_on_policy_plan;

typedef struct tess_on_policy_case {
    char group[16];   /* "batch size" */
    char setting[72]; /* the setting that was compared: "generation, 2 at once" */
    bool must_equal;
    char skipped[TESS_ON_POLICY_TEXT]; /* why it was not run, "" */
    int64_t turned_out, shared;        /* generation: texts that gave their pages back; tokens read for another */
    int64_t n_tokens, n_different;     /* a text that was drawn otherwise differs from there on */
    double max_abs;                    /* over tokens that both have; infinite if a value is not finite */
    /* The first that differs, by sequence, then position. */
    int sequence;
    int64_t position;
    int32_t token, other_token;      /* there; they differ where it was drawn otherwise */
    float here, there;               /* its log-probability in this setting, and in what it is compared with */
    char layer[TESS_ON_POLICY_TEXT]; /* the first tensor that differs, where it was looked for, else "" */
} tess_on_policy_case;

typedef struct tess_on_policy_result {
    char kernels[32];
    tess_dtype dtype;
    double temperature;
    int n_prompts;
    int64_t n_tokens; /* predicted tokens */
    int n;
    tess_on_policy_case cases[TESS_ON_POLICY_CASES];
} tess_on_policy_result;

/* TESS_E_INVALID: a prompt is empty, does not fit the model with its new tokens, or holds no token of it; an invalid
 * temperature or kernel table. Differences are no error. Memory: activations of one micro-batch of all texts, and the
 * cache. Not thread-safe per plan. */
tess_status tess_on_policy_verify(tess_mem *mem, const tess_on_policy_plan *plan, tess_on_policy_result *result);

/* The first case that must be equal and is not; NULL: there is none. */
const tess_on_policy_case *tess_on_policy_first(const tess_on_policy_result *result);

/* A table of the cases, what differs and where, and the conclusion. */
tess_status tess_on_policy_print(const tess_on_policy_result *result, tess_buffer *out);
/* The same for programs: version 1. */
tess_status tess_on_policy_print_json(const tess_on_policy_result *result, tess_buffer *out);

#endif
