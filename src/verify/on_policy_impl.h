/* One way to compute log-probabilities, the texts that they are of, and what one run of it gives. */
#ifndef TESS_VERIFY_ON_POLICY_IMPL_H
#define TESS_VERIFY_ON_POLICY_IMPL_H

#include "engine/compute.h"
#include "verify/on_policy.h"

/* Texts with the log-probability of each token but the first, given all before it. */
typedef struct on_policy_texts {
    int n;
    int64_t room;    /* tokens of the longest */
    int64_t *length; /* (n) */
    int64_t *scored; /* (n) the first position that has a log-probability: 1, or after a prompt that was shared */
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
void on_policy_texts_free(tess_mem *mem, on_policy_texts *texts);

/* The kinds of token loss: the kind must not matter. */
typedef enum on_policy_loss { ON_POLICY_LOSS_BY_CHUNK, ON_POLICY_LOSS_WHOLE, ON_POLICY_LOSS_NONE } on_policy_loss;

typedef struct on_policy_setting {
    tess_on_policy_engine engine;
    const char *kernels;
    tess_dtype dtype;
    int n_threads;
    float inv_temperature;
    int batch;           /* texts of a micro-batch; of generation: at once. 0: all */
    bool reversed;       /* texts last to first */
    bool strangers;      /* other texts between them */
    int64_t pass;        /* generation: rows of a forward, of prompts and texts together; 0: its default */
    bool shared;         /* generation: each prompt is read once, for its text and one that is drawn otherwise */
    bool few_pages;      /* generation: a cache for the longest text alone, which the others are turned out of */
    bool recompute;      /* training: each layer's forward runs twice */
    on_policy_loss loss; /* training; NONE has temperature 1 */
    int64_t longest;     /* longest text that the executor is made for; 0: that of the texts */
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

/* ---- The watch ---- */
/* A row of a layer's tensor that was computed: its hash stands for it. */
typedef struct on_policy_row {
    uint32_t stage; /* number in the order of execution */
    uint32_t row;   /* row of its micro-batch */
    uint64_t hash;
} on_policy_row;

/* Plants the fault where it belongs, and collects rows if asked to. */
typedef struct on_policy_watch {
    tess_mem *mem;
    const tess_on_policy_fault *fault; /* NULL: none */
    bool collects;
    on_policy_row *rows;
    size_t n, capacity;
    tess_status status;         /* status of collecting */
    int64_t turned_out, shared; /* generation: texts that gave their pages back; tokens read for another */
} on_policy_watch;

/* The watch to set (on_policy_watch.c); see NULL: nothing to be seen. */
tess_watch on_policy_watch_of(on_policy_watch *watch);
/* The unit of a row's stage, and its tensor as a watch calls it. */
int on_policy_unit(uint32_t stage);
const char *on_policy_shown(uint32_t stage);

/* ---- Runs ---- */
/* Scores texts->ids into texts->logprob (on_policy_run.c). Not for generation. */
tess_status on_policy_score(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *setting,
                            on_policy_watch *watch, const on_policy_texts *texts);
/* Generates (on_policy_generate.c): texts, made for as many as there are prompts, gets the prompts with the drawn
 * tokens, and all log-probabilities. */
tess_status on_policy_generate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *setting,
                               on_policy_watch *watch, const on_policy_texts *texts);

/* Computes both again (on_policy_locate.c), and names the first tensor that differs in `layer`, of the rows on which
 * the tokens depend that differ or come before them. `texts` holds what is compared with, computed by `reference`. */
tess_status on_policy_locate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *reference,
                             const on_policy_setting *setting, const on_policy_texts *texts,
                             char layer[TESS_ON_POLICY_TEXT]);
/* Adds the differences of `got` from `want`, both of the same prompts, to *c. */
void on_policy_compare(const on_policy_texts *got, const on_policy_texts *want, tess_on_policy_case *c);

#endif
