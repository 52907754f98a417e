#include "doctor/perfetto/perfetto.h"

#include <string.h>

#include "base/core/rng.h"
#include "diagnosis/request.h"
#include "trace/trace_events.h"

enum { TID_PHASES = 1, TID_TEAMS = 100, LANES = 16 };

static const uint64_t shortest_arrow_ns = 1000000;

/* A slot of the table of collectives, by team and sequence: it holds the last rank to arrive. */
typedef struct arrival {
    uint64_t team, sequence;
    uint64_t last_ns; /* time of the last arrival, on the timeline */
    int n_ranks;      /* number of ranks that arrived; 0: the slot is free */
    int rank;         /* last rank to arrive */
    uint32_t tid;     /* track that holds that rank's slice; 0: not drawn yet */
} arrival;

typedef struct arrivals {
    tess_mem *mem;
    arrival *table; /* hash table; `room` is a power of two */
    size_t n, room;
} arrivals;

typedef struct drawing {
    const tess_history *history;
    tess_trace_events out;
    arrivals arrivals;
    uint64_t *lane_ends; /* (n_teams, LANES) end of the last slice in each lane, for the rank being drawn */
    uint64_t origin_ns;  /* time 0 of the timeline, on the reader's clock */
    int64_t n_arrows;
} drawing;

/* The position of an operation's record on the timeline. */
typedef struct track_place {
    uint64_t begin_ns, started_ns, end_ns;
    uint32_t tid;
    bool fresh_lane, has_ended;
} track_place;

/* ---- Arrivals ---- */
/* Returns the slot of the operation, or the free slot where it belongs. */
static arrival *find_slot(arrival *table, size_t room, uint64_t team, uint64_t sequence)
{
    const uint64_t key[] = {team, sequence};
    size_t i = tess_hash_bytes(key, sizeof(key), 0) & (room - 1);
    while (table[i].n_ranks != 0 && (table[i].team != team || table[i].sequence != sequence))
        i = (i + 1) & (room - 1);
    return &table[i];
}

static tess_status grow(arrivals *arrivals)
{
    void *memory;
    size_t room = arrivals->room == 0 ? 1024 : 2 * arrivals->room;
    TESS_TRY(tess_mem_alloc_array(arrivals->mem, TESS_POOL_MISC, room, sizeof(arrival), "timeline", &memory));
    for (size_t i = 0; i < arrivals->room; i++)
        if (arrivals->table[i].n_ranks != 0)
            *find_slot(memory, room, arrivals->table[i].team, arrivals->table[i].sequence) = arrivals->table[i];
    tess_mem_free(arrivals->mem, arrivals->table);
    arrivals->table = memory;
    arrivals->room = room;
    return TESS_OK;
}

static tess_status arrivals_add(arrivals *arrivals, uint64_t team, uint64_t sequence, int rank, uint64_t ns)
{
    if (2 * arrivals->n >= arrivals->room)
        TESS_TRY(grow(arrivals));
    arrival *place = find_slot(arrivals->table, arrivals->room, team, sequence);
    arrivals->n += place->n_ranks == 0;
    place->team = team;
    place->sequence = sequence;
    if (place->n_ranks++ == 0 || ns > place->last_ns) {
        place->rank = rank;
        place->last_ns = ns;
    }
    return TESS_OK;
}

/* Returns NULL if no rank arrived. */
static arrival *arrivals_find(const arrivals *arrivals, uint64_t team, uint64_t sequence)
{
    if (arrivals->room == 0)
        return NULL;
    arrival *place = find_slot(arrivals->table, arrivals->room, team, sequence);
    return place->n_ranks != 0 ? place : NULL;
}

/* ---- One clock for all ranks ---- */
static uint64_t to_reader(const tess_history *history, int rank, uint64_t ns)
{
    return ns + (uint64_t)history->ranks[rank].clock_offset_ns;
}

static uint64_t since(uint64_t origin_ns, uint64_t ns)
{
    return ns > origin_ns ? ns - origin_ns : 0;
}

static uint64_t on_timeline(const drawing *d, int rank, uint64_t ns)
{
    return since(d->origin_ns, to_reader(d->history, rank, ns));
}

