/* Sends and receives between hosts. The sender's fingerprint goes first. Short data of the host follows at once.
 * Otherwise the receiver answers with its own fingerprint, and both sides compare the two before the data is sent. If
 * both sides have memory of GPUs and can use NCCL, it moves the data (pair.c). */
#include "comm/hosts/hosts_impl.h"

enum { AT_ONCE_BYTES = 2048 };

/* Tags of a message to the receiver and back. They are larger than those of collectives. */
enum { THERE, BACK, WAYS };

enum { STEP_QUEUED, STEP_TOLD, STEP_ANSWERED, STEP_MOVES };

static hosts_message *message_of(const tess_work *work)
{
    return tess_work_state(work);
}

/* Whether an older message of the same kind, peer and tag has not started its data yet. It must go first. */
static bool must_queue(const tess_work *work)
{
    for (const tess_work *other = work->team->messages; other != NULL && other != work; other = other->next) {
        if (other->fp.kind == work->fp.kind && other->root == work->root && other->fp.tag == work->fp.tag &&
            message_of(other)->step < STEP_MOVES)
            return true;
    }
    return false;
}

/* Whether the receiver answers the sender's note. */
static bool has_answer(const hosts_note *sent, size_t bytes)
{
    return bytes > AT_ONCE_BYTES || sent->number > 0;
}

static tess_status compare(tess_work *work, const hosts_message *m)
{
    const tess_fingerprint *sent = &m->sent.fp, *wanted = &m->wanted.fp;
    bool sends = work->fp.kind == TESS_TRACE_SEND;
    if (sent->count != wanted->count || sent->dtype != wanted->dtype)
        tess_message_fail_mismatch(work, sends ? &work->fp : sent, sends ? wanted : &work->fp);
    return work->status;
}

static tess_status tell(tess_work *work, hosts_message *m)
{
    wire_group *group = hosts_of(work->team)->group;
    m->sent = (hosts_note){.fp = work->fp, .number = hosts_pair_can(work)};
    m->wanted.fp = work->fp;
    m->step = STEP_TOLD;
    TESS_TRY(tess_wire_send(group, &m->sent, sizeof(m->sent), work->root, m->out_tag, &m->head));
    return has_answer(&m->sent, work->in_bytes)
               ? tess_wire_recv(group, &m->wanted, sizeof(m->wanted), work->root, m->in_tag, &m->answer)
               : TESS_OK;
}

static tess_status answer(tess_work *work, hosts_message *m)
{
    const tess_fingerprint *sent = &m->sent.fp;
    uint64_t bytes = sent->dtype < TESS_DTYPE_COUNT ? sent->count * tess_dtype_size((tess_dtype)sent->dtype) : 0;
    m->step = STEP_ANSWERED;
    if (sent->count == work->fp.count && sent->dtype == work->fp.dtype)
        TESS_TRY(hosts_pair_number(work, m));
    if (has_answer(&m->sent, bytes))
        TESS_TRY(tess_wire_send(hosts_of(work->team)->group, &m->wanted, sizeof(m->wanted), work->root, m->out_tag,
                                &m->answer));
    TESS_TRY(compare(work, m));
    tess_work_record(work, TESS_TRACE_STARTED);
    return TESS_OK;
}

/* Chooses how the data moves. If it is memory of the host, it begins to. */
static tess_status begin_data(tess_work *work, hosts_message *m)
{
    wire_group *group = hosts_of(work->team)->group;
    bool is_agreed;
    TESS_TRY(hosts_pair_agree(work, m, &is_agreed));
    if (!is_agreed || (m->number == 0 && !tess_message_to_host(work)))
        return TESS_OK;
    TESS_TRY(work->status);
    m->step = STEP_MOVES;
    if (m->number == 0 && work->in_bytes > 0)
        return tess_wire_send(group, work->in, work->in_bytes, work->root, m->out_tag, &m->data);
    if (m->number == 0 && work->out_bytes > 0)
        return tess_wire_recv(group, work->out, work->out_bytes, work->root, m->in_tag, &m->data);
    return TESS_OK;
}

static tess_status advance_send(tess_work *work, hosts_message *m)
{
    if (m->step == STEP_QUEUED)
        TESS_TRY(tell(work, m));
    if (m->step == STEP_TOLD) {
        bool answered;
        TESS_TRY(tess_wire_test(&m->answer, &answered));
        if (answered)
            TESS_TRY(compare(work, m));
        m->step = answered ? STEP_ANSWERED : STEP_TOLD;
    }
    return m->step == STEP_ANSWERED ? begin_data(work, m) : TESS_OK;
}

static tess_status advance_recv(tess_work *work, hosts_message *m)
{
    if (m->step == STEP_QUEUED) {
        m->wanted.fp = work->fp;
        m->step = STEP_TOLD;
        TESS_TRY(
            tess_wire_recv(hosts_of(work->team)->group, &m->sent, sizeof(m->sent), work->root, m->in_tag, &m->head));
    }
    if (m->step == STEP_TOLD) {
        bool told;
        TESS_TRY(tess_wire_test(&m->head, &told));
        if (told)
            TESS_TRY(answer(work, m));
    }
    return m->step == STEP_ANSWERED ? begin_data(work, m) : TESS_OK;
}

/* Whether the data has moved. */
static tess_status finish(tess_work *work, hosts_message *m, bool *done)
{
    wire_request **const requests[] = {&m->head, &m->answer, &m->data};
    *done = true;
    for (int i = 0; i < 3 && *done; i++)
        TESS_TRY(tess_wire_test(requests[i], done));
    return *done && m->number > 0 ? hosts_pair_move(work, m->number, done) : TESS_OK;
}

static void cancel(tess_work *work)
{
    hosts_message *m = message_of(work);
    tess_wire_cancel(&m->head);
    tess_wire_cancel(&m->answer);
    tess_wire_cancel(&m->data);
}

static bool advance(tess_work *work)
{
    int most = (tess_wire_most_tag() - HOSTS_TAGS * HOSTS_TAG_KINDS) / WAYS - 1;
    hosts_message *m = message_of(work);
    bool done = false, sends = work->fp.kind == TESS_TRACE_SEND;
    if (work->fp.tag > (uint64_t)most) {
        work->status = TESS_FAIL(TESS_E_UNSUPPORTED, "tag %llu: between hosts MPI has tags up to %d",
                                 (unsigned long long)work->fp.tag, most);
        return true;
    }
    if (m->step == STEP_QUEUED && must_queue(work))
        return false;
    int tag = HOSTS_TAGS * HOSTS_TAG_KINDS + (int)work->fp.tag * WAYS;
    m->out_tag = tag + (sends ? THERE : BACK);
    m->in_tag = tag + (sends ? BACK : THERE);
    work->status = sends ? advance_send(work, m) : advance_recv(work, m);
    if (work->status == TESS_OK && m->step == STEP_MOVES)
        work->status = finish(work, m, &done);
    if (!done && work->status == TESS_OK)
        return false;
    cancel(work);
    return true;
}

const comm_link hosts_link = {.advance = advance, .cancel = cancel};
