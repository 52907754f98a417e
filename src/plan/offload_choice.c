#include "plan/offload_choice.h"

#include <stdarg.h>
#include <stdio.h>

/* Memory as multiples of the model's size. */
static const double state_size = 4, sequence_size = 0.5, saved_size = 2, host_size = 3;
static const double least_slower = 30, most_slower = 50; /* how much slower steps get, in percent */

static void add_factor(tess_offload_choice *c, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_factor(tess_offload_choice *c, const char *code, const char *format, ...)
{
    va_list args;
    tess_offload_factor *factor = &c->factors[c->n_factors++];
    factor->code = code;
    va_start(args, format);
    vsnprintf(factor->reason, sizeof(factor->reason), format, args);
    va_end(args);
}

static void advise(tess_offload_choice *c, const char *const *advice, int n)
{
    for (int i = 0; i < n; i++)
        c->advice[c->n_advice++] = advice[i];
}

static void weigh_device(tess_offload_choice *c, const tess_offload_case *of)
{
    c->needed_gb = (state_size + sequence_size * (double)of->batch) * of->model_gb;
    bool fits = c->needed_gb <= of->device_gb;
    add_factor(c, fits ? "GPU_MEMORY_SUFFICIENT" : "GPU_MEMORY_INSUFFICIENT", "%.2f GB are needed, %.2f GB are there",
               c->needed_gb, of->device_gb);
    c->decision = fits ? TESS_NO_OFFLOAD : TESS_OFFLOAD;
}

static void weigh_host(tess_offload_choice *c, const tess_offload_case *of)
{
    c->host_needed_gb = host_size * of->model_gb;
    c->saved_gb = saved_size * of->model_gb;
    bool fits = of->host_gb >= c->host_needed_gb;
    add_factor(c, fits ? "CPU_MEMORY_SUFFICIENT" : "CPU_MEMORY_INSUFFICIENT", "the host needs %.2f GB, and has %.2f GB",
               c->host_needed_gb, of->host_gb);
    if (!fits) {
        c->decision = TESS_OFFLOAD_IMPOSSIBLE;
        c->saved_gb = 0;
        return;
    }
    c->least_slower_pct = least_slower;
    c->most_slower_pct = most_slower;
    if (of->speed_is_critical)
        add_factor(c, "SPEED_CRITICAL", "steps get %.0f to %.0f%% slower", least_slower, most_slower);
}

tess_offload_choice tess_offload_choose(const tess_offload_case *of)
{
    static const char *const none[] = {"train as it is: offload would only cost time"};
    static const char *const offload[] = {"use pinned memory and prefetch, so that copies hide behind computation",
                                          "checkpoint activations first: that alone may make it fit"};
    static const char *const impossible[] = {"a smaller batch, or shorter sequences",
                                             "more devices, with data parallelism", "tensor or pipeline parallelism",
                                             "a machine with more memory"};
    tess_offload_choice c = {0};
    weigh_device(&c, of);
    if (c.decision == TESS_OFFLOAD)
        weigh_host(&c, of);
    if (c.decision == TESS_NO_OFFLOAD)
        advise(&c, none, 1);
    else if (c.decision == TESS_OFFLOAD)
        advise(&c, offload, 2);
    else
        advise(&c, impossible, 4);
    return c;
}

const char *tess_offload_decision_name(tess_offload_decision decision)
{
    static const char *const names[] = {"NO_OFFLOAD", "OFFLOAD", "IMPOSSIBLE"};
    return names[decision];
}
