/* Every timer of a job in one place: what it is for, how long it is, where that comes from, and which must be shorter
 * than which. Two timers that do not know of each other end jobs that would have gone on, or call somebody too late.
 *
 * Some only tell: who keeps others waiting (notice), that a rank is silent or nothing moves (alerts). Some act: a
 * collective is given up (deadline), survivors are ended (grace), a job that was asked to stop is killed. Of one and
 * the same hang the first kind goes off before the second. */
#ifndef TESS_TRAIN_TIMERS_H
#define TESS_TRAIN_TIMERS_H

#include "base/text/text.h"
#include "job/patience.h"
#include "train/train_config.h"

typedef struct tess_timer {
    const char *name, *from, *does;
    int kind; /* watchdog_kind of the phases in which it holds; -1: all */
    double seconds;
} tess_timer;

enum { TESS_TIMERS = 40 };

/* Those that a configuration has on. Texts are static. */
typedef struct tess_timers {
    int n;
    tess_timer rows[TESS_TIMERS];
} tess_timers;

/* grace_s: of the launcher. */
void tess_timers_make(const tess_config *config, double grace_s, tess_timers *timers);

/* TESS_E_INVALID: two of them are in the wrong order; the message names both, where they come from, and why. */
tess_status tess_timers_check(const tess_timers *timers);

/* Tables for people: the timers, and the order that must hold between those that are on. */
tess_status tess_timers_print(const tess_timers *timers, tess_buffer *out);

/* What health.heartbeat_s and health.stall_s come to, in seconds; 0: never. Thread-safe. */
double tess_timers_silence(const tess_config *config, watchdog_kind kind);
double tess_timers_stall(const tess_config *config);

#endif
