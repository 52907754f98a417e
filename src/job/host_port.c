#include "job/host_port.h"

#include <stdio.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/os/sockets.h"

/* Reads a range of ports from TESSERA_AGENT_PORTS, "40000-40100". Without it, any port may be used. */
static tess_status read_ports(int *first, int *last)
{
    const char *text = tess_variable_value(TESS_VAR_AGENT_PORTS);
    char rest;
    *first = *last = 0;
    if (text == NULL || *text == '\0')
        return TESS_OK;
    int n = sscanf(text, "%d-%d%c", first, last, &rest);
    TESS_CHECK(n == 2 && *first >= 1 && *first <= *last && *last <= 65535, TESS_E_INVALID,
               "TESSERA_AGENT_PORTS is '%s', expected two TCP ports: 40000-40100", text);
    return TESS_OK;
}

tess_status tess_host_listen(tess_agent_address *mine, int *fd)
{
    int first, last, n;
    memset(mine, 0, sizeof(*mine));
    TESS_TRY(read_ports(&first, &last));
    TESS_TRY_CTX(tess_os_addresses(tess_variable_value(TESS_VAR_IFNAME), mine->address, AGENT_ADDRESSES, &n),
                 "TESSERA_IFNAME names the interface that leads to the other hosts");
    /* A host with a single address need not listen on any other. */
    return tess_os_listen(n == 1 ? mine->address[0] : NULL, first, last, fd, &mine->port);
}
