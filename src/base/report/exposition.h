/* Writes metrics in Prometheus' text format (version 0.0.4), for a scrape or for the text file collector of the
 * node exporter. The caller writes one family after the other, and all samples of a family together. */
#ifndef TESS_BASE_REPORT_EXPOSITION_H
#define TESS_BASE_REPORT_EXPOSITION_H

#include <jansson.h>

#include "base/text/text.h"

#define TESS_EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef enum tess_metric_type { TESS_METRIC_GAUGE, TESS_METRIC_COUNTER } tess_metric_type;

/* The values of counters on earlier pages. A counter must never fall, but its source may: a restarted process counts
 * from zero, and a job that goes back to a checkpoint has done fewer steps. Then the page's counter stays where it was,
 * and grows from there. Zero-initialise it. */
typedef struct tess_counters {
    json_t *last;    /* sample -> newest value of its source */
    json_t *omitted; /* sample -> sum of all falls of its source, less the value it began with */
} tess_counters;

void tess_counters_free(tess_counters *counters);

typedef struct tess_label {
    const char *name, *value;
} tess_label;

typedef struct tess_exposition {
    tess_buffer *out;
    tess_buffer sample;      /* scratch: name and labels of a sample */
    tess_counters *counters; /* NULL: counters are written as their sources have them */
    const tess_label *common;
    int n_common;
    const char *name; /* the present family; `help` is NULL once its head is written */
    const char *help;
    tess_metric_type type;
    bool from_first; /* counters of the present family begin at 0: their sources have counted before this run of the
                        program. Set it after tess_exposition_family */
} tess_exposition;

/* Begins a page. Each sample gets the labels `common` (n_common), which stay the caller's. */
void tess_exposition_begin(tess_exposition *page, const tess_label *common, int n_common, tess_counters *counters,
                           tess_buffer *out);
/* Begins a family. A family without samples does not appear on the page. */
void tess_exposition_family(tess_exposition *page, const char *name, tess_metric_type type, const char *help);
/* Appends a sample of the family, with more labels (n). Values of labels may have any bytes: those that are not UTF-8
 * become '?'. */
tess_status tess_exposition_add(tess_exposition *page, const tess_label *labels, int n, double value);
void tess_exposition_end(tess_exposition *page);

#endif
