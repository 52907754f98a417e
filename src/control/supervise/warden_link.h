/* Links the wardens of a job, through mpirun, to the `tessera launch` that supervises the job. A warden prints a
 * failure, and the injected faults of its rank that happened, as lines. It reads requests for the ranks from its
 * input. */
#ifndef TESS_CONTROL_SUPERVISE_WARDEN_LINK_H
#define TESS_CONTROL_SUPERVISE_WARDEN_LINK_H

#include "control/launch/launcher.h"

/* Word that is sent to the input of rank 0's warden: all ranks must leave after the next save. */
#define TESS_WARDEN_LEAVE "L"

/* Whether this process is a warden in a job that `tessera launch` supervises. */
bool tess_warden_is_heard(void);
/* Makes a warden report failures and faults to `tessera launch`, if that supervises the job. */
void tess_warden_reports(tess_launch_options *options);
/* Reports the end of a job that was asked to stop. */
void tess_warden_reports_end(tess_launch_result *result);

#endif
