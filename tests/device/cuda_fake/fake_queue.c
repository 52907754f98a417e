/* Queues that run later: one thread takes the operations of all queues, each queue's in order. One operation in ONE_IN
 * waits a random time first, so queues overtake each other: CUDA_FAKE_DELAYS=SEED:MOST_US:ONE_IN ("1:150:8"). */
#include "device/cuda_fake/fake_impl.h"

#include <errno.h>

enum { AGAIN_US = 200, FOREIGN = 16 };

struct fake_operation {
    fake_operation *next;
    fake_work work;
    const struct CUstream_st *waits_for; /* run is NULL: waits until this queue has ended the operation */
    long waits_number;
    cuda_ticket stamp;
    bool ends_all, has_begun;
    double due_s;
    fake_operand *operands; /* those of which it is not known whether they are written */
    uint64_t *digests;
    int n_operands;
    const fake_block *foreign[FOREIGN]; /* memory of other processes that it uses */
    int n_foreign;
};

static struct CUstream_st queues[FAKE_QUEUES];
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER, appended; /* appended: the clock is CLOCK_MONOTONIC */
static bool runs, has_stopped;
static bool is_lazy; /* lazy=1: queues move only while the host waits for one */
static int n_waiting;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Delays ---- */
static double draw_delay_s(void)
{
    static uint64_t state;
    static unsigned long most_us, one_in;
    if (one_in == 0) {
        unsigned long seed = 1;
        const char *wish = getenv("CUDA_FAKE_DELAYS");
        if (wish == NULL || sscanf(wish, "%lu:%lu:%lu", &seed, &most_us, &one_in) != 3 || one_in == 0) {
            most_us = 150;
            one_in = 8;
        }
        state = seed * 0x9e3779b97f4a7c15u + 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return most_us > 0 && (state >> 40) % one_in == 0 ? (double)((state >> 8) % most_us) * 1e-6 : 0;
}

/* ---- Operands that an operation writes, found by their change ---- */
static uint64_t digest(const fake_operand *o)
{
    enum { LOOKED_AT = 64 };
    const fake_block *b = fake_block_of(o->begin);
    if (b == NULL || b->freed)
        return 0;
    size_t n = (size_t)(b->begin + b->bytes - (const char *)o->begin);
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < n && i < LOOKED_AT; i++)
        sum = (sum ^ ((const unsigned char *)o->begin)[i]) * 1099511628211u;
    return sum;
}

static void watch_operands(fake_operation *o, const fake_work *work)
{
    const size_t n = (size_t)work->n_operands;
    o->operands = malloc((n + 1) * sizeof(*o->operands));
    o->digests = malloc((n + 1) * sizeof(*o->digests));
    for (int i = 0; i < work->n_operands; i++) {
        const fake_block *b = fake_block_of(work->operands[i].begin);
        if (b != NULL && b->opens > 0 && o->n_foreign < FOREIGN)
            o->foreign[o->n_foreign++] = b;
        if (work->operands[i].use == FAKE_USES && !fake_order_has_learned(work->name, work->operands[i].place))
            o->operands[o->n_operands++] = work->operands[i];
    }
}

static void look(fake_operation *o, bool before)
{
    for (int i = 0; i < o->n_operands; i++) {
        uint64_t sum = digest(&o->operands[i]);
        if (before)
            o->digests[i] = sum;
        else if (sum != o->digests[i])
            fake_order_learn(o->work.name, o->operands[i].place);
    }
}

/* ---- The thread ---- */
static bool may_begin(const fake_operation *o)
{
    return o->waits_for == NULL || o->waits_for->done >= o->waits_number;
}

/* The queue whose operation is due first; NULL: none can begin. */
static cuda_queue choose(void)
{
    cuda_queue best = NULL;
    for (int i = 0; i < FAKE_QUEUES; i++) {
        fake_operation *o = queues[i].first;
        if (o == NULL || !may_begin(o))
            continue;
        if (!o->has_begun) {
            double delay_s = o->work.run != NULL && !fake_only_counts() ? draw_delay_s() : 0;
            o->has_begun = true;
            o->due_s = now_s() + delay_s;
            if (delay_s > 0 && o->work.begin != NULL)
                o->work.begin(o->work.self);
        }
        if (best == NULL || o->due_s < best->first->due_s)
            best = &queues[i];
    }
    return best;
}

static void finish(cuda_queue q)
{
    fake_operation *o = q->first;
    for (int i = 0; i < o->n_foreign; i++)
        fake_block_expect_live(o->foreign[i], o->work.name);
    if (o->stamp != NULL)
        clock_gettime(CLOCK_MONOTONIC, &o->stamp->when);
    q->first = o->next;
    if (q->first == NULL)
        q->last = &q->first;
    q->done++;
    if (o->work.drop != NULL)
        o->work.drop(o->work.self);
    free(o->operands);
    free(o->digests);
    free(o);
    pthread_cond_broadcast(&moved);
}