static void find_origin(drawing *d)
{
    uint64_t first = UINT64_MAX;
    for (int r = 0; r < d->history->world; r++) {
        const tess_rank_history *rank = &d->history->ranks[r];
        for (size_t i = 0; i < rank->n_records; i++)
            if (rank->records[i].enqueued_ns != 0 && to_reader(d->history, r, rank->records[i].enqueued_ns) < first)
                first = to_reader(d->history, r, rank->records[i].enqueued_ns);
        for (size_t i = 0; i < rank->n_spans; i++)
            if (rank->spans[i].begin_ns != 0 && to_reader(d->history, r, rank->spans[i].begin_ns) < first)
                first = to_reader(d->history, r, rank->spans[i].begin_ns);
    }
    d->origin_ns = first;
}

/* Returns the end of a slice whose end was not recorded: the end of the rank's process, or else the time of the
 * history. */
static uint64_t last_moment(const drawing *d, int rank)
{
    const tess_rank_history *history = &d->history->ranks[rank];
    uint64_t last = on_timeline(d, rank, history->last_ns);
    uint64_t end = since(d->origin_ns, history->ended_ns != 0 ? history->ended_ns : d->history->now_ns);
    return end > last ? end : last;
}

/* ---- Collectives and messages ---- */
static bool can_be_drawn(const tess_record *record)
{
    return record->enqueued_ns != 0; /* 0: the rank died before it read the clock */
}

static tess_status collect_arrivals(drawing *d)
{
    for (int r = 0; r < d->history->world; r++) {
        const tess_rank_history *rank = &d->history->ranks[r];
        for (size_t i = 0; i < rank->n_records; i++) {
            const tess_record *record = &rank->records[i];
            if (can_be_drawn(record) && !tess_request_is_message(record))
                TESS_TRY(arrivals_add(&d->arrivals, record->team, record->sequence, r,
                                      on_timeline(d, r, record->enqueued_ns)));
        }
    }
    return TESS_OK;
}

/* Returns the last arrival, or NULL if the call of a member is missing: it is still to come, or was lost. */
static arrival *last_arrival(const drawing *d, const tess_record *record)
{
    const tess_team_history *team = tess_history_team(d->history, record->team);
    arrival *arrival =
        tess_request_is_message(record) ? NULL : arrivals_find(&d->arrivals, record->team, record->sequence);
    return arrival != NULL && team != NULL && arrival->n_ranks == team->n_ranks ? arrival : NULL;
}

/* Chooses a free lane of the team. If no lane is free, chooses the lane that ends first, and moves the record's
 * begin to that end. */
static void take_lane(drawing *d, size_t team, track_place *p)
{
    uint64_t *ends = d->lane_ends + team * LANES;
    int best = 0;
    for (int i = 0; i < LANES && ends[best] > p->begin_ns; i++)
        if (ends[i] < ends[best])
            best = i;
    p->begin_ns = ends[best] > p->begin_ns ? ends[best] : p->begin_ns;
    p->started_ns = p->started_ns > p->begin_ns ? p->started_ns : p->begin_ns;
    p->end_ns = p->end_ns > p->started_ns ? p->end_ns : p->started_ns;
    p->fresh_lane = ends[best] == 0;
    p->tid = (uint32_t)(TID_TEAMS + team * LANES + (size_t)best);
    ends[best] = p->end_ns > 0 ? p->end_ns : 1;
}

static track_place find_place(drawing *d, int rank, const tess_record *record)
{
    track_place p = {.begin_ns = on_timeline(d, rank, record->enqueued_ns), .has_ended = record->completed_ns != 0};
    const arrival *last = last_arrival(d, record);
    p.end_ns = p.has_ended ? on_timeline(d, rank, record->completed_ns) : last_moment(d, rank);
    p.started_ns = record->started_ns != 0 ? on_timeline(d, rank, record->started_ns) : p.end_ns;
    if (p.has_ended && record->started_ns == 0)
        p.started_ns = p.begin_ns;
    if (d->history->source == TESS_HISTORY_PYTORCH && last != NULL && last->last_ns > p.started_ns)
        p.started_ns = last->last_ns; /* a started kernel still waits for its peers */
    p.started_ns = p.started_ns < p.end_ns ? p.started_ns : p.end_ns;
    take_lane(d, tess_history_team_index(d->history, record->team), &p);
    return p;
}

static void put_metadata(drawing *d, int rank, uint32_t tid, const char *what, const char *key, const char *text)
{
    tess_trace_events_begin(&d->out, 'M', rank, tid, what);
    tess_trace_events_args(&d->out);
    tess_trace_events_text(&d->out, key, text);
    tess_trace_events_end(&d->out);
}

