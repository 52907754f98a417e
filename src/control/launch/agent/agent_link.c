/* A TCP connection between two agents that never blocks: frames wait in its buffers until the socket can take them. */
#include <string.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "control/launch/agent/agent_impl.h"

void agent_link_open(agent_link *link, int fd)
{
    link->fd = fd;
    link->slot = -1;
    link->in_at = link->n_in = link->out_at = link->n_out = 0;
}

void agent_link_close(agent_link *link)
{
    tess_os_close(&link->fd);
    link->slot = -1;
}

static void compact(uint8_t *data, size_t *at, size_t *n)
{
    memmove(data, data + *at, *n - *at);
    *n -= *at;
    *at = 0;
}

bool agent_link_put(agent_link *link, const agent_frame *frame)
{
    if (sizeof(link->out) - link->n_out < FRAME_MOST_BYTES)
        compact(link->out, &link->out_at, &link->n_out);
    if (sizeof(link->out) - link->n_out < FRAME_MOST_BYTES)
        return false;
    link->n_out += agent_frame_encode(frame, link->out + link->n_out);
    return true;
}

bool agent_link_send(agent_link *link)
{
    while (link->out_at < link->n_out) {
        ptrdiff_t n = tess_os_send(link->fd, link->out + link->out_at, link->n_out - link->out_at);
        if (n <= 0)
            return n == 0;
        link->out_at += (size_t)n;
    }
    link->out_at = link->n_out = 0;
    return true;
}

bool agent_link_receive(agent_link *link)
{
    compact(link->in, &link->in_at, &link->n_in);
    if (link->n_in == sizeof(link->in))
        return true;
    ptrdiff_t n = tess_os_receive(link->fd, link->in + link->n_in, sizeof(link->in) - link->n_in);
    if (n > 0)
        link->n_in += (size_t)n;
    return n >= 0;
}

int agent_link_next(agent_link *link, agent_frame *frame)
{
    size_t used;
    if (agent_frame_decode(link->in + link->in_at, link->n_in - link->in_at, frame, &used) != TESS_OK)
        return -1;
    link->in_at += used;
    return used > 0;
}
