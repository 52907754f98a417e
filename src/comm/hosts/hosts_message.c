/* Sends and receives between hosts. The sender's fingerprint goes first. Short data follows at once; for longer data
 * the receiver answers with its own fingerprint, and both see whether they fit before the data goes. */
#include "comm/hosts/hosts_impl.h"

enum { AT_ONCE_BYTES = 2048 };

/* Tags of a message, above those of collectives: to the receiver, and back. */
enum { THERE, BACK, WAYS };

typedef struct letter {
    tess_fingerprint sent, wanted;
    wire_request *head, *answer, *data;
    bool agreed; /* sender: the data is on its way; receiver: it has asked for it */
} letter;

/* An older message of the same kind, peer and tag that has not come to its data goes first. */
static bool must_queue(const tess_work *work)
{
    for (const tess_work *other = work->team->messages; other != NULL && other != work; other = other->next) {
        const letter *l = other->message;
        if (other->fp.kind == work->fp.kind && other->root == work->root && other->fp.tag == work->fp.tag &&
            (l == NULL || !l->agreed))
            return true;
    }
    return false;
}

static tess_status begin(tess_work *work, letter **out)
{
    void *memory;
    TESS_TRY(tess_mem_alloc(work->team->runtime->mem, TESS_POOL_MISC, sizeof(letter), "message", &memory));
    *out = work->message = memory;
    return TESS_OK;
}

static bool fit(const letter *l)
{
    return l->sent.count == l->wanted.count && l->sent.dtype == l->wanted.dtype;
}

static tess_status fail_mismatch(tess_work *work, const letter *l)
{
    bool sends = work->fp.kind == TESS_TRACE_SEND;
    tess_message_fail_mismatch(work, sends ? &work->fp : &l->sent, sends ? &l->wanted : &work->fp);
    return work->status;
}

static tess_status advance_send(tess_work *work, int tag, bool *done)
{
    wire_group *group = work->team->hosts->group;
    letter *l = work->message;
    if (l == NULL) {
        if (must_queue(work))
            return TESS_OK;
        TESS_TRY(begin(work, &l));
        l->sent = work->fp;
        TESS_TRY(tess_wire_send(group, &l->sent, sizeof(l->sent), work->root, tag + THERE, &l->head));
        if (work->in_bytes > AT_ONCE_BYTES)
            TESS_TRY(tess_wire_recv(group, &l->wanted, sizeof(l->wanted), work->root, tag + BACK, &l->answer));
        else
            l->wanted = l->sent;
    }
    if (!l->agreed) {
        TESS_TRY(tess_wire_test(&l->answer, &l->agreed));
        if (!l->agreed)
            return TESS_OK;
        if (!fit(l))
            return fail_mismatch(work, l);
        if (work->in_bytes > 0)
            TESS_TRY(tess_wire_send(group, work->in, work->in_bytes, work->root, tag + THERE, &l->data));
    }
    TESS_TRY(tess_wire_test(&l->head, done));
    return *done ? tess_wire_test(&l->data, done) : TESS_OK;
}

static tess_status answer(tess_work *work, letter *l, int tag)
{
    uint64_t bytes = l->sent.dtype < TESS_DTYPE_COUNT ? l->sent.count * tess_dtype_size((tess_dtype)l->sent.dtype) : 0;
    if (bytes > AT_ONCE_BYTES)
        TESS_TRY(tess_wire_send(work->team->hosts->group, &l->wanted, sizeof(l->wanted), work->root, tag + BACK,
                                &l->answer));
    return TESS_OK;
}

static tess_status advance_recv(tess_work *work, int tag, bool *done)
{
    wire_group *group = work->team->hosts->group;
    letter *l = work->message;
    if (l == NULL) {
        if (must_queue(work))
            return TESS_OK;
        TESS_TRY(begin(work, &l));
        l->wanted = work->fp;
        TESS_TRY(tess_wire_recv(group, &l->sent, sizeof(l->sent), work->root, tag + THERE, &l->head));
    }
    if (!l->agreed) {
        TESS_TRY(tess_wire_test(&l->head, &l->agreed));
        if (!l->agreed)
            return TESS_OK;
        TESS_TRY(answer(work, l, tag));
        if (!fit(l))
            return fail_mismatch(work, l);
        tess_work_record(work, TESS_TRACE_STARTED);
        if (work->out_bytes > 0)
            TESS_TRY(tess_wire_recv(group, work->out, work->out_bytes, work->root, tag + THERE, &l->data));
    }
    TESS_TRY(tess_wire_test(&l->answer, done));
    return *done ? tess_wire_test(&l->data, done) : TESS_OK;
}

void tess_hosts_message_free(tess_work *work)
{
    letter *l = work->message;
    if (l == NULL)
        return;
    tess_wire_cancel(&l->head);
    tess_wire_cancel(&l->answer);
    tess_wire_cancel(&l->data);
    tess_mem_free(work->team->runtime->mem, l);
    work->message = NULL;
}

bool tess_hosts_message_advance(tess_work *work)
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
    tess_hosts_message_free(work);
    return true;
}
