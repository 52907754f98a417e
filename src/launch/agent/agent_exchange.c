/* The agent: tells the other hosts what the ranks of this one do, and writes what they tell on this host's board. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "job/rank_end.h"
#include "launch/agent/agent_impl.h"

static const double round_s = 0.1, goodbye_s = 0.5;
static const uint64_t own_gap_ns = 100000000; /* a guard looks a hundred times a second */

/* ---- Begin and end ---- */
/* "40000-40100" in TESSERA_AGENT_PORTS; any port without it. */
static tess_status read_ports(int *first, int *last)
{
    const char *text = getenv("TESSERA_AGENT_PORTS");
    char rest;
    *first = *last = 0;
    if (text == NULL || *text == '\0')
        return TESS_OK;
    int n = sscanf(text, "%d-%d%c", first, last, &rest);
    TESS_CHECK(n == 2 && *first >= 1 && *first <= *last && *last <= 65535, TESS_E_INVALID,
               "TESSERA_AGENT_PORTS is '%s', expected two TCP ports: 40000-40100", text);
    return TESS_OK;
}

static tess_status open_port(agent *a, tess_agent_address *mine)
{
    int first, last, n;
    TESS_TRY(read_ports(&first, &last));
    TESS_TRY_CTX(tess_os_addresses(getenv("TESSERA_IFNAME"), mine->address, AGENT_ADDRESSES, &n),
                 "TESSERA_IFNAME names the interface that leads to the other hosts");
    /* With one address to give, nobody has to call on another. */
    return tess_os_listen(n == 1 ? mine->address[0] : NULL, first, last, &a->listen_fd, &mine->port);
}

tess_status agent_listen(tess_mem *mem, const tess_job *job, agent **out, tess_agent_address *mine)
{
    void *memory;
    memset(mine, 0, sizeof(*mine));
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(agent), "agent", &memory));
    agent *a = memory;
    *a = (agent){.mem = mem, .job = job, .host = (int)job->header->host, .listen_fd = -1};
    for (int r = 0; r < (int)job->header->world; r++)
        if (job->rows[r].host == a->host)
            a->local[a->n_local++] = r;
    tess_status status = open_port(a, mine);
    if (status != TESS_OK) {
        tess_mem_free(mem, a);
        return tess_fail_context(status, "the agent of this host");
    }
    *out = a;
    return TESS_OK;
}

/* ---- Peers that come and go ---- */
/* Rows in a circle, so that a slow link that never finishes a round starves none; a rank that was lost first, before
 * what the others say because of it. */
static void owe_round(const agent *a, agent_peer *peer)
{
    for (int i = 0; peer->rows_due == 0 && i < a->n_local; i++)
        if (atomic_load(&a->job->rows[a->local[i]].state) == JOB_RANK_LOST) {
            peer->next_row = i;
            break;
        }
    peer->host_due = true;
    peer->rows_due = a->n_local;
}

void agent_peer_up(agent *a, int host)
{
    tess_job_host *entry = &a->job->header->hosts[host];
    a->peers[host].state = PEER_UP;
    owe_round(a, &a->peers[host]);
    atomic_store(&entry->heard_ns, tess_os_now_ns());
    atomic_store(&entry->state, JOB_HOST_UP);
}

/* Whoever had neither left nor ended is lost with its host. */
static void peer_gone(agent *a, int host)
{
    agent_link_close(&a->peers[host].link);
    a->peers[host].state = PEER_GONE;
    atomic_store(&a->job->header->hosts[host].state, JOB_HOST_GONE);
    for (int r = 0; r < (int)a->job->header->world; r++) {
        uint32_t state = atomic_load(&a->job->rows[r].state);
        if (a->job->rows[r].host == host && (state == JOB_RANK_ABSENT || state == JOB_RANK_JOINED))
            tess_ending_lose(a->job, r, 0, 0);
    }
    tess_job_wake_all(a->job);
}

/* One that has said nothing behind its hello gave that call up, and calls again. */
static void hung_up(agent *a, int host)
{
    agent_peer *peer = &a->peers[host];
    if (peer->state != PEER_ANSWERED) {
        peer_gone(a, host);
        return;
    }
    agent_link_close(&peer->link);
    peer->state = PEER_AWAITED;
}

static bool is_connected(const agent_peer *peer)
{
    return peer->state == PEER_UP || peer->state == PEER_ANSWERED;
}

/* ---- What comes in ---- */
/* A peer speaks for the ranks of its own host and for no others. */
static bool is_allowed(const agent *a, int host, const frame_row *row)
{
    const tess_board_copy *copy = &row->copy;
    return row->rank < a->job->header->world && a->job->rows[row->rank].host == host && copy->blames >= 0 &&
           copy->blames <= (int32_t)a->job->header->world && copy->exit_code >= 0 && copy->exit_code <= 255 &&
           copy->signal >= 0 && copy->signal <= 127;
}

