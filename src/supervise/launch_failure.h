/* A failure as launch reports it, and as recover decides about it. */
#ifndef TESS_SUPERVISE_LAUNCH_FAILURE_H
#define TESS_SUPERVISE_LAUNCH_FAILURE_H

#include "launch/launcher.h"
#include "recover/failure.h"

/* The facts that the recovery policy uses. */
void tess_failure_of_launch(const tess_launch_failure *failure, tess_failure *facts);
/* The inverse, for facts that a warden has sent; *failure points into *facts. */
void tess_failure_to_launch(const tess_failure *facts, tess_launch_failure *failure);

#endif
