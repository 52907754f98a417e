/* Checks that a layout gives the bits of one rank. Runs the first steps of a configuration twice on this machine
 * with the same data: sharded over ranks, and on one rank. Compares losses, norms, every gradient and weight after
 * every step, and which rank held which part.
 *
 * Ranks hash their parts in place, so no process ever holds the whole model. If hashes differ, both runs are
 * repeated, and the values of the first step that differs are compared one by one. Writes nothing to
 * job.dump_folder. */
#ifndef TESS_VERIFY_VERIFY_H
#define TESS_VERIFY_VERIFY_H

#include "base/report/form.h"
#include "config/config.h"

enum { TESS_VERIFY_MAX_STEPS = 1000, TESS_VERIFY_TEXT = 192, TESS_VERIFY_NAME = 128 };

typedef struct tess_verify_plan {
    const tess_config *config; /* loaded, but not checked yet; borrowed */
    int ranks;
    int64_t steps;
    const char *reference_kernels;              /* kernel table of the single rank; NULL: that of the layout */
    void (*note)(void *self, const char *text); /* reports progress; may be NULL */
    void *self;
} tess_verify_plan;

/* How the values of one tensor differ. */
typedef struct tess_verify_delta {
    int64_t n_different; /* number of elements whose bits differ */
    int64_t first;       /* index of the first of them in the whole tensor */
    float here, there;   /* values of the first: in the layout, and on one rank */
    int64_t ulp;         /* distance of the two values, in steps between adjacent floats */
    /* over all elements; max_rel: relative to the larger magnitude. Infinite if a value is not finite */
    double max_abs, max_rel;
    int rank; /* rank that holds the first */
} tess_verify_delta;

typedef struct tess_verify_tensor {
    char name[TESS_VERIFY_NAME];
    int64_t rows, row;                /* rows, and elements per row */
    int64_t grads_step, weights_step; /* first steps in which they differ; 0: none */
    tess_verify_delta grads, weights; /* differences in tess_verify_result.first_step */
    int stage;                        /* first pipeline stage that has the tensor */
    char shards[TESS_VERIFY_TEXT];    /* error in the placement of its parts; "": none */
} tess_verify_tensor;

typedef struct tess_verify_memory {
    int64_t one;     /* peak bytes of the single rank */
    int64_t largest; /* peak bytes of the rank of the layout that uses most */
    int64_t all;     /* peak bytes of all ranks of the layout together */
    int64_t planned; /* bytes planned for `largest`; -1: not planned */
} tess_verify_memory;

typedef struct tess_verify_result {
    tess_mem *mem;
    int ranks;
    int64_t steps;
    int sharing;                       /* number of ranks that share a layer; 1: none do */
    int dividing;                      /* number of ranks that divide the tokens of a micro-batch; 1: none do */
    int n_experts;                     /* number of ranks that divide the experts of a layer; 1: none do */
    int stages;                        /* number of pipeline stages; 1: no pipeline */
    char schedule[16];                 /* schedule of the pipeline; "": no pipeline */
    char strategy[16], kernels[2][32]; /* [0]: of the layout, [1]: of the single rank */
    double loss[2][TESS_VERIFY_MAX_STEPS], grad_norm[2][TESS_VERIFY_MAX_STEPS];
    int64_t loss_step, norm_step; /* first step that differs; 0: none */
    int64_t first_step;           /* first step in which anything differs; 0: none */
    int irreproducible;           /* a repeated run gave other bits: 1: the layout, 2: the single rank; 0: neither */
    bool has_values;              /* the tensors' deltas are set */
    char no_values[TESS_VERIFY_TEXT]; /* why deltas are not set; "": they are */
    double seconds[2];
    tess_verify_memory memory[TESS_POOL_COUNT];
    tess_verify_tensor *tensors;
    int n_tensors;
} tess_verify_result;

/* Runs the check. Errors: the configuration cannot run on this number of ranks, or a run failed (the message says
 * which). Always free the result with tess_verify_free. */
tess_status tess_verify(tess_mem *mem, const tess_verify_plan *plan, tess_verify_result *result);
void tess_verify_free(tess_verify_result *result);

/* Whether nothing differs, every part is at its place, and memory is as planned. */
bool tess_verify_same(const tess_verify_result *result);

/* Adds the differences between n values of the layout and of the single rank to *delta. `rank` holds the values. The
 * first has index `number` in its tensor. */
void tess_verify_compare(const float *here, const float *there, int64_t n, int64_t number, int rank,
                         tess_verify_delta *delta);
/* Adds the differences that another rank found. */
void tess_verify_merge(const tess_verify_delta *more, tess_verify_delta *delta);

/* Prints one screen: what was compared, what differs (`all`: every tensor), and the conclusion; or everything for
 * programs: version 1. */
tess_status tess_verify_print(const tess_verify_result *result, bool all, tess_form_style style, tess_buffer *out);

#endif
