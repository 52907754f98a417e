/* Connects the agents. Of two agents, the one with the smaller number calls, and tries each address of the other in
 * turn. Both must prove that they know the job's secret before anything else. The called agent shows it second. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "control/launch/agent/agent_impl.h"

/* Time limits of a call. The other host's system accepts a connection at once, but its agent sends the answer, and
 * may have to wait for a core. */
static const double connect_s = 1.5, answer_s = 10, pause_s = 0.1;
/* Time limit for a caller's hello, which is sent as soon as it is connected. A caller that sends nothing must not
 * keep others out for long. */
static const double hello_s = 2;

tess_status agent_meet(agent *a, const tess_agent_address *hosts, int n_hosts, const uint8_t secret[AGENT_SECRET_BYTES])
{
    TESS_CHECK(a->peers == NULL && n_hosts == (int)a->job->header->n_hosts, TESS_E_INVALID,
               "the agent of host %d got %d hosts, the job has %u (or it got them twice)", a->host, n_hosts,
               a->job->header->n_hosts);
    void *peers, *callers;
    TESS_TRY(tess_mem_alloc_array(a->mem, TESS_POOL_MISC, (size_t)n_hosts, sizeof(agent_peer), "agents", &peers));
    tess_status status =
        tess_mem_alloc_array(a->mem, TESS_POOL_MISC, AGENT_CALLERS, sizeof(agent_caller), "agents that call", &callers);
    if (status != TESS_OK) {
        tess_mem_free(a->mem, peers);
        return status;
    }
    a->peers = peers;
    a->callers = callers;
    a->n_hosts = n_hosts;
    a->begin_s = tess_os_now_s();
    memcpy(a->secret, secret, sizeof(a->secret));
    for (int h = 0; h < n_hosts; h++) {
        agent_peer *peer = &a->peers[h];
        peer->address = hosts[h];
        peer->state = h > a->host ? PEER_IDLE : PEER_AWAITED;
        peer->link.fd = -1;
        snprintf(peer->reason, sizeof(peer->reason), "no answer");
    }
    for (int i = 0; i < AGENT_CALLERS; i++)
        a->callers[i].link.fd = -1;
    atomic_store(&a->job->header->hosts[a->host].state, JOB_HOST_UP);
    return TESS_OK;
}

/* ---- Hellos ---- */
static agent_frame hello(const agent *a)
{
    agent_frame frame = {.kind = FRAME_HELLO,
                         .hello = {.version = FRAME_VERSION,
                                   .host = (uint32_t)a->host,
                                   .n_hosts = (uint32_t)a->n_hosts,
                                   .world = a->job->header->world}};
    memcpy(frame.hello.secret, a->secret, sizeof(a->secret));
    return frame;
}

/* Returns NULL if the hello belongs to this job, else the reason why not. Takes the same time for every wrong
 * secret, so that time does not reveal how much of it is right. */
static const char *refuse_hello(const agent *a, const agent_frame *frame)
{
    uint8_t different = 0;
    if (frame->kind != FRAME_HELLO)
        return "it speaks of something else first";
    for (int i = 0; i < AGENT_SECRET_BYTES; i++)
        different |= (uint8_t)(frame->hello.secret[i] ^ a->secret[i]);
    if (different != 0)
        return "it belongs to another job";
    if (frame->hello.version != FRAME_VERSION)
        return "it is of another version";
    if (frame->hello.world != a->job->header->world || frame->hello.n_hosts != (uint32_t)a->n_hosts)
        return "its job has another size";
    return NULL;
}

/* ---- Calling ---- */
static void call_failed(agent_peer *peer, const char *reason, double now_s)
{
    snprintf(peer->reason, sizeof(peer->reason), "%s", reason);
    agent_link_close(&peer->link);
    peer->state = PEER_IDLE;
    peer->until_s = now_s + pause_s;
}

static void call(agent_peer *peer, double now_s)
{
    if (peer->next_address >= AGENT_ADDRESSES || peer->address.address[peer->next_address][0] == '\0')
        peer->next_address = 0;
    int fd = tess_os_connect(peer->address.address[peer->next_address], peer->address.port);
    if (fd < 0) {
        call_failed(peer, strerror(errno), now_s);
        peer->next_address++;
        return;
    }
    agent_link_open(&peer->link, fd);
    peer->state = PEER_CALLING;
    peer->until_s = now_s + connect_s;
}

static void greet(agent *a, agent_peer *peer, double now_s)
{
    int reason = tess_os_connected(peer->link.fd);
    if (reason != 0) {
        call_failed(peer, strerror(reason), now_s);
        peer->next_address++;
        return;
    }
    agent_frame frame = hello(a);
    agent_link_put(&peer->link, &frame);
    peer->state = PEER_GREETING;
    peer->until_s = now_s + answer_s;
    if (!agent_link_send(&peer->link))
        call_failed(peer, "it hung up", now_s);
}

static void read_answer(agent *a, int host, double now_s)
{
    agent_peer *peer = &a->peers[host];
    agent_frame frame;
    bool alive = agent_link_receive(&peer->link);
    int got = agent_link_next(&peer->link, &frame);
    const char *refused = got < 0 ? "it speaks another language" : got > 0 ? refuse_hello(a, &frame) : NULL;
    if (got > 0 && refused == NULL && frame.hello.host != (uint32_t)host)
        refused = "another host of the job answers";
    if (refused == NULL && got == 0 && !alive)
        refused = "it hung up";
    if (refused != NULL)
        call_failed(peer, refused, now_s);
    else if (got > 0)
        agent_peer_up(a, host);
}