static void put_thread_name(drawing *d, int rank, const track_place *p)
{
    size_t lane = p->tid - TID_TEAMS, team = lane / LANES;
    char name[96];
    int n = snprintf(name, sizeof(name), "team %s",
                     team < d->history->n_teams ? d->history->teams[team].name : "(unknown)");
    if (lane % LANES > 0)
        snprintf(name + n, sizeof(name) - (size_t)n, " (%zu)", lane % LANES + 1);
    put_metadata(d, rank, p->tid, "thread_name", "name", name);
}

static void put_slice(drawing *d, int rank, const track_place *p, uint64_t begin_ns, uint64_t end_ns, const char *name,
                      const char *colour)
{
    tess_trace_events_begin(&d->out, 'X', rank, p->tid, name);
    tess_trace_events_time(&d->out, "ts", begin_ns);
    tess_trace_events_time(&d->out, "dur", end_ns - begin_ns);
    tess_trace_events_text(&d->out, "cname", colour);
}

static void put_arguments(drawing *d, const tess_record *record)
{
    tess_trace_events_args(&d->out);
    tess_trace_events_int(&d->out, "sequence", (int64_t)record->sequence);
    tess_trace_events_int(&d->out, "elements", (int64_t)record->count);
    if (record->dtype < TESS_DTYPE_COUNT)
        tess_trace_events_text(&d->out, "dtype", tess_dtype_name((tess_dtype)record->dtype));
    if (record->root >= 0)
        tess_trace_events_int(&d->out, tess_request_is_message(record) ? "peer" : "root", record->root);
    if (record->what[0] != '\0')
        tess_trace_events_text(&d->out, "for", record->what);
    if (record->site[0] != '\0')
        tess_trace_events_text(&d->out, "site", record->site);
    if (record->step >= 0)
        tess_trace_events_int(&d->out, "step", record->step);
    tess_trace_events_text(&d->out, "state", tess_trace_state_name(record->state));
    tess_trace_events_end(&d->out);
}

static void put_record(drawing *d, int rank, const tess_record *record, const track_place *p)
{
    char wait[64];
    const char *name = tess_trace_op_name(record->op);
    snprintf(wait, sizeof(wait), "wait: %s", name);
    if (p->started_ns > p->begin_ns) {
        put_slice(d, rank, p, p->begin_ns, p->started_ns, wait, p->has_ended ? "bad" : "terrible");
        put_arguments(d, record);
    }
    if (p->end_ns > p->started_ns || p->started_ns == p->begin_ns) {
        put_slice(d, rank, p, p->started_ns, p->end_ns, name, p->has_ended ? "good" : "terrible");
        put_arguments(d, record);
    }
}

/* Draws an arrow from the slice of the last rank to arrive to the slice of a rank that waited long for it. */
static void put_arrow(drawing *d, int rank, const track_place *p, const arrival *last)
{
    if (last == NULL || last->rank == rank || last->tid == 0 || last->last_ns > p->end_ns ||
        last->last_ns < p->begin_ns + shortest_arrow_ns)
        return;
    const struct {
        char kind;
        int rank;
        uint32_t tid;
    } ends[] = {{'s', last->rank, last->tid}, {'f', rank, p->tid}};
    d->n_arrows++;
    for (int i = 0; i < 2; i++) {
        tess_trace_events_begin(&d->out, ends[i].kind, ends[i].rank, ends[i].tid, "came last");
        tess_trace_events_text(&d->out, "cat", "wait");
        tess_trace_events_int(&d->out, "id", d->n_arrows);
        tess_trace_events_time(&d->out, "ts", last->last_ns);
        if (i == 1)
            tess_trace_events_text(&d->out, "bp", "e");
        tess_trace_events_end(&d->out);
    }
}

/* Draws the operations of a rank. Arrows are drawn in a second pass, when the tracks of all slices are known; this
 * pass assigns the same lanes. */
static void draw_records(drawing *d, int rank, bool arrows)
{
    const tess_rank_history *history = &d->history->ranks[rank];
    memset(d->lane_ends, 0, (d->history->n_teams + 1) * LANES * sizeof(*d->lane_ends));
    for (size_t i = 0; i < history->n_records; i++) {
        const tess_record *record = &history->records[i];
        if (!can_be_drawn(record))
            continue;
        track_place p = find_place(d, rank, record);
        arrival *last = last_arrival(d, record);
        if (arrows) {
            put_arrow(d, rank, &p, last);
            continue;
        }
        if (p.fresh_lane)
            put_thread_name(d, rank, &p);
        put_record(d, rank, record, &p);
        if (last != NULL && last->rank == rank)
            last->tid = p.tid;
    }
}

