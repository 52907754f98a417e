/* Searches the layouts of a model on a cluster: those that the configuration allows, that fit into memory, and that
 * make a step soonest. Every figure is that of a plan (plan.h).
 *
 * First it plans every factorisation of the ranks into axes, with every strategy and every division of experts, one row
 * a micro-batch, without recomputation and, where that does not fit, with it. Then it improves the fastest of them one
 * setting at a time: larger micro-batches, other schedules, partial recomputation, weights that stay gathered, other
 * methods of context parallelism. */
#ifndef TESS_PLAN_LAYOUT_SEARCH_H
#define TESS_PLAN_LAYOUT_SEARCH_H

#include "mesh/axes.h"
#include "plan/plan.h"

enum { TESS_SEARCH_EP = TESS_AXES, TESS_SEARCH_DEGREES, TESS_SEARCH_TEXT = 256 };

typedef enum tess_search_outcome {
    TESS_SEARCH_FITS,
    TESS_SEARCH_TOO_LARGE, /* also with full recomputation */
    TESS_SEARCH_REFUSED,   /* the configuration, the model or the machine does not allow it */
    TESS_SEARCH_OUTCOMES
} tess_search_outcome;

typedef struct tess_search_layout {
    int degree[TESS_SEARCH_DEGREES]; /* degrees of the axes, whose product is the number of ranks; then that of experts
                                      */
    int strategy;                    /* parallelism.shard_strategy */
    int schedule;                    /* tess_pipeline_kind; -1: no pipeline */
    int method;                      /* tess_context_method; -1: no ranks divide tokens */
    int recompute;                   /* activation_checkpoint.mode */
    int64_t micro;                   /* rows of a micro-batch */
    int64_t reshard;                 /* parallelism.fsdp_reshard_after_forward */
    tess_search_outcome outcome;
    double bytes, missing; /* bytes of the rank that needs most; bytes that are missing */
    double step_s, compute_s, exposed_s, bubble_s, optimizer_s;
    double tokens_per_s_rank, mfu, price_per_million;
    tess_plan_bound bound;
    char bound_axis[TESS_TRACE_NAME_BYTES];
    char reason[TESS_SEARCH_TEXT]; /* why it is refused; "": it is not */
} tess_search_layout;

typedef struct tess_search_request {
    tess_plan_request plan; /* its configuration gives all settings that the search does not vary */
    /* conditions on degrees, strategy, schedule, method and micro, such as "tp=8,strategy=full"; NULL: none */
    const char *only;
    /* called now and then with the layouts that are planned and those that are known; NULL: never */
    void (*progress)(void *self, int n_done, int n_all);
    void *self;
} tess_search_request;

typedef struct tess_search {
    tess_mem *mem;
    tess_search_layout
        *layouts; /* (n) those that fit first, the fastest first; then those that miss least; then others */
    int n;
    size_t room;
    int n_fits;
} tess_search;

/* Searches. Free *search with tess_search_free.
 * TESS_E_INVALID: a word is not a condition, or no layout meets the conditions */
tess_status tess_search_layouts(tess_mem *mem, tess_planner *planner, const tess_search_request *request,
                                tess_search *search);
void tess_search_free(tess_search *search);

/* Writes the settings of a layout into a configuration. */
void tess_search_configure(const tess_search_layout *layout, tess_config *config);
/* Describes a layout in a few words: "tp 8 x pp 4 (1f1b) x dp_shard 16, full, micro 1, recomputation full". */
size_t tess_search_describe(const tess_search_layout *layout, char *text, size_t size);

#endif
