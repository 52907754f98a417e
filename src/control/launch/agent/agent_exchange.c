/* Exchanges boards between agents: sends the rows of this host's ranks, and writes received rows of other hosts to
 * the board. */
#include <string.h>

#include "base/os/os.h"
#include "job/rank_end.h"
#include "control/launch/agent/agent_impl.h"

static const double round_s = 0.1;
/* Seconds of silence after which a host counts as lost, if mpirun also ends the job. */
static const double lost_s = 2;
/* Seconds for which the first verdict on silent hosts also holds for the other wardens of this host. */
static const double verdict_s = 0.25;

/* ---- Peers that connect and disconnect ---- */
void agent_owe_round(const agent *a, agent_peer *peer)
{
    for (int i = 0; peer->rows_due == 0 && i < a->n_local; i++)
        if (atomic_load(&a->job->rows[a->local[i]].state) == JOB_RANK_LOST) {
            peer->next_row = i;
            peer->next_word = 0;
            break;
        }
    peer->host_due = true;
    peer->rows_due = a->n_local;
}

void agent_peer_up(agent *a, int host)
{
    tess_job_host *entry = &a->job->header->hosts[host];
    a->peers[host].state = PEER_UP;
    agent_owe_round(a, &a->peers[host]);
    atomic_store(&entry->heard_ns, tess_os_now_ns());
    atomic_store(&entry->state, JOB_HOST_UP);
}

/* Marks a host's ranks as lost together with the host, unless they had left or ended. */
static void peer_gone(agent *a, int host, uint32_t how)
{
    agent_link_close(&a->peers[host].link);
    a->peers[host].state = PEER_GONE;
    atomic_store(&a->job->header->hosts[host].state, how);
    for (int r = 0; r < (int)a->job->header->world; r++) {
        uint32_t state = atomic_load(&a->job->rows[r].state);
        if (a->job->rows[r].host == host && (state == JOB_RANK_ABSENT || state == JOB_RANK_JOINED))
            tess_ending_lose(a->job, r, 0, 0);
    }
    tess_job_wake_all(a->job);
}

/* Whether any rank of a host has neither left nor ended. */
static bool has_ranks(const tess_job *job, int host)
{
    for (uint32_t r = 0; r < job->header->world; r++) {
        uint32_t state = atomic_load(&job->rows[r].state);
        if (job->rows[r].host == host &&
            (state == JOB_RANK_ABSENT || state == JOB_RANK_JOINED || state == JOB_RANK_LOST))
            return true;
    }
    return false;
}

/* Returns the verdict that holds for all wardens of this host. They judge within moments of each other, and the
 * silence may reach its limit in between, so the first verdict counts for all. */
static bool agreed(tess_job_header *header, bool is_loss, uint64_t now)
{
    uint64_t last = atomic_load(&header->silence), own = now << 1 | is_loss;
    while (last == 0 || (double)now - (double)(last >> 1) >= verdict_s * 1e9)
        if (atomic_compare_exchange_strong(&header->silence, &last, own))
            return is_loss;
    return last & 1;
}

/* Returns the seconds since data came from another host that is up; 0 for other hosts. */
static double silence_of(const tess_job *job, int host, uint64_t now)
{
    const tess_job_host *entry = &job->header->hosts[host];
    uint64_t heard = atomic_load(&entry->heard_ns);
    bool is_up = host != (int)job->header->host && atomic_load(&entry->state) == JOB_HOST_UP;
    return is_up && now > heard ? (double)(now - heard) * 1e-9 : 0;
}

