/* Finds what a user calls a job, and reads its history: a running job, a folder of traces, or PyTorch's dumps. */
#ifndef TESS_DOCTOR_VERDICT_OPEN_HISTORY_H
#define TESS_DOCTOR_VERDICT_OPEN_HISTORY_H

#include "diagnosis/history.h"

/* Reads the history of `what`, a folder or the process id of a running job's launcher or rank, as text. Free with
 * tess_history_destroy. Errors: as tess_job_report_read. */
tess_status tess_history_open(tess_mem *mem, const char *what, tess_history **history);

/* Returns the seconds from which on a wait of this history is reported. */
double tess_history_patience(const tess_history *history);

#endif
