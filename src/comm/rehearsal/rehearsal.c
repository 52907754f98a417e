#include "comm/rehearsal/rehearsal.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/mem/make_room.h"
#include "base/mem/scoped.h"
#include "base/text/text.h"
#include "comm/comm_impl.h"
#include "diagnosis/sentence.h"

/* Hashes which neighbours in the team share a host. The result does not depend on the numbers of hosts. */
static uint64_t hash_hosts(const tess_team *team)
{
    uint64_t hash = tess_hash_text(team->name);
    for (int r = 1; r < team->size; r++) {
        const bool alike = tess_team_host(team, r) == tess_team_host(team, r - 1);
        hash = tess_hash_bytes(&alike, sizeof(alike), hash);
    }
    return hash * hash; /* sums of FNV hashes themselves coincide too easily */
}

static bool knows_team(const tess_rehearsal *r, uint64_t team)
{
    size_t i = r->n;
    while (i > 0 && r->lines[i - 1].fp.team != team)
        i--;
    return i > 0;
}

tess_status tess_rehearsal_add(tess_rehearsal *r, const tess_work *work)
{
    const tess_team *team = work->team;
    const bool message = work->fp.kind == TESS_TRACE_SEND || work->fp.kind == TESS_TRACE_RECV;
    if (work->fp.kind >= TESS_TRACE_TEAM_SPLIT)
        return TESS_OK;
    TESS_TRY(tess_mem_make_room(r->mem, TESS_POOL_MISC, r->n, sizeof(*r->lines), "rehearsed operations", &r->room,
                                &r->lines));
    if (!knows_team(r, work->fp.team))
        r->hosts += hash_hosts(team); /* a sum, because ranks may use their teams in another order */
    tess_planned *line = &r->lines[r->n++];
    *line = (tess_planned){.fp = work->fp, .size = team->size, .peer = message ? team->ranks[work->fp.root] : -1};
    memcpy(line->team, team->name, sizeof(line->team));
    return TESS_OK;
}

void tess_rehearsal_free(tess_rehearsal *r)
{
    tess_mem_free(r->mem, r->lines);
    *r = (tess_rehearsal){.n = 0};
}

/* ---- Views ---- */
/* Lines that several ranks must have alike. A view is known by its id, whose highest bits are its kind. Of several
 * views that differ, the first one is shown.
 *
 * - VIEW_WHOLE: the calls on a team of all ranks
 * - VIEW_ORDER: the order in which a group uses its teams if they lie alike on hosts, without the batch team. Ranks of
 *   other batch teams have other micro-batches. For an empty one a ring sends nothing, and a loss gathers no rows.
 * - VIEW_TEAM: the calls on another team
 * - VIEW_BATCH_ORDER: the order in which the ranks of one batch team use all teams. Only its messages are left out.
 * - VIEW_MESSAGES: the messages from one rank to another */
typedef enum view_kind { VIEW_WHOLE, VIEW_ORDER, VIEW_TEAM, VIEW_BATCH_ORDER, VIEW_MESSAGES } view_kind;

enum { KIND_SHIFT = 61 };

typedef struct rehearsal_view {
    const tess_rehearsal *rehearsal;
    uint64_t id;
    size_t *lines; /* (n) indices into the rehearsal's lines */
    size_t n;
} rehearsal_view;

/* A view as ranks show it to each other. */
typedef struct view_digest {
    uint64_t id, hash;
    uint64_t n_ranks; /* number of ranks that must have it; 0: not known */
} view_digest;

static view_kind kind_of(uint64_t id)
{
    return (view_kind)(id >> KIND_SHIFT);
}

static uint64_t id_of(view_kind kind, const void *key, size_t size)
{
    return (uint64_t)kind << KIND_SHIFT | tess_hash_bytes(key, size, 0) >> (64 - KIND_SHIFT);
}

static bool is_of_batch_team(const tess_rehearsal *r, const tess_planned *line)
{
    return r->batch_team != NULL && strcmp(line->team, r->batch_team) == 0;
}

static bool is_order_kind(view_kind kind)
{
    return kind == VIEW_ORDER || kind == VIEW_BATCH_ORDER;
}

