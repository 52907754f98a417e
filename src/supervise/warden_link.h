/* A warden whose job `tessera launch` looks after: what it says of a failure goes there as a line, and a word from
 * there reaches the ranks through it. */
#ifndef TESS_SUPERVISE_WARDEN_LINK_H
#define TESS_SUPERVISE_WARDEN_LINK_H

#include "launch/launcher.h"

#define TESS_WARDEN_REPORTS "TESSERA_LAUNCH_REPORTS" /* carried to the wardens by mpirun */
/* To the input of MPI's first process: leave after the next save; its warden tells all. */
#define TESS_WARDEN_LEAVE "L"

/* True in a warden whose job was started by a launcher that looks after it. */
bool tess_warden_is_heard(void);
/* In a rank's warden: what it says of a failure goes to who started MPI, when that looks after the job. */
void tess_warden_reports(tess_launch_options *options);
/* The same of a job that ended because it was asked to stop. */
void tess_warden_reports_end(tess_launch_result *result);

#endif
