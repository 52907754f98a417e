#include "doctor/top/numbers.h"

#include <math.h>
#include <string.h>

static bool waits_for(const tess_top_rank *rank, int other)
{
    return rank->board.wait_age_ns > 0 && (rank->board.wait_missing[other / 64] >> (other % 64) & 1) != 0;
}

int tess_top_missing(const tess_top_snapshot *s, int rank, int *first)
{
    int n = 0;
    *first = -1;
    for (int other = 0; other < s->world; other++) {
        if (!waits_for(&s->ranks[rank], other))
            continue;
        if (n++ == 0)
            *first = other;
    }
    return n;
}

static bool waits(const tess_top_snapshot *s, int rank)
{
    int first;
    return tess_top_missing(s, rank, &first) > 0;
}

/* A rank that waits itself only passes on what another does. */
static bool more_guilty(const tess_top_snapshot *s, int rank, int n_waiting, const tess_top_totals *than)
{
    if (than->guilty < 0)
        return true;
    bool rank_waits = waits(s, rank), other_waits = waits(s, than->guilty);
    return rank_waits != other_waits ? other_waits : n_waiting > than->n_waiting;
}

static void find_guilty(const tess_top_snapshot *s, tess_top_totals *t)
{
    t->guilty = t->waiter = -1;
    for (int rank = 0; rank < s->world; rank++) {
        int n = 0, waiter = -1;
        for (int other = 0; other < s->world; other++) {
            if (!waits_for(&s->ranks[other], rank))
                continue;
            n++;
            if (waiter < 0 || s->ranks[other].board.wait_age_ns > s->ranks[waiter].board.wait_age_ns)
                waiter = other;
        }
        if (n == 0 || !more_guilty(s, rank, n, t))
            continue;
        t->guilty = rank;
        t->n_waiting = n;
        t->waiter = waiter;
        t->waited_s = (double)s->ranks[waiter].board.wait_age_ns * 1e-9;
    }
}

/* Tokens of a step and its seconds: of the steps since `before` where there were some, else of the newest. */
static void find_rate(const tess_board_copy *now, const tess_board_copy *before, tess_top_totals *t)
{
    double tokens = 0, seconds = (double)now->step_ns * 1e-9;
    if (now->n_steps > 0)
        tokens = (double)now->n_tokens / (double)now->n_steps;
    if (before != NULL && now->n_steps > before->n_steps && now->n_tokens >= before->n_tokens) {
        double n = (double)(now->n_steps - before->n_steps), ns = 0;
        for (int i = 0; i < TESS_PROGRESS_PHASES; i++)
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
    find_guilty(now, &t);
    return t;
}

bool tess_top_shares(const tess_top_rank *now, const tess_top_rank *before, double share[TESS_PROGRESS_PHASES])
{
    double sum = 0;
    bool moved = before != NULL && now->board.n_steps > before->board.n_steps;
    for (int i = 0; i < TESS_PROGRESS_PHASES; i++) {
        share[i] = (double)now->board.phase_ns[i] - (moved ? (double)before->board.phase_ns[i] : 0);
        share[i] = fmax(share[i], 0);
        sum += share[i];
    }
    for (int i = 0; i < TESS_PROGRESS_PHASES && sum > 0; i++)
        share[i] /= sum;
    return sum > 0;
}

void tess_top_cells(const double share[TESS_PROGRESS_PHASES], int width, int cells[TESS_PROGRESS_PHASES])
{
    double rest[TESS_PROGRESS_PHASES];
    int used = 0;
    for (int i = 0; i < TESS_PROGRESS_PHASES; i++) {
        double exact = share[i] * width;
        cells[i] = (int)exact;
        rest[i] = exact - cells[i];
        used += cells[i];
    }
    for (; used < width; used++) {
        int most = 0;
        for (int i = 1; i < TESS_PROGRESS_PHASES; i++)
            if (rest[i] > rest[most])
                most = i;
        cells[most]++;
        rest[most] = -1;
    }
}
