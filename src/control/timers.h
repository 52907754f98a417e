/* Lists every timer of a job in one table: its purpose, its length, the setting that determines it, and which timers
 * must be shorter than others. Timers in a wrong order end jobs that would have continued, or alert too late.
 *
 * Some timers only report: a rank that keeps others waiting (notice), a silent rank, or no progress (alerts). Others
 * act: they give up a collective (deadline), end survivors (grace), or kill a job that was asked to stop. If a job
 * hangs, the timers that report must fire first. */
#ifndef TESS_CONTROL_TIMERS_H
#define TESS_CONTROL_TIMERS_H

#include "base/report/form.h"
#include "job/patience.h"
#include "config/config.h"

typedef struct tess_timer {
    const char *name, *from, *does;
    int kind; /* watchdog_kind of the phases that it applies to; -1: all phases */
    double seconds;
} tess_timer;

enum { TESS_TIMERS = 40 };

/* The timers that a configuration enables. Texts are static. */
typedef struct tess_timers {
    int n;
    tess_timer rows[TESS_TIMERS];
} tess_timers;

/* Builds the table. grace_s: the launcher's grace. */
void tess_timers_make(const tess_config *config, double grace_s, tess_timers *timers);

/* Checks the order. TESS_E_INVALID: two timers are in the wrong order; the message names both, their settings, and
 * the reason. */
tess_status tess_timers_check(const tess_timers *timers);

/* Appends two tables in a style: the timers, and the order that they must have. JSON: {"version": 1, "timers":
 * [{"timer", "seconds", "from", "does"}], "order": [{"shorter", "longer", "why"}]}. */
tess_status tess_timers_put(const tess_timers *timers, tess_form_style style, tess_buffer *out);

/* Returns the value of health.heartbeat_s or health.stall_s, or its default, in seconds; 0: never. Thread-safe. */
double tess_timers_silence(const tess_config *config, watchdog_kind kind);
double tess_timers_stall(const tess_config *config);

#endif
