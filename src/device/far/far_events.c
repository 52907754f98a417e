/* Events of the far device. Each record gives the event the next number, which is reached when the queue comes to the
 * record. */
#include "base/mem/scoped.h"
#include "device/far/far_impl.h"

typedef struct far_event {
    tess_event base;
    tess_mem *mem;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t recorded, reached;
    int n_users; /* the owner, and enqueued commands */
} far_event;

tess_status far_event_create(tess_device *device, tess_event **event)
{
    far_event *e;
    TESS_TRY(TESS_NEW(device->mem, 1, "event", &e));
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->mem = device->mem;
    e->n_users = 1;
    *event = &e->base;
    return TESS_OK;
}

static void release(far_event *e)
{
    pthread_mutex_lock(&e->lock);
    bool last = --e->n_users == 0;
    pthread_mutex_unlock(&e->lock);
    if (!last)
        return;
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    tess_mem_free(e->mem, e);
}

void far_event_destroy(tess_event *event)
{
    release((far_event *)event);
}

static void wait_for(far_event *e, int64_t ticket)
{
    pthread_mutex_lock(&e->lock);
    while (e->reached < ticket)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

static tess_status reach(TESS_UNUSED tess_stream *inner, const far_call *call)
{
    far_event *e = call->to;
    pthread_mutex_lock(&e->lock);
    if (e->reached < call->n)
        e->reached = call->n;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    release(e);
    return TESS_OK;
}

static tess_status await(TESS_UNUSED tess_stream *inner, const far_call *call)
{
    far_event *e = call->to;
    wait_for(e, call->n);
    release(e);
    return TESS_OK;
}

/* `step` is 1 to record the event and 0 to wait for it. */
static tess_status enqueue(tess_event *event, tess_stream *stream, far_call call, int step)
{
    far_event *e = (far_event *)event;
    far_command *command;
    TESS_TRY(far_command_create((far_stream *)stream, &call, 0, &command));
    command->call.to = e;
    pthread_mutex_lock(&e->lock);
    e->n_users++;
    e->recorded += step;
    command->call.n = e->recorded;
    pthread_mutex_unlock(&e->lock);
    far_enqueue((far_stream *)stream, command);
    return TESS_OK;
}

tess_status far_event_record(tess_event *event, tess_stream *stream)
{
    return enqueue(event, stream, (far_call){.name = "event", .run = reach, .always = true}, 1);
}

tess_status far_event_wait(tess_event *event, tess_stream *stream)
{
    return enqueue(event, stream, (far_call){.name = "wait", .run = await, .always = true}, 0);
}

tess_status far_event_query(tess_event *event, bool *done)
{
    far_event *e = (far_event *)event;
    pthread_mutex_lock(&e->lock);
    *done = e->reached >= e->recorded;
    pthread_mutex_unlock(&e->lock);
    return TESS_OK;
}

tess_status far_event_synchronize(tess_event *event)
{
    far_event *e = (far_event *)event;
    wait_for(e, e->recorded);
    return TESS_OK;
}
