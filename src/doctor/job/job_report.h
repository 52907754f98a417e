/* The report on a job: the diagnosis, then its evidence. On one screen, or as JSON. */
#ifndef TESS_DOCTOR_JOB_JOB_REPORT_H
#define TESS_DOCTOR_JOB_JOB_REPORT_H

#include "base/text/text.h"
#include "diagnosis/diagnosis.h"
#include "diagnosis/waits.h"

enum { TESS_REPORT_VERSION = 1, TESS_REPORT_STRAGGLERS = 8 };

typedef struct tess_report_straggler {
    const char *phase;
    tess_straggler who;
} tess_report_straggler;

typedef struct tess_report {
    const tess_history *history; /* borrowed */
    tess_diagnosis diagnosis;
    tess_waits waits; /* ns NULL: too many ranks */
    tess_report_straggler stragglers[TESS_REPORT_STRAGGLERS];
    int n_stragglers;
} tess_report;

/* Free with tess_report_free. */
tess_status tess_report_make(const tess_history *history, double patience_s, tess_report *report);
void tess_report_free(tess_report *report);

/* Appends the screen, the JSON object, or the newest `n` operations of `rank`. */
tess_status tess_report_print(const tess_report *report, tess_buffer *out);
tess_status tess_report_json(const tess_report *report, tess_buffer *out);
tess_status tess_report_last(const tess_report *report, int rank, size_t n, tess_buffer *out);

/* "crashed", "exited 3", "waits", "runs": the rank's state in one word or two. Returns text. */
const char *tess_report_state(const tess_report *report, int rank, char *text, size_t size);
/* Seconds that its newest operation has waited, or did wait, for others. */
double tess_report_waited_s(const tess_report *report, int rank);

#endif
