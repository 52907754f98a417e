/* One job of measuring checkpoints: ranks that hold the state of a model's training, made up, save and load it. */
#ifndef TESS_BENCH_CKPT_JOB_H
#define TESS_BENCH_CKPT_JOB_H

#include "ckpt/catalog/catalog.h"
#include "nn/config.h"

enum { CKPT_JOB_MAX_ROUNDS = 100 };

typedef struct ckpt_plan {
    tess_model_config model;
    int ranks, threads; /* threads of a rank; 0: cores divided by ranks */
    int rounds;
    bool direct;
    tess_codec codec;
    tess_dtype weights;
    const char *folder; /* where to write; nothing stays there unless `keep` */
    bool keep;
} ckpt_plan;

/* Seconds of one round, in the order in which they are measured. */
typedef struct ckpt_round {
    double copy;    /* the state, in memory, by all threads */
    double staged;  /* training stands still: an asynchronous save */
    double disk;    /* the same bytes by one thread: 8 MiB at a time past the page cache, then fsync */
    double written; /* from staged to committed */
    double saved;   /* a synchronous save, begin to end */
    double loaded;
} ckpt_round;

typedef struct ckpt_result {
    int threads;    /* of a rank */
    uint64_t bytes; /* of the state: weights as they are stored, and two moments */
    uint64_t n_params;
    ckpt_round rounds[CKPT_JOB_MAX_ROUNDS]; /* (rounds) */
} ckpt_result;

/* Starts `ranks` processes beside a writer, as `tessera train -n` does. */
tess_status ckpt_job_run(const ckpt_plan *plan, ckpt_result *result);

#endif
