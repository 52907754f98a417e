/* The rules of thumb of `tessera plan advise`: a row a rule, whose answer is a report. */
#ifndef TESS_CLI_PLAN_ADVISE_H
#define TESS_CLI_PLAN_ADVISE_H

#include "base/report/form.h"

/* The values that a rule may ask for, in the units of the flags' help. */
typedef struct advise_flags {
    double params_b, kept_percent, bandwidth, latency_ms, seconds, compute_ms, exchange_ms;
    int64_t layers, hidden, ranks, batch, sequence, context, accumulation, operations, tensors, steps;
    int64_t model, memory, host, activations, bucket; /* bytes */
    const char *pipeline, *recompute, *offload, *device;
    /* texts of the rules on reinforcement learning */
    const char *algorithm, *size, *budget, *measured, *task, *critical_kl, *no_offload, *critical_speed;
    double slowdown;
} advise_flags;

typedef struct advise_rule {
    const char *name, *what, *asks; /* asks: the flags that it reads */
    /* Sets *report, which the caller takes over. */
    tess_status (*answer)(const advise_flags *f, json_t **report);
    const tess_form_part *form;
} advise_rule;

typedef struct advise_group {
    const advise_rule *rules;
    int n;
} advise_group;

extern const advise_group advise_memory, advise_layout, advise_time, advise_rl;

/* Returns a list of texts. */
static inline json_t *advise_texts(const char *const *texts, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

#endif
