/* What is wrong with a live job's host, as its monitor wrote it into the job's folder. */
#ifndef TESS_DOCTOR_TOP_TOP_HEALTH_H
#define TESS_DOCTOR_TOP_TOP_HEALTH_H

#include "job/find.h"

/* "degraded: 2.1 GiB are free ...", clean; "" if all is well, or without a monitor. Returns text. */
const char *tess_top_health(const tess_live_job *live, char *text, size_t size);

/* The same from the lines of alerts.jsonl: the newest health alert of the job whose launcher is `pid`. */
const char *tess_top_health_of(const char *lines, size_t n, int pid, char *text, size_t size);

#endif
