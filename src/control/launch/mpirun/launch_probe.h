/* Checks whether a host can be used again: asks this program on that host for its version, in the way in which
 * mpirun starts it. */
#ifndef TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_PROBE_H
#define TESS_CONTROL_LAUNCH_MPIRUN_LAUNCH_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

#include "tessera/status.h"

enum { LAUNCH_PROBE_S = 20 }; /* seconds to wait for the answer */

/* A check. If it is zero-initialised, none is running. */
typedef struct tess_launch_probe {
    pid_t pid;
    double until_s;
} tess_launch_probe;

typedef enum tess_probe_state { TESS_PROBE_RUNS, TESS_PROBE_ANSWERED, TESS_PROBE_SILENT } tess_probe_state;

/* Starts the check; its output is discarded. `agent` replaces ssh and may have arguments; NULL: ssh, which never
 * asks for a password. This machine, by any of its names, is not called and always answers. */
tess_status tess_launch_probe_begin(tess_launch_probe *probe, const char *agent, const char *host, const char *program,
                                    double now_s);
/* Returns the result at now_s. If it is final, the probe has ended. */
tess_probe_state tess_launch_probe_look(tess_launch_probe *probe, double now_s);
/* Cancels the check. */
void tess_launch_probe_end(tess_launch_probe *probe);

#endif
