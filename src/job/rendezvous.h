/* How the ranks of one host that torchrun started find their shared memory. The first offers its file descriptor
 * through a Unix socket in the abstract name space, whose name follows from torchrun's variables. No file is left
 * behind, and only processes of the same user are answered. */
#ifndef TESS_JOB_RENDEZVOUS_H
#define TESS_JOB_RENDEZVOUS_H

#include "job/environment.h"

/* Both need a job on one host (local_world == world) and master_port. Each waits for at most timeout_s (> 0). */

/* Local rank 0: sends `fd`, borrowed, to each of the other ranks once. TESS_E_TIMEOUT names the ranks that never came;
 * TESS_E_INVALID: another job has the name (same MASTER_PORT and user), or two processes have the same rank. */
tess_status tess_rendezvous_offer(const tess_environment *environment, int fd, double timeout_s);

/* The others: *fd is the caller's, closed on exec. TESS_E_TIMEOUT: rank 0 never offered its descriptor. */
tess_status tess_rendezvous_take(const tess_environment *environment, double timeout_s, int *fd);

#endif
