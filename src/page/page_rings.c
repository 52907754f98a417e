#include "page/page_rings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "trace/trace_folder.h"

enum { MOST_EVENTS = 1 << 16, NEWEST_STEPS = 9 };

/* ---- Collectives ---- */
static const char *team_name(const tess_trace_ring *ring, uint64_t hash)
{
    const uint32_t stored = atomic_load_explicit(&ring->n_teams, memory_order_acquire);
    for (uint32_t i = 0; i < stored && i < TESS_TRACE_TEAMS; i++)
        if (ring->teams[i].hash == hash)
            return ring->teams[i].name;
    return "?";
}

static page_collective *row_of(page_rings *r, const char *team, int op)
{
    char name[TESS_TRACE_NAME_BYTES];
    snprintf(name, sizeof(name), "%.*s", TESS_TRACE_NAME_BYTES - 1, team);
    for (int i = 0; i < r->n_collectives; i++)
        if (r->collectives[i].op == op && strcmp(r->collectives[i].team, name) == 0)
            return &r->collectives[i];
    if (r->n_collectives == PAGE_COLLECTIVES)
        return NULL;
    page_collective *row = &r->collectives[r->n_collectives++];
    *row = (page_collective){.op = op};
    memcpy(row->team, name, sizeof(name));
    return row;
}

static double seconds(uint64_t from, uint64_t to)
{
    return to > from && from > 0 ? (double)(to - from) * 1e-9 : 0;
}

static void add_collective(page_rings *r, const tess_trace_ring *ring, const tess_trace_event *e)
{
    if (e->state != TESS_TRACE_COMPLETED || e->op == TESS_TRACE_NONE || e->op >= TESS_TRACE_OP_COUNT || e->step <= 0)
        return;
    page_collective *row = row_of(r, team_name(ring, e->team), e->op);
    if (row == NULL)
        return;
    r->first_step = r->first_step == 0 || e->step < r->first_step ? e->step : r->first_step;
    r->last_step = e->step > r->last_step ? e->step : r->last_step;
    row->n++;
    row->bytes += (double)e->count * (double)tess_dtype_size((tess_dtype)e->in_dtype);
    row->waited_s += seconds(e->time_ns, e->started_ns);
    row->moved_s += seconds(e->started_ns, e->completed_ns);
}

/* ---- Phases of a step ---- */
static int phase_of(page_rings *r, const char *phase)
{
    char name[TESS_TRACE_PHASE_BYTES];
    snprintf(name, sizeof(name), "%.*s", TESS_TRACE_PHASE_BYTES - 1, phase);
    for (int i = 0; i < r->n_phases; i++)
        if (strcmp(r->phases[i], name) == 0)
            return i;
    if (r->n_phases == PAGE_PHASES)
        return -1;
    memcpy(r->phases[r->n_phases], name, sizeof(name));
    return r->n_phases++;
}

/* A step that has ended, and its time. */
typedef struct whole_step {
    int64_t step;
    uint64_t ns;
} whole_step;

