#include "comm/rehearsal/rehearsal.h"

#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "comm/comm_impl.h"
#include "comm/rehearsal/rehearsal_messages.h"
#include "diagnosis/sentence.h"

enum { COUNTED = 2 }; /* flag of a line that holds a count (tess_rehearsal_count); no operation has it */

struct tess_rehearsal {
    tess_team *whole;
    int group;
    const char *counted; /* noun of the line with the flag COUNTED; NULL: there is no such line */
    tess_fingerprint *lines;
    size_t n, room;
    tess_status (*submit)(tess_work *work, tess_work **handle); /* submit hook that was set before the rehearsal */
};

static tess_status add(tess_runtime *rt, const tess_fingerprint *line)
{
    struct tess_rehearsal *rehearsal = rt->rehearsal;
    TESS_TRY(tess_mem_make_room(rt->mem, TESS_POOL_MISC, rehearsal->n, sizeof(*line), "rehearsed collectives",
                                &rehearsal->room, &rehearsal->lines));
    rehearsal->lines[rehearsal->n++] = *line;
    return TESS_OK;
}

/* The submit hook during a rehearsal: records the work and completes it. */
static tess_status record_work(tess_work *work, tess_work **handle)
{
    if (work->fp.kind >= TESS_TRACE_TEAM_SPLIT)
        return tess_work_post(work, handle);
    work->status = add(work->team->runtime, &work->fp);
    return tess_work_pretend(work, handle);
}

tess_status tess_rehearsal_begin(tess_team *whole)
{
    void *memory;
    tess_runtime *rt = whole->runtime;
    TESS_TRY(tess_mem_alloc(rt->mem, TESS_POOL_MISC, sizeof(struct tess_rehearsal), "rehearsal", &memory));
    rt->rehearsal = memory;
    *rt->rehearsal = (struct tess_rehearsal){.whole = whole, .submit = rt->submit};
    rt->submit = record_work;
    return TESS_OK;
}

tess_status tess_rehearsal_count(tess_runtime *rt, const char *what, int64_t number)
{
    tess_fingerprint line = {
        .team = rt->rehearsal->whole->hash, .root = -1, .count = (uint64_t)number, .flags = COUNTED};
    rt->rehearsal->counted = what;
    return add(rt, &line);
}

void tess_rehearsal_group(tess_runtime *rt, int group)
{
    rt->rehearsal->group = group;
}

void tess_rehearsal_drop(tess_runtime *rt)
{
    rt->submit = rt->rehearsal->submit;
    tess_mem_free(rt->mem, rt->rehearsal->lines);
    tess_mem_free(rt->mem, rt->rehearsal);
    rt->rehearsal = NULL;
}

/* ---- The first difference of rehearsals ---- */
/* One line of the rehearsals of all ranks that must agree on it. */
typedef struct camp_lines {
    tess_fingerprint *lines;
    int *ranks, n; /* team of all ranks of the job */
} camp_lines;

/* Scratch memory for comparisons, in one block. Each array has one element for each rank of the job. */
typedef struct rehearsal_room {
    tess_fingerprint *all; /* the same line of every member */
    camp_lines alike;
    uint64_t *hashes;
    int *groups, *given; /* group of each rank of the job; group of each member of `whole` */
    int *listed;
} rehearsal_room;

static tess_status make_room(tess_mem *mem, int world, rehearsal_room *room)
{
    const size_t n = (size_t)world;
    void *memory;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, n,
                                  2 * sizeof(tess_fingerprint) + sizeof(uint64_t) + 4 * sizeof(int),
                                  "comparison of rehearsals", &memory));
    room->all = memory;
    room->alike.lines = room->all + n;
    room->hashes = (uint64_t *)(room->alike.lines + n);
    room->groups = (int *)(room->hashes + n);
    room->given = room->groups + n;
    room->alike.ranks = room->given + n;
    room->listed = room->alike.ranks + n;
    return TESS_OK;
}

/* The ranks that must rehearse the same calls: all members of a team, or the members that belong to one group. */
typedef struct rehearsal_view {
    rehearsal_room *room;
    tess_team *team;
    const int *groups; /* group of each rank of the job; NULL: one group */
    tess_fingerprint *lines;
    size_t n;
} rehearsal_view;

static int group_of(const rehearsal_view *v, int member)
{
    return v->groups != NULL ? v->groups[v->team->ranks[member]] : 0;
}

/* Returns the first member in the group of `member`. */
static int first_alike(const rehearsal_view *v, int member)
{
    int first = 0;
    while (group_of(v, first) != group_of(v, member))
        first++;
    return first;
}

static tess_team *team_of(const tess_runtime *rt, uint64_t hash)
{
    tess_team *team = rt->teams;
    while (team != NULL && team->hash != hash)
        team = team->next;
    return team != NULL ? team : rt->rehearsal->whole;
}

