/* Every timer of a job in one table: its purpose, its length, the setting that decides it, and which timers must be
 * shorter than others. Timers in a wrong order end jobs that would have gone on, or alert too late.
 *
 * Some timers only report: who keeps others waiting (notice), a silent rank, no progress (alerts). Others act: they
 * give up a collective (deadline), end survivors (grace), kill a job that was asked to stop. When a job hangs, those
 * that report fire first. */
#ifndef TESS_CONTROL_TIMERS_H
#define TESS_CONTROL_TIMERS_H

#include "base/text/text.h"
#include "job/patience.h"
#include "config/config.h"

typedef struct tess_timer {
    const char *name, *from, *does;
    int kind; /* watchdog_kind of the phases that it applies to; -1: all */
    double seconds;
} tess_timer;

enum { TESS_TIMERS = 40 };

/* The timers that a configuration enables. Texts are static. */
typedef struct tess_timers {
    int n;
    tess_timer rows[TESS_TIMERS];
} tess_timers;

/* grace_s: the launcher's. */
void tess_timers_make(const tess_config *config, double grace_s, tess_timers *timers);

/* TESS_E_INVALID: two timers are in the wrong order; the message names both, their settings, and the reason. */
tess_status tess_timers_check(const tess_timers *timers);

/* Tables for people: the timers, and the order that must hold between them. */
tess_status tess_timers_print(const tess_timers *timers, tess_buffer *out);

/* The values of health.heartbeat_s and health.stall_s, or their defaults, in seconds; 0: never. Thread-safe. */
double tess_timers_silence(const tess_config *config, watchdog_kind kind);
double tess_timers_stall(const tess_config *config);

#endif
