/* Computes the figures of a snapshot: totals, rates, the culprit, and the cells of a rank's row. */
#include "doctor/top/top_facts.h"

#include <math.h>
#include <string.h>

#include "diagnosis/missed.h"

int tess_top_missing(const tess_top_snapshot *s, int rank, int *first)
{
    int n = 0;
    *first = -1;
    for (int other = 0; other < s->world; other++) {
        const tess_board_copy *board = &s->ranks[rank].board;
        if (board->wait_age_ns == 0 || !tess_bits_has(s->ranks[rank].awaited, other))
            continue;
        if (n++ == 0)
            *first = other;
    }
    return n;
}

bool tess_top_is_stopped(const tess_top_rank *rank)
{
    char state = rank->process != '\0' ? rank->process : (char)rank->board.run_state;
    return state == 'T' || state == 't';
}

/* Finds the rank that others wait for. A waiting rank only passes on another rank's delay. A stopped rank is
 * different: its wait may be over by now, so it is not counted as waiting. */
static void find_culprit(const tess_top_snapshot *s, tess_top_totals *t)
{
    tess_wait *waits = s->waits;
    tess_missed *missed = s->missed;
    for (int rank = 0; rank < s->world; rank++) {
        int first;
        const tess_board_copy *board = &s->ranks[rank].board;
        bool waits_now = tess_top_missing(s, rank, &first) > 0 && !tess_top_is_stopped(&s->ranks[rank]);
        uint64_t since_ns = waits_now ? UINT64_MAX - board->wait_age_ns : 0;
        waits[rank] = (tess_wait){.since_ns = since_ns, .missing = s->ranks[rank].awaited};
    }
    int most = tess_missed_most(missed, tess_missed_find(waits, s->world, missed));
    t->culprit = t->waiter = -1;
    if (most < 0)
        return;
    t->culprit = missed[most].rank;
    t->n_waiting = missed[most].n_waiting;
    t->waiter = missed[most].waiter;
    t->waited_s = (double)s->ranks[t->waiter].board.wait_age_ns * 1e-9;
}

static bool are_all_stopped(const tess_top_snapshot *s)
{
    int n = 0;
    while (n < s->world && tess_top_is_stopped(&s->ranks[n]))
        n++;
    return n == s->world;
}

/* Computes seconds per step and tokens per second. Covers the steps since `before` if there are any; otherwise takes
 * the newest step. */
static void find_rate(const tess_board_copy *now, const tess_board_copy *before, tess_top_totals *t)
{
    double tokens = 0, seconds = (double)now->step_ns * 1e-9;
    if (now->n_steps > 0)
        tokens = (double)now->n_tokens / (double)now->n_steps;
    if (before != NULL && now->n_steps > before->n_steps && now->n_tokens >= before->n_tokens) {
        double n = (double)(now->n_steps - before->n_steps), ns = 0;
        for (int i = 0; i < TESS_PHASE_COUNT; i++)
            ns += (double)now->phase_ns[i] - (double)before->phase_ns[i];
        tokens = (double)(now->n_tokens - before->n_tokens) / n;
        seconds = ns > 0 ? ns * 1e-9 / n : seconds;
    }
    t->step_s = seconds;
    t->tokens_per_s = seconds > 0 ? tokens / seconds : 0;
}

tess_top_totals tess_top_sum(const tess_top_snapshot *now, const tess_top_snapshot *before)
{
    tess_top_totals t = {.loss = NAN};
    int furthest = 0;
    for (int r = 0; r < now->world; r++)
        if (now->ranks[r].board.n_steps > now->ranks[furthest].board.n_steps)
            furthest = r;
    const tess_board_copy *board = &now->ranks[furthest].board;
    if (board->n_steps > 0) {
        t.step = (int64_t)board->n_steps;
        memcpy(&t.loss, &board->loss, sizeof(t.loss));
        find_rate(board, before != NULL ? &before->ranks[furthest].board : NULL, &t);
    }
    find_culprit(now, &t);
    t.is_halted = are_all_stopped(now);
    return t;
}

bool tess_top_shares(const tess_top_rank *now, const tess_top_rank *before, double share[TESS_PHASE_COUNT])
{
    double sum = 0;
    bool moved = before != NULL && now->board.n_steps > before->board.n_steps;
    for (int i = 0; i < TESS_PHASE_COUNT; i++) {
        share[i] = (double)now->board.phase_ns[i] - (moved ? (double)before->board.phase_ns[i] : 0);
        share[i] = fmax(share[i], 0);
        sum += share[i];
    }
    for (int i = 0; i < TESS_PHASE_COUNT && sum > 0; i++)
        share[i] /= sum;
    return sum > 0;
}

void tess_top_cells(const double share[TESS_PHASE_COUNT], int width, int cells[TESS_PHASE_COUNT])
{
    double rest[TESS_PHASE_COUNT];
    int used = 0;
    for (int i = 0; i < TESS_PHASE_COUNT; i++) {
        double exact = share[i] * width;
        cells[i] = (int)exact;
        rest[i] = exact - cells[i];
        used += cells[i];
    }
    for (; used < width; used++) {
        int most = 0;
        for (int i = 1; i < TESS_PHASE_COUNT; i++)
            if (rest[i] > rest[most])
                most = i;
        cells[most]++;
        rest[most] = -1;
    }
}
