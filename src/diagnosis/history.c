#include "diagnosis/history.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "trace/label.h"

const char *tess_situation_name(tess_situation situation)
{
    static const char *const names[] = {
#define X(name, text) [name] = text,
        TESS_SITUATION_LIST(X)
#undef X
    };
    return situation < TESS_SITUATION_COUNT ? names[situation] : "unknown";
}

tess_situation tess_situation_find(const char *name, tess_situation otherwise)
{
    for (int s = 0; s < TESS_SITUATION_COUNT; s++)
        if (strcmp(name, tess_situation_name((tess_situation)s)) == 0)
            return (tess_situation)s;
    return otherwise;
}

const char *tess_history_source_name(tess_history_source source)
{
    static const char *const names[] = {
        [TESS_HISTORY_RINGS] = "rings", [TESS_HISTORY_LIVE] = "live", [TESS_HISTORY_PYTORCH] = "pytorch"};
    return names[source];
}

/* Makes room for one more element. Capacities are powers of two. */
static tess_status grow(tess_history *history, void **array, size_t n, size_t element)
{
    if (n == 0)
        return tess_scope_alloc(tess_scope_of(history), TESS_POOL_MISC, 1, element, "history", array);
    return (n & (n - 1)) != 0 ? TESS_OK
                              : tess_mem_grow(history->mem, TESS_POOL_MISC, 2 * n * element, "history", array);
}

tess_status tess_history_create(tess_mem *mem, tess_history_source source, int world, tess_history **out)
{
    TESS_AUTO(tess_history_destroy) tess_history *history = NULL;
    *out = NULL;
    TESS_CHECK(world >= 1 && world <= TESS_HISTORY_MAX_RANKS, TESS_E_INVALID, "a job of %d ranks: 1 to %d are possible",
               world, TESS_HISTORY_MAX_RANKS);
    TESS_TRY(TESS_NEW(mem, 1, "history", &history));
    *history = (tess_history){.mem = mem, .source = source, .world = world};
    TESS_TRY(TESS_PART(history, world, "history", &history->ranks));
    *out = TESS_GIVE(history);
    return TESS_OK;
}

void tess_history_destroy(tess_history **handle)
{
    tess_history *history = *handle;
    int n = history != NULL && history->ranks != NULL ? history->world : 0;
    for (int r = 0; r < n; r++) { /* a reader of dumps fills these in, and its blocks are no parts of the history */
        tess_mem_free(history->mem, history->ranks[r].records);
        tess_mem_free(history->mem, history->ranks[r].spans);
    }
    tess_mem_drop(handle);
}

void tess_history_note_damage(tess_history *history, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    for (char *at = line; *at != '\0'; at++)
        *at = (unsigned char)*at < ' ' ? '?' : *at;
    size_t n = strlen(history->damage), size = sizeof(history->damage);
    if (n + 1 + strlen(line) < size)
        snprintf(history->damage + n, size - n, "%s%s", n > 0 ? "\n" : "", line);
}

tess_status tess_history_add_notices(tess_history *history, const tess_notice *notices, int n, uint64_t n_reported)
{
    tess_notice *all;
    int a = 0, b = 0, n_old = history->n_notices;
    if (n == 0)
        return TESS_OK;
    TESS_TRY(TESS_PART(history, n_old + n, "notices", &all));
    while (a < n_old || b < n) {
        bool old = b == n || (a < n_old && history->notices[a].wall_ns <= notices[b].wall_ns);
        all[a + b] = old ? history->notices[a] : notices[b];
        a += old;
        b += !old;
    }
    tess_mem_free(history->mem, history->notices);
    history->notices = all;
    history->n_notices = n_old + n;
    history->n_reported += n_reported > (uint64_t)n ? n_reported : (uint64_t)n;
    return TESS_OK;
}

tess_status tess_history_add_record(tess_history *history, int rank, const tess_record *record)
{
    tess_rank_history *r = &history->ranks[rank];
    TESS_TRY(grow(history, (void **)&r->records, r->n_records, sizeof(*record)));
    r->records[r->n_records++] = *record;
    return TESS_OK;
}

tess_status tess_history_add_span(tess_history *history, int rank, const tess_phase_span *span)
{
    tess_rank_history *r = &history->ranks[rank];
    TESS_TRY(grow(history, (void **)&r->spans, r->n_spans, sizeof(*span)));
    r->spans[r->n_spans++] = *span;
    return TESS_OK;
}

size_t tess_history_team_index(const tess_history *history, uint64_t hash)
{
    size_t t = 0;
    while (t < history->n_teams && history->teams[t].hash != hash)
        t++;
    return t;
}

const tess_team_history *tess_history_team(const tess_history *history, uint64_t hash)
{
    size_t t = tess_history_team_index(history, hash);
    return t < history->n_teams ? &history->teams[t] : NULL;
}

int tess_team_place(const tess_team_history *team, int rank)
{
    for (int i = 0; i < team->n_ranks; i++)
        if (team->ranks[i] == rank)
            return i;
    return -1;
}

