/* A simulated job: each rank has a list of calls, which meet by the rules of the guard and become a history. Faults are
 * changes of the lists, or of a rank's situation. */
#ifndef TESS_TESTS_DIAGNOSIS_PLAY_H
#define TESS_TESTS_DIAGNOSIS_PLAY_H

#include <stdlib.h>

#include "support/test.h"
#include "trace/label.h"
#include "diagnosis/root_cause.h"

enum { PLAY_MAX_RANKS = 8, PLAY_MAX_TEAMS = 4, PLAY_MAX_CALLS = 256 };

static const uint64_t play_ms = 1000000;

typedef struct play_team {
    uint64_t hash;
    const char *name;
    int ranks[PLAY_MAX_RANKS], n;
} play_team;

typedef struct play_call {
    int team;
    tess_record record; /* the root of a message is the peer's place */
    uint64_t pause_ns;  /* before it */
} play_call;

typedef struct play_rank {
    play_call calls[PLAY_MAX_CALLS];
    int n_calls;
    int n_posted, n_done; /* calls are posted and done in order */
    uint64_t posted_ns[PLAY_MAX_CALLS], done_ns[PLAY_MAX_CALLS], sequence[PLAY_MAX_CALLS];
    uint64_t now_ns;
    uint64_t next_sequence[PLAY_MAX_TEAMS], next_message[PLAY_MAX_TEAMS];
    int stops_before; /* call that the rank never makes; -1: it makes all */
} play_rank;

typedef struct play {
    uint64_t seed;
    int world, window; /* calls in flight */
    play_team teams[PLAY_MAX_TEAMS];
    int n_teams;
    play_rank ranks[PLAY_MAX_RANKS];
} play;

static inline uint32_t play_random(play *p, uint32_t n)
{
    p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->seed >> 33) % n;
}

static inline int play_add_team(play *p, const char *name, const int *ranks, int n)
{
    play_team *team = &p->teams[p->n_teams];
    *team = (play_team){.hash = 0x9e3779b97f4a7c15u * (uint64_t)(p->n_teams + 1), .name = name, .n = n};
    for (int i = 0; i < n; i++)
        team->ranks[i] = ranks[i];
    return p->n_teams++;
}

static inline int play_place(const play_team *team, int rank)
{
    for (int i = 0; i < team->n; i++)
        if (team->ranks[i] == rank)
            return i;
    return -1;
}

static inline void play_add_call(play *p, int rank, const play_call *call)
{
    play_rank *r = &p->ranks[rank];
    EXPECT(r->n_calls < PLAY_MAX_CALLS);
    r->calls[r->n_calls++] = *call;
}

/* Adds the same call to all members of its team. */
static inline void play_add_collective(play *p, const play_call *call)
{
    for (int i = 0; i < p->teams[call->team].n; i++)
        play_add_call(p, p->teams[call->team].ranks[i], call);
}

static inline play_call play_make(int team, int op, uint64_t count, const char *word, int number, int64_t step,
                                  const char *phase, uint64_t site)
{
    play_call call = {.team = team,
                      .record = {.op = (uint8_t)op,
                                 .count = count,
                                 .label = tess_label(word, number),
                                 .step = step,
                                 .detail = number,
                                 .root = op == TESS_TRACE_BROADCAST ? 0 : -1,
                                 .call_site = site}};
    snprintf(call.record.phase, sizeof(call.record.phase), "%s", phase);
    tess_label_text(call.record.label, call.record.what, sizeof(call.record.what));
    return call;
}

static inline bool play_is_message(const play_call *call)
{
    return call->record.op == TESS_TRACE_SEND || call->record.op == TESS_TRACE_RECV;
}

static inline bool play_same(const tess_record *a, const tess_record *b)
{
    return a->op == b->op && a->count == b->count && a->dtype == b->dtype && a->in_dtype == b->in_dtype &&
           a->reduce_op == b->reduce_op && a->root == b->root && a->label == b->label && a->tag == b->tag;
}

/* The call of `rank` with this sequence in the team; -1: not posted. */
static inline int play_find(const play *p, int rank, int team, uint64_t sequence)
{
    const play_rank *r = &p->ranks[rank];
    for (int c = 0; c < r->n_posted; c++)
        if (r->calls[c].team == team && !play_is_message(&r->calls[c]) && r->sequence[c] == sequence)
            return c;
    return -1;
}

/* The posted call of the peer that is the other side of this message; -1: none. */
static inline int play_find_message(const play *p, int rank, int c)
{
    const play_rank *r = &p->ranks[rank];
    const play_call *call = &r->calls[c];
    const play_team *team = &p->teams[call->team];
    int peer = team->ranks[call->record.root], me = play_place(team, rank), number = 0;
    for (int i = 0; i < c; i++)
        number += r->calls[i].team == call->team && r->calls[i].record.op == call->record.op &&
                  r->calls[i].record.root == call->record.root && r->calls[i].record.tag == call->record.tag;
    const play_rank *q = &p->ranks[peer];
    for (int i = 0; i < q->n_posted; i++)
        if (play_is_message(&q->calls[i]) && q->calls[i].record.op != call->record.op &&
            q->calls[i].team == call->team && q->calls[i].record.root == me &&
            q->calls[i].record.tag == call->record.tag && number-- == 0)
            return i;
    return -1;
}

