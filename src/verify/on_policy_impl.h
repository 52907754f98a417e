/* One way to compute log-probabilities, the texts that they belong to, and the result of one run. */
#ifndef TESS_VERIFY_ON_POLICY_IMPL_H
#define TESS_VERIFY_ON_POLICY_IMPL_H

#include "engine/compute.h"
#include "verify/on_policy.h"

/* Texts, and the log-probability of each token but the first, given all tokens before it. */
typedef struct on_policy_texts {
    int n;
    int64_t room;    /* number of tokens of the longest text */
    int64_t *length; /* (n) */
    int64_t *scored; /* (n) first position with a log-probability: 1, or the position after a shared prompt */
    int32_t *ids;    /* (n, room) */
    float *logprob;  /* (n, room) */
} on_policy_texts;

static inline int32_t *on_policy_ids(const on_policy_texts *texts, int i)
{
    return texts->ids + i * texts->room;
}

static inline float *on_policy_logprob(const on_policy_texts *texts, int i)
{
    return texts->logprob + i * texts->room;
}

tess_status on_policy_texts_make(tess_mem *mem, int n, int64_t room, on_policy_texts *texts);
void on_policy_texts_free(on_policy_texts *texts);

/* Kinds of token loss. The kind must not change log-probabilities. */
typedef enum on_policy_loss { ON_POLICY_LOSS_BY_CHUNK, ON_POLICY_LOSS_WHOLE, ON_POLICY_LOSS_NONE } on_policy_loss;

typedef struct on_policy_setting {
    tess_on_policy_engine engine;
    const char *kernels;
    tess_dtype dtype;
    int n_threads;
    float inv_temperature;
    int batch;      /* texts per micro-batch, or in generation texts at once; 0: all */
    bool reversed;  /* texts are computed last to first */
    bool strangers; /* extra texts are computed between them */
    int64_t pass;   /* generation: rows of a forward pass, from prompts and texts together; 0: its default */
    bool shared;    /* generation: each prompt is read once for two texts: its own, and one that is drawn differently */
    /* generation: the cache has room for the longest text only, so other texts must give back their pages */
    bool few_pages;
    bool recompute;      /* training: the forward pass of each layer runs twice */
    on_policy_loss loss; /* training: kind of loss; NONE has temperature 1 */
    int64_t longest;     /* longest text that the executor is created for; 0: the longest of the texts */
} on_policy_setting;

/* Kernels, device and weights of a setting. */
typedef struct on_policy_place {
    tess_mem *mem;
    tess_stream *host;
    tess_compute compute;
    tess_hooks inner;
} on_policy_place;

tess_status on_policy_place_open(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *setting,
                                 on_policy_place *place);
void on_policy_place_close(on_policy_place *place);

/* ---- Watching tensors ---- */
/* A computed row of a layer's tensor, represented by its hash. */
typedef struct on_policy_row {
    uint32_t stage; /* index in the order of execution */
    uint32_t row;   /* index of the row in its micro-batch */
    uint64_t hash;
} on_policy_row;

/* Plants the fault at its place, and collects rows if `rows` are wanted. */
typedef struct on_policy_watch {
    tess_mem *mem;
    const tess_on_policy_fault *fault; /* fault to plant; NULL: none */
    bool collects;
    on_policy_row *rows;
    size_t n, capacity;
    tess_status status; /* status of collecting */
    /* generation: texts that had to give back their pages; tokens that were read for another text */
    int64_t turned_out, shared;
} on_policy_watch;

/* Returns the watch to set (on_policy_watch.c). Its `see` is NULL if nothing is to be watched. */
tess_watch on_policy_watch_of(on_policy_watch *watch);
/* The first returns the unit of a row's stage, the second its tensor as a watch names it. */
int on_policy_unit(uint32_t stage);
const char *on_policy_shown(uint32_t stage);

/* ---- Runs ---- */
/* Scores texts->ids into texts->logprob (on_policy_run.c). For settings other than generation. */
tess_status on_policy_score(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *setting,
                            on_policy_watch *watch, const on_policy_texts *texts);
/* Generates (on_policy_generate.c). `texts` must have room for all prompts. It gets the prompts with the drawn
 * tokens, and all log-probabilities. */
tess_status on_policy_generate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *setting,
                               on_policy_watch *watch, const on_policy_texts *texts);

/* Repeats both runs (on_policy_locate.c), and writes the name of the first tensor that differs to `layer`. Only rows
 * that matter are compared: those on which the first different token of a text, or an equal token, depends. `texts`
 * holds the values of `reference`. */
tess_status on_policy_locate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *reference,
                             const on_policy_setting *setting, const on_policy_texts *texts,
                             char layer[TESS_ON_POLICY_TEXT]);
/* Adds the differences between `got` and `want`, which have the same prompts, to *c. */
void on_policy_compare(const on_policy_texts *got, const on_policy_texts *want, tess_on_policy_case *c);

#endif
