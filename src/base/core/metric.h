/* A number with the name under which people look for it. */
#ifndef TESS_BASE_CORE_METRIC_H
#define TESS_BASE_CORE_METRIC_H

typedef struct tess_metric {
    const char *name; /* "train/pg_loss"; lives as long as the program */
    double value;
} tess_metric;

#endif