bool agent_lose_silent(agent *a, const tess_job *job)
{
    const uint64_t now = tess_os_now_ns();
    const int n = (int)job->header->n_hosts;
    bool any = false;
    for (int h = 0; h < n; h++)
        any |= (silence_of(job, h, now) >= lost_s || atomic_load(&job->header->hosts[h].state) == JOB_HOST_SILENT) &&
               has_ranks(job, h);
    const bool is_loss = agreed(job->header, any, now);
    /* If another warden has declared a loss just before or just after, the host may still be just within the limit
     * here. */
    const double limit_s = is_loss && !any ? lost_s - verdict_s : lost_s;
    for (int h = 0; h < n && a != NULL && is_loss; h++)
        if (silence_of(job, h, now) >= limit_s)
            peer_gone(a, h, JOB_HOST_SILENT);
    return is_loss;
}

/* Handles a peer that hung up. If it did so right after its hello, it has given up that call and will call again. */
static void hung_up(agent *a, int host)
{
    agent_peer *peer = &a->peers[host];
    if (peer->state != PEER_ANSWERED) {
        peer_gone(a, host, JOB_HOST_GONE);
        return;
    }
    agent_link_close(&peer->link);
    peer->state = PEER_AWAITED;
}

/* ---- Receiving ---- */
static bool take_row(agent *a, int host, const frame_row *row)
{
    const tess_board_copy *copy = &row->copy;
    uint32_t world = a->job->header->world;
    /* A peer may report only ranks of its own host. */
    if (row->rank >= world || a->job->rows[row->rank].host != host || copy->blames < 0 ||
        copy->blames > (int32_t)world || copy->exit_code < 0 || copy->exit_code > 255 || copy->signal < 0 ||
        copy->signal > 127)
        return false;
    if (!tess_board_import(a->job, (int)row->rank, copy))
        return true;
    if (copy->state == JOB_RANK_LOST) {
        int32_t nobody = -1;
        atomic_compare_exchange_strong(&a->job->header->first_lost, &nobody, tess_ending_cause(a->job, (int)row->rank));
    }
    tess_job_wake_all(a->job);
    return true;
}

static bool take_awaited(const agent *a, int host, const frame_awaited *part)
{
    const size_t words = tess_bits_words(a->job->world);
    if (part->rank >= (uint32_t)a->job->world || a->job->rows[part->rank].host != host || part->first >= words)
        return false;
    _Atomic uint64_t *set = tess_job_awaited(a->job, (int)part->rank);
    for (size_t i = 0; i < FRAME_WORDS && part->first + i < words; i++)
        atomic_store_explicit(&set[part->first + i], part->words[i], memory_order_relaxed);
    return true;
}

static bool take_diagnosis(agent *a, const frame_diagnosis *diagnosis)
{
    tess_job_header *header = a->job->header;
    if (diagnosis->rank < 0 || diagnosis->rank >= (int32_t)header->world || diagnosis->code <= 0 ||
        diagnosis->code > 255)
        return false;
    uint32_t none = JOB_DIAGNOSIS_NONE;
    if (atomic_compare_exchange_strong(&header->diagnosis_state, &none, JOB_DIAGNOSIS_WRITING)) {
        atomic_store(&header->diagnosis_rank, diagnosis->rank);
        atomic_store(&header->diagnosis_code, diagnosis->code);
        atomic_store(&header->diagnosis_state, JOB_DIAGNOSIS_ELSEWHERE);
    }
    return true;
}

static bool take(agent *a, int host, const agent_frame *frame)
{
    tess_job_header *header = a->job->header;
    uint32_t no = JOB_STOP_NO;
    switch (frame->kind) {
    case FRAME_HOST:
        /* A request to stop now replaces a request to stop after the next save. Neither can be withdrawn. */
        if (frame->host.stop == JOB_STOP_NOW)
            atomic_store(&header->stop, JOB_STOP_NOW);
        else if (frame->host.stop == JOB_STOP_AFTER_SAVE)
            atomic_compare_exchange_strong(&header->stop, &no, JOB_STOP_AFTER_SAVE);
        a->peers[host].diagnosis_seen = frame->host.diagnosis_seen != 0;
        return true;
    case FRAME_ROW:
        return take_row(a, host, &frame->row);
    case FRAME_DIAGNOSIS:
        return take_diagnosis(a, &frame->diagnosis);
    case FRAME_AWAITED:
        return take_awaited(a, host, &frame->awaited);
    case FRAME_HELLO:
        break;
    }
    return false;
}

