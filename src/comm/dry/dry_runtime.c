#include "comm/dry/dry_runtime.h"

#include <string.h>

#include "base/core/rng.h"
#include "base/mem/dry_mem.h"
#include "base/mem/scoped.h"
#include "base/os/objects.h"
#include "comm/comm_impl.h"
#include "comm/rehearsal/rehearsal.h"
#include "device/dry/work_trace.h"

enum { RING_EVENTS = 64, MOST_ANSWERED = 1 << 20 };

/* ---- Operations ---- */
static void copy_to_all(const tess_work *work)
{
    const size_t block = work->out_bytes / (size_t)work->team->size;
    for (size_t at = 0; at < work->out_bytes; at += block)
        memmove(work->out + at, work->in, block);
}

/* Writes the result of an operation in which all ranks give the same. */
static void answer(const tess_work *work)
{
    if (work->out == NULL || work->in == NULL || work->out_bytes == 0 || work->out_bytes > MOST_ANSWERED)
        return;
    if (work->fp.kind == TESS_TRACE_ALL_GATHER || work->fp.kind == TESS_TRACE_GATHER)
        copy_to_all(work);
    else if (work->fp.kind == TESS_TRACE_ALL_REDUCE && work->out != work->in)
        memcpy(work->out, work->in, work->out_bytes);
}

/* Describes the team of the work. The memory of the names' rest is zero, because teams are compared as bytes. */
static tess_work_team team_of(const tess_team *team)
{
    tess_work_team of;
    memset(&of, 0, sizeof(of));
    memcpy(of.name, team->name, strnlen(team->name, sizeof(of.name) - 1));
    of.size = team->size;
    of.n_local = team->n_local;
    of.first = team->ranks[0];
    of.stride = team->size > 1 ? team->ranks[1] - team->ranks[0] : 1;
    return of;
}

/* Adds the work to the trace. Setup of teams and memory is left out. */
static void trace_work(tess_work_trace *trace, tess_work *work)
{
    if (trace == NULL || work->fp.kind >= TESS_TRACE_TEAM_SPLIT)
        return;
    const tess_work_team team = team_of(work->team);
    const bool sends = work->fp.kind == TESS_TRACE_SEND;
    const double block = (double)work->n * (double)tess_dtype_size(work->dtype);
    const tess_work_op op = {.kind = work->fp.kind,
                             .peer = tess_work_is_message(work) ? work->team->ranks[work->fp.root] : -1,
                             .tag = work->fp.tag,
                             .bytes = sends ? block : (double)tess_volume_received(work)};
    work->event = (uint64_t)(tess_work_trace_issue(trace, &team, &op) + 1);
}

void tess_dry_runtime_read(tess_team *team, size_t bytes)
{
    const comm_dry *dry = team->runtime->dry;
    if (dry == NULL || dry->trace == NULL || bytes == 0)
        return;
    const tess_work_team of = team_of(team);
    const tess_work_op op = {.kind = TESS_TRACE_OTHER, .peer = -1, .bytes = (double)bytes};
    tess_work_trace_wait(dry->trace, tess_work_trace_issue(dry->trace, &of, &op));
}

void tess_dry_runtime_trace(tess_runtime *rt, tess_work_trace *trace)
{
    rt->dry->trace = trace;
}

/* Called instead of tess_work_post. */
static tess_status record(tess_work *work, tess_work **handle)
{
    const comm_dry *dry = work->team->runtime->dry;
    tess_volume_add(&work->team->runtime->dry->volume, work);
    if (dry->rehearsal != NULL)
        work->status = tess_rehearsal_add(dry->rehearsal, work);
    trace_work(dry->trace, work);
    answer(work);
    return tess_work_pretend(work, handle);
}

void tess_dry_runtime_follow_peak(tess_runtime *rt, tess_mem_peak *peak)
{
    *peak = (tess_mem_peak){.bytes = 0};
    tess_mem_follow_peak(rt->mem, peak);
    tess_mem_peak_moment(rt->mem, "setup");
    rt->dry->tells_moments = true;
}

tess_volume *tess_dry_runtime_volume(tess_runtime *rt)
{
    return &rt->dry->volume;
}

void tess_dry_runtime_rehearse(tess_runtime *rt, struct tess_rehearsal *rehearsal)
{
    rt->dry->rehearsal = rehearsal;
}

