/* Converts collectives that timed out and processes that ended into a history. tess_diagnosis_find then finds the
 * rank to blame, as it does for live jobs, rings and dumps.
 *
 * Logs hold less than those. They name a process group, but do not list its members, so members are inferred. A rank
 * is a member if its own lines say so. A rank whose lines do not mention a timeout is a member only if few such
 * ranks face many that wait. A rank without any line is a member only if it is the only absent rank and the number
 * of ranks is known. If these are not all ranks, one more member, of unknown rank, is counted: the others may wait
 * for it. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/rng.h"
#include "diagnosis/root_cause.h"
#include "diagnosis/majority.h"
#include "doctor/log/log_impl.h"

enum { MOST_ELAPSED_MS = 1 << 30 };

typedef struct history_builder {
    log_blame *blame;
    tess_history *history;
    uint64_t *teams; /* (n_ranks) team of the collective that the rank waits in or may be missing from; 0: not known */
    uint64_t team;   /* team of blame->usual */
} history_builder;

/* ---- Collectives ---- */
/* Whether two names may be equal: an unknown name ("") of a group or operation may be any name. */
static bool fits(const char *a, const char *b)
{
    return a[0] == '\0' || b[0] == '\0' || strcmp(a, b) == 0;
}

/* Whether the progress belongs to the group of `work`: sequence numbers of other groups cannot be compared. */
static bool is_about(const log_progress *progress, const log_work *work)
{
    return progress->group[0] == '\0' || strcmp(progress->group, work->group) == 0;
}

/* Whether two numbers of elements may be equal: a line that is cut off has lost its number. */
static bool count_fits(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a == b;
}

static bool same_work(const log_work *a, const log_work *b)
{
    bool counts_fit = a->op[0] == '\0' || b->op[0] == '\0' ||
                      (count_fits(a->numel_in, b->numel_in) && count_fits(a->numel_out, b->numel_out));
    return a->sequence == b->sequence && fits(a->op, b->op) && counts_fit && fits(a->group, b->group);
}

static bool works_alike(const void *ranks, int a, int b)
{
    const log_rank *x = (const log_rank *)ranks + a, *y = (const log_rank *)ranks + b;
    return x->waits && y->waits && same_work(&x->work, &y->work);
}

/* Whether the operation is a message. The two sides of a message have different names and may have different
 * numbers. */
static bool is_message(const log_work *work)
{
    return strcasecmp(work->op, "SEND") == 0 || strcasecmp(work->op, "RECV") == 0 ||
           strcasecmp(work->op, "COALESCED") == 0;
}

static const log_rank *rank_at(const log_blame *b, int rank)
{
    static const log_rank unseen;
    return rank < b->survey->n_ranks ? &b->survey->ranks[rank] : &unseen;
}

/* ---- Sides and members ---- */
static uint64_t team_of_group(const char *group)
{
    return tess_hash_bytes(group, strlen(group), 1) | 1;
}

static uint64_t team_of_work(const history_builder *h, const log_work *work)
{
    const log_work *usual = h->blame->usual;
    if (is_message(work))
        return 0;
    if (work->group[0] != '\0')
        return team_of_group(work->group);
    return work->sequence == usual->sequence ? h->team : 0;
}

/* Returns the side of a rank that does not wait, relative to blame->usual. */
static unsigned side_of_others(const log_blame *b, const log_rank *rank)
{
    const log_progress *progress = &rank->progress;
    if (rank->has_progress && is_about(progress, b->usual)) {
        if (progress->enqueued < b->usual->sequence)
            return LOG_SIDE_OUTSIDE;
        if (progress->completed < b->usual->sequence)
            return LOG_SIDE_WAITS | LOG_SIDE_QUEUED;
    }
    if (rank->is_cut)
        return LOG_SIDE_CUT;
    return rank->seen ? LOG_SIDE_SILENT : LOG_SIDE_UNSEEN;
}