static tess_status add_team(tess_history *history, uint64_t hash, const char *name, int n_ranks)
{
    int *ranks;
    TESS_TRY(grow(history, (void **)&history->teams, history->n_teams, sizeof(*history->teams)));
    TESS_TRY(TESS_PART(history, n_ranks, "history", &ranks));
    tess_team_history *team = &history->teams[history->n_teams++];
    *team = (tess_team_history){.hash = hash, .ranks = ranks, .n_ranks = n_ranks};
    snprintf(team->name, sizeof(team->name), "%s", name);
    for (int i = 0; i < n_ranks; i++)
        team->ranks[i] = -1;
    return TESS_OK;
}

tess_status tess_history_add_member(tess_history *history, uint64_t hash, const char *name, int n_ranks, int position,
                                    int rank)
{
    TESS_CHECK(n_ranks >= 1 && n_ranks <= history->world && position >= 0 && position < n_ranks, TESS_E_FORMAT,
               "team '%s': member %d of %d in a job of %d ranks", name, position, n_ranks, history->world);
    size_t t = tess_history_team_index(history, hash);
    if (t == history->n_teams)
        TESS_TRY(add_team(history, hash, name, n_ranks));
    tess_team_history *team = &history->teams[t];
    TESS_CHECK(position < team->n_ranks, TESS_E_FORMAT, "team '%s': rank %d says that it has %d members, others %d",
               name, rank, n_ranks, team->n_ranks);
    team->ranks[position] = rank;
    return TESS_OK;
}

/* Lists the ranks without a team, in ascending order. */
static int find_teamless(const tess_history *history, bool *has_team, int *ranks)
{
    int n = 0;
    for (size_t t = 0; t < history->n_teams; t++)
        for (int i = 0; i < history->teams[t].n_ranks; i++)
            if (history->teams[t].ranks[i] >= 0)
                has_team[history->teams[t].ranks[i]] = true;
    for (int r = 0; r < history->world; r++)
        if (!has_team[r])
            ranks[n++] = r;
    return n;
}

static void fill_team(tess_team_history *team, const int *ranks, int n)
{
    int n_unknown = 0;
    for (int i = 0; i < team->n_ranks; i++)
        n_unknown += team->ranks[i] < 0;
    if (n_unknown != n)
        return;
    for (int i = 0, k = 0; i < team->n_ranks; i++)
        if (team->ranks[i] < 0)
            team->ranks[i] = ranks[k++];
}

tess_status tess_history_infer_members(tess_history *history)
{
    size_t world = (size_t)history->world;
    TESS_AUTO(tess_mem_drop) bool *has_team = NULL;
    TESS_AUTO(tess_mem_drop) int *ranks = NULL;
    TESS_TRY(TESS_NEW(history->mem, world, "history", &has_team));
    TESS_TRY(TESS_NEW(history->mem, world, "history", &ranks));
    int n = find_teamless(history, has_team, ranks);
    for (size_t t = 0; t < history->n_teams && n > 0; t++)
        fill_team(&history->teams[t], ranks, n);
    return TESS_OK;
}

static tess_record record_of(const tess_trace_event *event)
{
    tess_record record = {.team = event->team,
                          .sequence = event->sequence,
                          .count = event->count,
                          .tag = event->tag,
                          .label = event->label,
                          .call_site = event->call_site,
                          .enqueued_ns = event->time_ns,
                          .started_ns = event->started_ns,
                          .completed_ns = event->completed_ns,
                          .step = event->step,
                          .detail = event->detail,
                          .root = event->root,
                          .op = event->op,
                          .state = event->state,
                          .dtype = event->dtype,
                          .in_dtype = event->in_dtype,
                          .reduce_op = event->reduce_op};
    snprintf(record.phase, sizeof(record.phase), "%.*s", TESS_TRACE_PHASE_BYTES - 1, event->phase);
    tess_label_text(event->label, record.what, sizeof(record.what));
    return record;
}

tess_status tess_history_add_events(tess_history *history, int rank, const tess_trace_event *events, size_t n)
{
    tess_rank_history *r = &history->ranks[rank];
    for (size_t i = 0; i < n; i++) {
        const tess_trace_event *event = &events[i];
        const uint64_t times[] = {event->time_ns, event->started_ns, event->completed_ns};
        for (int t = 0; t < 3; t++)
            r->last_ns = times[t] > r->last_ns ? times[t] : r->last_ns;
        if (event->op == TESS_TRACE_PHASE) {
            tess_phase_span span = {
                .begin_ns = event->time_ns, .starved_ns = event->count, .step = event->step, .detail = event->detail};
            snprintf(span.phase, sizeof(span.phase), "%.*s", TESS_TRACE_PHASE_BYTES - 1, event->phase);
            TESS_TRY(tess_history_add_span(history, rank, &span));
        } else if (event->op != TESS_TRACE_NONE) {
            tess_record record = record_of(event);
            TESS_TRY(tess_history_add_record(history, rank, &record));
        }
    }
    return TESS_OK;
}
