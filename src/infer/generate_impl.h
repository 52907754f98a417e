/* The generator's insides: what runs (generate.c), what of it runs in the next pass and where its pages come from
 * (generate_schedule.c), and the pass (generate_pass.c). */
#ifndef TESS_INFER_GENERATE_IMPL_H
#define TESS_INFER_GENERATE_IMPL_H

#include "infer/generate.h"
#include "infer/kv_pages.h"

/* A text whose keys and values are computed: a request's, or a prompt that several share. */
typedef struct text {
    int32_t *ids; /* (max_length) */
    int64_t n;    /* tokens that are known */
    int64_t goal; /* tokens to compute: all, or all but the last where nothing is drawn */
    tess_kv_table table;
    int64_t take;      /* tokens of it in this pass */
    int64_t row;       /* row of logits of its last token, -1: none in this pass */
    struct shared *of; /* itself, where it is a shared prompt; else NULL */
} text;

/* A prompt that requests share. */
typedef struct shared {
    text text;
    uint64_t number; /* 0: this entry is free */
    bool ready;      /* read, and its logits are kept */
    float *logits;   /* (V) of the device, of its last token */
    int64_t waiting; /* requests that begin when it is ready */
    int64_t used;    /* when a request last asked for it */
} shared;

typedef struct sequence {
    text text; /* if it is not live: the text that was kept, up to table.length */
    tess_request request;
    bool live;
    shared *waits_for; /* NULL: it runs */
    bool draws;        /* a token is drawn in this pass */
    int64_t n_new;     /* tokens drawn so far */
    int64_t reported;  /* prompt tokens whose log-probabilities were given */
} sequence;

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
    int64_t n_pages, table_room; /* pages in all; of a text */

    sequence *sequences; /* (max_sequences) */
    shared *prompts;     /* (max_sequences) */
    text **running;      /* (2 max_sequences) the oldest first */
    int64_t n_running, n_live, n_asked;
    void *memory; /* host memory: ids and page tables */

    int32_t *ids, *pos, *targets, *cu_seqlens; /* inputs of a pass (pass_tokens) */
    const int32_t **pages;                     /* (pass_tokens) */
    int32_t *rows;                             /* (max_sequences) rows of the batch whose logits are wanted */
    int32_t *picked;                           /* (max_sequences) drawn tokens, -1: none */
    tess_draw *draws;                          /* (max_sequences) */

    /* Asleep these are NULL. */
    tess_executor *executor;
    tess_kv_pages *cache;
    tess_sampler *sampler;
    void *results;              /* device memory that holds: */
    float *logits;              /* (max_sequences, V) */
    float *logprobs;            /* (pass_tokens) */
    int32_t *drawn;             /* (max_sequences) picked */
    float *room;                /* host memory for logits or logprobs; NULL: the host reads them in place */
    tess_generator_stats stats; /* includes those of caches that are gone */
};

/* ---- generate_schedule.c ---- */
tess_status tess_generate_check(const tess_generator *g, const tess_request *request);
/* The request takes a place; there is one. */
tess_status tess_generate_admit(tess_generator *g, const tess_request *request);
/* The sequence has finished; its place is free, and so are its pages, unless they are to be kept. */
void tess_generate_remove(tess_generator *g, sequence *s);
/* Everything leaves; `all`: also what was kept. */
void tess_generate_clear(tess_generator *g, bool all);
/* Decides what each running text takes of the next pass, and reserves pages for it. Gives the number of tokens. */
tess_status tess_generate_plan(tess_generator *g, int64_t *n_tokens);
/* The prompt has been read. */
void tess_generate_retire(tess_generator *g, shared *prompt);
/* Sequences whose prompt is ready share its pages and run. Those at their first new token draw from its logits. */
void tess_generate_join(tess_generator *g);

/* ---- generate_pass.c ---- */
/* Computes what was planned, draws and reports. */
tess_status tess_generate_pass(tess_generator *g, const generate_run *run, int64_t n_tokens);

static inline sequence *tess_sequence_of(text *t)
{
    return (sequence *)t; /* its first member */
}

#endif
