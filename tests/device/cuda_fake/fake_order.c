/* The order of operations. Each operation of a queue has a number, and each queue knows the newest operation of every
 * other queue that comes before its next one (vector clocks, Lamport 1978, Mattern 1989). So two operations that use
 * one memory without an order are found when the second one is enqueued, however the two run. */
#include <limits.h>

#include "device/cuda_fake/fake_impl.h"

enum { BUCKETS = 4096, MOST_LEARNED = 4096, LEAST_SWEEP = 256 };

/* The newest use of memory at one place by a queue. */
typedef struct use {
    struct use *next;
    const char *begin;
    size_t bytes;
    bool writes;
    const struct CUstream_st *queue;
    long number;
    const char *name;
} use;

static fake_clock seen;
/* Places of kernels by their address; ranges of copies and fills in one list. */
static use *places[BUCKETS], *ranges;
static size_t n_uses, sweep_at = LEAST_SWEEP;

static struct {
    const char *name;
    int place;
} learned[MOST_LEARNED];

static void join(fake_clock *to, const fake_clock *from)
{
    for (int i = 0; i < FAKE_QUEUES; i++)
        if (to->at[i] < from->at[i])
            to->at[i] = from->at[i];
}

bool fake_host_has_seen(const struct CUstream_st *queue, long number)
{
    return number <= seen.at[queue->slot];
}

void fake_order_begin(cuda_queue queue)
{
    join(&queue->order, &seen);
    queue->order.at[queue->slot] = ++queue->enqueued;
}

/* ---- Uses ---- */
static void sweep_list(use **at)
{
    while (*at != NULL) {
        use *u = *at;
        if (fake_host_has_seen(u->queue, u->number)) {
            *at = u->next;
            free(u);
            n_uses--;
        } else {
            at = &u->next;
        }
    }
}

void fake_host_sees(const fake_clock *order)
{
    join(&seen, order);
    if (n_uses < sweep_at)
        return;
    for (int i = 0; i < BUCKETS; i++)
        sweep_list(&places[i]);
    sweep_list(&ranges);
    sweep_at = 2 * n_uses + LEAST_SWEEP;
}

static use **bucket_of(const char *at)
{
    return &places[((uintptr_t)at >> 4) * 2654435761u % BUCKETS];
}

static bool meets(const use *u, const char *begin, size_t bytes)
{
    const uintptr_t mine = (uintptr_t)u->begin, other = (uintptr_t)begin;
    return mine < other + bytes && other < mine + u->bytes;
}

static void check_list(const struct CUstream_st *queue, const char *name, const use *u, const use *mine)
{
    for (; u != NULL; u = u->next)
        if (u->queue != queue && (u->writes || mine->writes) && u->number > queue->order.at[u->queue->slot] &&
            meets(u, mine->begin, mine->bytes))
            fake_fault("%s (operation %ld of queue %d) %s memory at %p that %s (operation %ld of queue %d) %s, and "
                       "nothing puts "
                       "one before the other: an event or a wait is missing",
                       name, mine->number, queue->slot, mine->writes ? "writes" : "reads", (const void *)mine->begin,
                       u->name, u->number, u->queue->slot, u->writes ? "writes" : "reads");
}

/* A later use by the same queue stands for this one: what comes after it comes after this. */
static void keep(use **list, const use *mine)
{
    for (use *u = *list; u != NULL; u = u->next)
        if (u->queue == mine->queue && u->begin == mine->begin && u->bytes == mine->bytes &&
            u->writes == mine->writes) {
            u->number = mine->number;
            u->name = mine->name;
            return;
        }
    use *u = malloc(sizeof(*u));
    *u = *mine;
    u->next = *list;
    *list = u;
    n_uses++;
}

void fake_order_use(const struct CUstream_st *queue, const char *name, const fake_operand *operand)
{
    const bool is_place = operand->bytes == 0;
    const use mine = {.begin = operand->begin,
                      .bytes = is_place ? 1 : operand->bytes,
                      .writes = operand->use == FAKE_WRITES ||
                                (operand->use == FAKE_USES && fake_order_has_learned(name, operand->place)),
                      .queue = queue,
                      .number = queue->enqueued,
                      .name = name};
    check_list(queue, name, ranges, &mine);
    if (is_place)
        check_list(queue, name, *bucket_of(mine.begin), &mine);
    for (int i = 0; i < BUCKETS && !is_place; i++)
        check_list(queue, name, places[i], &mine);
    keep(is_place ? bucket_of(mine.begin) : &ranges, &mine);
}

static void expect_unused(const use *u, const char *begin, size_t bytes, const char *what)
{
    for (; u != NULL; u = u->next)
        if (meets(u, begin, bytes) && !fake_host_has_seen(u->queue, u->number))
            fake_fault(
                "%s: %zu bytes at %p are used by %s (operation %ld of queue %d), and the host has not waited for it",
                what, bytes, (const void *)begin, u->name, u->number, u->queue->slot);
}

void fake_order_expect_unused(const char *begin, size_t bytes, const char *what)
{
    for (int i = 0; i < BUCKETS; i++)
        expect_unused(places[i], begin, bytes, what);
    expect_unused(ranges, begin, bytes, what);
}

static bool writes_unseen(const use *u, const char *begin, size_t bytes)
{
    return u->writes && meets(u, begin, bytes) && !fake_host_has_seen(u->queue, u->number);
}

bool fake_order_is_written(const char *begin, size_t bytes)
{
    for (int i = 0; i < BUCKETS; i++)
        for (const use *u = places[i]; u != NULL; u = u->next)
            if (writes_unseen(u, begin, bytes))
                return true;
    for (const use *u = ranges; u != NULL; u = u->next)
        if (writes_unseen(u, begin, bytes))
            return true;
    return false;
}

/* ---- Operands that kernels write ---- */
static size_t slot_of(const char *name, int place)
{
    size_t i = ((uintptr_t)name / 8 + (size_t)place * 31) % MOST_LEARNED;
    while (learned[i].name != NULL && (learned[i].name != name || learned[i].place != place))
        i = (i + 1) % MOST_LEARNED;
    return i;
}

void fake_order_learn(const char *name, int place)
{
    size_t i = slot_of(name, place);
    learned[i].name = name;
    learned[i].place = place;
}

bool fake_order_has_learned(const char *name, int place)
{
    return learned[slot_of(name, place)].name != NULL;
}