static bool is_order(uint64_t id)
{
    return is_order_kind(kind_of(id));
}

/* Returns the id of the rank's view of a kind of order; 0: the rank has none. */
static uint64_t order_of(const tess_rehearsal *r, view_kind kind)
{
    uint64_t key[] = {(uint64_t)r->group, r->hosts};
    size_t i = 0;
    if (kind == VIEW_ORDER)
        return id_of(kind, key, sizeof(key));
    while (i < r->n && !is_of_batch_team(r, &r->lines[i]))
        i++;
    if (i == r->n)
        return 0;
    key[0] = r->lines[i].fp.team;
    return id_of(kind, key, sizeof(key));
}

/* Returns whether the line is part of a view of the order. */
static bool is_ordered(const tess_rehearsal *r, view_kind kind, const tess_planned *line)
{
    return !is_of_batch_team(r, line) || (kind == VIEW_BATCH_ORDER && line->peer < 0);
}

/* Returns the id of the line's view, in addition to the views of the order. */
static uint64_t view_of(const tess_team *whole, const tess_planned *line)
{
    const uint64_t me = (uint64_t)whole->rank, peer = (uint64_t)line->peer;
    const bool sends = line->fp.kind == TESS_TRACE_SEND;
    const uint64_t way[] = {line->fp.team, sends ? me : peer, sends ? peer : me};
    return line->peer >= 0 ? id_of(VIEW_MESSAGES, way, sizeof(way))
                           : id_of(line->size == whole->size ? VIEW_WHOLE : VIEW_TEAM, way, sizeof(way[0]));
}

/* Lists the lines of a view. Messages are ordered by their tag, because a receiver may take tags in another order. */
static void list_lines(const tess_team *whole, uint64_t id, rehearsal_view *v)
{
    const tess_planned *lines = v->rehearsal->lines;
    v->id = id;
    v->n = 0;
    for (size_t i = 0; i < v->rehearsal->n; i++) {
        if (is_order(id) ? !is_ordered(v->rehearsal, kind_of(id), &lines[i]) : view_of(whole, &lines[i]) != id)
            continue;
        size_t at = v->n++;
        for (; kind_of(id) == VIEW_MESSAGES && at > 0 && lines[v->lines[at - 1]].fp.tag > lines[i].fp.tag; at--)
            v->lines[at] = v->lines[at - 1];
        v->lines[at] = i;
    }
}

/* Reduces line `at` to what all ranks of the view have alike. Arguments of a call on a smaller team concern its members
 * only, because shards differ in size. Teams of replicas share a name, but not a hash. Call sites may differ. */
static tess_fingerprint line_of(const rehearsal_view *v, size_t at)
{
    tess_fingerprint line = {.root = -1};
    if (at < v->n) {
        const tess_planned *planned = &v->rehearsal->lines[v->lines[at]];
        line = planned->fp;
        if (is_order(v->id))
            line = (tess_fingerprint){
                .team = tess_hash_text(planned->team), .root = -1, .kind = line.kind, .label = line.label};
        if (kind_of(v->id) == VIEW_MESSAGES)
            line = (tess_fingerprint){.root = -1, .tag = line.tag, .count = line.count, .dtype = line.dtype};
    }
    line.call_site = 0;
    line.sequence = at;
    return line;
}

/* Hashes the first `n` lines. */
static uint64_t hash_of(const rehearsal_view *v, size_t n)
{
    const size_t most = v->n < n ? v->n : n;
    uint64_t hash = most;
    for (size_t i = 0; i < most; i++) {
        const tess_fingerprint line = line_of(v, i);
        hash = tess_hash_bytes(&line, sizeof(line), hash);
    }
    return hash;
}

static void add_digest(const tess_team *whole, uint64_t id, int n_ranks, rehearsal_view *v, view_digest *digests,
                       size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        if (digests[i].id == id)
            return;
    list_lines(whole, id, v);
    digests[(*n)++] = (view_digest){id, hash_of(v, v->n), (uint64_t)n_ranks};
}

