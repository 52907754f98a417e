/* Messages between ranks of one host. Each direction between two ranks has a channel with a few slots. Each slot has
 * its own buffer, so a receiver may take messages in any order of tags. A small message is copied into the slot, and
 * the sender continues at once. A larger message is read by the receiver from the sender's memory; if that memory is
 * unreadable, it is moved through the slot's buffer. */
#include "comm/p2p/channel.h"

#include <string.h>

enum {
    CHANNEL_SLOTS = 32, /* number of messages in one direction that may be pending; the sender of further ones waits */
    CHANNEL_INLINE = 2048,
    CHANNEL_BUFFER = 256 << 10
};

typedef enum slot_state { SLOT_FREE, SLOT_POSTED, SLOT_MATCHED, SLOT_TAKEN, SLOT_MISMATCH } slot_state;

typedef struct message_slot {
    _Alignas(64) tess_fingerprint fingerprint;
    uint64_t bytes;
    uint64_t window;         /* 1 + number of the device window with the data; 0: the data is in memory of the host */
    uint64_t offset;         /* offset of the sender's buffer in the window or the job's memory, or CONTROL_PRIVATE */
    uint64_t address;        /* address of the buffer in the sender's process */
    tess_fingerprint wanted; /* fingerprint of the receiver's operation if it does not match */
    _Alignas(64) _Atomic uint32_t state;
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    uint8_t content[CHANNEL_INLINE];
} message_slot;

typedef struct channel {
    message_slot slots[CHANNEL_SLOTS];
    _Alignas(4096) uint8_t buffers[CHANNEL_SLOTS][CHANNEL_BUFFER];
} channel;

/* Returns the channel between two ranks; NULL: it does not exist yet. */
static channel *find_channel(const tess_team *team, int from, int to)
{
    uint64_t offset = atomic_load(tess_control_channel(team->control, team->size, from, to));
    return offset == 0 ? NULL : (channel *)(team->runtime->job.base + offset);
}

static tess_status make_channel(tess_team *team, int to, channel **out)
{
    *out = find_channel(team, team->rank, to);
    if (*out != NULL)
        return TESS_OK;
    uint64_t offset;
    TESS_TRY(tess_job_alloc(&team->runtime->job, team->runtime->rank, sizeof(channel), JOB_PAGE, &offset));
    atomic_store(tess_control_channel(team->control, team->size, team->rank, to), offset);
    *out = (channel *)(team->runtime->job.base + offset);
    return TESS_OK;
}

void tess_message_free_channels(tess_team *team)
{
    for (int from = 0; from < team->size; from++) {
        for (int to = 0; to < team->size; to++) {
            _Atomic uint64_t *place = tess_control_channel(team->control, team->size, from, to);
            uint64_t offset = atomic_exchange(place, 0);
            if (offset != 0)
                tess_job_free(&team->runtime->job, team->runtime->rank, offset, sizeof(channel));
        }
    }
}

static channel_work *state_of(const tess_work *work)
{
    return tess_work_state(work);
}

static uint8_t *buffer_of(const tess_work *work, bool sending)
{
    const tess_team *team = work->team;
    channel *c = sending ? find_channel(team, team->rank, work->root) : find_channel(team, work->root, team->rank);
    return c->buffers[state_of(work)->slot - c->slots];
}

static void wake(const tess_work *work)
{
    tess_job_wake(&work->team->runtime->job, work->team->ranks[work->root]);
}

/* Whether an older send to the same rank, or receive of the same tag, has no slot yet. It must go first. */
static bool must_queue(const tess_work *work)
{
    for (const tess_work *other = work->team->messages; other != NULL && other != work; other = other->next)
        if (other->fp.kind == work->fp.kind && other->root == work->root && state_of(other)->slot == NULL &&
            (work->fp.kind == TESS_TRACE_SEND || other->fp.tag == work->fp.tag))
            return true;
    return false;
}

/* Whether the slot has the data itself. */
static bool is_inline(const message_slot *slot)
{
    return slot->window == 0 && slot->bytes <= CHANNEL_INLINE;
}

/* ---- Sender ---- */
static tess_status post(tess_work *work)
{
    channel *c;
    TESS_TRY(make_channel(work->team, work->root, &c));
    for (int i = 0; i < CHANNEL_SLOTS; i++) {
        message_slot *slot = &c->slots[i];
        if (atomic_load(&slot->state) != SLOT_FREE)
            continue;
        slot->fingerprint = work->fp;
        slot->bytes = work->in_bytes;
        if (!tess_message_is_shown(work, &slot->window, &slot->offset))
            slot->offset = tess_offset_of(work->team->runtime, work->in, work->in_bytes);
        slot->address = (uint64_t)(uintptr_t)work->in;
        if (slot->bytes > 0 && is_inline(slot))
            memcpy(slot->content, work->in, slot->bytes);
        atomic_store(&slot->written, 0);
        atomic_store(&slot->read, 0);
        state_of(work)->slot = slot;
        state_of(work)->is_inline = is_inline(slot); /* the slot may soon belong to another message */
        atomic_store(&slot->state, SLOT_POSTED);
        wake(work);
        return TESS_OK;
    }
    return TESS_OK;
}

