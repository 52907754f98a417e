/* Internal to the exporter: what its families read (exporter_families.c), and what counts alerts and notices
 * (exporter_counts.c). */
#ifndef TESS_DOCTOR_PROMETHEUS_EXPORTER_IMPL_H
#define TESS_DOCTOR_PROMETHEUS_EXPORTER_IMPL_H

#include "doctor/prometheus/exporter.h"
#include "doctor/top/top_facts.h"

/* One look at the job. */
typedef struct exporter_view {
    const tess_exporter *exporter;
    const tess_exporter_facts *facts;
    const tess_top_snapshot *job; /* NULL: there is none */
    tess_top_totals totals;
    double wall_s;                        /* seconds since 1970 */
    double memory_percent, group_percent; /* used memory of the machine and the control group; negative: not known */
} exporter_view;

/* Writes all families. */
tess_status exporter_put_families(tess_exposition *page, const exporter_view *view);

/* The states of alerts, in the order of their counts. */
extern const char *const exporter_health_states[TESS_EXPORTER_STATES];
extern const char *const exporter_recovery_states[TESS_EXPORTER_STATES];

/* Counts lines of alerts.jsonl. Lines of another form are ignored. Pure function of the text and the counts. */
void exporter_count_alerts(tess_exporter *exporter, const char *text, size_t n);
/* Counts the lines of the folder's alerts.jsonl that have come since the last call. */
void exporter_read_alerts(tess_exporter *exporter, const char *folder);
/* Counts the job's notices that have come since the last call. */
void exporter_read_notices(tess_exporter *exporter, const tess_live_job *live);

#endif