static void run_operation(cuda_queue q)
{
    fake_operation *o = q->first;
    if (o->work.run != NULL) {
        look(o, true);
        pthread_mutex_unlock(&fake_lock);
        bool has_ended = o->work.run(o->work.self);
        pthread_mutex_lock(&fake_lock);
        if (!has_ended) {
            o->due_s = now_s() + AGAIN_US * 1e-6;
            return;
        }
        look(o, false);
    }
    has_stopped = has_stopped || o->ends_all;
    if (!has_stopped)
        finish(q);
}

static void *run_queues(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        cuda_queue q = has_stopped || (is_lazy && n_waiting == 0) ? NULL : choose();
        if (q == NULL) {
            pthread_cond_wait(&appended, &fake_lock);
        } else if (q->first->due_s > now_s()) {
            double due = q->first->due_s;
            struct timespec t = {.tv_sec = (time_t)due, .tv_nsec = (long)((due - (double)(time_t)due) * 1e9)};
            pthread_cond_timedwait(&appended, &fake_lock, &t);
        } else {
            run_operation(q);
        }
    }
    return NULL;
}

static void start(void)
{
    pthread_t thread;
    pthread_condattr_t clock;
    if (runs)
        return;
    runs = true;
    is_lazy = fake_number("CUDA_FAKE", "lazy", 0) != 0;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&appended, &clock);
    pthread_condattr_destroy(&clock);
    if (pthread_create(&thread, NULL, run_queues, NULL) != 0)
        fake_fault("no thread for the queues");
    pthread_detach(thread);
}

/* ---- Queues ---- */
static void open_queue(int slot, int device)
{
    cuda_queue q = &queues[slot];
    q->slot = slot;
    q->device = device;
    q->lives = true;
    if (q->first == NULL)
        q->last = &q->first;
}

cuda_queue fake_default_queue(int device)
{
    if (!queues[device].lives)
        open_queue(device, device);
    return &queues[device];
}

cuda_queue fake_queue_new(int device)
{
    for (int i = FAKE_DEVICES; i < FAKE_QUEUES; i++)
        if (!queues[i].lives && queues[i].first == NULL) {
            open_queue(i, device);
            return &queues[i];
        }
    return NULL;
}

void fake_queue_end(cuda_queue queue)
{
    queue->lives = false;
}

/* ---- Operations ---- */
static fake_operation *append(cuda_queue q)
{
    fake_operation *o = calloc(1, sizeof(*o));
    start();
    fake_order_begin(q);
    *q->last = o;
    q->last = &o->next;
    pthread_cond_signal(&appended);
    return o;
}

void fake_append(cuda_queue q, const fake_work *work)
{
    fake_operation *o = append(q);
    o->work = *work;
    o->work.operands = NULL;
    watch_operands(o, work);
    for (int i = 0; i < work->n_operands && !fake_is_broken(); i++)
        fake_order_use(q, work->name, &work->operands[i]);
    if (fake_only_counts())
        fake_wait(q, q->enqueued);
}

void fake_append_wait(cuda_queue q, const struct CUevent_st *event)
{
    fake_operation *o = append(q);
    o->waits_for = event->queue;
    o->waits_number = event->number;
    for (int i = 0; i < FAKE_QUEUES; i++)
        if (q->order.at[i] < event->order.at[i])
            q->order.at[i] = event->order.at[i];
}

void fake_append_stamp(cuda_queue q, cuda_ticket event)
{
    append(q)->stamp = event;
}

void fake_append_end_of_all(cuda_queue q)
{
    append(q)->ends_all = true;
}

void fake_forget_ticket(const struct CUevent_st *event)
{
    for (int i = 0; i < FAKE_QUEUES; i++)
        for (fake_operation *o = queues[i].first; o != NULL; o = o->next)
            if (o->stamp == event)
                o->stamp = NULL;
}

/* ---- The host waits ---- */
void fake_wait(cuda_queue q, long number)
{
    if (q->done >= number)
        return;
    n_waiting++;
    pthread_cond_signal(&appended);
    while (q->done < number)
        pthread_cond_wait(&moved, &fake_lock);
    n_waiting--;
}

void fake_wait_device(int device)
{
    for (int i = 0; i < FAKE_QUEUES; i++)
        if (queues[i].last != NULL && queues[i].device == device) {
            const fake_clock order = queues[i].order;
            fake_wait(&queues[i], queues[i].enqueued);
            fake_host_sees(&order);
        }
}