/* ---- Ranks and phases ---- */
static void draw_rank(drawing *d, int rank)
{
    const tess_rank_history *history = &d->history->ranks[rank];
    char text[TESS_HISTORY_LONG_TEXT + 64], place[TESS_PLACE_TEXT];
    tess_place_text(&d->history->places, rank, place, sizeof(place));
    snprintf(text, sizeof(text), "rank %d%s%s%s%s", rank, place[0] != '\0' ? ", " : "", place,
             history->host[0] != '\0' ? " on " : "", history->host);
    put_metadata(d, rank, 0, "process_name", "name", text);
    tess_trace_events_begin(&d->out, 'M', rank, 0, "process_sort_index");
    tess_trace_events_args(&d->out);
    tess_trace_events_int(&d->out, "sort_index", rank);
    tess_trace_events_end(&d->out);
    if (history->situation == TESS_RANK_WELL)
        return;
    snprintf(text, sizeof(text), "%s%s%s", tess_situation_name(history->situation), history->why[0] != '\0' ? ": " : "",
             history->why);
    put_metadata(d, rank, 0, "process_labels", "labels", text);
}

static void draw_spans(drawing *d, int rank)
{
    const tess_rank_history *history = &d->history->ranks[rank];
    if (history->n_spans > 0)
        put_metadata(d, rank, TID_PHASES, "thread_name", "name", "phases");
    for (size_t i = 0; i < history->n_spans; i++) {
        const tess_phase_span *span = &history->spans[i];
        uint64_t begin = on_timeline(d, rank, span->begin_ns);
        uint64_t end = i + 1 < history->n_spans ? on_timeline(d, rank, span[1].begin_ns) : last_moment(d, rank);
        tess_trace_events_begin(&d->out, 'X', rank, TID_PHASES, span->phase);
        tess_trace_events_time(&d->out, "ts", begin);
        tess_trace_events_time(&d->out, "dur", end > begin ? end - begin : 0);
        tess_trace_events_args(&d->out);
        tess_trace_events_int(&d->out, "step", span->step);
        tess_trace_events_int(&d->out, "detail", span->detail);
        tess_trace_events_end(&d->out);
    }
}

/* Draws each notice as an instant event: on the rank's own track, or across all tracks if it concerns the whole job. */
static void draw_notices(drawing *d)
{
    for (int i = 0; i < d->history->n_notices; i++) {
        const tess_notice *notice = &d->history->notices[i];
        uint64_t at_ns = notice->wall_ns + (uint64_t)d->history->wall_offset_ns;
        bool is_rank = notice->rank >= 0 && notice->rank < d->history->world;
        if (at_ns < d->origin_ns)
            continue; /* the notice belongs to an earlier life of the job */
        tess_trace_events_begin(&d->out, 'i', is_rank ? notice->rank : 0, TID_PHASES, tess_notice_name(notice->kind));
        tess_trace_events_text(&d->out, "s", is_rank ? "p" : "g");
        tess_trace_events_time(&d->out, "ts", since(d->origin_ns, at_ns));
        tess_trace_events_args(&d->out);
        tess_trace_events_text(&d->out, "text", notice->text);
        tess_trace_events_int(&d->out, "step", notice->step);
        tess_trace_events_end(&d->out);
    }
}

static tess_status draw(drawing *d)
{
    find_origin(d);
    TESS_TRY(collect_arrivals(d));
    for (int r = 0; r < d->history->world; r++) {
        draw_rank(d, r);
        draw_spans(d, r);
        draw_records(d, r, false);
    }
    for (int r = 0; r < d->history->world; r++)
        draw_records(d, r, true);
    draw_notices(d);
    return TESS_OK;
}

tess_status tess_perfetto_write(const tess_history *history, const char *path)
{
    void *memory;
    drawing d = {.history = history, .arrivals.mem = history->mem};
    TESS_TRY(tess_mem_alloc_array(history->mem, TESS_POOL_MISC, (history->n_teams + 1) * LANES, sizeof(uint64_t),
                                  "timeline", &memory));
    d.lane_ends = memory;
    tess_status status = tess_trace_events_open(&d.out, path);
    if (status == TESS_OK)
        status = tess_trace_events_close(&d.out, draw(&d));
    tess_mem_free(history->mem, d.arrivals.table);
    tess_mem_free(history->mem, memory);
    return status;
}
