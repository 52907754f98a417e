/* Queries of a rank's runtime, and reports to the board. Joining a job is in seat.c. */
#include "tessera/runtime.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/mem/dry_mem.h"
#include "base/mem/named.h"
#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "comm/hosts/choice.h"
#include "comm/seat.h"

void tess_list_lock(atomic_flag *lock)
{
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire))
        sched_yield();
}

void tess_list_unlock(atomic_flag *lock)
{
    atomic_flag_clear_explicit(lock, memory_order_release);
}

int tess_runtime_rank(const tess_runtime *rt)
{
    return rt->rank;
}

int tess_runtime_world(const tess_runtime *rt)
{
    return rt->world;
}

int tess_runtime_threads(const tess_runtime *rt)
{
    return rt->n_threads;
}

const char *tess_runtime_kernels(const tess_runtime *rt)
{
    return rt->kernels;
}

const char *tess_runtime_kernels_vote(const tess_runtime *rt)
{
    return rt->kernels_vote;
}

const char *tess_runtime_backend(const tess_runtime *rt)
{
    return rt->transport->name != NULL ? rt->transport->name() : rt->team->backend->name;
}

int tess_runtime_hosts(const tess_runtime *rt)
{
    return (int)rt->job.header->n_hosts;
}

int tess_runtime_host(const tess_runtime *rt)
{
    return (int)rt->job.header->host;
}

const char *tess_runtime_host_name(const tess_runtime *rt, int host)
{
    return host >= 0 && host < tess_runtime_hosts(rt) ? rt->job.header->hosts[host].name : "?";
}

tess_mem *tess_runtime_mem(const tess_runtime *rt)
{
    return rt->mem;
}

tess_team *tess_runtime_team(const tess_runtime *rt)
{
    return rt->team;
}

/* Tells the peak of a dry rank's memory which moment of the step it is. */
static void tell_moment(const tess_runtime *rt, const char *phase, int64_t detail)
{
    char moment[64];
    if (detail >= 0)
        snprintf(moment, sizeof(moment), "%s of layer %lld", phase, (long long)detail);
    else
        snprintf(moment, sizeof(moment), "%s", phase);
    tess_mem_peak_moment(rt->mem, moment);
}

void tess_runtime_phase(tess_runtime *rt, const char *phase, int64_t step, int64_t detail)
{
    if (!COMM_IS_GUARDED)
        return;
    tess_trace_event event = {.step = step, .detail = detail, .root = -1, .op = TESS_TRACE_PHASE};
    if (rt->observer.self != NULL)
        rt->observer.phase_over(rt->observer.self);
    if (step >= 0 && step != atomic_load_explicit(&rt->row->step, memory_order_relaxed))
        event.count = tess_os_process_starved_ns((int)getpid());
    uint64_t now_ns = tess_os_now_ns();
    memcpy(event.phase, phase, strnlen(phase, sizeof(event.phase) - 1));
    tess_trace_emit(rt->ring, &event, now_ns);
    tess_board_phase(rt->row, phase, step, detail, now_ns);
    if (rt->dry != NULL && rt->dry->tells_moments)
        tell_moment(rt, phase, detail);
    if (rt->observer.self != NULL)
        rt->observer.phase(rt, phase, step, detail);
}

void tess_runtime_progress(tess_runtime *rt, const tess_progress *progress)
{
    _Static_assert((int)TESS_PROGRESS_PHASES == (int)TESS_PHASE_COUNT, "the board shows the phases of the clock");
    tess_job_row *row = rt->row;
    uint64_t loss;
    memcpy(&loss, &progress->loss, sizeof(loss));
    atomic_store_explicit(&row->n_tokens, (uint64_t)progress->n_tokens, memory_order_relaxed);
    atomic_store_explicit(&row->loss, loss, memory_order_relaxed);
    atomic_store_explicit(&row->step_ns, (uint64_t)(progress->step_s * 1e9), memory_order_relaxed);
    for (int i = 0; i < TESS_PROGRESS_PHASES; i++)
        atomic_fetch_add_explicit(&row->phase_ns[i], (uint64_t)(progress->phase_s[i] * 1e9), memory_order_relaxed);
    uint64_t disk_bytes = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        atomic_store_explicit(&row->pool_bytes[pool], tess_mem_stats(rt->mem, (tess_pool)pool).bytes,
                              memory_order_relaxed);
        disk_bytes += tess_mem_disk_bytes(rt->mem, (tess_pool)pool);
    }
    atomic_store_explicit(&row->disk_bytes, disk_bytes, memory_order_relaxed);
    atomic_store_explicit(&row->stepped_ns, tess_os_now_ns(), memory_order_relaxed);
    /* Written last, so that a reader that sees the step also sees its values. */
    atomic_store_explicit(&row->n_steps, (uint64_t)progress->n_steps, memory_order_release);
}

