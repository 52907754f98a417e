/* Polls the device events that works wait for. */
#include <time.h>

#include "comm/ondevice/ondevice.h"

enum { SLEEP_NS = 50000, LOOKS = 1000 };

void ondevice_await(tess_work *work, bool waits)
{
    if (waits != work->device.waits)
        atomic_fetch_add(&work->team->runtime->device->n_awaited, waits ? 1 : -1);
    work->device.waits = waits;
}

bool ondevice_passed(tess_work *work, tess_event *event)
{
    bool passed = false;
    work->status = tess_event_query(event, &passed);
    const struct comm_device_team *t = ondevice_of(work);
    const ondevice_message *m = work->device.message;
    if (work->status == TESS_OK && passed && event == (m != NULL ? m->moved : t->moved))
        work->status = tess_stream_synchronize(m != NULL ? m->stream : t->stream); /* collects errors */
    return passed || work->status != TESS_OK;
}

/* Gives the message's events and memory back to the team. */
static void end_message(tess_work *work)
{
    ondevice_message *m = work->device.message;
    if (m == NULL)
        return;
    work->device.message = NULL;
    m->next = ondevice_of(work)->unused;
    ondevice_of(work)->unused = m;
}

void tess_ondevice_over(tess_work *work)
{
    ondevice_await(work, false);
    if (tess_work_is_message(work))
        end_message(work);
    else
        atomic_fetch_sub(&work->team->runtime->device->n_under_way, 1);
}

bool tess_ondevice_is_late(const tess_runtime *rt)
{
    return rt->device != NULL && atomic_load(&rt->device->n_awaited) > 0;
}

uint64_t tess_ondevice_sleep_ns(const tess_runtime *rt, uint64_t most_ns)
{
    bool awaits_event =
        rt->device != NULL && (atomic_load(&rt->device->n_under_way) > 0 || atomic_load(&rt->device->n_awaited) > 0);
    return awaits_event && most_ns > SLEEP_NS ? SLEEP_NS : most_ns;
}

/* Waits for the device when a team breaks, because enqueued kernels may still read what peers show and write the
 * callers' memory. They end by themselves, unless the device hangs. */
void ondevice_settle(const tess_team *team, tess_stream *stream)
{
    static const struct timespec look = {.tv_nsec = 1000000};
    tess_event *event = team->on_device->moved;
    bool done = stream == NULL || tess_event_record(event, stream) != TESS_OK;
    for (int i = 0; i < LOOKS && !done; i++) {
        if (tess_event_query(event, &done) != TESS_OK)
            return;
        if (!done)
            nanosleep(&look, NULL);
    }
}

void tess_ondevice_settle(const tess_team *team)
{
    const struct comm_device_team *t = team->on_device;
    if (team->head != NULL && team->head->device.is)
        ondevice_settle(team, t->stream);
    if (t != NULL && team->messages != NULL)
        ondevice_settle(team, t->messages);
}