/* ---- The first difference ---- */
static int by_id(const void *a, const void *b)
{
    const view_digest *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->hash > y->hash) - (x->hash < y->hash);
}

/* Returns the id of the first view that differs, or that not all of its ranks have; 0: there is none. Sorts. */
static uint64_t first_odd(view_digest *all, size_t n)
{
    size_t end;
    qsort(all, n, sizeof(*all), by_id);
    for (size_t first = 0; first < n; first = end) {
        for (end = first + 1; end < n && all[end].id == all[first].id; end++)
            ;
        const bool is_whole = all[first].n_ranks == 0 || all[first].n_ranks == end - first;
        if (all[first].id != 0 && (all[first].hash != all[end - 1].hash || !is_whole))
            return all[first].id;
    }
    return 0;
}

/* Finds the first view that differs between ranks. */
static tess_status find_odd(tess_team *whole, rehearsal_view *v, uint64_t *id)
{
    const tess_rehearsal *r = v->rehearsal;
    tess_mem *mem = whole->runtime->mem;
    TESS_AUTO(tess_mem_drop) view_digest *mine = NULL, *all = NULL;
    size_t n = 0;
    TESS_TRY(TESS_NEW(mem, r->n + 2, "views", &mine));
    add_digest(whole, order_of(r, VIEW_ORDER), 0, v, mine, &n);
    if (order_of(r, VIEW_BATCH_ORDER) != 0)
        add_digest(whole, order_of(r, VIEW_BATCH_ORDER), 0, v, mine, &n);
    for (size_t i = 0; i < r->n; i++)
        add_digest(whole, view_of(whole, &r->lines[i]), r->lines[i].peer >= 0 ? 2 : r->lines[i].size, v, mine, &n);
    int64_t most = (int64_t)n;
    TESS_TRY(tess_all_reduce(whole, &most, &most, 1, TESS_I64, TESS_MAX, NULL));
    TESS_TRY(tess_mem_grow(mem, TESS_POOL_MISC, (size_t)most * sizeof(*mine), "views", (void **)&mine));
    memset(mine + n, 0, ((size_t)most - n) * sizeof(*mine));
    TESS_TRY(TESS_NEW(mem, most * whole->size, "views", &all));
    TESS_TRY(tess_all_gather(whole, mine, all, (size_t)most * sizeof(*mine), TESS_U8, NULL));
    *id = first_odd(all, (size_t)(most * whole->size));
    return TESS_OK;
}

/* A line of a view as its rank shows it. */
typedef struct shown_line {
    tess_planned planned; /* the operation of the rank */
    tess_fingerprint fp;  /* its reduced form; nothing if the view ends before */
    uint64_t hash;        /* hash of the view's first lines */
    bool has;             /* the rank has the view */
} shown_line;

/* Shows line `at` to all ranks, and the hash of the lines before `end`. */
static tess_status show(tess_team *whole, const rehearsal_view *v, size_t at, size_t end, shown_line *all)
{
    shown_line mine = {.has = v->n > 0, .fp = line_of(v, at), .hash = hash_of(v, end)};
    if (at < v->n)
        mine.planned = v->rehearsal->lines[v->lines[at]];
    return tess_all_gather(whole, &mine, all, sizeof(mine), TESS_U8, NULL);
}

static bool are_equal(const shown_line *all, int n)
{
    uint64_t hash = 0;
    bool any = false;
    for (int r = 0; r < n; r++) {
        if (all[r].has && any && all[r].hash != hash)
            return false;
        hash = all[r].has ? all[r].hash : hash;
        any |= all[r].has;
    }
    return true;
}

/* Finds the first line that differs by bisection: the first `equal` lines agree, and the first `differ` do not. */
static tess_status find_line(tess_team *whole, const rehearsal_view *v, shown_line *all)
{
    int64_t longest = (int64_t)v->n;
    TESS_TRY(tess_all_reduce(whole, &longest, &longest, 1, TESS_I64, TESS_MAX, NULL));
    size_t equal = 0, differ = (size_t)longest;
    while (differ - equal > 1) {
        const size_t middle = (equal + differ) / 2;
        TESS_TRY(show(whole, v, 0, middle, all));
        *(are_equal(all, whole->size) ? &equal : &differ) = middle;
    }
    return show(whole, v, equal, 0, all);
}

