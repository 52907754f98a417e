/* Does a layout give the bits of one rank? Runs the first steps of a configuration twice on this machine, sharded over
 * ranks as it says and on one rank alone, with the same data, and compares what came of it: losses, norms, every
 * gradient and every weight after every step, and where each row lay.
 *
 * Rows are hashed where they lie, so that neither a rank nor this process ever holds the whole model. Only where hashes
 * differ both runs are made again, and the values of the first step that differs are compared one by one. Nothing of
 * job.dump_folder is written. */
#ifndef TESS_TRAIN_VERIFY_VERIFY_H
#define TESS_TRAIN_VERIFY_VERIFY_H

#include "base/text/text.h"
#include "train/train_config.h"

enum { TESS_VERIFY_MAX_STEPS = 1000, TESS_VERIFY_TEXT = 192, TESS_VERIFY_NAME = 128 };

typedef struct tess_verify_plan {
    const tess_config *config; /* as it was loaded, not checked yet; borrowed */
    int ranks;
    int64_t steps;
    const char *reference_kernels;              /* table that the one rank uses; NULL: as the layout does */
    void (*note)(void *self, const char *text); /* hears what is being done; may be NULL */
    void *self;
} tess_verify_plan;

/* How the values of one tensor differ. */
typedef struct tess_verify_delta {
    int64_t n_different;     /* elements whose bits differ */
    int64_t first;           /* the first of them, in the whole tensor */
    float here, there;       /* its values: in the layout, on the one rank */
    int64_t ulp;             /* floats from one to the other */
    double max_abs, max_rel; /* over all elements; rel: of the larger magnitude. Infinite where one is no number */
    int rank;                /* that holds the first */
} tess_verify_delta;

typedef struct tess_verify_tensor {
    char name[TESS_VERIFY_NAME];
    int64_t rows, row;                /* elements of a row */
    int64_t grads_step, weights_step; /* first steps in which they differ, 0: none */
    tess_verify_delta grads, weights; /* of tess_verify_result.first_step */
    char shards[TESS_VERIFY_TEXT];    /* what is wrong with where its rows lie, "": nothing */
} tess_verify_tensor;

typedef struct tess_verify_memory {
    int64_t one;     /* peak bytes of the one rank */
    int64_t largest; /* of the layout's rank that uses most */
    int64_t all;     /* of all of them together */
    int64_t planned; /* of the largest, as the rows are planned; -1: no plan tells */
} tess_verify_memory;

typedef struct tess_verify_result {
    tess_mem *mem;
    int ranks;
    int64_t steps;
    char strategy[16], kernels[2][32]; /* [0]: the layout's, [1]: the one rank's */
    double loss[2][TESS_VERIFY_MAX_STEPS], grad_norm[2][TESS_VERIFY_MAX_STEPS];
    int64_t loss_step, norm_step;     /* first that differ, 0: none */
    int64_t first_step;               /* in which anything differs, 0: none */
    int irreproducible;               /* 1: the layout, made again, gave other bits; 2: the one rank did; 0: neither */
    bool has_values;                  /* deltas are filled in */
    char no_values[TESS_VERIFY_TEXT]; /* why they are not, "" */
    double seconds[2];
    tess_verify_memory memory[TESS_POOL_COUNT];
    tess_verify_tensor *tensors;
    int n_tensors;
} tess_verify_result;

/* TESS_E_INVALID and the like: the configuration cannot run so; others: a run failed, the message says which. Free with
 * tess_verify_free, whatever came of it. */
tess_status tess_verify(tess_mem *mem, const tess_verify_plan *plan, tess_verify_result *result);
void tess_verify_free(tess_verify_result *result);

/* Nothing differs, every row lies where it should, and takes no more memory than planned. */
bool tess_verify_same(const tess_verify_result *result);

/* Adds what differs between n values of the layout and of the one rank to *delta; the first has number `number` in its
 * tensor, `rank` holds them. */
void tess_verify_compare(const float *here, const float *there, int64_t n, int64_t number, int rank,
                         tess_verify_delta *delta);
/* Adds what another rank has found. */
void tess_verify_merge(const tess_verify_delta *more, tess_verify_delta *delta);

/* One screen: what was compared, then what differs (`all`: all of it), then the verdict. */
tess_status tess_verify_print(const tess_verify_result *result, bool all, tess_buffer *out);
/* The same for programs: version 1. */
tess_status tess_verify_print_json(const tess_verify_result *result, tess_buffer *out);

#endif
