/* Searches the layouts of a model on a cluster: those that the configuration allows, that fit into memory, and that
 * make a step soonest. Every figure is that of a plan (plan.h).
 *
 * First it lists every factorisation of the ranks into axes, with every strategy, division of experts, method of
 * context parallelism and size of the micro-batch. Each of them is a family of layouts, with all schedules of its
 * pipeline, with and without sequence parallelism and, if that is asked for, in several precisions (search_axes.h). A
 * family has the lowest bounds of its members (step_bound.h), and is divided only when they are the lowest of all. What
 * does not fit recomputes. The search plans layouts in the order of their bounds, until no other one can be among the
 * best. If nothing fits, what does not fit offloads, and the search goes on. Then it improves the best: partial
 * recomputation, less offload. */
#ifndef TESS_PLAN_LAYOUT_SEARCH_H
#define TESS_PLAN_LAYOUT_SEARCH_H

#include "plan/search/search_layout.h"

typedef struct tess_search_request {
    tess_plan_request plan; /* its configuration gives all settings that the search does not vary */
    /* conditions on degrees and on the settings of search_axes.h, such as "tp=8,strategy=full"; NULL: none */
    const char *only;
    /* called now and then with the layouts that are planned and those that are known; NULL: never */
    void (*progress)(void *self, int n_done, int n_all);
    void *self;
    bool varies_precision; /* also search among precisions, which change results */
    bool
        without_nearest; /* plan no layout that does not fit, and offload none: the caller asks only whether one fits */
    bool exhaustive;     /* plan every layout, whatever its bounds say: for tests */
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

#endif
