/* Moves messages of GPUs between two hosts by NCCL. Operations of a link run in one order, and a send occupies its
 * stream until it is received. So a link serves one direction between two ranks: messages that cross, or go round a
 * ring, do not wait for each other. */
#include "comm/hosts/linked.h"

#include "base/mem/scoped.h"
#include "base/os/os.h"

enum { SENDER, RECEIVER, MEMBERS }; /* ranks in the link */
enum { NOT_KNOWN, CAN, CANNOT };    /* whether a side can use the link */

static const char messages[] = "between hosts, messages";

struct hosts_pair {
    hosts_pair *next;
    int peer;
    bool sends;           /* this rank is the sender */
    tess_nccl_link *link; /* NULL: data passes through the host */
    tess_stream *stream;
    double begin_s;
    int out_tag;          /* tag of this side's result; -1: it has been sent */
    int32_t mine, theirs; /* the two sides' results of connecting */
    wire_request *said, *heard;
    bool is_agreed;                      /* both sides know both results */
    uint64_t n_given;                    /* messages numbered so far, by the receiver */
    uint64_t n_over;                     /* messages moved so far */
    enum { IDLE, BEGUN, ENQUEUED } step; /* step of the next message */
};

static hosts_pair *find(const tess_work *work)
{
    hosts_pair *p = hosts_of(work->team)->pairs;
    while (p != NULL && (p->peer != work->root || p->sends != (work->fp.kind == TESS_TRACE_SEND)))
        p = p->next;
    return p;
}

/* Progresses MPI while NCCL connects, because peers may need this rank's messages for their meeting. */
static tess_status look(void *self, TESS_UNUSED double waited_s)
{
    const tess_team *team = self;
    const tess_runtime *rt = team->runtime;
    int lost = atomic_load(&rt->job.header->first_lost);
    char end[640];
    TESS_CHECK(lost < 0, TESS_E_PEER_LOST, "%s", tess_board_describe_end(&rt->job, lost, end, sizeof(end)));
    if (rt->transport->poll != NULL)
        rt->transport->poll();
    return TESS_OK;
}

tess_status hosts_link_create(tess_team *team, int rank, int size, const nccl_id *id, tess_nccl_link **link)
{
    const tess_nccl_seat seat = {.name = team->name,
                                 .rank = rank,
                                 .size = size,
                                 .id = *id,
                                 .deadline_s = team->timeout_s / 2,
                                 .look = look,
                                 .self = team};
    return tess_nccl_link_create(team->runtime->mem, team->runtime->device->device, &seat, link);
}

/* ---- Connecting ---- */
/* Whether this rank can make links for messages. If not, warns once. */
static bool accept(const tess_team *team, tess_status status)
{
    if (status != TESS_OK)
        ondevice_warn(team, messages);
    hosts_of(team)->refuses = status != TESS_OK;
    return status == TESS_OK;
}

bool hosts_pair_can(const tess_work *work)
{
    const tess_team *team = work->team;
    const hosts_pair *p = find(work);
    if (work->device.message == NULL || hosts_of(team)->refuses)
        return false;
    return p != NULL ? !p->is_agreed || p->link != NULL
                     : accept(team, tess_nccl_check_overlap(team->runtime->device->device));
}

/* Puts the pair into the list. All ranks close pairs in one order: by the lower rank, by the higher rank, and the
 * direction to the higher rank first. The pairs of one rank are then ordered by peer. */
static void insert(const tess_team *team, hosts_pair *p)
{
    hosts_pair **at = &hosts_of(team)->pairs;
    while (*at != NULL && ((*at)->peer < p->peer || ((*at)->peer == p->peer && (*at)->sends == (team->rank < p->peer))))
        at = &(*at)->next;
    p->next = *at;
    *at = p;
}

static tess_status connect(tess_team *team, hosts_pair *p, const nccl_id *id)
{
    TESS_TRY(tess_device_stream(team->runtime->device->device, 1, team->runtime->kernels, &p->stream));
    return hosts_link_create(team, p->sends ? SENDER : RECEIVER, MEMBERS, id, &p->link);
}

/* Begins to connect to the message's peer. */
static tess_status open_pair(const tess_work *work, const hosts_message *m, const nccl_id *id)
{
    tess_team *team = work->team;
    hosts_pair *p;
    TESS_TRY(TESS_NEW(team->runtime->mem, 1, "link for messages", &p));
    *p = (hosts_pair){.peer = work->root,
                      .sends = work->fp.kind == TESS_TRACE_SEND,
                      .begin_s = tess_os_now_s(),
                      .out_tag = m->out_tag};
    insert(team, p);
    if (connect(team, p, id) != TESS_OK)
        ondevice_warn(team, messages);
    return tess_wire_recv(hosts_of(team)->group, &p->theirs, sizeof(p->theirs), p->peer, m->in_tag, &p->heard);
}

