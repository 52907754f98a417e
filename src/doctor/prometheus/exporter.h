/* Makes the page of metrics of a job for Prometheus: the numbers of this host's ranks, and of the job where the host
 * has rank 0. It reads what `tessera top` reads, and disturbs nobody. The names are documented in
 * docs/howto/monitoring.md. */
#ifndef TESS_DOCTOR_PROMETHEUS_EXPORTER_H
#define TESS_DOCTOR_PROMETHEUS_EXPORTER_H

#include "base/report/exposition.h"
#include "job/find.h"

enum { TESS_EXPORTER_STATES = 3 };

/* The facts of a page that are not in the job's memory. */
typedef struct tess_exporter_facts {
    const char *folder;      /* the run's folder, whose path is the label "run"; NULL: none */
    double stall_s;          /* a wait from this many seconds on counts as stalled; 0: not judged */
    int64_t checkpoint_step; /* newest complete checkpoint; -1: none is known */
    double checkpoint_s;     /* time when it was completed, in seconds since 1970 */
    double interval_s;       /* seconds between two pages of a file; 0: there is no file */
} tess_exporter_facts;

/* The state that pages share: counts so far. Zero-initialise it, and set `mem` and `is_later`. */
typedef struct tess_exporter {
    tess_mem *mem;
    bool is_later; /* another exporter showed this job before: counters of its ranks begin at 0 again */
    tess_counters counters;
    uint64_t alerts_read; /* bytes of alerts.jsonl that are counted */
    int64_t n_health[TESS_EXPORTER_STATES], n_recovery[TESS_EXPORTER_STATES];
    uint64_t notices_read_ns; /* time of the newest notice that is counted */
    int64_t n_notices[TESS_NOTICE_COUNT];
} tess_exporter;

void tess_exporter_free(tess_exporter *exporter);

/* Appends the page. live NULL: the job has no memory now, because its ranks are starting or it has ended. */
tess_status tess_exporter_page(tess_exporter *exporter, const tess_live_job *live, const tess_exporter_facts *facts,
                               tess_buffer *out);

#endif