static void find_sides(history_builder *h)
{
    log_blame *b = h->blame;
    for (int r = 0; r < b->n_ranks; r++) {
        const log_rank *rank = rank_at(b, r);
        b->sides[r] = rank->waits ? LOG_SIDE_WAITS : side_of_others(b, rank);
        if (rank->waits) {
            h->teams[r] = team_of_work(h, &rank->work);
            b->sides[r] |= same_work(&rank->work, b->usual) ? LOG_SIDE_IN_IT : 0;
            b->sides[r] |= h->teams[r] != h->team ? LOG_SIDE_OTHER_GROUP : 0;
        } else if (b->sides[r] & (LOG_SIDE_OUTSIDE | LOG_SIDE_QUEUED)) {
            h->teams[r] = h->team;
        }
    }
}

/* Whether a silent rank's lines are about another group: it may then not be a member of this group. */
static bool any_speaks_of_another(const log_blame *b)
{
    for (int r = 0; r < b->survey->n_ranks; r++)
        if (b->sides[r] & LOG_SIDE_SILENT && b->survey->ranks[r].has_progress &&
            !is_about(&b->survey->ranks[r].progress, b->usual))
            return true;
    return false;
}

/* Adds silent and unseen ranks to the team, under the conditions at the top of this file. */
static void find_absent_members(history_builder *h)
{
    log_blame *b = h->blame;
    int n_silent = log_count_sides(b, LOG_SIDE_SILENT), n_unseen = log_count_sides(b, LOG_SIDE_UNSEEN);
    bool few = n_silent + n_unseen < log_count_sides(b, LOG_SIDE_WAITS);
    bool sure = n_unseen == 0 || (n_silent + n_unseen == 1 && b->world_known);
    if (b->survey->leaves_out || b->survey->is_cut_off || !few || !sure || any_speaks_of_another(b) ||
        log_count_sides(b, LOG_SIDE_OTHER_GROUP | LOG_SIDE_OUTSIDE) > 0)
        return;
    for (int r = 0; r < b->n_ranks; r++)
        if (b->sides[r] & (LOG_SIDE_SILENT | LOG_SIDE_UNSEEN))
            h->teams[r] = h->team;
}

/* Counts the members of a team. The number is needed before the first member is added. */
static int count_members(const history_builder *h, uint64_t team)
{
    int n = 0;
    for (int r = 0; r < h->blame->n_ranks; r++)
        n += h->teams[r] == team;
    return n;
}

static tess_status add_members(history_builder *h)
{
    for (int r = 0; r < h->blame->n_ranks; r++) {
        uint64_t team = h->teams[r];
        int position = 0, n;
        if (team == 0 || tess_history_team(h->history, team) != NULL)
            continue;
        n = count_members(h, team);
        bool is_whole = n == h->history->world || (h->blame->world_known && n == h->blame->n_ranks);
        for (int m = r; m < h->blame->n_ranks; m++)
            if (h->teams[m] == team)
                TESS_TRY(tess_history_add_member(h->history, team, "", n + !is_whole, position++, m));
    }
    return TESS_OK;
}

/* ---- Records ---- */
/* Returns a record. Logs of several hosts have no common clock, so the record only holds how long the rank waited. */
static tess_record record_of(const history_builder *h, const log_work *work, uint64_t team, tess_trace_state state)
{
    int64_t elapsed_ms = work->elapsed_ms > 0 ? work->elapsed_ms : work->timeout_ms;
    uint64_t ns = (uint64_t)(elapsed_ms < 0                 ? 0
                             : elapsed_ms < MOST_ELAPSED_MS ? elapsed_ms
                                                            : MOST_ELAPSED_MS) *
                  1000000;
    const int64_t counts[2] = {work->numel_in, work->numel_out};
    tess_record record = {.team = team,
                          .sequence = (uint64_t)(work->sequence < 0 ? 0 : work->sequence),
                          .count = work->numel_in > 0 ? (uint64_t)work->numel_in : 0,
                          .tag =
                              tess_hash_bytes(counts, sizeof(counts), tess_hash_bytes(work->op, strlen(work->op), 0)),
                          .enqueued_ns = h->history->now_ns - ns,
                          .step = -1,
                          .root = -1,
                          .op = TESS_TRACE_OTHER,
                          .state = (uint8_t)state,
                          .dtype = TESS_DTYPE_COUNT,
                          .in_dtype = TESS_DTYPE_COUNT,
                          .reduce_op = 255};
    snprintf(record.what, sizeof(record.what), "%.31s", work->op);
    return record;
}

