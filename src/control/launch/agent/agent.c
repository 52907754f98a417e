/* Creates and closes the agent, and serves it in the loop of its warden. */
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "control/launch/agent/agent_impl.h"
#include "job/host_port.h"

static const double goodbye_s = 0.5;
/* a gap after which this process must have been stopped: a warden's loop runs a hundred times a second */
static const uint64_t own_gap_ns = 100000000;

tess_status agent_listen(tess_mem *mem, const tess_job *job, agent **out, tess_agent_address *mine)
{
    void *memory;
    const size_t world = (size_t)job->world, own = sizeof(agent) + (world + world % 2) * sizeof(int);
    TESS_TRY(
        tess_mem_alloc(mem, TESS_POOL_MISC, own + tess_bits_words(job->world) * sizeof(uint64_t), "agent", &memory));
    agent *a = memory;
    *a = (agent){.mem = mem, .job = job, .host = (int)job->header->host, .listen_fd = -1};
    a->awaited = (uint64_t *)(void *)((uint8_t *)memory + own);
    for (int r = 0; r < (int)job->header->world; r++)
        if (job->rows[r].host == a->host)
            a->local[a->n_local++] = r;
    tess_status status = tess_host_listen(mine, &a->listen_fd);
    if (status != TESS_OK) {
        tess_mem_free(mem, a);
        return tess_fail_context(status, "the agent of this host");
    }
    *out = a;
    return TESS_OK;
}

/* ---- Part of the warden's loop ---- */
/* Callers need no poll slot: every step looks at each of them. */
int agent_watch(agent *a, struct pollfd *fds)
{
    int n = 0;
    bool meeting = a->listen_fd >= 0;
    a->listen_slot = -1;
    if (a->peers == NULL)
        return 0;
    for (int h = 0; h < a->n_hosts; h++) {
        agent_peer *peer = &a->peers[h];
        agent_link *link = &peer->link;
        link->slot = -1;
        if (!agent_is_connected(peer) && !(meeting && (peer->state == PEER_CALLING || peer->state == PEER_GREETING)))
            continue;
        link->slot = n;
        short events = agent_is_connected(peer) && link->out_at < link->n_out ? POLLIN | POLLOUT : POLLIN;
        if (peer->state == PEER_CALLING)
            events = POLLOUT; /* POLLOUT shows that the result of connect is known */
        fds[n++] = (struct pollfd){.fd = link->fd, .events = events};
    }
    if (!meeting)
        return n;
    a->listen_slot = n;
    fds[n++] = (struct pollfd){.fd = a->listen_fd, .events = POLLIN};
    for (int i = 0; i < AGENT_CALLERS; i++)
        if (a->callers[i].link.fd >= 0)
            fds[n++] = (struct pollfd){.fd = a->callers[i].link.fd, .events = POLLIN};
    return n;
}

void agent_serve(agent *a, const struct pollfd *fds)
{
    if (a->peers == NULL)
        return;
    uint64_t gap_ns = tess_os_now_ns() - a->served_ns;
    bool stood_still = a->served_ns != 0 && gap_ns >= own_gap_ns;
    /* While this process did not run, it could not receive anything, so peers do not count as silent for that time. */
    for (int h = 0; h < a->n_hosts; h++)
        if (stood_still && a->peers[h].state == PEER_UP)
            atomic_fetch_add(&a->job->header->hosts[h].heard_ns, gap_ns);
    for (int h = 0; h < a->n_hosts; h++) {
        const agent_peer *peer = &a->peers[h];
        if (agent_is_connected(peer) && peer->link.slot >= 0 && (fds[peer->link.slot].revents & ~POLLOUT) != 0)
            agent_receive(a, h);
    }
    if (a->listen_fd >= 0)
        agent_meet_step(a, fds);
    agent_send_all(a);
    a->served_ns = tess_os_now_ns();
}

void agent_close(agent **handle, bool stay)
{
    agent *a = *handle;
    if (a == NULL)
        return;
    tess_os_close(&a->listen_fd);
    if (stay && a->peers != NULL)
        agent_send_all(a); /* a warden that ends early may have found the diagnosis only a moment ago */
    for (int h = 0; a->peers != NULL && h < a->n_hosts; h++)
        if (!stay)
            agent_link_close(&a->peers[h].link);
    for (int i = 0; a->callers != NULL && i < AGENT_CALLERS; i++)
        agent_link_close(&a->callers[i].link);
    tess_mem_free(a->mem, a->callers);
    tess_mem_free(a->mem, a->peers);
    tess_mem_drop(handle);
}

bool agent_diagnosis_is_known(const agent *a)
{
    for (int h = 0; a->peers != NULL && h < a->n_hosts; h++)
        if (a->peers[h].state == PEER_UP && !a->peers[h].diagnosis_seen && ending_in_touch(a->job, h))
            return false;
    return true;
}

void agent_say_goodbye(agent *a)
{
    double until_s = tess_os_now_s() + goodbye_s;
    bool ended[JOB_MAX_HOSTS] = {false};
    tess_os_close(&a->listen_fd);
    int n_up = a->peers != NULL ? 1 : 0;
    for (int h = 0; h < a->n_hosts; h++)
        if (a->peers[h].state == PEER_UP)
            agent_owe_round(a, &a->peers[h]);
    while (n_up > 0 && tess_os_now_s() < until_s) {
        struct pollfd fds[AGENT_POLLS];
        int n = agent_watch(a, fds);
        n_up = 0;
        poll(fds, (nfds_t)n, 10);
        for (int h = 0; h < a->n_hosts; h++) {
            agent_peer *peer = &a->peers[h];
            if (peer->state != PEER_UP)
                continue;
            n_up++;
            if (!ended[h])
                agent_send_due(a, h);
            if (peer->state == PEER_UP && !ended[h] && peer->rows_due == 0 && peer->link.n_out == 0) {
                tess_os_end_sending(peer->link.fd);
                ended[h] = true;
            }
            /* Reads until the peer hangs up, also while closing: closing with unread bytes would discard data that
             * the peer has not read. */
            if (peer->state == PEER_UP && peer->link.slot >= 0 && fds[peer->link.slot].revents != 0)
                agent_receive(a, h);
        }
    }
}
