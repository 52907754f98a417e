/* Declarations that the generator's files share: generate.c has the requests that run, generate_schedule.c decides
 * what runs in the next pass and assigns pages, generate_pass.c runs the pass. */
#ifndef TESS_INFER_GENERATE_IMPL_H
#define TESS_INFER_GENERATE_IMPL_H

#include "infer/generate.h"
#include "infer/kv_pages.h"

/* A text whose keys and values are computed: that of a request, or a prompt that several requests share. */
typedef struct text {
    int32_t *ids; /* (max_length) all tokens of the text */
    int64_t n;    /* number of known tokens */
    int64_t goal; /* number of tokens to compute: all, or all but the last if nothing is drawn */
    tess_kv_table table;
    int64_t take;      /* number of its tokens in this pass */
    int64_t row;       /* row of logits for its last token; -1: none in this pass */
    struct shared *of; /* the shared prompt that contains this text; NULL: the text of a request */
} text;

/* A prompt that requests share. */
typedef struct shared {
    text text;
    uint64_t number; /* the prompt's number (tess_request.prefix); 0: this entry is free */
    bool ready;      /* the prompt has been read, and its logits are kept */
    float *logits;   /* (V) logits of its last token, in device memory */
    int64_t waiting; /* number of requests that start when it is ready */
    int64_t used;    /* count of requests when one last used it; larger is more recent */
} shared;

typedef struct sequence {
    text text; /* if not live: the kept text, of table.length tokens */
    tess_request request;
    bool live;
    shared *waits_for; /* the shared prompt for which it waits; NULL: it runs */
    bool draws;        /* this pass draws a token for it */
    int64_t n_new;     /* number of tokens drawn so far */
    int64_t reported;  /* number of prompt tokens whose log-probabilities have been reported */
} sequence;

/* A new token of a sequence. */
typedef struct new_token {
    int32_t token;
    float logprob;
} new_token;

/* The state of one tess_generator_run. */
typedef struct generate_run {
    const tess_sampling *sampling;
    const int64_t *end_tokens;
    int n_end;
    const tess_request_source *source;
} generate_run;

struct tess_generator {
    tess_stream *stream;
    const tess_model *model;
    tess_hooks hooks;
    tess_generator_options options;
    int64_t n_pages, table_room; /* total number of pages; most pages of one text */

    sequence *sequences; /* (max_sequences) requests that run, and kept texts */
    shared *prompts;     /* (max_sequences) shared prompts */
    text **running;      /* (2 max_sequences) running texts, the oldest first */
    int64_t n_running, n_live, n_asked;
    bool shares_pass; /* the ranks that read texts together have each a part of the tokens of this pass */
    void *memory;     /* host memory: ids and page tables */

    int32_t *ids, *pos, *targets, *cu_seqlens; /* (pass_tokens) inputs of a pass */
    const int32_t **pages;                     /* (pass_tokens) page table of each sequence of the pass */
    int32_t *rows;                             /* (max_sequences) rows of the batch that need logits */
    int32_t *picked;                           /* (max_sequences) drawn tokens; -1: none */
    tess_draw *draws;                          /* (max_sequences) draws of a pass */
    new_token *news;                           /* (max_sequences) their results */

    /* The members from here on are NULL while the generator sleeps. */
    tess_executor *executor;
    tess_kv_pages *cache;
    tess_sampler *sampler;      /* NULL: another rank has the head */
    void *results;              /* device memory for the next three arrays */
    float *logits;              /* (max_sequences, V) logits of the rows that need them */
    float *logprobs;            /* (pass_tokens) log-probabilities of the targets */
    int32_t *drawn;             /* (max_sequences) copy of `picked` on the device */
    float *room;                /* host memory for copies of logits or logprobs; NULL: the host reads them in place */
    tess_generator_stats stats; /* includes counts of caches that have been freed */
};

/* ---- generate_schedule.c ---- */
tess_status tess_generate_check(const tess_generator *g, const tess_request *request);
/* Puts the request in a free place; there must be one. */
tess_status tess_generate_admit(tess_generator *g, const tess_request *request);
/* Removes a sequence that has finished: frees its place, and its pages unless they are to be kept. */
void tess_generate_remove(tess_generator *g, sequence *s);
/* Removes all sequences; `all`: kept texts, too. */
void tess_generate_clear(tess_generator *g, bool all);
/* Decides how many tokens of each running text the next pass computes, and reserves pages for them. Returns the
 * number of tokens in *n_tokens. */
tess_status tess_generate_plan(tess_generator *g, int64_t *n_tokens);
/* Takes a prompt that has been read off the list of running texts. */
void tess_generate_retire(tess_generator *g, shared *prompt);
/* Starts the sequences whose shared prompt is ready: they share its pages and run. Sequences at their first new
 * token draw from its logits. */
void tess_generate_join(tess_generator *g);

/* ---- generate_pass.c ---- */
/* Runs the planned pass, draws tokens and reports them. */
tess_status tess_generate_pass(tess_generator *g, const generate_run *run, int64_t n_tokens);

/* The length of a row of logits; 0: another rank has the head. */
static inline int64_t tess_generate_vocab(const tess_generator *g)
{
    return tess_model_get_part(g->model)->head ? tess_model_get_config(g->model)->vocab_size : 0;
}

static inline sequence *tess_sequence_of(text *t)
{
    return (sequence *)t; /* `text` is the first member of sequence */
}

#endif