/* Returns the collective that other ranks of the team wait in at this sequence number, or NULL if none waits there. */
static const log_work *work_at(const history_builder *h, uint64_t team, int64_t sequence)
{
    for (int r = 0; r < h->blame->survey->n_ranks; r++) {
        const log_rank *rank = &h->blame->survey->ranks[r];
        if (rank->waits && h->teams[r] == team && rank->work.sequence == sequence && rank->work.op[0] != '\0')
            return &rank->work;
    }
    return NULL;
}

/* Returns the last collective of blame->usual's group that the rank reports as completed; -1: none. */
static int64_t completed_by(const log_blame *b, const log_rank *rank)
{
    int64_t completed = -1;
    if (rank->waits && rank->work.is_oldest)
        completed = rank->work.sequence - 1;
    else if (rank->has_progress && is_about(&rank->progress, b->usual))
        completed = rank->progress.completed;
    return rank->waits && completed >= rank->work.sequence ? -1 : completed;
}

/* Adds the last collective that any member has completed: no member is missing from it or from earlier ones. */
static tess_status add_completed(history_builder *h)
{
    const log_blame *b = h->blame;
    int farthest = -1;
    int64_t sequence = -1;
    for (int r = 0; r < b->survey->n_ranks; r++) {
        int64_t completed = h->teams[r] == h->team ? completed_by(b, &b->survey->ranks[r]) : -1;
        if (completed <= sequence)
            continue;
        sequence = completed;
        farthest = r;
    }
    if (farthest < 0)
        return TESS_OK;
    const log_work *known = work_at(h, h->team, sequence);
    log_work work = known != NULL ? *known : (log_work){.numel_in = -1, .numel_out = -1};
    work.sequence = sequence;
    work.elapsed_ms = MOST_ELAPSED_MS; /* longer than any wait: it is older than the open collectives */
    tess_record record = record_of(h, &work, h->team, TESS_TRACE_COMPLETED);
    record.completed_ns = record.enqueued_ns + 1;
    return tess_history_add_record(h->history, farthest, &record);
}

static tess_status add_records(history_builder *h)
{
    const log_blame *b = h->blame;
    TESS_TRY(add_completed(h));
    for (int r = 0; r < b->survey->n_ranks; r++) {
        const log_rank *rank = &b->survey->ranks[r];
        h->history->ranks[r].present = rank->seen || rank->waits || rank->has_progress;
        if ((b->sides[r] & LOG_SIDE_WAITS) == 0 || h->teams[r] == 0)
            continue;
        bool is_usual = !rank->waits || (h->teams[r] == h->team && same_work(&rank->work, b->usual));
        tess_record record = record_of(h, is_usual ? b->usual : &rank->work, h->teams[r], TESS_TRACE_ENQUEUED);
        TESS_TRY(tess_history_add_record(h->history, r, &record));
    }
    return TESS_OK;
}

/* ---- Ends ---- */
/* Whether the process had ended before any rank timed out, and well before the ranks began to wait. The job
 * continued after such an end. */
static bool ended_before_waits(const tess_survey *survey, const log_failure *failure)
{
    static const double stale_s = 3600;
    bool timed = false;
    for (int r = 0; r < survey->n_ranks; r++) {
        const log_rank *rank = &survey->ranks[r];
        if (!rank->waits || rank->time_s < 0)
            continue;
        double elapsed_s = rank->work.elapsed_ms > 0 ? (double)rank->work.elapsed_ms * 1e-3 : 0;
        if (failure->time_s >= rank->time_s || failure->time_s < rank->time_s - elapsed_s - stale_s)
            return false;
        timed = true;
    }
    return timed;
}

