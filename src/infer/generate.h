/* Generates text with a KV cache. A source supplies requests; they run together while there is room, and leave when
 * they are done. A token's log-probability has the same bits as in training and evaluation. A request gets the same
 * tokens whatever runs next to it, and however prompts are cut, shared or read again (law 2).
 *
 * A pass is one forward of up to `pass_tokens` rows: one token of every text that grows, and pieces of prompts.
 * Logits exist only for rows from which a token is drawn. Keys and values are in pages (infer/kv_pages.h). If pages
 * run out, the youngest text frees its own and is read again later. */
#ifndef TESS_INFER_GENERATE_H
#define TESS_INFER_GENERATE_H

#include "infer/sampler.h"
#include "nn/model.h"

typedef struct tess_generator tess_generator;

enum { TESS_PASS_TOKENS = 512 };

/* The ranks of a pipeline, which have different layers of the model. */
typedef struct tess_generator_stages {
    void *self;
    /* Runs this rank's layers on a batch, whose stream comes from the rank before it and goes to the next one. The
     * rank with the head computes the task. */
    tess_status (*forward)(void *self, tess_executor *executor, const tess_batch *batch, const tess_head_task *task);
    /* Distributes the bytes of the rank with the head to all ranks, or its failure. */
    tess_status (*share)(void *self, tess_status status, void *data, size_t bytes);
} tess_generator_stages;

typedef struct tess_generator_options {
    tess_dtype dtype;      /* type of the weights and the cache */
    int64_t max_length;    /* largest number of tokens in a prompt with its continuation */
    int64_t max_sequences; /* number of requests that run at once */
    /* Rows of a pass, at least max_sequences; 0: TESS_PASS_TOKENS, or all that may run if that is less */
    int64_t pass_tokens;
    /* Most bytes for keys and values, at least one text of max_length; 0: as many as max_sequences need */
    size_t cache_bytes;
    /* The other ranks, if the model is a part. All of them run the same requests in the same order, and all get the
     * same results */
    tess_points points;               /* ranks that share its layers; degree 0: none */
    tess_expert_points expert_points; /* ranks that divide its experts; degree 0: none */
    bool sequence_parallel;           /* see tess_executor_options */
    /* Ranks that have the whole model and the same requests: each computes part of a prompt, and all of the drawn
     * tokens; degree 0: none. Goes with no others */
    tess_points readers;
    tess_generator_stages stages; /* ranks with other layers; forward NULL: none */
    size_t page_bytes;            /* bytes of the largest page of any rank; 0: those of this rank */
} tess_generator_options;

typedef enum tess_finish {
    TESS_FINISH_END,    /* an end token was drawn; it is part of the text */
    TESS_FINISH_LENGTH, /* the text has max_new_tokens new tokens, or max_length tokens */
    TESS_FINISH_STOP,   /* the source's `token` set *stop */
    TESS_FINISH_BUDGET  /* the request's budget is used up: it may continue later, with its text as ids */
} tess_finish;

typedef struct tess_request {
    uint64_t id;            /* part of the seed of its draws: (seed, id, position) */
    const int32_t *ids;     /* (n) the prompt, then tokens generated earlier (in a continuation) */
    int64_t n, n_prompt;    /* 1 <= n_prompt <= n; the first token is drawn for position n */
    int64_t max_new_tokens; /* largest number of new tokens; 0: compute only the log-probabilities of the given ids */
    int64_t budget;         /* number of new tokens after which it ends with TESS_FINISH_BUDGET; 0: no budget */
    uint64_t prefix;        /* not 0: requests with this number start with the same n_prompt ids, which are read once */
    /* Also report the log-probabilities of ids; the prompt is then read for this request only */
    bool want_prompt_logprobs;
    /* Keep its keys and values after it has finished, and after the run, until other texts need the pages. The next
     * request with `keep` reads only tokens that it does not share with such a text; the model must be the same.
     * Ignored with a prefix or want_prompt_logprobs */
    bool keep;
    void *user;
} tess_request;

/* The source of requests, which also receives the results. All callbacks run on the caller's thread, and never
 * nested. If one returns an error, the run ends with that error. */
typedef struct tess_request_source {
    void *self;
    /* Returns the next request to start. Its ids are borrowed until it has finished. *none true: there is no request
     * now. It is called again before every pass that has room. The run ends when there is no request and nothing
     * runs. */
    tess_status (*next)(void *self, tess_request *request, bool *none);
    /* Reports the token at `position` of the request's text, in order. With want_prompt_logprobs it first reports
     * the ids from position 1 on (generated false), then every new token.
     * logprob: the token's log-probability, given all earlier tokens; see tess_sampling.exact
     * *stop is false; setting it ends the request with this token. */
    tess_status (*token)(void *self, const tess_request *request, int64_t position, int32_t token, float logprob,
                         bool generated, bool *stop);
    /* Called once for each request, after its last token. Not called for requests that a failed run abandons. */
    tess_status (*finished)(void *self, const tess_request *request, tess_finish why);
} tess_request_source;

typedef struct tess_generator_stats {
    int64_t prefilled;   /* tokens read: prompts, and texts that are read again after a preemption */
    int64_t shared;      /* tokens that were not read because another request had read them */
    int64_t decoded;     /* rows of texts that grow by one token */
    int64_t drawn;       /* drawn tokens */
    int64_t passes;      /* number of forwards */
    int64_t preemptions; /* number of times that a text had to free its pages */
    int64_t n_pages, peak_pages, copied_pages;
    size_t page_bytes;
} tess_generator_stats;

/* Creates a generator. Borrows stream, model, and the context of hooks, points and stages. Allocates all memory at
 * once: pages from the kv-cache pool, the rest from activations.
 * TESS_E_INVALID: impossible sizes, or a cache that is too small for one text */
tess_status tess_generator_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                  const tess_generator_options *options, tess_generator **generator);
/* Runs passes of all numbers of rows that need most work space, without texts or draws, so that a dry stream
 * (device/dry_device.h) knows this space. Collective over the ranks that share the model. */
tess_status tess_generator_rehearse(tess_generator *generator);
void tess_generator_destroy(tess_generator **generator);
/* Returns the most bytes that a rank contributes to an exchange of `n` readers. */
size_t tess_generator_reader_bytes(const tess_model *model, const tess_generator_options *options, int n);

/* Sleep frees keys and values, including kept ones, and activations. Wake allocates them again. Both may be called
 * twice. tess_generator_run wakes the generator. */
void tess_generator_sleep(tess_generator *generator);
tess_status tess_generator_wake(tess_generator *generator);

/* Serves the source until it has no request and all requests are finished. After an error the generator is as if
 * newly created.
 * TESS_E_INVALID: impossible sampling options or an impossible request
 * TESS_E_UNSUPPORTED: want_prompt_logprobs in a pipeline
 * Other errors are those of the source, a hook or the device. */
tess_status tess_generator_run(tess_generator *generator, const tess_sampling *sampling, const int64_t *end_tokens,
                               int n_end, const tess_request_source *source);

/* Sets the executor's watch (copied), which helps to find where two computations differ; NULL: none.
 * tess_generator_sleep removes it. */
void tess_generator_set_watch(tess_generator *generator, const tess_watch *watch);

/* Returns the counts since the generator was created. */
tess_generator_stats tess_generator_get_stats(const tess_generator *generator);

#endif