static inline bool play_can_finish(const play *p, int rank, int c, uint64_t *at_ns)
{
    const play_rank *r = &p->ranks[rank];
    const play_call *call = &r->calls[c];
    *at_ns = r->posted_ns[c];
    if (play_is_message(call)) {
        int peer = p->teams[call->team].ranks[call->record.root], other = play_find_message(p, rank, c);
        if (other < 0 || p->ranks[peer].calls[other].record.count != call->record.count ||
            p->ranks[peer].calls[other].record.dtype != call->record.dtype)
            return false;
        if (p->ranks[peer].posted_ns[other] > *at_ns)
            *at_ns = p->ranks[peer].posted_ns[other];
        return true;
    }
    for (int i = 0; i < p->teams[call->team].n; i++) {
        int other = p->teams[call->team].ranks[i], at = play_find(p, other, call->team, r->sequence[c]);
        if (at < 0 || !play_same(&p->ranks[other].calls[at].record, &call->record))
            return false;
        if (p->ranks[other].posted_ns[at] > *at_ns)
            *at_ns = p->ranks[other].posted_ns[at];
    }
    return true;
}

static inline bool play_post(play *p, int rank)
{
    play_rank *r = &p->ranks[rank];
    int c = r->n_posted;
    if (c == r->n_calls || c == r->stops_before || c - r->n_done >= p->window)
        return false;
    uint64_t *next = play_is_message(&r->calls[c]) ? r->next_message : r->next_sequence;
    r->now_ns += r->calls[c].pause_ns + 1000 + play_random(p, 1000);
    r->sequence[c] = next[r->calls[c].team]++;
    r->posted_ns[c] = r->now_ns;
    r->n_posted++;
    return true;
}

static inline bool play_finish(play *p, int rank)
{
    play_rank *r = &p->ranks[rank];
    uint64_t at_ns;
    if (r->n_done == r->n_posted || !play_can_finish(p, rank, r->n_done, &at_ns))
        return false;
    r->done_ns[r->n_done] = at_ns + 1000;
    if (r->now_ns < at_ns + 1000)
        r->now_ns = at_ns + 1000;
    r->n_done++;
    return true;
}

/* Runs until no rank can go on, or `most` calls were made. */
static inline void play_run(play *p, int most)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < p->world; r++) {
            moved |= play_finish(p, r);
            if (most > 0 && play_post(p, r)) {
                moved = true;
                most--;
            }
        }
    }
}

static inline int64_t play_offset(int rank)
{
    return (int64_t)(rank % 3) * 7919 * (int64_t)play_ms; /* three hosts, each with its clock */
}

/* `failed`: the guard failed the waiting operations. `lost`: number of the oldest records that may be overwritten. */
static inline tess_history *play_history(play *p, uint64_t later_ns, bool failed, int lost)
{
    tess_history *history;
    uint64_t newest = 0;
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, p->world, &history));
    for (int t = 0; t < p->n_teams; t++)
        for (int i = 0; i < p->teams[t].n; i++)
            EXPECT_OK(tess_history_add_member(history, p->teams[t].hash, p->teams[t].name, p->teams[t].n, i,
                                              p->teams[t].ranks[i]));
    for (int r = 0; r < p->world; r++)
        newest = p->ranks[r].now_ns > newest ? p->ranks[r].now_ns : newest;
    history->now_ns = newest + later_ns;
    for (int r = 0; r < p->world; r++) {
        play_rank *from = &p->ranks[r];
        tess_rank_history *to = &history->ranks[r];
        int first = lost > 0 && from->n_done > 0
                        ? (int)play_random(p, (uint32_t)(lost < from->n_done ? lost : from->n_done))
                        : 0;
        to->present = true;
        to->lost_any = first > 0;
        to->clock_offset_ns = play_offset(r);
        to->last_ns = from->now_ns - (uint64_t)to->clock_offset_ns;
        for (int c = first; c < from->n_posted; c++) {
            tess_record record = from->calls[c].record;
            record.team = p->teams[from->calls[c].team].hash;
            record.sequence = from->sequence[c];
            record.enqueued_ns = from->posted_ns[c] - (uint64_t)to->clock_offset_ns;
            if (c < from->n_done) {
                record.state = TESS_TRACE_COMPLETED;
                record.completed_ns = from->done_ns[c] - (uint64_t)to->clock_offset_ns;
            } else if (failed) {
                record.state = TESS_TRACE_FAILED;
                record.completed_ns = history->now_ns - (uint64_t)to->clock_offset_ns;
            }
            EXPECT_OK(tess_history_add_record(history, r, &record));
        }
    }
    return history;
}

static inline play *play_create(uint64_t seed, int world, int window)
{
    play *p = calloc(1, sizeof(*p));
    p->seed = seed;
    p->world = world;
    p->window = window;
    for (int r = 0; r < world; r++) {
        p->ranks[r].stops_before = -1;
        p->ranks[r].now_ns = 100000 * play_ms;
    }
    return p;
}

#endif