/* Adds the ends of the processes in torchrun's table, except for ranks that wait: they ended because of the wait. */
static void add_ends(history_builder *h)
{
    const tess_survey *survey = h->blame->survey;
    for (int i = 0; i < survey->n_failures; i++) {
        const log_failure *failure = &survey->failures[i];
        tess_rank_history *rank = &h->history->ranks[failure->rank];
        tess_end end = log_end_of(failure);
        if (failure->is_local || failure->time_s < 0 || (h->blame->sides[failure->rank] & LOG_SIDE_WAITS) != 0 ||
            rank->ended || !ended_before_waits(survey, failure))
            continue;
        rank->present = rank->ended = true;
        rank->asked = end.may_be_asked;
        rank->signal = end.signal;
        rank->exit_code = end.signal == 0 ? failure->code : 0;
        rank->ended_ns = end.at_ns;
    }
}

static tess_status build(history_builder *h)
{
    const log_blame *b = h->blame;
    /* one more for a member of unknown rank */
    int world = b->n_ranks < TESS_HISTORY_MAX_RANKS ? b->n_ranks + 1 : b->n_ranks;
    TESS_TRY(tess_history_create(b->survey->mem, TESS_HISTORY_PYTORCH, world, &h->history));
    h->history->now_ns = (uint64_t)(MOST_ELAPSED_MS + 1LL) * 1000000;
    find_absent_members(h);
    TESS_TRY(add_members(h));
    TESS_TRY(add_records(h));
    add_ends(h);
    return TESS_OK;
}

/* ---- The diagnosis in terms of the logs ---- */
static void conclude(log_blame *b, tess_log_kind kind, tess_report_id headline, tess_report_id evidence)
{
    b->kind = kind;
    b->headline = headline;
    b->evidence = evidence;
}

/* Whether the lines of the ranks that wait elsewhere name another group than the usual one. */
static bool names_groups(const log_blame *b)
{
    for (int r = 0; r < b->n_ranks && r < b->survey->n_ranks; r++) {
        const log_work *work = &b->survey->ranks[r].work;
        if ((b->sides[r] & LOG_SIDE_OTHER_GROUP) != 0 && fits(work->group, b->usual->group))
            return false;
    }
    return true;
}

static void conclude_without_culprit(log_blame *b)
{
    b->n_culprits = 0;
    if (log_count_sides(b, LOG_SIDE_OTHER_GROUP) > 0)
        conclude(b, TESS_LOG_ONE_SIDED, names_groups(b) ? TESS_REPORT_GROUPS : TESS_REPORT_APART,
                 TESS_REPORT_NO_MEMBERS);
    else if (log_count_sides(b, LOG_SIDE_ABSENT) > 0)
        conclude(b, TESS_LOG_ONE_SIDED, TESS_REPORT_SOMEBODY_MISSING, TESS_REPORT_NO_TIMEOUT_OF);
    else if (b->world_known && log_count_sides(b, LOG_SIDE_CUT) == 0)
        conclude(b, TESS_LOG_ALL_WAITED, TESS_REPORT_ALL_WAITED, TESS_REPORT_NONE);
    else
        conclude(b, TESS_LOG_ONE_SIDED, TESS_REPORT_ALL_SEEN_WAITED, TESS_REPORT_NONE);
}

static void conclude_by(log_blame *b, const tess_diagnosis *d)
{
    bool contradict = d->kind >= TESS_DIAGNOSIS_MISMATCH_OP && d->kind <= TESS_DIAGNOSIS_ORDER;
    if (d->n_ranks == 0 || !(contradict || d->kind == TESS_DIAGNOSIS_MISSING || d->kind == TESS_DIAGNOSIS_LOST)) {
        conclude_without_culprit(b);
        return;
    }
    for (int i = 0; i < d->n_ranks && b->n_culprits < TESS_LOG_MOST_CULPRITS; i++)
        b->culprits[b->n_culprits++] = d->ranks[i];
    for (int i = 0; i < d->n_ranks; i++)
        b->sides[d->ranks[i]] |= LOG_SIDE_CULPRIT;
    b->tie = d->tie;
    const log_rank *first = rank_at(b, b->culprits[0]);
    bool is_elsewhere = first->waits && first->work.sequence != b->usual->sequence;
    if (is_elsewhere)
        conclude(b, TESS_LOG_MISMATCH, TESS_REPORT_DIFFERENT, TESS_REPORT_OTHER_PLACE);
    else if (d->kind == TESS_DIAGNOSIS_EXTRA && log_count_sides(b, LOG_SIDE_OUTSIDE) > 0)
        conclude(b, TESS_LOG_MISMATCH, TESS_REPORT_ONE_MORE, TESS_REPORT_NONE);
    else if (contradict)
        conclude(b, TESS_LOG_MISMATCH, TESS_REPORT_DIFFERENT, TESS_REPORT_SAME_PLACE);
    else
        conclude(b, TESS_LOG_MISSING, TESS_REPORT_NEVER_JOINED, TESS_REPORT_NONE);
}

