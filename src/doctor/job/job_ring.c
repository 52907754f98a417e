/* Adds a rank's ring of events to a history. */
#include "doctor/job/job_impl.h"

#include <stdio.h>
#include <string.h>

#include "doctor/table/clean.h"
#include "doctor/table/place_table.h"

/* Limit of records for a whole job. A record takes a quarter of a kilobyte. */
static const size_t most_records = 2u << 20;

/* Adds the teams of a ring. A team that contradicts other rings is left out, so the ring's operations in it are not
 * compared. */
static tess_status add_teams(tess_history *history, int rank, const tess_trace_ring *ring)
{
    uint32_t n = atomic_load_explicit(&ring->n_teams, memory_order_acquire);
    for (uint32_t i = 0; i < n && i < TESS_TRACE_TEAMS; i++) {
        const tess_trace_team *team = &ring->teams[i];
        char name[TESS_TRACE_NAME_BYTES];
        tess_clean_text(team->name, sizeof(team->name), name, sizeof(name));
        tess_status status = tess_history_add_member(history, team->hash, name, team->size, team->position, rank);
        if (status != TESS_OK && status != TESS_E_FORMAT)
            return status;
    }
    return TESS_OK;
}

static void clean_event(tess_trace_event *event)
{
    tess_clean_in_place(event->phase, sizeof(event->phase));
    if (event->op >= TESS_TRACE_OP_COUNT)
        event->op = TESS_TRACE_NONE;
    if (event->state > TESS_TRACE_FAILED)
        event->state = TESS_TRACE_ENQUEUED;
}

static tess_status add_events(tess_history *history, int rank, const tess_trace_ring *ring, uint64_t n_slots)
{
    tess_trace_event *events;
    size_t share = most_records / (size_t)history->world;
    size_t most = ring->capacity < share ? (size_t)ring->capacity : share;
    TESS_TRY(TESS_NEW(history->mem, most, "events", &events));
    size_t n = tess_trace_read(ring, n_slots, events, most);
    for (size_t i = 0; i < n; i++)
        clean_event(&events[i]);
    tess_status status = tess_history_add_events(history, rank, events, n);
    uint64_t alive_ns = atomic_load_explicit(&ring->alive_ns, memory_order_relaxed);
    if (alive_ns > history->ranks[rank].last_ns)
        history->ranks[rank].last_ns = alive_ns;
    history->ranks[rank].lost_any = tess_trace_lost(ring, n_slots, &history->ranks[rank].lost_newest) > 0 ||
                                    atomic_load_explicit(&ring->n_events, memory_order_relaxed) > most;
    tess_mem_free(history->mem, events);
    return status;
}

tess_status tess_ring_add(tess_history *history, int rank, const tess_trace_ring *ring, uint64_t n_slots,
                          tess_sites_source *source)
{
    tess_rank_history *r = &history->ranks[rank];
    TESS_CHECK(ring->rank == (uint32_t)rank && ring->world == (uint32_t)history->world, TESS_E_FORMAT,
               "event ring: it is of rank %u of %u, not of rank %d of %d", ring->rank, ring->world, rank,
               history->world);
    if (history->places.n_axes == 0)
        tess_places_read(ring, &history->places);
    TESS_TRY(add_teams(history, rank, ring));
    TESS_TRY(add_events(history, rank, ring, n_slots));
    r->present = true;
    r->pid = ring->owner.pid;
    tess_clean_text(ring->owner.host, sizeof(ring->owner.host), r->host, sizeof(r->host));
    source->owner = ring->owner;
    source->owner.program[sizeof(source->owner.program) - 1] = '\0';
    source->objects = ring->objects;
    return TESS_OK;
}

void tess_ring_name_sites(tess_history *history, const tess_sites_source *sources)
{
    tess_sites sites = {.mem = history->mem};
    for (int r = 0; r < history->world; r++) {
        tess_rank_history *rank = &history->ranks[r];
        for (size_t i = 0; i < rank->n_records; i++) {
            tess_record *record = &rank->records[i];
            tess_sites_report(&sites, &sources[r], record->call_site, record->site, sizeof(record->site));
        }
    }
    tess_sites_close(&sites);
}