/* Reduces a line to what all ranks must share: the order in which they use their teams. Arguments of a call on a
 * smaller team concern only its members, because shards differ in size. Teams of replicas share a name, but not a
 * hash. */
static tess_fingerprint seen_by_all(const tess_runtime *rt, const tess_fingerprint *line)
{
    const tess_team *team = team_of(rt, line->team);
    if (team->size == rt->rehearsal->whole->size)
        return *line;
    return (tess_fingerprint){.team = tess_hash_text(team->name), .root = -1, .kind = line->kind, .label = line->label};
}

static void add_line(rehearsal_view *v, tess_fingerprint line)
{
    line.sequence = v->n;
    v->lines[v->n++] = line;
}

/* Lists all calls, as the order in which teams are used. */
static void view_order(const tess_runtime *rt, const int *groups, rehearsal_view *v)
{
    *v = (rehearsal_view){.room = v->room, .team = rt->rehearsal->whole, .groups = groups, .lines = v->lines};
    for (size_t i = 0; i < rt->rehearsal->n; i++)
        add_line(v, seen_by_all(rt, &rt->rehearsal->lines[i]));
}

/* Lists the calls on one team: either its messages or everything else. */
static void view_team(const tess_runtime *rt, tess_team *team, bool messages, rehearsal_view *v)
{
    *v = (rehearsal_view){.room = v->room, .team = team, .lines = v->lines};
    for (size_t i = 0; i < rt->rehearsal->n; i++) {
        const tess_fingerprint *line = &rt->rehearsal->lines[i];
        bool is_message = line->kind == TESS_TRACE_SEND || line->kind == TESS_TRACE_RECV;
        if (line->team == team->hash && is_message == messages)
            add_line(v, *line);
    }
}

/* Hashes the first `n` lines without call sites, because ranks may make the same calls from different places. */
static uint64_t hash_of(const rehearsal_view *v, size_t n)
{
    uint64_t hash = v->n < n ? v->n : n;
    for (size_t i = 0; i < n && i < v->n; i++) {
        tess_fingerprint line = v->lines[i];
        line.call_site = 0;
        hash = tess_hash_bytes(&line, sizeof(line), hash);
    }
    return hash;
}

static tess_status are_equal(const rehearsal_view *v, size_t n, bool *equal)
{
    uint64_t mine = hash_of(v, n), *all = v->room->hashes;
    TESS_TRY(tess_all_gather(v->team, &mine, all, 1, TESS_I64, NULL));
    *equal = true;
    for (int r = 1; r < v->team->size; r++)
        *equal = *equal && all[r] == all[first_alike(v, r)];
    return TESS_OK;
}

/* Finds by bisection the first line that differs between members. The first `equal` lines agree, and the first
 * `differ` do not. */
static tess_status find_difference(const rehearsal_view *v, size_t *line)
{
    int64_t longest = (int64_t)v->n;
    TESS_TRY(tess_all_reduce(v->team, &longest, &longest, 1, TESS_I64, TESS_MAX, NULL));
    size_t equal = 0, differ = (size_t)longest;
    while (differ - equal > 1) {
        size_t middle = (equal + differ) / 2;
        bool same;
        TESS_TRY(are_equal(v, middle, &same));
        if (same)
            equal = middle;
        else
            differ = middle;
    }
    *line = equal;
    return TESS_OK;
}

/* Formats "ranks 0 1 3 have 4": the ranks whose count equals that of rank number `like`. */
static void report_camp(const camp_lines *all, int like, int *ranks, tess_sentence *sentence)
{
    int n = 0;
    for (int i = 0; i < all->n; i++)
        if (all->lines[i].count == all->lines[like].count)
            ranks[n++] = all->ranks[i];
    tess_sentence_add(sentence, "%s", sentence->at > 0 ? ", " : "");
    tess_sentence_ranks(sentence, ranks, n);
    tess_sentence_add(sentence, n == 1 ? " has %lld" : " have %lld", (long long)all->lines[like].count);
}

static bool is_first_of_camp(const camp_lines *all, int i)
{
    for (int j = 0; j < i; j++)
        if (all->lines[j].count == all->lines[i].count)
            return false;
    return true;
}

/* Replaces the current error, and puts the culprit first; -1: there is none. */
static tess_status report_counts(const tess_runtime *rt, const camp_lines *all, int culprit, int *listed)
{
    char text[512];
    int odd = -1;
    tess_sentence sentence = tess_sentence_begin(text, sizeof(text));
    for (int i = 0; i < all->n; i++)
        odd = all->ranks[i] == culprit ? i : odd;
    if (odd >= 0)
        report_camp(all, odd, listed, &sentence);
    for (int i = 0; i < all->n; i++)
        if (is_first_of_camp(all, i) && (odd < 0 || all->lines[i].count != all->lines[odd].count))
            report_camp(all, i, listed, &sentence);
    return TESS_FAIL(TESS_E_MISMATCH, "ranks disagree%s: %s of %s; all need as many",
                     odd >= 0 ? ", the odd one out" : "", text, rt->rehearsal->counted);
}