static tess_status judge(log_blame *b, history_builder *h)
{
    tess_diagnosis diagnosis;
    TESS_TRY(build(h));
    TESS_TRY(tess_diagnosis_find(h->history, 0, &diagnosis));
    conclude_by(b, &diagnosis);
    tess_diagnosis_free(h->history, &diagnosis);
    return TESS_OK;
}

static int count_alike(const tess_survey *survey, int rank)
{
    int n = 0;
    for (int r = 0; r < survey->n_ranks; r++)
        n += works_alike(survey->ranks, rank, r);
    return n;
}

/* Returns a rank in the collective that most ranks wait in; -1: no rank waits. If several groups of ranks are
 * equally large, it takes the one that is farthest, because tess_diagnosis_find blames the ranks that are behind. If
 * they are equally far, tess_diagnosis_find blames the group of the lowest rank, so the other group is the usual
 * one. */
static int find_usual(const tess_survey *survey)
{
    tess_majority majority = tess_majority_find(works_alike, survey->ranks, survey->n_ranks);
    int usual = majority.first;
    for (int r = majority.first + 1; majority.tie && r < survey->n_ranks; r++) {
        const log_work *work = &survey->ranks[r].work, *best = &survey->ranks[usual].work;
        bool is_farther =
            work->sequence > best->sequence || (work->sequence == best->sequence && usual == majority.first);
        if (survey->ranks[r].waits && is_farther && fits(work->group, best->group) &&
            !works_alike(survey->ranks, usual, r) && count_alike(survey, r) == majority.n)
            usual = r;
    }
    return usual;
}

/* Returns the name of the group that `rank` waits in, from its own lines or from those of other ranks in the same
 * collective; "": not known. */
static const char *name_group(const tess_survey *survey, int rank)
{
    const char *group = survey->ranks[rank].work.group;
    for (int r = 0; r < survey->n_ranks && group[0] == '\0'; r++)
        if (works_alike(survey->ranks, rank, r))
            group = survey->ranks[r].work.group;
    return group;
}

tess_status log_blame_find(const tess_survey *survey, int n_ranks, bool world_known, log_blame *b)
{
    history_builder h = {.blame = b};
    *b = (log_blame){.survey = survey, .n_ranks = n_ranks, .world_known = world_known};
    int first = find_usual(survey);
    if (first < 0)
        return TESS_OK;
    b->usual = &survey->ranks[first].work;
    h.team = team_of_group(name_group(survey, first));
    TESS_TRY(TESS_NEW(survey->mem, n_ranks, "ranks of a log", &b->sides));
    tess_status status = TESS_NEW(survey->mem, n_ranks, "ranks of a log", &h.teams);
    if (status == TESS_OK) {
        find_sides(&h);
        status = judge(b, &h);
    }
    tess_history_destroy(&h.history);
    tess_mem_free(survey->mem, h.teams);
    return status;
}

void log_blame_free(log_blame *b)
{
    tess_mem_free(b->survey->mem, b->sides);
    b->sides = NULL;
}

int log_count_sides(const log_blame *b, unsigned sides)
{
    int n = 0;
    for (int r = 0; b->sides != NULL && r < b->n_ranks; r++)
        n += (b->sides[r] & sides) != 0;
    return n;
}
