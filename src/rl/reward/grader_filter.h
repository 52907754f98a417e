/* The system calls that a sandboxed grader may make: a seccomp program that bwrap loads into the sandbox. */
#ifndef TESS_RL_REWARD_GRADER_FILTER_H
#define TESS_RL_REWARD_GRADER_FILTER_H

#include "tessera/status.h"

/* Opens a file in memory with the program (struct sock_filter[]), closed on exec, read from its start.
 * TESS_E_UNSUPPORTED: there is no filter for this architecture. TESS_E_IO: there is no memory file. */
tess_status grader_filter_open(int *fd);

#endif