static void pump_out(tess_work *work, message_slot *slot)
{
    uint64_t written = atomic_load(&slot->written), before = written;
    for (;;) {
        uint64_t room = CHANNEL_BUFFER - (written - atomic_load(&slot->read));
        uint64_t at = written % CHANNEL_BUFFER, n = slot->bytes - written;
        n = n < room ? n : room;
        n = n < CHANNEL_BUFFER - at ? n : CHANNEL_BUFFER - at;
        if (n == 0)
            break;
        memcpy(buffer_of(work, true) + at, work->in + written, n);
        written += n;
        atomic_store(&slot->written, written);
    }
    if (written != before)
        wake(work);
}

static bool advance_send(tess_work *work)
{
    if (state_of(work)->slot == NULL) {
        if (!tess_message_to_host(work) || (work->status == TESS_OK && must_queue(work)))
            return false;
        tess_work_note(work, work->status == TESS_OK ? post(work) : work->status);
        if (work->status != TESS_OK || state_of(work)->slot == NULL)
            return work->status != TESS_OK;
    }
    message_slot *slot = state_of(work)->slot;
    if (state_of(work)->is_inline)
        return true; /* the receiver frees the slot; the sender may reuse its buffer */
    switch (atomic_load(&slot->state)) {
    case SLOT_MISMATCH: {
        tess_fingerprint wanted = slot->wanted;
        atomic_store(&slot->state, SLOT_FREE);
        return tess_message_fail_mismatch(work, &work->fp, &wanted);
    }
    case SLOT_TAKEN:
        atomic_store(&slot->state, SLOT_FREE);
        return true;
    default:
        if (slot->window == 0 && slot->offset == CONTROL_PRIVATE &&
            !tess_can_reach(work->team, work->root, slot->bytes))
            pump_out(work, slot);
        return false;
    }
}

/* ---- Receiver ---- */
static message_slot *oldest_posted(channel *c, uint64_t tag)
{
    message_slot *oldest = NULL;
    for (int i = 0; i < CHANNEL_SLOTS; i++) {
        message_slot *slot = &c->slots[i];
        if (atomic_load(&slot->state) == SLOT_POSTED && slot->fingerprint.tag == tag &&
            (oldest == NULL || slot->fingerprint.sequence < oldest->fingerprint.sequence))
            oldest = slot;
    }
    return oldest;
}

static message_slot *find_message(const tess_work *work)
{
    channel *c = find_channel(work->team, work->root, work->team->rank);
    if (c == NULL || oldest_posted(c, work->fp.tag) == NULL)
        return NULL;
    /* Scans the slots twice. During the first scan, the sender may have posted two messages, the first of them in a
     * slot already passed. A rank that has seen the second also sees the first, so the second scan finds it. */
    return oldest_posted(c, work->fp.tag);
}

static bool pump_in(tess_work *work, message_slot *slot)
{
    uint64_t before = state_of(work)->moved;
    for (;;) {
        uint64_t at = state_of(work)->moved % CHANNEL_BUFFER, n = atomic_load(&slot->written) - state_of(work)->moved;
        n = n < CHANNEL_BUFFER - at ? n : CHANNEL_BUFFER - at;
        if (n == 0)
            break;
        memcpy(work->out + state_of(work)->moved, buffer_of(work, false) + at, n);
        state_of(work)->moved += n;
        atomic_store(&slot->read, state_of(work)->moved);
    }
    if (state_of(work)->moved != before)
        wake(work);
    return state_of(work)->moved == slot->bytes;
}

static bool advance_recv(tess_work *work)
{
    message_slot *slot = state_of(work)->slot;
    if (slot == NULL) {
        slot = must_queue(work) ? NULL : find_message(work);
        if (slot == NULL)
            return false;
        if (slot->fingerprint.count != work->fp.count || slot->fingerprint.dtype != work->fp.dtype) {
            tess_fingerprint sent = slot->fingerprint;
            slot->wanted = work->fp;
            atomic_store(&slot->state, is_inline(slot) ? SLOT_FREE : SLOT_MISMATCH);
            wake(work);
            return tess_message_fail_mismatch(work, &sent, &work->fp);
        }
        state_of(work)->slot = slot;
        tess_work_record(work, TESS_TRACE_STARTED);
        if (slot->window == 0)
            tess_message_to_host(work);
        if (work->status != TESS_OK)
            return true;
        if (is_inline(slot)) {
            if (slot->bytes > 0)
                memcpy(work->out, slot->content, slot->bytes);
            atomic_store(&slot->state, SLOT_FREE);
            wake(work);
            return true;
        }
        atomic_store(&slot->state, SLOT_MATCHED);
    }
    if (state_of(work)->is_unreadable)
        return false;
    if (slot->window > 0) {
        if (!tess_message_pull(work, slot->window - 1, slot->offset) || work->status != TESS_OK)
            return work->status != TESS_OK;
    } else if (slot->offset != CONTROL_PRIVATE)
        memcpy(work->out, work->team->runtime->job.base + slot->offset, slot->bytes);
    else if (tess_can_reach(work->team, work->team->rank, slot->bytes))
        state_of(work)->is_unreadable = !tess_reach(work->team, work->out, work->root, slot->address, slot->bytes);
    else if (!pump_in(work, slot))
        return false;
    if (state_of(work)->is_unreadable)
        return false;
    atomic_store(&slot->state, SLOT_TAKEN);
    wake(work);
    return true;
}

static bool advance(tess_work *work)
{
    return work->fp.kind == TESS_TRACE_SEND ? advance_send(work) : advance_recv(work);
}

const comm_link tess_link_channel = {.advance = advance};

const comm_link *tess_channel_link(TESS_UNUSED const tess_team *team, TESS_UNUSED int peer)
{
    return &tess_link_channel;
}