/* ---- The message ---- */
/* Tells that a message has no counterpart, or another one. Both ends have their messages in the order of tags, so of
 * two with different tags the first is alone. */
static tess_status report_message(const tess_team *whole, const shown_line *all, const shown_line *one)
{
    char text[2][256] = {"", "nothing for it"};
    const shown_line *other = &all[one->planned.peer];
    const bool paired = other->planned.size > 0;
    if (paired && other->planned.fp.tag < one->planned.fp.tag) {
        const shown_line *swapped = one;
        one = other;
        other = swapped;
    }
    tess_fingerprint_format(&one->planned.fp, one->planned.team, text[0], sizeof(text[0]));
    if (paired && other->planned.fp.tag == one->planned.fp.tag)
        tess_fingerprint_format(&other->planned.fp, other->planned.team, text[1], sizeof(text[1]));
    return TESS_FAIL(TESS_E_MISMATCH, "before the first step: messages differ: rank %d planned %s; rank %d planned %s",
                     whole->ranks[one - all], text[0], whole->ranks[other - all], text[1]);
}

static tess_status report_missing(const tess_team *whole, const shown_line *all, const shown_line *one)
{
    char text[256];
    tess_fingerprint_format(&one->planned.fp, one->planned.team, text, sizeof(text));
    return TESS_FAIL(TESS_E_MISMATCH,
                     "before the first step: rank %d planned %s; other ranks of the team planned nothing on it",
                     whole->ranks[one - all], text);
}

/* Writes the name of the line's team. In a view of the order, ranks may differ in it: writes "A' or 'B". */
static void name_teams(const tess_team *whole, view_kind kind, const shown_line *all, const shown_line *one, char *text,
                       size_t size)
{
    size_t at = tess_text_add(text, size, 0, "%s", one->planned.team);
    for (int r = 0; r < whole->size && is_order_kind(kind); r++) {
        int first = 0;
        while (first < r && strcmp(all[first].planned.team, all[r].planned.team) != 0)
            first++;
        if (first == r && all[r].has && all[r].planned.size > 0 && strcmp(all[r].planned.team, one->planned.team) != 0)
            at = tess_text_add(text, size, at, "' or '%s", all[r].planned.team);
    }
}

/* Tells how the lines of the ranks that have a view of this kind differ. */
static tess_status report(tess_team *whole, view_kind kind, const shown_line *all, int *culprit)
{
    tess_mem *mem = whole->runtime->mem;
    TESS_AUTO(tess_mem_drop) tess_fingerprint *lines = NULL;
    TESS_AUTO(tess_mem_drop) int *ranks = NULL;
    const shown_line *one = NULL;
    char team[4 * TESS_TRACE_NAME_BYTES];
    int n = 0;
    TESS_TRY(TESS_NEW(mem, whole->size, "lines", &lines));
    TESS_TRY(TESS_NEW(mem, 2 * whole->size, "ranks", &ranks));
    for (int r = 0; r < whole->size; r++) {
        if (!all[r].has)
            continue;
        one = all[r].planned.size > 0 && (one == NULL || all[r].planned.fp.kind == TESS_TRACE_SEND) ? &all[r] : one;
        lines[n] = all[r].fp;
        ranks[n++] = whole->ranks[r];
    }
    if (kind == VIEW_MESSAGES)
        return report_message(whole, all, one);
    name_teams(whole, kind, all, one, team, sizeof(team));
    tess_status status = tess_fingerprint_compare(lines, sizeof(*lines), n, ranks, team, false, ranks + n, culprit);
    return status == TESS_OK ? report_missing(whole, all, one)
                             : tess_fail_context(status, "before the first step: what ranks plan to call differs");
}

static void break_team(tess_team *whole, tess_status status, int culprit)
{
    tess_team_lock(whole);
    tess_team_break(whole, status, culprit);
    tess_team_unlock(whole);
}

