/* Passes what a run writes on to a program (metrics.command): a header, the lines of metrics.jsonl and samples.jsonl,
 * alerts, and how the run ended. It reads the files of the run's folder, so no rank waits for the program, and lines
 * that the program has not taken yet are on disk. docs/howto/trackers.md describes the lines. */
#ifndef TESS_CONTROL_FEED_FEED_H
#define TESS_CONTROL_FEED_FEED_H

#include <stdbool.h>

#include "base/core/reporter.h"
#include "tessera/status.h"

typedef struct feed feed;

typedef struct feed_options {
    const char *folder;   /* job.dump_folder */
    char *const *command; /* argv of the program */
    double wait_s;        /* time that it has to finish at the end */
    const tess_reporter *reporter;
} feed_options;

/* Removes the header of an earlier run from the folder, so that the next header is that of this run. Call it before
 * ranks start. */
void feed_begin(const char *folder);
/* The options are borrowed. */
tess_status feed_open(const feed_options *options, feed **out);
void feed_close(feed **out);

/* Does what can be done without waiting: starts the program when the run's header is there, hands over lines, restarts
 * a program that has ended. */
void feed_look(feed *f);
/* Waits until the program takes more lines or prints, at most `seconds`. */
void feed_pause(const feed *f, double seconds);
/* Returns the seconds that a program has to finish when the run ends with `code`: wait_s, but only a few for a run that
 * was asked to stop, because a scheduler kills the job soon after it asked. */
double feed_wait(double wait_s, int code);
/* Hands over all remaining lines and how the run has ended with `code`, and lets the program finish. It is killed
 * after feed_wait. */
void feed_finish(feed *f, int code);

#endif