/* Lists the ranks of the first group whose members do not agree on the line. */
static tess_status compare_line(const rehearsal_view *v, int *culprit)
{
    const tess_fingerprint *all = v->room->all;
    camp_lines *alike = &v->room->alike;
    tess_status status = TESS_OK;
    for (int first = 0; first < v->team->size && status == TESS_OK; first++) {
        alike->n = 0;
        for (int r = first; r < v->team->size && first_alike(v, first) == first; r++)
            if (group_of(v, r) == group_of(v, first)) {
                alike->lines[alike->n] = all[r];
                alike->ranks[alike->n++] = v->team->ranks[r];
            }
        if (alike->n > 1)
            status = tess_fingerprint_compare(alike->lines, sizeof(all[0]), alike->n, alike->ranks, v->team->name,
                                              false, v->room->listed, culprit);
    }
    return status;
}

/* Shows line `i` of all members. If a rehearsal is shorter, its line is shown empty. */
static tess_status report_difference(const rehearsal_view *v, size_t i)
{
    tess_team *team = v->team;
    tess_fingerprint mine = {.sequence = i, .root = -1};
    const camp_lines *alike = &v->room->alike;
    int culprit = -1;
    if (i < v->n)
        mine = v->lines[i];
    TESS_TRY(tess_all_gather(team, &mine, v->room->all, sizeof(mine), TESS_U8, NULL));
    tess_status status = compare_line(v, &culprit);
    TESS_CHECK(status != TESS_OK, TESS_E_INTERNAL, "the rehearsals of ranks differ, but line %zu does not", i);
    bool are_counts = true;
    for (int r = 0; r < alike->n; r++)
        are_counts = are_counts && alike->lines[r].kind == TESS_TRACE_NONE && alike->lines[r].flags == COUNTED;
    if (are_counts)
        tess_fail_context(report_counts(team->runtime, alike, culprit, v->room->listed), "before the first step");
    else
        tess_fail_context(status, "before the first step: what ranks plan to call differs");
    tess_team_lock(team);
    tess_team_break(team, status, culprit);
    tess_team_unlock(team);
    return status;
}

static tess_status compare(const rehearsal_view *v)
{
    bool equal;
    size_t line;
    TESS_TRY(are_equal(v, v->n, &equal));
    if (equal)
        return TESS_OK;
    TESS_TRY(find_difference(v, &line));
    return report_difference(v, line);
}

/* ---- All of it ---- */
/* Compares the calls on a team. Its members belong to one group, or to several groups that also send each other
 * messages. */
static tess_status compare_team(tess_runtime *rt, tess_team *team, const int *groups, rehearsal_view *v)
{
    bool spans = false;
    for (int r = 1; r < team->size; r++)
        spans = spans || groups[team->ranks[r]] != groups[team->ranks[0]];
    view_team(rt, team, false, v);
    TESS_TRY(compare(v));
    view_team(rt, team, true, v);
    return spans ? tess_rehearsal_compare_messages(team, v->lines, v->n) : compare(v);
}

/* Compares the teams one after the other. Lists of teams have the same order on every rank. */
static tess_status compare_all(tess_runtime *rt, rehearsal_room *room)
{
    tess_team *whole = rt->rehearsal->whole;
    int mine = rt->rehearsal->group, *groups = room->groups;
    rehearsal_view v = {.room = room};
    TESS_TRY(tess_all_gather(whole, &mine, room->given, 1, TESS_I32, NULL));
    for (int r = 0; r < whole->size; r++)
        groups[whole->ranks[r]] = room->given[r];
    TESS_TRY(TESS_NEW(rt->mem, rt->rehearsal->n + 1, "rehearsal to compare", &v.lines));
    view_team(rt, whole, false, &v); /* compared across all groups */
    tess_status status = compare(&v);
    if (status == TESS_OK) {
        view_order(rt, groups, &v);
        status = compare(&v);
    }
    for (tess_team *team = rt->teams; team != NULL && status == TESS_OK; team = team->next)
        if (team != rt->team && team != whole && team->size > 1)
            status = compare_team(rt, team, groups, &v);
    tess_mem_free(rt->mem, v.lines);
    return status;
}

tess_status tess_rehearsal_end(tess_runtime *rt)
{
    rt->submit = rt->rehearsal->submit;
    rehearsal_room room;
    tess_status status = make_room(rt->mem, rt->world, &room);
    if (status == TESS_OK) {
        status = compare_all(rt, &room);
        tess_mem_free(rt->mem, room.all);
    }
    tess_rehearsal_drop(rt);
    return status;
}
