/* Generation with a KV cache: requests come from a source, run together as long as there is room, and leave when they
 * are done. A token's log-probability has the same bits as in training and evaluation, and a request gets the same
 * tokens whatever runs next to it, however prompts are cut, shared or read again (law 2).
 *
 * A pass is one forward: a token of every text that grows, and pieces of prompts, up to `pass_tokens` rows. Logits
 * exist for the rows that draw. Keys and values lie in pages (infer/kv_pages.h); when they run out, the youngest text
 * gives its own back and is read again later. */
#ifndef TESS_INFER_GENERATE_H
#define TESS_INFER_GENERATE_H

#include "infer/sampler.h"
#include "nn/model.h"

typedef struct tess_generator tess_generator;

typedef struct tess_generator_options {
    tess_dtype dtype;      /* type of the weights and the cache */
    int64_t max_length;    /* most tokens of a prompt with its continuation */
    int64_t max_sequences; /* requests that run at once */
    int64_t pass_tokens;   /* rows of a pass, at least max_sequences; 0: 512, or all that may run when that is less */
    size_t cache_bytes; /* most bytes of keys and values, at least a text of max_length; 0: what max_sequences need */
} tess_generator_options;

typedef enum tess_finish {
    TESS_FINISH_END,    /* an end token, which is part of the text */
    TESS_FINISH_LENGTH, /* max_new_tokens, or max_length */
    TESS_FINISH_STOP,   /* the source's `token` said so */
    TESS_FINISH_BUDGET  /* the request's budget is spent: it may go on later, with its text as ids */
} tess_finish;

typedef struct tess_request {
    uint64_t id;            /* numbers its draws: (seed, id, position) */
    const int32_t *ids;     /* (n) the prompt, then what was generated before (a continuation) */
    int64_t n, n_prompt;    /* 1 <= n_prompt <= n; draws begin at position n */
    int64_t max_new_tokens; /* most tokens after the first n; 0: only the log-probabilities of the given ids */
    int64_t budget;         /* new tokens after which it ends with TESS_FINISH_BUDGET; 0: no budget */
    uint64_t prefix;        /* not 0: requests of this number begin with the same n_prompt ids, which are read once */
    bool want_prompt_logprobs; /* reports ids, too; the prompt is then read for this request alone */
    bool keep; /* its keys and values stay when it has finished, after the run too, while nobody else needs their pages:
                  the next request of this kind reads only what it does not have in common with such a text. The model
                  must be the same then. With a prefix, or want_prompt_logprobs, it says nothing */
    void *user;
} tess_request;

/* The source of requests, which also takes the results. All calls are made on the caller's thread, none from within
 * another. An error of theirs ends the run and is its result. */
typedef struct tess_request_source {
    void *self;
    /* The next request to begin; its ids are borrowed until it has finished. *none true: no request now. It is asked
     * again before every pass that has room. The run ends when no request comes and nothing runs. */
    tess_status (*next)(void *self, tess_request *request, bool *none);
    /* The token at `position` of the request's text, in order: with want_prompt_logprobs those of ids from position 1
     * on (generated false), then every new one. logprob: log p(token | all before), see tess_sampling.exact.
     * *stop, which is false, ends the request with this token. */
    tess_status (*token)(void *self, const tess_request *request, int64_t position, int32_t token, float logprob,
                         bool generated, bool *stop);
    /* Once for each request, after its last token; not for those that a failed run leaves. */
    tess_status (*finished)(void *self, const tess_request *request, tess_finish why);
} tess_request_source;

typedef struct tess_generator_stats {
    int64_t prefilled;   /* tokens read: prompts, and texts again after a pre-emption */
    int64_t shared;      /* tokens that were not read because another request had */
    int64_t decoded;     /* rows of texts that grow by a token */
    int64_t drawn;       /* tokens */
    int64_t passes;      /* forwards */
    int64_t preemptions; /* texts that gave their pages back */
    int64_t n_pages, peak_pages, copied_pages;
    size_t page_bytes;
} tess_generator_stats;

/* stream, model and the hooks' context are borrowed. All memory is taken at once: pages from the kv-cache pool, the
 * rest from activations. TESS_E_INVALID: sizes that are not possible, or a cache that is too small for one text. */
tess_status tess_generator_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                  const tess_generator_options *options, tess_generator **generator);
void tess_generator_destroy(tess_generator **generator);

/* Gives keys, values (those that were kept, too) and activations back until tess_generator_wake, which takes them
 * again. Both may be called twice; tess_generator_run wakes. */
void tess_generator_sleep(tess_generator *generator);
tess_status tess_generator_wake(tess_generator *generator);

/* Serves the source until it has no request and all are finished. TESS_E_INVALID: sampling or a request that is not
 * possible; else what the source, a hook or the device returns. After an error the generator is as new. */
tess_status tess_generator_run(tess_generator *generator, const tess_sampling *sampling, const int64_t *end_tokens,
                               int n_end, const tess_request_source *source);

/* The executor's watch (copied), for those who look for where two computations part; NULL: none. It is forgotten by
 * tess_generator_sleep. */
void tess_generator_set_watch(tess_generator *generator, const tess_watch *watch);

/* Since the generator was created. */
tess_generator_stats tess_generator_get_stats(const tess_generator *generator);

#endif
