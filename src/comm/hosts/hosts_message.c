/* Sends and receives between hosts. The sender's fingerprint goes first. Short data follows at once. For longer
 * data, the receiver answers with its own fingerprint, and both sides compare the two before the data is sent. */
#include "comm/hosts/hosts_impl.h"

enum { AT_ONCE_BYTES = 2048 };

/* Tags of a message to the receiver and back. They are larger than those of collectives. */
enum { THERE, BACK, WAYS };

static hosts_message *message_of(const tess_work *work)
{
    return tess_work_state(work);
}

/* Whether an older message of the same kind, peer and tag has not started its data yet. It must go first. */
static bool must_queue(const tess_work *work)
{
    for (const tess_work *other = work->team->messages; other != NULL && other != work; other = other->next) {
        if (other->fp.kind == work->fp.kind && other->root == work->root && other->fp.tag == work->fp.tag &&
            !message_of(other)->agreed)
            return true;
    }
    return false;
}

static bool fit(const hosts_message *m)
{
    return m->sent.count == m->wanted.count && m->sent.dtype == m->wanted.dtype;
}

static tess_status fail_mismatch(tess_work *work, const hosts_message *m)
{
    bool sends = work->fp.kind == TESS_TRACE_SEND;
    tess_message_fail_mismatch(work, sends ? &work->fp : &m->sent, sends ? &m->wanted : &work->fp);
    return work->status;
}

static tess_status advance_send(tess_work *work, int tag, bool *done)
{
    wire_group *group = hosts_of(work->team)->group;
    hosts_message *m = message_of(work);
    if (!m->has_begun) {
        if (must_queue(work))
            return TESS_OK;
        m->has_begun = true;
        m->sent = work->fp;
        TESS_TRY(tess_wire_send(group, &m->sent, sizeof(m->sent), work->root, tag + THERE, &m->head));
        if (work->in_bytes > AT_ONCE_BYTES)
            TESS_TRY(tess_wire_recv(group, &m->wanted, sizeof(m->wanted), work->root, tag + BACK, &m->answer));
        else
            m->wanted = m->sent;
    }
    if (!m->agreed) {
        TESS_TRY(tess_wire_test(&m->answer, &m->agreed));
        if (!m->agreed)
            return TESS_OK;
        if (!fit(m))
            return fail_mismatch(work, m);
        if (work->in_bytes > 0)
            TESS_TRY(tess_wire_send(group, work->in, work->in_bytes, work->root, tag + THERE, &m->data));
    }
    TESS_TRY(tess_wire_test(&m->head, done));
    return *done ? tess_wire_test(&m->data, done) : TESS_OK;
}

static tess_status answer(tess_work *work, hosts_message *m, int tag)
{
    uint64_t bytes = m->sent.dtype < TESS_DTYPE_COUNT ? m->sent.count * tess_dtype_size((tess_dtype)m->sent.dtype) : 0;
    if (bytes > AT_ONCE_BYTES)
        TESS_TRY(tess_wire_send(hosts_of(work->team)->group, &m->wanted, sizeof(m->wanted), work->root, tag + BACK,
                                &m->answer));
    return TESS_OK;
}

static tess_status advance_recv(tess_work *work, int tag, bool *done)
{
    wire_group *group = hosts_of(work->team)->group;
    hosts_message *m = message_of(work);
    if (!m->has_begun) {
        if (must_queue(work))
            return TESS_OK;
        m->has_begun = true;
        m->wanted = work->fp;
        TESS_TRY(tess_wire_recv(group, &m->sent, sizeof(m->sent), work->root, tag + THERE, &m->head));
    }
    if (!m->agreed) {
        TESS_TRY(tess_wire_test(&m->head, &m->agreed));
        if (!m->agreed)
            return TESS_OK;
        TESS_TRY(answer(work, m, tag));
        if (!fit(m))
            return fail_mismatch(work, m);
        tess_work_record(work, TESS_TRACE_STARTED);
        TESS_TRY(tess_message_to_host(work));
        if (work->out_bytes > 0)
            TESS_TRY(tess_wire_recv(group, work->out, work->out_bytes, work->root, tag + THERE, &m->data));
    }
    TESS_TRY(tess_wire_test(&m->answer, done));
    return *done ? tess_wire_test(&m->data, done) : TESS_OK;
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
    bool done = false;
    if (work->fp.tag > (uint64_t)most) {
        work->status = TESS_FAIL(TESS_E_UNSUPPORTED, "tag %llu: between hosts MPI has tags up to %d",
                                 (unsigned long long)work->fp.tag, most);
        return true;
    }
    int tag = HOSTS_TAGS * HOSTS_TAG_KINDS + (int)work->fp.tag * WAYS;
    work->status = work->fp.kind == TESS_TRACE_SEND ? advance_send(work, tag, &done) : advance_recv(work, tag, &done);
    if (!done && work->status == TESS_OK)
        return false;
    cancel(work);
    return true;
}

const comm_link hosts_link = {.advance = advance, .cancel = cancel};
