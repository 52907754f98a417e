/* Formats pieces of a snapshot. Each returns `text`. */
#ifndef TESS_DOCTOR_TOP_TOP_TEXT_H
#define TESS_DOCTOR_TOP_TOP_TEXT_H

#include "doctor/top/top_numbers.h"

const char *tess_top_bytes(double bytes, char *text, size_t size);              /* "312M", in at most 5 columns */
const char *tess_top_seconds(double seconds, char *text, size_t size);          /* "2.1s", "4m05s"; in at most 6 */
const char *tess_top_state(const tess_top_rank *rank, char *text, size_t size); /* "waits", "stopped", "SIGKILL" */
const char *tess_top_phase(const tess_top_rank *rank, char *text, size_t size); /* "backward 12" */
const char *tess_top_pools(const tess_top_rank *rank, char *text, size_t size); /* "par 12M gra 12M" */
/* "all_gather #34 of 'world', layers 12" */
const char *tess_top_operation(const tess_fingerprint *op, const char *team, char *text, size_t size);
/* Why the rank is late: the watchdog's diagnosis, or before there is one what can be seen: "stopped, in backward 1" */
const char *tess_top_why(const tess_top_rank *rank, char *text, size_t size);
/* How the job ended, or what it has lost so far; "" if all is well. */
const char *tess_top_ending(const tess_top_snapshot *snapshot, char *text, size_t size);

#endif
