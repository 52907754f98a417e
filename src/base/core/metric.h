/* A named number, for logs and files of metrics. */
#ifndef TESS_BASE_CORE_METRIC_H
#define TESS_BASE_CORE_METRIC_H

typedef struct tess_metric {
    const char *name; /* "rollout/raw_reward"; valid as long as the program runs */
    double value;     /* NaN: unknown */
} tess_metric;

#endif
