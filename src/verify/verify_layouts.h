/* Finds the layouts of a number of ranks that give the bits of one rank: every factorisation into the axes of a mesh,
 * with every strategy and schedule that fits. The one rank runs once, each layout once; a single layout's values are
 * tess_verify's business. */
#ifndef TESS_VERIFY_VERIFY_LAYOUTS_H
#define TESS_VERIFY_VERIFY_LAYOUTS_H

#include "verify/verify.h"

typedef enum tess_verify_outcome {
    TESS_VERIFY_SAME,
    TESS_VERIFY_DIFFERS,
    TESS_VERIFY_FAILED,  /* it ended with an error */
    TESS_VERIFY_REFUSED, /* the configuration does not allow it; not run */
    TESS_VERIFY_OUTCOMES
} tess_verify_outcome;

typedef struct tess_verify_layout {
    int degree[TESS_AXES]; /* degrees of the axes; their product is the number of ranks */
    int strategy;          /* tess_strategy */
    int schedule;          /* tess_pipeline_kind; -1: no pipeline */
    tess_verify_outcome outcome;
    char text[512]; /* why it is not the same */
    double seconds;
} tess_verify_layout;

typedef struct tess_verify_walk {
    tess_mem *mem;
    int ranks;
    int64_t steps;
    int64_t global_batch; /* rows of a step, of all of them */
    tess_verify_layout *layouts;
    int n;
    size_t room;
} tess_verify_walk;

/* Runs the layouts of plan->ranks that `which` names: "all", or conditions on axes, strategy and schedule such as
 * "pp=2,strategy=full,strategy=zero2" (one of the values for each word). `done` (may be NULL) gets each when it is
 * known. A training.global_batch_size of 0 becomes a micro-batch a rank. TESS_E_INVALID: bad conditions, or none of the
 * layouts meets them; otherwise what the one rank's run ends with. Free the walk with tess_verify_walk_free. */
tess_status tess_verify_layouts(tess_mem *mem, const tess_verify_plan *plan, const char *which,
                                void (*done)(void *self, const tess_verify_layout *layout), tess_verify_walk *walk);
void tess_verify_walk_free(tess_verify_walk *walk);

/* How many have the outcome. */
int tess_verify_walk_count(const tess_verify_walk *walk, tess_verify_outcome outcome);

/* verify_layouts_report.c: "pp 2 (1f1b) x dp_shard 2, zero2", and what came of it, in a line. */
tess_status tess_verify_print_layout(const tess_verify_layout *layout, tess_buffer *out);
/* A line an axis: which of its values gave the bits. Then the conclusion. */
tess_status tess_verify_print_walk(const tess_verify_walk *walk, tess_buffer *out);
/* All of it for programs: version 1. */
tess_status tess_verify_print_walk_json(const tess_verify_walk *walk, tess_buffer *out);

/* "same" */
const char *tess_verify_outcome_name(tess_verify_outcome outcome);

#endif
