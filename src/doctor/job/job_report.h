/* The report on a job: the diagnosis and its evidence, printed on one screen or as JSON. */
#ifndef TESS_DOCTOR_JOB_JOB_REPORT_H
#define TESS_DOCTOR_JOB_JOB_REPORT_H

#include "base/report/form.h"
#include "diagnosis/root_cause.h"
#include "diagnosis/waits.h"

enum { TESS_REPORT_VERSION = 1, TESS_REPORT_STRAGGLERS = 8 };

typedef struct tess_report_straggler {
    const char *phase;
    tess_straggler who;
} tess_report_straggler;

typedef struct tess_report {
    const tess_history *history; /* borrowed */
    tess_diagnosis diagnosis;
    tess_waits waits; /* ns is NULL if the job has too many ranks */
    tess_report_straggler stragglers[TESS_REPORT_STRAGGLERS];
    int n_stragglers;
} tess_report;

/* Makes the report. Free it with tess_report_free. */
tess_status tess_report_make(const tess_history *history, double patience_s, tess_report *report);
void tess_report_free(tess_report *report);

/* These append the report, or the newest `n` operations of `rank`. */
tess_status tess_report_put(const tess_report *report, tess_form_style style, tess_buffer *out);
tess_status tess_report_last(const tess_report *report, int rank, size_t n, tess_buffer *out);

/* "crashed", "exited 3", "waits", "runs": the rank's state in one word or two. Returns text. */
const char *tess_report_state(const tess_report *report, int rank, char *text, size_t size);
/* Returns the seconds that the rank's newest operation has waited, or waited before it ended, for other ranks. */
double tess_report_waited_s(const tess_report *report, int rank);

#endif
