/* Whether a host can be used again: this program is asked for its version there, by the way mpirun starts what it
 * starts. */
#ifndef TESS_LAUNCH_MPIRUN_LAUNCH_PROBE_H
#define TESS_LAUNCH_MPIRUN_LAUNCH_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

#include "tessera/status.h"

enum { LAUNCH_PROBE_S = 20 }; /* that a host has for its answer */

/* Zero-initialised: none is under way. */
typedef struct tess_launch_probe {
    pid_t pid;
    double until_s;
} tess_launch_probe;

typedef enum tess_probe_state { TESS_PROBE_RUNS, TESS_PROBE_ANSWERED, TESS_PROBE_SILENT } tess_probe_state;

/* Begins to ask; what is said there goes nowhere. `agent`: what stands in for ssh, with words of its own perhaps; NULL:
 * ssh, which asks nobody for a password. This machine, by any of its names, is not called but always there. */
tess_status tess_launch_probe_begin(tess_launch_probe *probe, const char *agent, const char *host, const char *program,
                                    double now_s);
/* What came of it by now_s; it is over when it no longer runs. */
tess_probe_state tess_launch_probe_look(tess_launch_probe *probe, double now_s);
/* Leaves off. */
void tess_launch_probe_end(tess_launch_probe *probe);

#endif