static bool take_row(agent *a, int host, const frame_row *row)
{
    if (!is_allowed(a, host, row))
        return false;
    if (!tess_board_import(&a->job->rows[row->rank], &row->copy))
        return true;
    if (row->copy.state == JOB_RANK_LOST) {
        int32_t nobody = -1;
        atomic_compare_exchange_strong(&a->job->header->first_lost, &nobody, tess_ending_cause(a->job, (int)row->rank));
    }
    tess_job_wake_all(a->job);
    return true;
}

static bool take_verdict(agent *a, const frame_verdict *verdict)
{
    tess_job_header *header = a->job->header;
    if (verdict->rank < 0 || verdict->rank >= (int32_t)header->world || verdict->code <= 0 || verdict->code > 255)
        return false;
    uint32_t none = JOB_VERDICT_NONE;
    if (atomic_compare_exchange_strong(&header->verdict_state, &none, JOB_VERDICT_WRITING)) {
        atomic_store(&header->verdict_rank, verdict->rank);
        atomic_store(&header->verdict_code, verdict->code);
        atomic_store(&header->verdict_state, JOB_VERDICT_ELSEWHERE);
    }
    return true;
}

/* A request to leave at once outweighs one to leave after the next save, and neither is taken back. */
static void take_stop(const agent *a, tess_stop_request asked)
{
    uint32_t no = JOB_STOP_NO;
    if (asked == JOB_STOP_NOW)
        atomic_store(&a->job->header->stop, JOB_STOP_NOW);
    else if (asked == JOB_STOP_AFTER_SAVE)
        atomic_compare_exchange_strong(&a->job->header->stop, &no, JOB_STOP_AFTER_SAVE);
}

static bool take(agent *a, int host, const agent_frame *frame)
{
    agent_peer *peer = &a->peers[host];
    switch (frame->kind) {
    case FRAME_HOST:
        take_stop(a, (tess_stop_request)frame->host.stop);
        peer->verdict_seen = frame->host.verdict_seen != 0;
        return true;
    case FRAME_ROW:
        return take_row(a, host, &frame->row);
    case FRAME_VERDICT:
        return take_verdict(a, &frame->verdict);
    case FRAME_HELLO:
        break;
    }
    return false;
}

static void receive(agent *a, int host)
{
    agent_peer *peer = &a->peers[host];
    agent_frame frame;
    bool alive = agent_link_receive(&peer->link), sane = true;
    int got;
    while (sane && (got = agent_link_next(&peer->link, &frame)) != 0) {
        if (got > 0 && peer->state == PEER_ANSWERED)
            agent_peer_up(a, host);
        sane = got > 0 && take(a, host, &frame);
        atomic_store(&a->job->header->hosts[host].heard_ns, tess_os_now_ns());
    }
    if (!alive || !sane)
        hung_up(a, host);
}

/* ---- What goes out ---- */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

/* Changes whenever something does that others must know at once. */
static uint64_t find_news(const agent *a)
{
    const tess_job_header *header = a->job->header;
    uint64_t hash = mix(atomic_load(&header->stop), atomic_load(&header->verdict_state));
    for (int i = 0; i < a->n_local; i++) {
        const tess_job_row *row = &a->job->rows[a->local[i]];
        hash = mix(hash, atomic_load(&row->state));
        hash = mix(hash, atomic_load(&row->ended));
        hash = mix(hash, (uint32_t)atomic_load(&row->blames));
        hash = mix(hash, atomic_load(&row->broken_team));
        hash = mix(hash, strnlen(row->error, sizeof(row->error)));
    }
    return hash;
}

static bool put_host(const agent *a, agent_peer *peer)
{
    uint32_t verdict = atomic_load(&a->job->header->verdict_state);
    agent_frame frame = {.kind = FRAME_HOST,
                         .host = {.stop = (uint8_t)atomic_load(&a->job->header->stop),
                                  .verdict_seen = verdict == JOB_VERDICT_HERE || verdict == JOB_VERDICT_ELSEWHERE}};
    return agent_link_put(&peer->link, &frame);
}

static bool put_row(const agent *a, agent_peer *peer)
{
    int rank = a->local[peer->next_row];
    agent_frame frame = {.kind = FRAME_ROW, .row.rank = (uint32_t)rank};
    tess_board_export(&a->job->rows[rank], &frame.row.copy);
    if (!agent_link_put(&peer->link, &frame))
        return false;
    peer->next_row = (peer->next_row + 1) % a->n_local;
    return true;
}

