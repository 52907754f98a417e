#include "base/os/threads.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/os/os.h"

/* Rounds that a worker spins before it sleeps. A training step starts hundreds of loops per second; an idle process
 * starts none. */
enum { SPINS = 2000 };

typedef struct worker {
    tess_threads *threads;
    int index;
    pthread_t handle;
    _Atomic uint64_t open; /* the loop of whose range `index` nobody has begun, encoded by open_in; 0: none */
} worker;

struct tess_threads {
    tess_mem *mem;
    int n_threads, n_started;
    worker *workers;
    tess_loop_fn fn;
    void *context;
    int64_t n, per_range;
    _Atomic uint32_t generation; /* counts loops; workers wait for it to change */
    _Atomic uint32_t n_left;     /* ranges that are not done; the caller waits for 0 */
    _Atomic uint32_t workers_asleep, caller_asleep;
    _Atomic bool stop;
    bool idle; /* runs nothing */
};

/* A thread is counted as asleep before it checks the word for the last time. So a thread that changes the word and then
 * sees no sleeper need not wake anybody. */
static void wait_while(const _Atomic uint32_t *word, uint32_t value, _Atomic uint32_t *n_asleep)
{
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    atomic_fetch_add(n_asleep, 1);
    while (atomic_load(word) == value)
        tess_os_futex_wait((const uint32_t *)word, value, UINT64_C(100000000));
    atomic_fetch_sub(n_asleep, 1);
}

static uint64_t open_in(uint32_t generation)
{
    return (uint64_t)generation << 1 | 1;
}

/* Runs range `index` of a loop if nobody has begun it. The loop's fields do not change between the opening of its
 * ranges and the end of the last one. */
static void run_if_open(tess_threads *threads, uint32_t index, uint32_t generation)
{
    uint64_t open = open_in(generation);
    if (!atomic_compare_exchange_strong(&threads->workers[index].open, &open, 0))
        return;
    int64_t begin = index * threads->per_range, end = begin + threads->per_range;
    threads->fn(threads->context, begin, end < threads->n ? end : threads->n, (int)index);
    if (atomic_fetch_sub(&threads->n_left, 1) == 1 && atomic_load(&threads->caller_asleep) > 0)
        tess_os_futex_wake((const uint32_t *)&threads->n_left, 1);
}

/* Runs a thread's own range first, because its memory is near, then ranges that nobody has begun. */
static void run_open(tess_threads *threads, int index, uint32_t generation)
{
    for (int i = 0; i < threads->n_threads; i++)
        run_if_open(threads, (uint32_t)((index + i) % threads->n_threads), generation);
}

static void *work(void *argument)
{
    worker *self = argument;
    tess_threads *threads = self->threads;
    uint32_t seen = 0;
    for (;;) {
        wait_while(&threads->generation, seen, &threads->workers_asleep);
        seen = atomic_load_explicit(&threads->generation, memory_order_acquire);
        if (atomic_load_explicit(&threads->stop, memory_order_acquire))
            return NULL;
        run_open(threads, self->index, seen);
    }
}

tess_status tess_threads_create_idle(tess_mem *mem, int n_threads, tess_threads **out)
{
    TESS_CHECK(n_threads >= 1 && n_threads <= 1024, TESS_E_INVALID, "%d threads: choose 1 to 1024", n_threads);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**out), "thread pool", (void **)out));
    (*out)->mem = mem;
    (*out)->n_threads = n_threads;
    (*out)->idle = true;
    return TESS_OK;
}

tess_status tess_threads_create(tess_mem *mem, int n_threads, tess_threads **out)
{
    tess_threads *threads;
    TESS_TRY(tess_threads_create_idle(mem, n_threads, &threads));
    threads->idle = false;
    tess_status status = tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n_threads, sizeof(worker), "thread pool",
                                              (void **)&threads->workers);
    if (status != TESS_OK) {
        tess_mem_free(mem, threads);
        return status;
    }
    for (int i = 1; i < n_threads; i++) {
        threads->workers[i] = (worker){.threads = threads, .index = i};
        if (pthread_create(&threads->workers[i].handle, NULL, work, &threads->workers[i]) != 0) {
            tess_threads_destroy(&threads);
            return TESS_FAIL(TESS_E_NOMEM,
                             "cannot start thread %d of %d: lower the number of threads or raise ulimit -u", i,
                             n_threads);
        }
        threads->n_started++;
    }
    *out = threads;
    return TESS_OK;
}

void tess_threads_destroy(tess_threads **handle)
{
    tess_threads *threads = *handle;
    if (threads == NULL)
        return;
    atomic_store_explicit(&threads->stop, true, memory_order_release);
    atomic_fetch_add_explicit(&threads->generation, 1, memory_order_acq_rel);
    tess_os_futex_wake((const uint32_t *)&threads->generation, threads->n_threads);
    for (int i = 1; i <= threads->n_started; i++)
        pthread_join(threads->workers[i].handle, NULL);
    tess_mem_free(threads->mem, threads->workers);
    tess_mem_drop(handle);
}

int tess_threads_count(const tess_threads *threads)
{
    return threads->n_threads;
}

void tess_threads_run(tess_threads *threads, tess_loop_fn fn, void *context, int64_t n, int64_t grain)
{
    if (n <= 0 || threads->idle)
        return;
    if (threads->n_threads == 1 || n <= grain) {
        fn(context, 0, n, 0);
        return;
    }
    int64_t grains = (n + grain - 1) / grain;
    threads->fn = fn;
    threads->context = context;
    threads->n = n;
    threads->per_range = (grains + threads->n_threads - 1) / threads->n_threads * grain;
    uint32_t n_ranges = (uint32_t)((n + threads->per_range - 1) / threads->per_range);
    uint32_t generation = atomic_load_explicit(&threads->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&threads->n_left, n_ranges, memory_order_relaxed);
    for (uint32_t i = 0; i < n_ranges; i++)
        atomic_store_explicit(&threads->workers[i].open, open_in(generation), memory_order_release);
    atomic_store(&threads->generation, generation);
    if (atomic_load(&threads->workers_asleep) > 0)
        tess_os_futex_wake((const uint32_t *)&threads->generation, threads->n_threads - 1);
    run_open(threads, 0, generation);
    for (uint32_t left; (left = atomic_load_explicit(&threads->n_left, memory_order_acquire)) != 0;)
        wait_while(&threads->n_left, left, &threads->caller_asleep);
}