static void step_call(agent *a, int host, bool ready, double now_s)
{
    agent_peer *peer = &a->peers[host];
    if (peer->state == PEER_IDLE && now_s >= peer->until_s)
        call(peer, now_s);
    else if (peer->state == PEER_CALLING && ready)
        greet(a, peer, now_s);
    else if (peer->state == PEER_GREETING && ready)
        read_answer(a, host, now_s);
    if ((peer->state == PEER_CALLING || peer->state == PEER_GREETING) && now_s >= peer->until_s) {
        call_failed(peer, "no answer", now_s);
        peer->next_address++;
    }
}

/* ---- Accepting ---- */
static void accept_callers(agent *a, double now_s)
{
    for (int i = 0; i < AGENT_CALLERS; i++) {
        if (a->callers[i].link.fd >= 0)
            continue;
        int fd = tess_os_accept(a->listen_fd);
        if (fd < 0)
            return;
        agent_link_open(&a->callers[i].link, fd);
        a->callers[i].until_s = now_s + hello_s;
    }
}

/* Handles a caller. A caller that was not answered in time has hung up after its hello, and calls again. */
static void step_caller(agent *a, agent_caller *caller, double now_s)
{
    agent_frame frame;
    bool alive = agent_link_receive(&caller->link);
    int got = agent_link_next(&caller->link, &frame);
    bool awaited = got > 0 && refuse_hello(a, &frame) == NULL && frame.hello.host < (uint32_t)a->host &&
                   a->peers[frame.hello.host].state == PEER_AWAITED;
    if (awaited && agent_link_receive(&caller->link)) {
        agent_peer *peer = &a->peers[frame.hello.host];
        peer->link = caller->link;
        peer->state = PEER_ANSWERED;
        caller->link.fd = -1;
        frame = hello(a);
        agent_link_put(&peer->link, &frame);
    } else if (got != 0 || !alive || now_s >= caller->until_s) {
        agent_link_close(&caller->link);
    }
}

/* ---- The meeting ---- */
static bool is_missing(const agent *a, int h)
{
    return h != a->host && a->peers[h].state != PEER_UP && a->peers[h].state != PEER_GONE;
}

static bool is_overdue(const agent *a, int h, double now_s)
{
    double most_s = h > a->host ? TESS_AGENT_REACH_S : TESS_AGENT_CALLED_S;
    return is_missing(a, h) && a->peers[h].state != PEER_GREETING && now_s - a->begin_s >= most_s;
}

static void name_missing(const agent *a, double now_s, char *text, size_t size)
{
    const tess_job_host *hosts = a->job->header->hosts;
    for (int h = 0; h < a->n_hosts; h++) {
        const agent_peer *peer = &a->peers[h];
        if (!is_overdue(a, h, now_s))
            continue;
        if (h < a->host)
            snprintf(text, size, "host %s has not called host %s (%s:%d) within %.0f s: ", hosts[h].name,
                     hosts[a->host].name, a->peers[a->host].address.address[0], a->peers[a->host].address.port,
                     TESS_AGENT_CALLED_S);
        else
            snprintf(text, size, "host %s (%s:%d) cannot be reached from host %s: %s in %.0f s: ", hosts[h].name,
                     peer->address.address[0], peer->address.port, hosts[a->host].name, peer->reason,
                     TESS_AGENT_REACH_S);
        return;
    }
}

static void check_end(agent *a, double now_s)
{
    tess_job_header *header = a->job->header;
    int n_missing = 0, n_overdue = 0;
    for (int h = 0; h < a->n_hosts; h++) {
        n_missing += is_missing(a, h);
        n_overdue += is_overdue(a, h, now_s);
    }
    if (n_missing > 0 && n_overdue == 0)
        return;
    if (n_missing > 0) {
        char who[400] = "";
        name_missing(a, now_s, who, sizeof(who));
        snprintf(
            header->agent_error, sizeof(header->agent_error),
            "%sopen TCP ports between the hosts (TESSERA_AGENT_PORTS=first-last says which ones are used), or name "
            "the network interface with TESSERA_IFNAME",
            who);
    }
    atomic_store(&header->agent_state, n_missing > 0 ? JOB_AGENT_FAILED : JOB_AGENT_UP);
    tess_os_close(&a->listen_fd);
    tess_job_wake_all(a->job);
}

void agent_meet_step(agent *a, const struct pollfd *fds)
{
    double now_s = tess_os_now_s();
    if (a->listen_slot >= 0 && fds[a->listen_slot].revents != 0)
        accept_callers(a, now_s);
    for (int h = a->host + 1; h < a->n_hosts; h++) {
        const agent_link *link = &a->peers[h].link;
        step_call(a, h, link->fd >= 0 && link->slot >= 0 && fds[link->slot].revents != 0, now_s);
    }
    for (int i = 0; i < AGENT_CALLERS; i++)
        if (a->callers[i].link.fd >= 0)
            step_caller(a, &a->callers[i], now_s);
    check_end(a, now_s);
    if (a->listen_fd < 0) /* the meeting has ended, so no caller is expected any more */
        for (int i = 0; i < AGENT_CALLERS; i++)
            agent_link_close(&a->callers[i].link);
}
