/* The TCP port on which a process of a job listens for the other hosts. */
#ifndef TESS_JOB_HOST_PORT_H
#define TESS_JOB_HOST_PORT_H

#include "job/warden_call.h"

/* Listens on a free port, and fills *mine with the addresses at which other hosts reach it.
 * TESSERA_IFNAME       the network interface (prefix match, "eth,ib"; default: all but loopback)
 * TESSERA_AGENT_PORTS  the ports ("40000-40100"; default: any)
 * TESS_E_NOT_FOUND: no such interface; TESS_E_IO: no free port; TESS_E_INVALID: TESSERA_AGENT_PORTS. */
tess_status tess_host_listen(tess_agent_address *mine, int *fd);

#endif