static bool put_verdict(const agent *a, agent_peer *peer)
{
    const tess_job_header *header = a->job->header;
    agent_frame frame = {
        .kind = FRAME_VERDICT,
        .verdict = {.rank = atomic_load(&header->verdict_rank), .code = atomic_load(&header->verdict_code)}};
    return agent_link_put(&peer->link, &frame);
}

/* A round that a slow link has not taken yet is not begun again: what goes out is always the newest. */
static void send_due(agent *a, int host)
{
    agent_peer *peer = &a->peers[host];
    bool room = true;
    if (peer->host_due && (room = put_host(a, peer)))
        peer->host_due = false;
    while (room && peer->rows_due > 0 && (room = put_row(a, peer)))
        peer->rows_due--;
    if (room && peer->state == PEER_UP && !peer->verdict_sent &&
        atomic_load(&a->job->header->verdict_state) == JOB_VERDICT_HERE)
        peer->verdict_sent = put_verdict(a, peer);
    if (!agent_link_send(&peer->link)) {
        receive(a, host); /* its last words may be here */
        if (is_connected(peer))
            hung_up(a, host);
    }
}

static void send_all(agent *a)
{
    double now_s = tess_os_now_s();
    uint64_t news = find_news(a);
    bool round = news != a->news || now_s >= a->next_round_s;
    if (round) {
        a->news = news;
        a->next_round_s = now_s + round_s;
    }
    for (int h = 0; h < a->n_hosts; h++) {
        if (!is_connected(&a->peers[h]))
            continue;
        if (round && a->peers[h].state == PEER_UP)
            owe_round(a, &a->peers[h]);
        send_due(a, h);
    }
}

/* ---- The loop's part ---- */
int agent_watch(agent *a, struct pollfd *fds)
{
    int n = 0;
    a->listen_slot = -1;
    for (int h = 0; a->peers != NULL && h < a->n_hosts; h++) {
        agent_peer *peer = &a->peers[h];
        peer->link.slot = -1;
        if (!is_connected(peer))
            continue;
        peer->link.slot = n;
        short events = peer->link.out_at < peer->link.n_out ? POLLIN | POLLOUT : POLLIN;
        fds[n++] = (struct pollfd){.fd = peer->link.fd, .events = events};
    }
    if (a->peers != NULL && a->listen_fd >= 0)
        agent_meet_watch(a, fds, &n);
    return n;
}

/* While this process did not get to run it heard nobody: that is no silence of theirs. */
static void forgive_silence(const agent *a)
{
    uint64_t gap_ns = tess_os_now_ns() - a->served_ns;
    if (a->served_ns == 0 || gap_ns < own_gap_ns)
        return;
    for (int h = 0; h < a->n_hosts; h++)
        if (a->peers[h].state == PEER_UP)
            atomic_fetch_add(&a->job->header->hosts[h].heard_ns, gap_ns);
}

void agent_serve(agent *a, const struct pollfd *fds)
{
    if (a->peers == NULL)
        return;
    forgive_silence(a);
    for (int h = 0; h < a->n_hosts; h++) {
        const agent_peer *peer = &a->peers[h];
        if (is_connected(peer) && peer->link.slot >= 0 && (fds[peer->link.slot].revents & ~POLLOUT) != 0)
            receive(a, h);
    }
    if (a->listen_fd >= 0)
        agent_meet_step(a, fds);
    send_all(a);
    a->served_ns = tess_os_now_ns();
}

void agent_close(agent **handle, bool stay)
{
    agent *a = *handle;
    if (a == NULL)
        return;
    *handle = NULL;
    tess_os_close(&a->listen_fd);
    if (stay && a->peers != NULL)
        send_all(a); /* a guard in a hurry may have found the verdict a moment ago */
    for (int h = 0; a->peers != NULL && h < a->n_hosts; h++)
        if (!stay)
            agent_link_close(&a->peers[h].link);
    for (int i = 0; a->callers != NULL && i < AGENT_CALLERS; i++)
        agent_link_close(&a->callers[i].link);
    tess_mem_free(a->mem, a->callers);
    tess_mem_free(a->mem, a->peers);
    tess_mem_free(a->mem, a);
}

bool agent_verdict_is_known(const agent *a)
{
    for (int h = 0; a->peers != NULL && h < a->n_hosts; h++)
        if (a->peers[h].state == PEER_UP && !a->peers[h].verdict_seen && verdict_in_touch(a->job, h))
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
            owe_round(a, &a->peers[h]);
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
                send_due(a, h);
            if (peer->state == PEER_UP && !ended[h] && peer->rows_due == 0 && peer->link.n_out == 0) {
                tess_os_end_sending(peer->link.fd);
                ended[h] = true;
            }
            /* Until it has hung up too: to close with bytes unread would take back what it has not read. */
            if (peer->state == PEER_UP && peer->link.slot >= 0 && fds[peer->link.slot].revents != 0)
                receive(a, h);
        }
    }
}
