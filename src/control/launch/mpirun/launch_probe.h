/* Checks whether a host can be used again: asks this program there for its version, the way mpirun starts it. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_PROBE_H
#define TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

#include "tessera/status.h"

enum { LAUNCH_PROBE_S = 20 }; /* timeout of the answer */

/* Zero-initialised: none is running. */
typedef struct tess_launch_probe {
    pid_t pid;
    double until_s;
} tess_launch_probe;

typedef enum tess_probe_state { TESS_PROBE_RUNS, TESS_PROBE_ANSWERED, TESS_PROBE_SILENT } tess_probe_state;

/* Starts the check; its output is discarded. `agent`: replaces ssh, and may have arguments; NULL: ssh, which never asks
 * for a password. This machine, by any of its names, is not called and always answers. */
tess_status tess_launch_probe_begin(tess_launch_probe *probe, const char *agent, const char *host, const char *program,
                                    double now_s);
/* The result at now_s; unless it still runs, the probe is over. */
tess_probe_state tess_launch_probe_look(tess_launch_probe *probe, double now_s);
/* Cancels it. */
void tess_launch_probe_end(tess_launch_probe *probe);

#endif
