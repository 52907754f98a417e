/* Finds the layouts of a number of ranks that give the bits of one rank. Tries every factorisation into the axes of
 * a mesh, with every strategy and schedule that fits. One rank runs once, and each layout once. For the values of a
 * single layout, use tess_verify. */
#ifndef TESS_VERIFY_VERIFY_LAYOUTS_H
#define TESS_VERIFY_VERIFY_LAYOUTS_H

#include "verify/verify.h"

typedef enum tess_verify_outcome {
    TESS_VERIFY_SAME,
    TESS_VERIFY_DIFFERS,
    TESS_VERIFY_FAILED,  /* the run ended with an error */
    TESS_VERIFY_REFUSED, /* the configuration does not allow the layout; it was not run */
    TESS_VERIFY_OUTCOMES
} tess_verify_outcome;

enum { TESS_VERIFY_EP = TESS_AXES, TESS_VERIFY_DEGREES };

/* Returns the name of a degree: of an axis, or "ep". */
static inline const char *tess_verify_degree_name(int degree)
{
    return degree == TESS_VERIFY_EP ? "ep" : tess_axis_name(degree);
}

typedef struct tess_verify_layout {
    /* degrees of the axes, whose product is the number of ranks; then parallelism.expert_parallel_degree */
    int degree[TESS_VERIFY_DEGREES];
    int strategy; /* tess_strategy */
    int schedule; /* tess_pipeline_kind; -1: no pipeline */
    int method;   /* tess_context_method; -1: no ranks divide tokens */
    tess_verify_outcome outcome;
    char text[512]; /* reason if the outcome is not SAME */
    double seconds;
} tess_verify_layout;

typedef struct tess_verify_walk {
    tess_mem *mem;
    int ranks;
    int64_t steps;
    int64_t global_batch; /* rows of a step over all ranks */
    tess_verify_layout *layouts;
    int n;
    size_t room;
    int64_t n_experts; /* the number of experts of a layer of the model; 0: it has none */
    int64_t n_leaves;  /* training.context_leaves; 1: no ranks divide tokens */
} tess_verify_walk;

/* Runs the layouts of plan->ranks ranks that `which` names: "all", or conditions on axes, strategy, schedule and method
 * such as "pp=2,strategy=full,strategy=zero2" (each word must have one of its values). `done` (may be NULL) gets each
 * layout when its outcome is known. A training.global_batch_size of 0 becomes one micro-batch per rank. Free the
 * walk with tess_verify_walk_free. TESS_E_INVALID: the conditions are invalid, or no layout meets them. Also returns
 * the errors of the run on one rank. */
tess_status tess_verify_layouts(tess_mem *mem, const tess_verify_plan *plan, const char *which,
                                void (*done)(void *self, const tess_verify_layout *layout), tess_verify_walk *walk);
void tess_verify_walk_free(tess_verify_walk *walk);

/* Returns the number of layouts with this outcome. */
int tess_verify_walk_count(const tess_verify_walk *walk, tess_verify_outcome outcome);

/* Defined in verify_layouts_report.c. Prints a layout and its outcome in one line: "pp 2 (1f1b) x dp_shard 2,
 * zero2". */
tess_status tess_verify_print_layout(const tess_verify_layout *layout, tess_buffer *out);
/* Prints one line per axis with the values that gave the same bits, then the conclusion; or everything for programs:
 * version 1. */
tess_status tess_verify_print_walk(const tess_verify_walk *walk, tess_form_style style, tess_buffer *out);

/* returns "same" and the like */
const char *tess_verify_outcome_name(tess_verify_outcome outcome);

#endif
