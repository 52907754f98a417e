/* The status line of work whose bytes are known: from its second second on, some times a second. */
#ifndef TESS_CLI_CLI_PROGRESS_H
#define TESS_CLI_CLI_PROGRESS_H

#include <stdint.h>

typedef struct cli_progress {
    double began_s, shown_s; /* 0: not yet */
} cli_progress;

/* "verify: 42%  1.2 GiB of 2.9 GiB, 1.1 GiB/s, 2 s left" on a terminal. */
void cli_progress_report(cli_progress *progress, const char *doing, uint64_t done, uint64_t all);

#endif
