/* Checks that a layout gives the bits of one rank. Runs the first steps of a configuration twice on this machine with
 * the same data, sharded over ranks and on one rank, and compares losses, norms, every gradient and weight after every
 * step, and which rank held which part.
 *
 * Ranks hash their parts in place, so no process ever holds the whole model. If hashes differ, both runs are repeated,
 * and the values of the first step that differs are compared one by one. Writes nothing to job.dump_folder. */
#ifndef TESS_VERIFY_VERIFY_H
#define TESS_VERIFY_VERIFY_H

#include "base/text/text.h"
#include "config/config.h"

enum { TESS_VERIFY_MAX_STEPS = 1000, TESS_VERIFY_TEXT = 192, TESS_VERIFY_NAME = 128 };

typedef struct tess_verify_plan {
    const tess_config *config; /* loaded, not checked yet; borrowed */
    int ranks;
    int64_t steps;
    const char *reference_kernels;              /* kernel table of the one rank; NULL: the layout's */
    void (*note)(void *self, const char *text); /* reports progress; may be NULL */
    void *self;
} tess_verify_plan;

/* How the values of one tensor differ. */
typedef struct tess_verify_delta {
    int64_t n_different;     /* elements whose bits differ */
    int64_t first;           /* index of the first in the whole tensor */
    float here, there;       /* its values: in the layout, on the one rank */
    int64_t ulp;             /* its distance in floats */
    double max_abs, max_rel; /* over all elements; rel: to the larger magnitude. Infinite if a value is not finite */
    int rank;                /* holds the first */
} tess_verify_delta;

typedef struct tess_verify_tensor {
    char name[TESS_VERIFY_NAME];
    int64_t rows, row;                /* elements of a row */
    int64_t grads_step, weights_step; /* first steps that differ, 0: none */
    tess_verify_delta grads, weights; /* differences of tess_verify_result.first_step */
    int stage;                        /* the first stage of a pipeline that has it */
    char shards[TESS_VERIFY_TEXT];    /* the error in the placement of its parts, "": none */
} tess_verify_tensor;

typedef struct tess_verify_memory {
    int64_t one;     /* peak bytes of the one rank */
    int64_t largest; /* peak bytes of the layout's rank that uses most */
    int64_t all;     /* peak bytes of all its ranks together */
    int64_t planned; /* bytes planned for `largest`, from the plan of parts; -1: not planned */
} tess_verify_memory;

typedef struct tess_verify_result {
    tess_mem *mem;
    int ranks;
    int64_t steps;
    int sharing;                       /* ranks of the layout that share layers; 1: none do */
    int stages;                        /* stages of the layout's pipeline; 1: none */
    char schedule[16];                 /* their schedule, "" */
    char strategy[16], kernels[2][32]; /* [0]: the layout's, [1]: the one rank's */
    double loss[2][TESS_VERIFY_MAX_STEPS], grad_norm[2][TESS_VERIFY_MAX_STEPS];
    int64_t loss_step, norm_step; /* first that differs, 0: none */
    int64_t first_step;           /* first in which anything differs, 0: none */
    int irreproducible;           /* the repeated run of 1: the layout, 2: the one rank, gave other bits; 0: neither */
    bool has_values;              /* deltas are set */
    char no_values[TESS_VERIFY_TEXT]; /* why they are not, "" */
    double seconds[2];
    tess_verify_memory memory[TESS_POOL_COUNT];
    tess_verify_tensor *tensors;
    int n_tensors;
} tess_verify_result;

/* Errors: the configuration cannot run on this number of ranks, or a run failed (the message says which). Free the
 * result with tess_verify_free in any case. */
tess_status tess_verify(tess_mem *mem, const tess_verify_plan *plan, tess_verify_result *result);
void tess_verify_free(tess_verify_result *result);

/* Whether nothing differs, every part is where it should be, and memory is as planned. */
bool tess_verify_same(const tess_verify_result *result);

/* Adds the differences between n values of the layout and of the one rank to *delta. `rank` holds them; the first has
 * index `number` in its tensor. */
void tess_verify_compare(const float *here, const float *there, int64_t n, int64_t number, int rank,
                         tess_verify_delta *delta);
/* Adds the differences that another rank found. */
void tess_verify_merge(const tess_verify_delta *more, tess_verify_delta *delta);

/* One screen: what was compared, what differs (`all`: every tensor), and the conclusion. */
tess_status tess_verify_print(const tess_verify_result *result, bool all, tess_buffer *out);
/* The same for programs: version 1. */
tess_status tess_verify_print_json(const tess_verify_result *result, tess_buffer *out);

#endif
