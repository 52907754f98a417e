/* Links over TCP between hosts, for jobs that no MPI has started. */
#ifndef TESS_COMM_TCP_TCP_WIRE_H
#define TESS_COMM_TCP_TCP_WIRE_H

#include "comm/wire/wire.h"

/* Its open reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (job/environment.h), and the job's secret. */
extern const wire_table tess_tcp_wire;

#endif