/* Both sides need the same result, so each tells the other. A side that hears of a failure no longer waits. */
static tess_status agree(tess_team *team, hosts_pair *p)
{
    bool settled = false, said, heard;
    TESS_TRY(tess_wire_test(&p->heard, &heard));
    if (p->mine == NOT_KNOWN && (p->link == NULL || (heard && p->theirs == CANNOT)))
        p->mine = CANNOT;
    if (p->mine == NOT_KNOWN) {
        tess_status status = tess_nccl_settled(p->link, &settled);
        if (status == TESS_OK && !settled && tess_os_now_s() - p->begin_s > team->timeout_s / 2)
            status = TESS_FAIL(TESS_E_TIMEOUT, "NCCL did not connect to rank %d within %.3g s", team->ranks[p->peer],
                               team->timeout_s / 2);
        if (status != TESS_OK)
            ondevice_warn(team, messages);
        p->mine = status != TESS_OK ? CANNOT : settled ? CAN : NOT_KNOWN;
    }
    if (p->mine != NOT_KNOWN && p->out_tag >= 0) {
        TESS_TRY(tess_wire_send(hosts_of(team)->group, &p->mine, sizeof(p->mine), p->peer, p->out_tag, &p->said));
        p->out_tag = -1;
    }
    TESS_TRY(tess_wire_test(&p->said, &said));
    p->is_agreed = heard && said && p->mine != NOT_KNOWN;
    if (p->is_agreed && (p->mine == CANNOT || p->theirs == CANNOT))
        tess_nccl_link_destroy(&p->link, false);
    return TESS_OK;
}

tess_status hosts_pair_number(tess_work *work, hosts_message *m)
{
    hosts_note *answer = &m->wanted;
    if (m->sent.number == 0 || !hosts_pair_can(work))
        return TESS_OK;
    if (find(work) == NULL) {
        if (!accept(work->team, tess_nccl_id_create(&answer->id)))
            return TESS_OK;
        TESS_TRY(open_pair(work, m, &answer->id));
    }
    answer->number = ++find(work)->n_given;
    return TESS_OK;
}

tess_status hosts_pair_agree(tess_work *work, hosts_message *m, bool *is_agreed)
{
    hosts_pair *p = find(work);
    m->number = m->wanted.number;
    *is_agreed = m->number == 0;
    if (*is_agreed || (p == NULL && m->number > 1)) /* the answer to the first message has the id, and is on its way */
        return TESS_OK;
    if (p == NULL)
        TESS_TRY(open_pair(work, m, &m->wanted.id));
    p = find(work);
    if (!p->is_agreed)
        TESS_TRY(agree(work->team, p));
    *is_agreed = p->is_agreed;
    if (p->is_agreed && p->link == NULL)
        m->number = 0;
    return TESS_OK;
}

/* ---- Moving ---- */
static tess_status begin(const tess_work *work, hosts_pair *p)
{
    const tess_nccl_message message = {.data = p->sends ? (void *)(uintptr_t)work->in : work->out,
                                       .bytes = work->in_bytes + work->out_bytes,
                                       .peer = p->sends ? RECEIVER : SENDER,
                                       .sends = p->sends};
    p->step = BEGUN;
    return tess_nccl_begin(p->link, p->stream, &message, 1);
}

static tess_status move(tess_work *work, hosts_pair *p, bool *done)
{
    ondevice_message *m = work->device.message;
    bool settled = false;
    *done = false;
    if (p->step == IDLE)
        TESS_TRY(begin(work, p));
    TESS_TRY(tess_nccl_settled(p->link, &settled));
    if (p->step == BEGUN && settled) {
        p->step = ENQUEUED;
        m->stream = p->stream;
        TESS_TRY(tess_event_record(m->moved, p->stream));
    }
    *done = p->step == ENQUEUED && ondevice_passed(work, m->moved);
    return work->status;
}

tess_status hosts_pair_move(tess_work *work, uint64_t number, bool *done)
{
    hosts_pair *p = find(work);
    *done = false;
    if (p->n_over + 1 != number)
        return TESS_OK;
    TESS_TRY_CTX(move(work, p, done), "message %s rank %d", p->sends ? "to" : "from", work->team->ranks[p->peer]);
    if (*done) {
        p->n_over++;
        p->step = IDLE;
    }
    return TESS_OK;
}

/* ---- The end ---- */
static void release(hosts_pair *p, bool orderly)
{
    tess_nccl_link_destroy(&p->link, orderly);
    tess_wire_cancel(&p->said);
    tess_wire_cancel(&p->heard);
}

void hosts_pairs_give_up(const tess_team *team)
{
    for (hosts_pair *p = hosts_of(team)->pairs; p != NULL; p = p->next) {
        release(p, false);
        ondevice_settle(team, p->stream);
    }
}

void hosts_pairs_close(const tess_team *team, bool orderly)
{
    comm_hosts *h = hosts_of(team);
    while (h->pairs != NULL) {
        hosts_pair *p = h->pairs;
        h->pairs = p->next;
        release(p, orderly && team->messages == NULL);
        tess_stream_destroy(&p->stream);
        tess_mem_free(team->runtime->mem, p);
    }
}