static int by_time(const void *a, const void *b)
{
    const whole_step *x = a, *y = b;
    return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Returns a typical one of the newest steps that have ended: the one whose time is their median. Others may include an
 * evaluation or a save. -1: no step has ended. */
static int64_t typical_step(const tess_trace_event *events, size_t n)
{
    whole_step newest[NEWEST_STEPS], open = {.step = -1};
    size_t n_whole = 0;
    for (size_t i = 0; i < n; i++) {
        const tess_trace_event *e = &events[i];
        if (e->op != TESS_TRACE_PHASE || e->step <= open.step)
            continue;
        open.ns = e->time_ns - open.ns;
        if (open.step > 0)
            newest[n_whole++ % NEWEST_STEPS] = open;
        open = (whole_step){e->step, e->time_ns};
    }
    n_whole = n_whole < NEWEST_STEPS ? n_whole : NEWEST_STEPS;
    if (n_whole == 0)
        return open.step > 0 ? open.step : -1;
    qsort(newest, n_whole, sizeof(newest[0]), by_time);
    return newest[(n_whole - 1) / 2].step;
}

/* Converts a time of the ring's host to the wall clock. */
static double wall_s(const tess_trace_ring *ring, uint64_t ns)
{
    return ((double)ns + ((double)ring->owner.wall_ns - (double)ring->owner.monotonic_ns)) * 1e-9;
}

/* Adds the phases of a rank as times on the wall clock. A phase lasts until the next one begins. */
static void add_spans(page_rings *r, const tess_trace_ring *ring, const tess_trace_event *events, size_t n)
{
    const tess_trace_event *open = NULL;
    int n_here = 0;
    for (size_t i = 0; i < n && n_here < PAGE_SPANS; i++) {
        const tess_trace_event *e = &events[i];
        if (e->op != TESS_TRACE_PHASE)
            continue;
        const int phase = open != NULL ? phase_of(r, open->phase) : -1;
        if (phase >= 0 && e->time_ns > open->time_ns) {
            r->spans[r->n_spans++] =
                (page_span){(int)ring->rank, phase, wall_s(ring, open->time_ns), wall_s(ring, e->time_ns)};
            n_here++;
        }
        open = e->step == r->step ? e : NULL;
    }
}

static void begin_at_zero(page_rings *r)
{
    double begin = 0;
    for (int i = 0; i < r->n_spans; i++)
        begin = i == 0 || r->spans[i].begin_s < begin ? r->spans[i].begin_s : begin;
    for (int i = 0; i < r->n_spans; i++) {
        r->spans[i].begin_s -= begin;
        r->spans[i].end_s -= begin;
    }
}

/* ---- Rings ---- */
static void add_ring(page_rings *r, const tess_trace_ring *ring, const tess_trace_event *events, size_t n)
{
    if (r->step < 0)
        r->step = typical_step(events, n);
    for (size_t i = 0; i < n; i++)
        if (events[i].op != TESS_TRACE_PHASE)
            add_collective(r, ring, &events[i]);
    if (r->step >= 0)
        add_spans(r, ring, events, n);
    r->world = (int)ring->world;
    r->n_ranks++;
}

static tess_status read_ring(tess_mem *mem, const char *path, int rank, page_rings *r)
{
    uint64_t n_slots;
    const tess_trace_ring *ring;
    TESS_AUTO(tess_os_unmap) tess_mapping file = {0};
    TESS_AUTO(tess_mem_drop) tess_trace_event *events = NULL;
    TESS_TRY(tess_os_map(path, &file));
    TESS_TRY(tess_trace_open_cut(file.data, file.size, &ring, &n_slots));
    TESS_CHECK(ring->rank == (uint32_t)rank, TESS_E_FORMAT, "%s belongs to rank %u", path, ring->rank);
    const size_t most = ring->capacity < MOST_EVENTS ? (size_t)ring->capacity : MOST_EVENTS;
    TESS_TRY(TESS_NEW(mem, most, "events", &events));
    add_ring(r, ring, events, tess_trace_read(ring, n_slots, events, most));
    return TESS_OK;
}

tess_status page_rings_read(tess_mem *mem, const char *folder, page_rings *rings)
{
    char path[4096 + 64];
    page_rings_free(rings);
    *rings = (page_rings){.step = -1};
    TESS_TRY(TESS_NEW(mem, PAGE_RINGS * PAGE_SPANS, "phases of a step", &rings->spans));
    for (int rank = 0; rank < PAGE_RINGS; rank++) {
        tess_status status = tess_trace_ring_path(folder, rank, path, sizeof(path));
        if (status == TESS_OK)
            status = read_ring(mem, path, rank, rings);
        if (status == TESS_E_NOMEM)
            return status;
        tess_error_clear();
    }
    begin_at_zero(rings);
    return TESS_OK;
}

void page_rings_free(page_rings *rings)
{
    tess_mem_drop(&rings->spans);
}
