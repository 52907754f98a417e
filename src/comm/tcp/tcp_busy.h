/* Answers ranks that call while the host of rank 0 still prepares. They then wait on, and their deadline begins anew,
 * up to TCP_BUSY_S in total (tcp_impl.h). */
#ifndef TESS_COMM_TCP_TCP_BUSY_H
#define TESS_COMM_TCP_TCP_BUSY_H

#include <stdbool.h>

#include "tessera/status.h"

/* Listens at the job's address (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT) until the process is killed, and tells
 * callers who know the job's secret the reason, such as "it verifies checkpoints". Returns only after a failure; the
 * callers then find nobody, as without it. */
tess_status tess_tcp_answer_busy(bool tls, const char *why);

#endif
