/* How the ranks of one host that torchrun started find their shared memory. The first offers its file descriptor
 * through a Unix socket in the abstract name space, whose name follows from torchrun's variables. No file is left
 * behind, and only processes of the same user are answered. */
#ifndef TESS_JOB_RENDEZVOUS_H
#define TESS_JOB_RENDEZVOUS_H

#include "job/environment.h"

/* Both functions need a job on one host (local_world == world) and a master_port. Each waits at most timeout_s (>
 * 0). */

/* Called on local rank 0: sends `fd`, which is borrowed, to each of the other ranks once. Errors: TESS_E_TIMEOUT
 * names the ranks that never came; TESS_E_INVALID: another job uses the name (same MASTER_PORT and user), or two
 * processes have the same rank. */
tess_status tess_rendezvous_offer(const tess_environment *environment, int fd, double timeout_s);

/* Called on the other ranks: receives *fd, which the caller owns and which is closed on exec. Returns TESS_E_TIMEOUT
 * if rank 0 never offered its descriptor. */
tess_status tess_rendezvous_take(const tess_environment *environment, double timeout_s, int *fd);

#endif
