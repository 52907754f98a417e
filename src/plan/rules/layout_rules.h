/* Rules of thumb that choose a strategy or a layout, as widely read texts state them. They contradict each other, so
 * a caller prints the rule with its answer. A function has no state. */
#ifndef TESS_PLAN_RULES_LAYOUT_RULES_H
#define TESS_PLAN_RULES_LAYOUT_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* A model and its machines. */
typedef struct tess_rule_case {
    double params_b;       /* billions of parameters */
    double layers, hidden; /* depth and width */
    double ranks;          /* GPUs */
    double memory_gb;      /* memory of a GPU */
    double sequence;       /* tokens of a text */
    bool needs_pipeline;   /* the user wants pipeline parallelism */
} tess_rule_case;

enum { TESS_RULE_TEXT = 160 };

/* A rule set. `choose` writes the answer and its reasons. */
typedef struct tess_strategy_rule {
    const char *name;
    void (*choose)(const tess_rule_case *of, char answer[TESS_RULE_TEXT], char why[TESS_RULE_TEXT]);
    const char *note; /* its known fault; NULL: it has none */
} tess_strategy_rule;

extern const tess_strategy_rule tess_strategy_rules[];
extern const int tess_strategy_rules_n;

/* A layout of three axes. */
typedef struct tess_axes_choice {
    double tp, pp, dp;   /* dp below 1: the ranks do not suffice */
    double weights_gb;   /* 16-bit weights of a rank, with 10 GB for activations */
    double state_gb;     /* weights, gradients and the optimizer that dp shards (ZeRO-1), without activations */
    double global_batch; /* sequences: micro-batches of two, as many as there are stages */
    int zero_stage;      /* 1 if tp and pp are used together */
} tess_axes_choice;

/* Chooses tp = 8 from 70 billion parameters, 4 from 13 and otherwise 1; pp as the smallest power of two whose 16-bit
 * weights take at most half the memory; and dp as the rest of the ranks. The text's search for pp ignores tp, which
 * makes pipelines up to eight times as deep as its own limit demands; `counts_tp` divides the weights by tp first. */
tess_axes_choice tess_choose_axes(const tess_rule_case *of, bool counts_tp);

/* A kind of GPU, and the 16-bit format to train with. */
typedef struct tess_precision_rule {
    const char *device, *format, *note;
} tess_precision_rule;

extern const tess_precision_rule tess_precision_rules[];
extern const int tess_precision_rules_n;

/* Returns the smallest power of two of ranks that divide a sequence so that activations of `bytes` bytes fit into
 * `limit` bytes; 0: not even 1,024 ranks suffice. */
int tess_context_ranks(double bytes, double limit);

#endif