/* ---- The runtime ---- */
/* Makes the memory of the job as far as a rank alone uses it: the header, the board, one event ring. */
static tess_status make_job(tess_runtime *rt, const tess_dry_options *o)
{
    const tess_job_layout l = tess_job_layout_of(rt->world);
    const size_t ring = l.rings, bytes = ring + tess_trace_bytes(RING_EVENTS);
    void *base;
    TESS_TRY(tess_mem_alloc(rt->mem, TESS_POOL_MISC, bytes, "a dry job", &base));
    rt->job = (tess_job){.header = base, .base = base, .bytes = bytes, .fd = -1, .world = rt->world, .layout = l};
    rt->job.layout.ring_bytes = 0;
    rt->job.past = (tess_rank_past *)(rt->job.base + l.pasts);
    rt->job.rows = (tess_job_row *)(rt->job.base + l.rows);
    rt->row = &rt->job.rows[rt->rank];
    rt->job.header->world = (uint32_t)rt->world;
    int n_hosts = 0;
    for (int r = 0; r < rt->world; r++) {
        rt->job.rows[r].host = o->hosts != NULL ? o->hosts[r] : r / o->ranks_a_host;
        n_hosts = rt->job.rows[r].host >= n_hosts ? rt->job.rows[r].host + 1 : n_hosts;
    }
    rt->job.header->n_hosts = (uint32_t)(n_hosts < JOB_MAX_HOSTS ? n_hosts : JOB_MAX_HOSTS);
    return tess_trace_init(rt->job.base + ring, RING_EVENTS, rt->rank, rt->world, &rt->ring);
}

static tess_status make_world(tess_runtime *rt)
{
    int *ranks;
    TESS_TRY(TESS_NEW(rt->mem, rt->world, "ranks of the world", &ranks));
    for (int r = 0; r < rt->world; r++)
        ranks[r] = r;
    tess_status status =
        tess_team_attach(rt, "world", ranks, rt->world, rt->rank, tess_hash_text("world"), 0, &rt->team);
    if (status != TESS_OK)
        tess_mem_free(rt->mem, ranks);
    return status;
}

static tess_status build(tess_runtime *rt, const tess_dry_options *options)
{
    tess_object program;
    const tess_kernels *kernels;
    TESS_TRY(TESS_NEW(rt->mem, 1, "dry rank", &rt->dry));
    TESS_TRY(tess_mem_create_dry(&rt->dry->room));
    if (options->fills)
        tess_mem_dry_fill(rt->dry->room);
    TESS_TRY(tess_kernels_select(options->kernels, &kernels));
    rt->kernels = kernels->name;
    tess_object_program(&program);
    rt->program_begin = program.begin;
    rt->program_end = program.end;
    TESS_TRY(make_job(rt, options));
    TESS_TRY(tess_stream_create(rt->mem, 1, rt->kernels, &rt->stream));
    rt->submit = record;
    return make_world(rt);
}

tess_status tess_dry_runtime_create(const tess_dry_options *o, tess_runtime **out)
{
    tess_mem *mem;
    tess_runtime *rt;
    *out = NULL;
    TESS_CHECK(o->world >= 1 && o->rank >= 0 && o->rank < o->world && (o->hosts != NULL || o->ranks_a_host >= 1) &&
                   o->n_threads >= 1,
               TESS_E_INVALID, "dry rank %d of %d, %d on a host, %d threads", o->rank, o->world, o->ranks_a_host,
               o->n_threads);
    TESS_TRY(tess_mem_create_dry(&mem));
    if (o->fills)
        tess_mem_dry_fill(mem);
    tess_status status = TESS_NEW(mem, 1, "runtime", &rt);
    if (status != TESS_OK) {
        tess_mem_destroy(&mem);
        return status;
    }
    rt->mem = mem;
    rt->rank = o->rank;
    rt->world = o->world;
    rt->n_threads = o->n_threads;
    rt->timeout_s = 600;
    atomic_flag_clear(&rt->list_lock);
    atomic_flag_clear(&rt->teams_lock);
    *out = rt;
    status = build(rt, o);
    if (status != TESS_OK)
        tess_dry_runtime_destroy(out);
    return status;
}

void tess_dry_runtime_destroy(tess_runtime **handle)
{
    tess_runtime *rt = *handle;
    if (rt == NULL)
        return;
    tess_mem *mem = rt->mem;
    *handle = NULL;
    while (rt->regions != NULL) {
        comm_region *region = rt->regions;
        rt->regions = region->next;
        tess_mem_free(rt->dry->room, region->local);
        tess_mem_free(mem, region);
    }
    tess_team_destroy(&rt->team);
    tess_stream_destroy(&rt->stream);
    tess_mem_free(mem, rt->job.base);
    if (rt->dry != NULL)
        tess_mem_destroy(&rt->dry->room);
    tess_mem_free(mem, rt->dry);
    tess_mem_free(mem, rt);
    tess_mem_destroy(&mem);
}
