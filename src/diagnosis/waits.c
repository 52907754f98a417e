#include "diagnosis/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "diagnosis/view.h"

/* ---- The matrix ---- */
/* Returns the member that came last to `sequence`; -1: not all have come. */
static int last_arriver(const tess_history *history, const tess_team_view *team, uint64_t sequence, uint64_t *last_ns)
{
    int last = -1;
    *last_ns = 0;
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_member_view *member = &team->members[i];
        const tess_record *record = tess_member_at(member, sequence);
        if (record == NULL || record->enqueued_ns == 0)
            return -1;
        uint64_t at_ns = tess_rank_time(history, member->rank, record->enqueued_ns);
        if (last < 0 || at_ns > *last_ns) {
            *last_ns = at_ns;
            last = member->rank;
        }
    }
    return last;
}

static void add_collective(const tess_history *history, const tess_team_view *team, uint64_t sequence,
                           tess_waits *waits)
{
    uint64_t last_ns;
    int last = last_arriver(history, team, sequence, &last_ns);
    if (last < 0)
        return;
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_member_view *member = &team->members[i];
        const tess_record *record = tess_member_at(member, sequence);
        size_t at = (size_t)member->rank * (size_t)waits->world + (size_t)last;
        waits->ns[at] += last_ns - tess_rank_time(history, member->rank, record->enqueued_ns);
    }
    waits->n_collectives++;
}

tess_status tess_waits_find(const tess_history *history, tess_waits *waits)
{
    tess_view view;
    *waits = (tess_waits){.world = history->world};
    TESS_CHECK(history->world <= TESS_WAITS_MAX_RANKS, TESS_E_UNSUPPORTED, "a matrix of %d ranks: at most %d",
               history->world, TESS_WAITS_MAX_RANKS);
    TESS_TRY(tess_view_create(history, &view));
    tess_status status = TESS_NEW(history->mem, (size_t)history->world * (size_t)history->world, "waits", &waits->ns);
    for (size_t t = 0; t < view.n_teams && status == TESS_OK; t++) {
        const tess_member_view *first = &view.teams[t].members[0];
        for (size_t i = 0; i < first->n_records; i++)
            add_collective(history, &view.teams[t], first->records[i]->sequence, waits);
    }
    tess_mem_drop(&view.teams);
    return status;
}

uint64_t tess_waits_for(const tess_waits *waits, int rank)
{
    size_t world = (size_t)waits->world, step = rank < 0 ? 1 : world;
    uint64_t sum = 0;
    for (size_t i = rank < 0 ? 0 : (size_t)rank; i < world * world; i += step)
        sum += waits->ns[i];
    return sum;
}

/* ---- Phases ---- */
const char *const *tess_phase_names(void)
{
    static const char *const names[] = {
#define X(name) name,
        TESS_STRAGGLER_PHASE_LIST(X)
#undef X
            NULL};
    return names;
}

/* Time of a rank in a phase of one step, summed over its spans. */
typedef struct phase_sum {
    double seconds;
    bool found;
} phase_sum;

/* Returns the time in [begin, end) during which an operation of the rank waited for others. Overlapping waits count
 * once. Records are in the order of enqueued_ns; *from advances from span to span. */
static uint64_t waited_inside(const tess_rank_history *rank, uint64_t begin, uint64_t end, size_t *from)
{
    uint64_t covered = begin, waited = 0;
    while (*from < rank->n_records && rank->records[*from].enqueued_ns < begin &&
           rank->records[*from].started_ns <= begin)
        (*from)++;
    for (size_t i = *from; i < rank->n_records && rank->records[i].enqueued_ns < end; i++) {
        uint64_t a = rank->records[i].enqueued_ns, b = rank->records[i].started_ns;
        a = a > covered ? a : covered;
        b = b < end ? b : end;
        if (b > a) {
            waited += b - a;
            covered = b;
        }
    }
    return waited;
}

static phase_sum sum_of_step(const tess_rank_history *rank, const char *phase, int64_t step)
{
    phase_sum sum = {0};
    size_t from = 0;
    for (size_t i = 0; i + 1 < rank->n_spans; i++) {
        const tess_phase_span *span = &rank->spans[i];
        uint64_t end = rank->spans[i + 1].begin_ns;
        if (span->step != step || end <= span->begin_ns || strcmp(span->phase, phase) != 0)
            continue;
        uint64_t waited = waited_inside(rank, span->begin_ns, end, &from);
        sum.seconds += (double)(end - span->begin_ns - waited) * 1e-9;
        sum.found = true;
    }
    return sum;
}

/* Returns the first span of the step, or NULL if there is none. */
static const tess_phase_span *first_of_step(const tess_rank_history *rank, int64_t step)
{
    for (size_t i = 0; i < rank->n_spans; i++)
        if (rank->spans[i].step == step)
            return &rank->spans[i];
    return NULL;
}

/* Returns the share of a step's time in which the rank had a core. It is used for all phases of the step, because
 * the phase of the time without a core is not known. */
static double running_share(const tess_rank_history *rank, int64_t step)
{
    const tess_phase_span *begin = first_of_step(rank, step), *end = first_of_step(rank, step + 1);
    if (begin == NULL || end == NULL || begin->starved_ns == 0 || end->starved_ns <= begin->starved_ns ||
        end->begin_ns <= begin->begin_ns)
        return 1;
    double share = (double)(end->starved_ns - begin->starved_ns) / (double)(end->begin_ns - begin->begin_ns);
    return share < 1 ? 1 - share : 0;
}

/* Writes the times of the step to column `at`. Returns false if a rank was not in the phase. */
static bool fill_step(const tess_history *history, const char *phase, int64_t step, int at, double *seconds)
{
    for (int r = 0; r < history->world; r++) {
        phase_sum sum = sum_of_step(&history->ranks[r], phase, step);
        if (!sum.found)
            return false;
        seconds[(size_t)r * TESS_STRAGGLER_STEPS + (size_t)at] = sum.seconds * running_share(&history->ranks[r], step);
    }
    return true;
}

/* Returns the newest step that all ranks have finished. */
static int64_t newest_step(const tess_history *history)
{
    int64_t newest = INT64_MAX;
    for (int r = 0; r < history->world; r++) {
        const tess_rank_history *rank = &history->ranks[r];
        int64_t last = rank->n_spans > 0 ? rank->spans[rank->n_spans - 1].step - 1 : -1;
        newest = last < newest ? last : newest;
    }
    return newest;
}

bool tess_phase_seconds(const tess_history *history, const char *phase, double *seconds)
{
    enum { MOST_STEPS_BACK = 2000 }; /* large, because checkpoints are hundreds of steps apart */
    int at = TESS_STRAGGLER_STEPS;
    int64_t newest = newest_step(history);
    for (int64_t step = newest; step >= 0 && newest - step < MOST_STEPS_BACK && at > 0; step--)
        if (fill_step(history, phase, step, at - 1, seconds))
            at--;
    return at == 0;
}