/* ---- Numbers ---- */
/* Formats "ranks 0 1 3 have 4": the ranks whose number is that of rank `like`. */
static void name_camp(const tess_team *whole, const int64_t *numbers, int like, int *ranks, tess_sentence *sentence)
{
    int n = 0;
    for (int r = 0; r < whole->size; r++)
        if (numbers[r] == numbers[like])
            ranks[n++] = whole->ranks[r];
    tess_sentence_add(sentence, "%s", sentence->at > 0 ? ", " : "");
    tess_sentence_ranks(sentence, ranks, n);
    tess_sentence_add(sentence, n == 1 ? " has %lld" : " have %lld", (long long)numbers[like]);
}

/* Returns whether rank r is the first with its number; *n is how many have it. */
static bool begins_camp(const int64_t *numbers, int size, int r, int *n)
{
    bool first = true;
    *n = 0;
    for (int k = 0; k < size; k++) {
        first &= k >= r || numbers[k] != numbers[r];
        *n += numbers[k] == numbers[r];
    }
    return first;
}

static tess_status report_numbers(const tess_team *whole, const tess_rehearsal *r, const int64_t *numbers, int *ranks,
                                  int *culprit)
{
    char text[512];
    int odd = -1, n, n_camps = 0;
    tess_sentence sentence = tess_sentence_begin(text, sizeof(text));
    for (int i = 0; i < whole->size; i++) {
        n_camps += begins_camp(numbers, whole->size, i, &n);
        odd = n == 1 ? i : odd;
    }
    odd = n_camps == 2 && whole->size > 2 ? odd : -1;
    *culprit = odd >= 0 ? whole->ranks[odd] : -1;
    if (odd >= 0)
        name_camp(whole, numbers, odd, ranks, &sentence);
    for (int i = 0; i < whole->size; i++)
        if (i != odd && begins_camp(numbers, whole->size, i, &n))
            name_camp(whole, numbers, i, ranks, &sentence);
    return TESS_FAIL(TESS_E_MISMATCH, "before the first step: ranks disagree%s: %s of %s; all need as many",
                     odd >= 0 ? ", the odd one out" : "", text, r->what);
}

static tess_status compare_numbers(tess_team *whole, const tess_rehearsal *r)
{
    tess_mem *mem = whole->runtime->mem;
    TESS_AUTO(tess_mem_drop) int64_t *numbers = NULL;
    TESS_AUTO(tess_mem_drop) int *ranks = NULL;
    int culprit, n;
    TESS_TRY(TESS_NEW(mem, whole->size, "numbers", &numbers));
    TESS_TRY(TESS_NEW(mem, whole->size, "ranks", &ranks));
    TESS_TRY(tess_all_gather(whole, &r->number, numbers, 1, TESS_I64, NULL));
    (void)begins_camp(numbers, whole->size, 0, &n);
    if (n == whole->size)
        return TESS_OK;
    tess_status status = report_numbers(whole, r, numbers, ranks, &culprit);
    break_team(whole, status, culprit);
    return status;
}

/* ---- All of it ---- */
static tess_status compare(tess_team *whole, rehearsal_view *v)
{
    uint64_t id;
    TESS_AUTO(tess_mem_drop) shown_line *all = NULL;
    TESS_TRY(find_odd(whole, v, &id));
    if (id == 0)
        return TESS_OK;
    list_lines(whole, id, v);
    if (is_order(id) && id != order_of(v->rehearsal, kind_of(id)))
        v->n = 0;
    TESS_TRY(TESS_NEW(whole->runtime->mem, whole->size, "lines of ranks", &all));
    TESS_TRY(find_line(whole, v, all));
    int culprit = -1;
    tess_status status = report(whole, kind_of(id), all, &culprit);
    break_team(whole, status, culprit);
    return status;
}

tess_status tess_rehearsal_compare(tess_team *whole, const tess_rehearsal *r)
{
    rehearsal_view view = {.rehearsal = r};
    TESS_AUTO(tess_mem_drop) size_t *lines = NULL;
    TESS_TRY(compare_numbers(whole, r));
    TESS_TRY(TESS_NEW(whole->runtime->mem, r->n + 1, "rehearsal to compare", &lines));
    view.lines = lines;
    return compare(whole, &view);
}
