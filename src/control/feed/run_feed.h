/* The process that passes the lines of a run on to metrics.command (control/feed). */
#ifndef TESS_CONTROL_FEED_RUN_FEED_H
#define TESS_CONTROL_FEED_RUN_FEED_H

#include "base/core/reporter.h"
#include "config/config.h"

typedef struct tess_run_feed {
    int pid;       /* 0: none */
    int *code;     /* memory shared with it: the exit code of the job */
    double wait_s; /* metrics.command_wait_s */
    char *words;   /* the command that it runs, joined */
} tess_run_feed;

/* TESS_E_NOT_FOUND: there is no such program; the message names the key. */
tess_status tess_run_feed_check(const tess_config *config);

/* Starts the process, before ranks start. The calling process has one thread, and holds the folder's lock. */
void tess_run_feed_start(const tess_config *config, const tess_reporter *reporter, tess_run_feed *feed);
/* Starts another one if the configuration now names another command. */
void tess_run_feed_change(const tess_config *config, const tess_reporter *reporter, tess_run_feed *feed);
/* The job has ended with `code`: lets the program finish. */
void tess_run_feed_stop(tess_run_feed *feed, int code);

#endif
