/* Private to this folder.
 *
 *   reference.c         the object, and its log-probabilities
 *   reference_copy.c    the host's copy: mapped, or in memory that ranks share
 *   reference_follow.c  float32 weights that follow the policy's, and their distance from the policy
 *   reference_choice.c  the vote for a kind of reference */
#ifndef TESS_RL_REFERENCE_IMPL_H
#define TESS_RL_REFERENCE_IMPL_H

#include "rl/reference/reference.h"

enum { REFERENCE_CHUNK = 1 << 18 }; /* elements converted at a time */

/* The source of the first weights. */
typedef struct reference_source {
    char path[TESS_TEXT_SIZE]; /* "": random */
    tess_weights *weights;     /* open as long as the reference exists, which may map them; NULL: random */
    tess_random_weights random;
    tess_fill_fn fill;
    void *context;
} reference_source;

/* The host's copy. */
typedef struct reference_copy {
    int rank, n_ranks;  /* index among this host's ranks */
    tess_team *leaders; /* the first rank of each host, if there are several hosts; NULL on other ranks */
    char *memory;       /* memory of tensors that are not mapped */
    size_t bytes;
    size_t *offset; /* (n_params) offset in memory; SIZE_MAX: mapped */
    const void **w; /* (n_params) address of the whole tensor */
} reference_copy;

struct tess_reference {
    tess_engine *engine;
    int64_t update_interval;
    double ema;
    tess_dtype dtype;        /* compute dtype */
    const tess_model *model; /* the policy's, or own_model */
    tess_model *own_model;   /* NULL: the policy's model */
    bool is_alike;           /* whether it has the policy's parameters */
    reference_source source;
    reference_copy copy;
    float **rows; /* (n_params) float32 weights that follow the policy's; NULL: the reference never changes */
    char (*names)[TESS_PARAM_NAME_SIZE + 16];
    tess_hooks of_host;
    tess_compute compute; /* the engine's device and stream */
    tess_executor *executor;
    float *logprob, *entropy; /* (max_tokens) in device memory */
};

/* ---- reference_copy.c ---- */
/* Maps or allocates the copy, and fills the tensors that never change. Collective. */
tess_status reference_copy_create(tess_reference *r);
void reference_copy_free(tess_reference *r);
/* The type of parameter i in the copy. */
tess_dtype reference_dtype(const tess_reference *r, int i);
/* The address of element `first` of parameter i. */
char *reference_copy_at(const tess_reference *r, int i, int64_t first);
/* Updates the copies of all hosts. Each rank writes a part with `write`, which is called once no rank reads the
 * copies any more. Collective. */
tess_status reference_copy_rewrite(tess_reference *r, tess_status (*write)(tess_reference *r));

/* ---- reference_follow.c ---- */
tess_status reference_follow_create(tess_reference *r);

#endif
