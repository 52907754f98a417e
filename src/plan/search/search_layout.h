/* A layout of a run: the settings that a search of layouts varies (layout_search.h), and what its plan says. */
#ifndef TESS_PLAN_SEARCH_LAYOUT_H
#define TESS_PLAN_SEARCH_LAYOUT_H

#include "mesh/axes.h"
#include "plan/plan.h"

enum { TESS_SEARCH_EP = TESS_AXES, TESS_SEARCH_DEGREES, TESS_SEARCH_TEXT = 256, TESS_SEARCH_OPEN = -2 };

typedef enum tess_search_outcome {
    TESS_SEARCH_FITS,
    TESS_SEARCH_SLOWER,    /* not planned: its step takes at least bound_s, which is more than that of the best */
    TESS_SEARCH_TOO_LARGE, /* also with full recomputation */
    TESS_SEARCH_REFUSED,   /* the configuration, the model or the machine does not allow it */
    TESS_SEARCH_OUTCOMES
} tess_search_outcome;

/* The basis of a layout's bounds (step_bound.h), the cheapest first. */
typedef enum tess_bound_level {
    TESS_BOUND_OF_WEIGHTS, /* its parameters alone */
    TESS_BOUND_OF_ROW,   /* a piece with micro-batches of one row, whose arithmetic and exchanges grow with the rows */
    TESS_BOUND_OF_MICRO, /* a piece with its own micro-batches */
    TESS_BOUND_LEVELS
} tess_bound_level;

typedef struct tess_search_layout {
    int degree[TESS_SEARCH_DEGREES]; /* degrees of the axes, whose product is the number of ranks; then that of experts
                                      */
    /* The rows of search_axes.h. TESS_SEARCH_OPEN: a family of layouts that differ in this setting */
    int64_t strategy;            /* parallelism.shard_strategy */
    int64_t schedule;            /* tess_pipeline_kind; -1: no pipeline */
    int64_t method;              /* tess_context_method; -1: no ranks divide tokens */
    int64_t micro;               /* rows of a micro-batch */
    int64_t reshard;             /* parallelism.fsdp_reshard_after_forward */
    int64_t sequence;            /* parallelism.enable_sequence_parallel */
    int64_t precision;           /* TESS_SEARCH_AS_GIVEN: that of the configuration */
    int64_t recompute;           /* activation_checkpoint.mode */
    int64_t offload;             /* TESS_SEARCH_OFFLOAD_NONE: what the configuration offloads */
    double bound_s, bound_bytes; /* its step and the rank that needs most take at least as much (step_bound.h) */
    double bound_host;           /* bytes of all ranks of a host that offload to its memory, at least */
    tess_bound_level bound_level;
    int n_members; /* 1; of a family, the layouts that it stands for */
    tess_search_outcome outcome;
    bool planned;          /* the values below are those of a plan; false: `bytes` and `missing` are bounds */
    bool in_full;          /* `bytes` are those of a dry rank of full depth */
    int most_rank;         /* the rank that needs most of its device */
    int host_rank;         /* the rank that needs most of its host */
    double host_bytes;     /* bytes of all ranks of a GPU host in its memory */
    double bytes, missing; /* bytes of the rank that needs most; bytes that are missing */
    double step_s, compute_s, exposed_s, bubble_s, optimizer_s;
    double tokens_per_s_rank, mfu, price_per_million;
    tess_plan_bound bound;
    char bound_axis[TESS_TRACE_NAME_BYTES];
    char reason[TESS_SEARCH_TEXT]; /* why it is refused; "": it is not */
} tess_search_layout;

/* Writes the settings of a layout into a configuration. */
void tess_search_configure(const tess_search_layout *layout, tess_config *config);
/* Whether two layouts have the same settings. */
bool tess_search_equal(const tess_search_layout *a, const tess_search_layout *b);
/* Describes a layout in a few words: "tp 8 x pp 4 (1f1b) x dp_shard 16, full, micro 1, recomputation full". */
size_t tess_search_describe(const tess_search_layout *layout, char *text, size_t size);

#endif
