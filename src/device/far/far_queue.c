/* A stream of the far device: a worker thread that runs the enqueued commands one after the other. */
#include "device/far/far_impl.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/rng.h"

/* Pauses before one command in 16: a stream that is sometimes very late finds more errors than one that is always a
 * little late. */
static void pause_at_random(const far_stream *s, uint64_t command)
{
    const far_device *d = (const far_device *)s->base.device;
    uint64_t draw = tess_rng_u64(d->delay_seed, TESS_RNG_TEST, s->number, command);
    if (d->delay_us > 0 && draw % 16 == 0)
        usleep((useconds_t)(draw / 16 % (uint64_t)(d->delay_us + 1)));
}

/* Pauses before the one command of the process that stalls. */
static void stall(const far_stream *s, const far_call *call)
{
    far_device *d = (far_device *)s->base.device;
    if (strcmp(call->name, d->stall.row) != 0)
        return;
    pthread_mutex_lock(&d->base.lock);
    bool now = --d->stall.left == 0;
    pthread_mutex_unlock(&d->base.lock);
    if (now)
        usleep((useconds_t)(d->stall.seconds * 1e6));
}

static void execute(far_stream *s, const far_call *call)
{
    tess_status status = call->run(s->inner, call);
    if (status == TESS_OK)
        return;
    pthread_mutex_lock(&s->lock);
    if (s->status == TESS_OK) {
        s->status = status;
        snprintf(s->message, sizeof(s->message), "%s on a queue: %s", call->name, tess_error_message());
    }
    pthread_mutex_unlock(&s->lock);
}

static void *work(void *context)
{
    far_stream *s = context;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->first == NULL && !s->stop)
            pthread_cond_wait(&s->changed, &s->lock);
        far_command *command = s->first;
        if (command == NULL)
            break;
        s->first = command->next;
        bool wanted = s->status == TESS_OK || command->call.always;
        uint64_t number = s->done;
        pthread_mutex_unlock(&s->lock);
        pause_at_random(s, number);
        stall(s, &command->call);
        if (wanted)
            execute(s, &command->call);
        if (command->logged > 0)
            atomic_store_explicit(&s->base.log->done, (uint32_t)command->logged, memory_order_release);
        tess_mem_free(s->base.mem, command);
        pthread_mutex_lock(&s->lock);
        s->done++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

tess_status far_queue_start(far_stream *s)
{
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int error = pthread_create(&s->worker, NULL, work, s);
    TESS_CHECK(error == 0, TESS_E_NOMEM, "create stream: no thread for the queue of device far: %s", strerror(error));
    return TESS_OK;
}

void far_queue_stop(far_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->worker, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

/* The caller holds the stream's lock. */
static uint64_t log_command(const far_stream *s, const far_call *call)
{
    tess_stream_log *log = s->base.log;
    if (log == NULL)
        return 0;
    tess_stream_log_add(log, call->name, call->log_bytes);
    uint64_t number = atomic_load(&log->enqueued);
    atomic_store_explicit(&log->marked, number, memory_order_release);
    return number;
}

tess_status far_log_stream(tess_stream *stream)
{
    stream->log->stride = 1;
    return TESS_OK;
}

tess_status far_command_create(far_stream *s, const far_call *call, size_t bytes, far_command **out)
{
    far_command *command;
    TESS_TRY(tess_mem_alloc(s->base.mem, TESS_POOL_MISC, sizeof(*command) + bytes, "a command", (void **)&command));
    command->call = *call;
    command->call.tail = command->tail;
    *out = command;
    return TESS_OK;
}

void far_enqueue(far_stream *s, far_command *command)
{
    pthread_mutex_lock(&s->lock);
    command->logged = log_command(s, &command->call);
    if (s->first == NULL)
        s->first = command;
    else
        s->last->next = command;
    s->last = command;
    s->enqueued++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void far_drain(far_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->done < s->enqueued)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

tess_status far_synchronize(tess_stream *stream)
{
    far_stream *s = (far_stream *)stream;
    char message[sizeof(s->message)];
    far_drain(s);
    pthread_mutex_lock(&s->lock);
    tess_status status = s->status;
    memcpy(message, s->message, sizeof(message));
    s->status = TESS_OK;
    pthread_mutex_unlock(&s->lock);
    return status == TESS_OK ? TESS_OK : TESS_FAIL(status, "%s", message);
}