void tess_runtime_report_of(tess_runtime *rt, int rank, const char *message)
{
    tess_board_error(rt->row, message, rank == rt->rank ? -1 : rank);
}

void tess_runtime_warn(tess_runtime *rt, const char *message)
{
    int64_t step = atomic_load_explicit(&rt->row->step, memory_order_relaxed);
    tess_notices_add(&rt->job.header->notices, TESS_NOTICE_WARNING, rt->rank, step, message);
}

void tess_runtime_report_status(tess_runtime *rt, tess_status status)
{
    int32_t none = TESS_OK;
    atomic_compare_exchange_strong(&rt->row->status, &none, (int32_t)status);
}

int64_t tess_runtime_life(const tess_runtime *rt)
{
    return 1 + (int64_t)atomic_load(&rt->job.header->epoch);
}

tess_rank_past *tess_runtime_past(const tess_runtime *rt, int rank)
{
    return &rt->job.past[rank];
}

uint32_t tess_runtime_faults_before(const tess_runtime *rt)
{
    uint32_t faults = rt->job.header->faults_of_gone;
    for (int r = 0; r < rt->world; r++)
        faults |= rt->job.past[r].faults_before;
    return faults;
}

tess_device_log *tess_runtime_device_log(const tess_runtime *rt)
{
    return tess_job_device_log(&rt->job, rt->rank);
}

bool tess_runtime_stop_requested(const tess_runtime *rt)
{
    if (atomic_load_explicit(&rt->row->heeds, memory_order_relaxed) != JOB_HEEDS_REQUESTS)
        atomic_store_explicit(&rt->row->heeds, JOB_HEEDS_REQUESTS, memory_order_relaxed);
    return atomic_load_explicit(&rt->job.header->stop, memory_order_relaxed) == JOB_STOP_NOW;
}

bool tess_runtime_leave_requested(const tess_runtime *rt)
{
    return atomic_load_explicit(&rt->job.header->stop, memory_order_relaxed) == JOB_STOP_AFTER_SAVE;
}

bool tess_runtime_stops_after(const tess_runtime *rt, int64_t step)
{
    const tess_job_header *header = rt->job.header;
    return atomic_load(&header->stop) == JOB_STOP_AT_STEP && atomic_load(&header->stop_step) == step;
}

void tess_runtime_request_stop(tess_runtime *rt)
{
    atomic_store(&rt->job.header->stop, JOB_STOP_NOW);
}

void tess_runtime_observe(tess_runtime *rt, const comm_observer *observer)
{
    rt->observer = *observer;
    rt->submit = observer->submit;
}

void *tess_runtime_observer(const tess_runtime *rt)
{
    return rt->observer.self;
}

bool tess_memory_is_shared(tess_runtime *rt, const void *memory, size_t bytes)
{
    const uint8_t *at = memory;
    bool found = false;
    tess_list_lock(&rt->list_lock);
    for (const comm_region *r = rt->regions; r != NULL && !found; r = r->next)
        found = r->shared && at >= r->local && at + bytes <= r->local + r->bytes;
    tess_list_unlock(&rt->list_lock);
    return found;
}

uint64_t tess_runtime_ways_hash(const tess_runtime *rt)
{
    const uint64_t words[] = {tess_tuning_hash(rt->tuning), rt->native_reductions};
    return tess_hash_bytes(words, sizeof(words), 0);
}

tess_tuning *tess_runtime_set_tuning(tess_runtime *rt, tess_tuning *tuning)
{
    tess_tuning *before = rt->tuning;
    rt->tuning = tuning;
    return before;
}
