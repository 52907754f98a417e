/* Sends and receives of device memory. The team's own link carries the message when its memory is ready. Between ranks
 * of one host it carries only the place of sent memory that lies in a window, and the receiver's device copies it from
 * there. Between hosts NCCL moves the data if both sides can (hosts/pair.c). Otherwise the data passes through pinned
 * memory of the host. Each side may have memory of either kind. */
#include "comm/ondevice/ondevice.h"

enum { STEP_BEGIN, STEP_READY, STEP_LINK, STEP_RETURNED };

/* ---- Events and memory ---- */
static tess_status create_message(tess_work *work)
{
    tess_runtime *rt = work->team->runtime;
    tess_device *device = rt->device->device;
    void *memory;
    TESS_TRY(tess_mem_alloc(rt->mem, TESS_POOL_MISC, sizeof(ondevice_message), "message on a device", &memory));
    ondevice_message *m = work->device.message = memory;
    TESS_TRY(tess_event_create(device, &m->ready));
    return tess_event_create(device, &m->moved);
}

/* Provides the message's events, and the team's stream for messages. */
static tess_status take_message(tess_work *work)
{
    tess_runtime *rt = work->team->runtime;
    TESS_TRY(rt->device->begin(work->team));
    struct comm_device_team *t = ondevice_of(work);
    ondevice_message *m = t->unused;
    work->device.is = true;
    if (t->messages == NULL)
        TESS_TRY(tess_device_stream(rt->device->device, 1, rt->kernels, &t->messages));
    if (m == NULL)
        return create_message(work);
    t->unused = m->next;
    m->out = NULL;
    m->is_staged = m->is_on_host = m->pulls = false;
    m->window = NULL;
    work->device.message = m;
    return TESS_OK;
}

void ondevice_message_end(tess_team *team)
{
    struct comm_device_team *t = team->on_device;
    if (t->messages != NULL && tess_stream_synchronize(t->messages) != TESS_OK)
        tess_error_clear();
    while (t->unused != NULL) {
        ondevice_message *m = t->unused;
        t->unused = m->next;
        tess_event_destroy(&m->ready);
        tess_event_destroy(&m->moved);
        tess_device_free_pinned(team->runtime->device->device, m->stage.memory);
        tess_mem_free(team->runtime->mem, m);
    }
    tess_stream_destroy(&t->messages);
}

/* Enqueues a copy, and the event that tells when it is done. */
static tess_status copy(const tess_work *work, void *to, const void *from, size_t bytes)
{
    ondevice_message *m = work->device.message;
    m->stream = ondevice_of(work)->messages;
    TESS_TRY(tess_stream_copy(m->stream, to, from, bytes));
    return tess_event_record(m->moved, m->stream);
}

/* ---- Calls of the links ---- */
bool tess_message_is_shown(const tess_work *work, uint64_t *window, uint64_t *offset)
{
    const ondevice_message *m = work->device.message;
    const ondevice_window *w = m != NULL ? m->window : NULL;
    *window = w != NULL ? w->number + 1 : 0;
    if (w != NULL)
        *offset = (uint64_t)(work->in - w->memory);
    return w != NULL;
}

bool tess_message_pull(tess_work *work, uint64_t window, uint64_t offset)
{
    if (work->device.message == NULL) /* `out` is memory of the host */
        work->status = take_message(work);
    ondevice_message *m = work->device.message;
    if (work->status == TESS_OK && !m->pulls) {
        m->pulls = true;
        work->status = copy(work, work->out, ondevice_shown(work->team, window, work->root) + offset, work->out_bytes);
    }
    ondevice_await(work, work->status == TESS_OK);
    return work->status != TESS_OK || ondevice_passed(work, m->moved);
}

/* Makes the stage the work's memory, and begins to copy sent data there. */
static tess_status use_stage(tess_work *work)
{
    ondevice_message *m = work->device.message;
    TESS_TRY(ondevice_take_stage(work, &m->stage, work->in_bytes + work->out_bytes, "messages through the host"));
    uint8_t *memory = m->stage.memory;
    if (work->in != NULL)
        TESS_TRY(copy(work, memory, work->in, work->in_bytes));
    m->is_on_host = work->in == NULL;
    m->out = work->out;
    work->in = work->in != NULL ? memory : NULL;
    work->out = work->out != NULL ? memory : NULL;
    return TESS_OK;
}

bool tess_message_to_host(tess_work *work)
{
    ondevice_message *m = work->device.message;
    if (m == NULL || m->window != NULL || m->is_on_host)
        return true;
    if (!m->is_staged)
        work->status = use_stage(work);
    m->is_staged = true;
    m->is_on_host = m->is_on_host || work->status != TESS_OK || ondevice_passed(work, m->moved);
    ondevice_await(work, !m->is_on_host);
    return m->is_on_host;
}

/* ---- Progress ---- */
static const comm_link *inner(const tess_work *work)
{
    return work->team->backend->link(work->team, work->root);
}

/* The message reads or overwrites its memory after the work that the bound stream has now. */
static tess_status begin(tess_work *work)
{
    const tess_team *team = work->team;
    TESS_TRY(take_message(work));
    if (tess_team_host(team, work->root) == tess_team_host(team, team->rank))
        work->device.message->window = ondevice_find(team, work->in);
    return tess_event_record(work->device.message->ready, team->runtime->device->after);
}

static tess_status give_back(tess_work *work)
{
    ondevice_message *m = work->device.message;
    return m->out != NULL ? copy(work, m->out, m->stage.memory, work->out_bytes) : TESS_OK;
}

/* Advances a step. Returns false if it must wait. */
static bool take_step(tess_work *work)
{
    ondevice_message *m = work->device.message;
    switch (work->device.step) {
    case STEP_BEGIN:
        work->status = begin(work);
        return true;
    case STEP_READY:
        return ondevice_passed(work, m->ready);
    case STEP_LINK:
        if (!inner(work)->advance(work))
            return false;
        tess_work_note(work, work->status == TESS_OK ? give_back(work) : work->status);
        return true;
    default:
        return m->out == NULL || ondevice_passed(work, m->moved);
    }
}

static bool advance(tess_work *work)
{
    while (work->status == TESS_OK && work->device.step <= STEP_RETURNED) {
        if (work->device.step != STEP_LINK)
            ondevice_await(work, true);
        if (!take_step(work))
            return false;
        ondevice_await(work, false);
        work->device.step++;
    }
    return true;
}

static void cancel(tess_work *work)
{
    if (work->device.step == STEP_LINK && inner(work)->cancel != NULL)
        inner(work)->cancel(work);
}

const comm_link tess_link_on_device = {.advance = advance, .cancel = cancel};