void agent_receive(agent *a, int host)
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

/* ---- Sending ---- */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

/* Returns a hash that changes whenever other hosts must learn of something at once. */
static uint64_t find_news(const agent *a)
{
    const tess_job_header *header = a->job->header;
    uint64_t hash = mix(atomic_load(&header->stop), atomic_load(&header->diagnosis_state));
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

/* Adds the set of ranks that `rank` waits for, from word peer->next_word on. Returns false if there is no room for
 * all of it. */
static bool put_awaited(const agent *a, agent_peer *peer, int rank)
{
    const size_t words = tess_bits_words(a->job->world);
    tess_board_export_awaited(a->job, rank, a->awaited);
    for (; peer->next_word < words; peer->next_word += FRAME_WORDS) {
        agent_frame frame = {.kind = FRAME_AWAITED,
                             .awaited = {.rank = (uint32_t)rank, .first = (uint32_t)peer->next_word}};
        size_t left = words - peer->next_word, n = left < FRAME_WORDS ? left : FRAME_WORDS;
        memcpy(frame.awaited.words, a->awaited + peer->next_word, n * sizeof(uint64_t));
        if (!agent_link_put(&peer->link, &frame))
            return false;
    }
    return true;
}

static bool put_row(const agent *a, agent_peer *peer)
{
    int rank = a->local[peer->next_row];
    agent_frame frame = {.kind = FRAME_ROW, .row.rank = (uint32_t)rank};
    tess_board_export(&a->job->rows[rank], &frame.row.copy);
    bool waits = frame.row.copy.wait_age_ns != 0;
    if ((waits && !put_awaited(a, peer, rank)) || !agent_link_put(&peer->link, &frame))
        return false;
    peer->next_word = 0;
    peer->next_row = (peer->next_row + 1) % a->n_local;
    return true;
}

void agent_send_due(agent *a, int host)
{
    agent_peer *peer = &a->peers[host];
    const tess_job_header *header = a->job->header;
    uint32_t diagnosis = atomic_load(&header->diagnosis_state);
    bool room = true;
    if (peer->host_due) {
        bool seen = diagnosis == JOB_DIAGNOSIS_HERE || diagnosis == JOB_DIAGNOSIS_ELSEWHERE;
        agent_frame frame = {.kind = FRAME_HOST,
                             .host = {.stop = (uint8_t)atomic_load(&header->stop), .diagnosis_seen = seen}};
        room = agent_link_put(&peer->link, &frame);
        peer->host_due = !room;
    }
    while (room && peer->rows_due > 0 && (room = put_row(a, peer)))
        peer->rows_due--;
    if (room && peer->state == PEER_UP && !peer->diagnosis_sent && diagnosis == JOB_DIAGNOSIS_HERE) {
        agent_frame frame = {
            .kind = FRAME_DIAGNOSIS,
            .diagnosis = {.rank = atomic_load(&header->diagnosis_rank), .code = atomic_load(&header->diagnosis_code)}};
        peer->diagnosis_sent = agent_link_put(&peer->link, &frame);
    }
    if (!agent_link_send(&peer->link)) {
        agent_receive(a, host); /* its last messages may already have arrived */
        if (agent_is_connected(peer))
            hung_up(a, host);
    }
}

void agent_send_all(agent *a)
{
    double now_s = tess_os_now_s();
    uint64_t news = find_news(a);
    bool round = news != a->news || now_s >= a->next_round_s;
    if (round) {
        a->news = news;
        a->next_round_s = now_s + round_s;
    }
    for (int h = 0; h < a->n_hosts; h++) {
        if (!agent_is_connected(&a->peers[h]))
            continue;
        if (round && a->peers[h].state == PEER_UP)
            agent_owe_round(a, &a->peers[h]);
        agent_send_due(a, h);
    }
}
