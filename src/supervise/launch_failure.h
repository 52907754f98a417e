/* A failure as launch reports it and as recover decides about it. */
#ifndef TESS_SUPERVISE_LAUNCH_FAILURE_H
#define TESS_SUPERVISE_LAUNCH_FAILURE_H

#include "launch/launcher.h"
#include "recover/failure.h"

/* What the policy goes by, of what a launcher or warden knows. */
void tess_failure_of_launch(const tess_launch_failure *failure, tess_failure *facts);
/* The way back, for a line that a warden has sent; *failure points into *facts. */
void tess_failure_to_launch(const tess_failure *facts, tess_launch_failure *failure);

#endif
