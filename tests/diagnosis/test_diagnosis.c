/* The root cause of recorded and played histories. */
#include <signal.h>

#include "diagnosis/play.h"
#include "diagnosis/sentence.h"

enum { STEPS = 4, LAYERS = 3, WORLD = 0, SHARD = 1, HALF = 2 };

/* A training loop: every step gathers and reduces by layer, sums inside halves of the ranks, and ends with a barrier.
 */
static void add_steps(play *p)
{
    for (int step = 0; step < STEPS; step++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            play_call gather = play_make(WORLD, TESS_TRACE_ALL_GATHER, 1000, "layer", layer, step, "forward", 0x100);
            gather.pause_ns = 5 * play_ms;
            play_add_collective(p, &gather);
            for (int half = HALF; half < p->n_teams; half++) {
                play_call sum = play_make(half, TESS_TRACE_ALL_REDUCE, 64, "layer", layer, step, "forward", 0x200);
                play_add_collective(p, &sum);
            }
        }
        for (int layer = LAYERS; layer-- > 0;) {
            play_call scatter =
                play_make(SHARD, TESS_TRACE_REDUCE_SCATTER, 2000, "layer", layer, step, "backward", 0x300);
            play_add_collective(p, &scatter);
        }
        play_call loss = play_make(WORLD, TESS_TRACE_ALL_REDUCE, 1, "loss", -1, step, "optimizer", 0x400);
        play_add_collective(p, &loss);
        play_call tokens = play_make(WORLD, TESS_TRACE_BROADCAST, 8, "tokens", -1, step, "data", 0x500);
        play_add_collective(p, &tokens);
        play_call barrier = play_make(SHARD, TESS_TRACE_BARRIER, 0, "step", -1, step, "optimizer", 0x600);
        play_add_collective(p, &barrier);
    }
}

static play *make_job(uint64_t seed, int world, int window)
{
    int all[PLAY_MAX_RANKS];
    play *p = play_create(seed, world, window);
    for (int r = 0; r < world; r++)
        all[r] = r;
    play_add_team(p, "world", all, world);
    play_add_team(p, "dp_shard", all, world);
    if (world >= 4) {
        play_add_team(p, "tp_0", all, world / 2);
        play_add_team(p, "tp_1", all + world / 2, world - world / 2);
    }
    return p;
}

/* A call of the rank in the team in the third step: records of the first may be overwritten. */
static int pick_call(play *p, int rank, int team)
{
    const play_rank *r = &p->ranks[rank];
    int a_step = r->n_calls / STEPS;
    for (;;) {
        int c = 2 * a_step + (int)play_random(p, (uint32_t)a_step);
        if (r->calls[c].team == team)
            return c;
    }
}

static void remove_call(play_rank *r, int c)
{
    r->n_calls--;
    memmove(&r->calls[c], &r->calls[c + 1], (size_t)(r->n_calls - c) * sizeof(r->calls[0]));
}

static void insert_call(play_rank *r, int c, play_call call)
{
    memmove(&r->calls[c + 1], &r->calls[c], (size_t)(r->n_calls - c) * sizeof(r->calls[0]));
    r->calls[c] = call;
    r->n_calls++;
}

/* ---- Requests that differ ---------------------------------------------------------------------------
 */
typedef enum fault {
    SKIP,
    EXTRA,
    EXTRA_ELSEWHERE,
    WRONG_OP,
    WRONG_COUNT,
    WRONG_DTYPE,
    WRONG_IN_DTYPE,
    WRONG_REDUCE_OP,
    WRONG_ROOT,
    WRONG_LABEL,
    WRONG_TEAM,
    SWAP,
    N_FAULTS
} fault;

static int next_in_team(const play_rank *r, int c)
{
    int next = c + 1;
    while (r->calls[next].team != r->calls[c].team)
        next++;
    return next;
}

static void inject(play *p, int rank, fault kind)
{
    play_rank *r = &p->ranks[rank];
    int c = pick_call(p, rank, WORLD);
    while (kind == WRONG_ROOT && r->calls[c].record.op != TESS_TRACE_BROADCAST)
        c = pick_call(p, rank, WORLD);
    tess_record *record = &r->calls[c].record;
    switch (kind) {
    case SKIP:
        remove_call(r, c);
        break;
    case EXTRA:
        insert_call(r, c, r->calls[c]);
        break;
    case EXTRA_ELSEWHERE:
        insert_call(r, c, play_make(WORLD, TESS_TRACE_ALL_REDUCE, 17, "eval", -1, record->step, "evaluation", 0x777));
        break;
    case WRONG_OP:
        record->op = TESS_TRACE_ALL_TO_ALL;
        break;
    case WRONG_COUNT:
        record->count += 1 + play_random(p, 100);
        break;
    case WRONG_DTYPE:
        record->dtype = TESS_BF16;
        break;
    case WRONG_IN_DTYPE:
        record->in_dtype = TESS_BF16;
        break;
    case WRONG_REDUCE_OP:
        record->reduce_op = 2;
        break;
    case WRONG_ROOT:
        record->root = 1;
        break;
    case WRONG_LABEL:
        record->label = tess_label("tower", 9);
        break;
    case WRONG_TEAM:
        r->calls[c].team = SHARD;
        break;
    case SWAP: {
        int next = next_in_team(r, c);
        play_call first = r->calls[c];
        r->calls[c] = r->calls[next];
        r->calls[next] = first;
        break;
    }
    default:
        break;
    }
}

static const tess_diagnosis_kind kind_of_fault[N_FAULTS] = {[SKIP] = TESS_DIAGNOSIS_SKIPPED,
                                                            [EXTRA] = TESS_DIAGNOSIS_EXTRA,
                                                            [EXTRA_ELSEWHERE] = TESS_DIAGNOSIS_EXTRA,
                                                            [WRONG_OP] = TESS_DIAGNOSIS_MISMATCH_OP,
                                                            [WRONG_COUNT] = TESS_DIAGNOSIS_MISMATCH_COUNT,
                                                            [WRONG_DTYPE] = TESS_DIAGNOSIS_MISMATCH_DTYPE,
                                                            [WRONG_IN_DTYPE] = TESS_DIAGNOSIS_MISMATCH_DTYPE,
                                                            [WRONG_REDUCE_OP] = TESS_DIAGNOSIS_MISMATCH_REDUCE_OP,
                                                            [WRONG_ROOT] = TESS_DIAGNOSIS_MISMATCH_ROOT,
                                                            [WRONG_LABEL] = TESS_DIAGNOSIS_MISMATCH_LABEL,
                                                            [WRONG_TEAM] = TESS_DIAGNOSIS_MISMATCH_TEAM,
                                                            [SWAP] = TESS_DIAGNOSIS_ORDER};

static void print_diagnosis(const tess_diagnosis *diagnosis)
{
    printf("%s%s: %s\n", tess_diagnosis_name(diagnosis->kind), diagnosis->tie ? " (tie)" : "", diagnosis->headline);
    for (int i = 0; i < diagnosis->n_lines; i++)
        printf("    %s\n", diagnosis->lines[i]);
    printf("    -> %s\n", diagnosis->fix);
}

static void expect_diagnosis(const tess_history *history, tess_diagnosis_kind kind, int culprit, const char *what)
{
    tess_diagnosis diagnosis;
    EXPECT_OK(tess_diagnosis_find(history, 0.75, &diagnosis));
    if (getenv("TESS_TEST_SHOW") != NULL) {
        printf("%s: ", what);
        print_diagnosis(&diagnosis);
    }
    if (diagnosis.kind != kind || diagnosis.tie != (culprit < 0) ||
        (culprit >= 0 && (diagnosis.n_ranks != 1 || diagnosis.ranks[0] != culprit))) {
        print_diagnosis(&diagnosis);
        test_fail(__FILE__, __LINE__, "%s: %s, expected %s with rank %d guilty", what,
                  tess_diagnosis_name(diagnosis.kind), tess_diagnosis_name(kind), culprit);
    }
    tess_diagnosis_free(history, &diagnosis);
}

static void try_fault(fault kind, int world, int window, uint64_t seed)
{
    char what[128];
    play *p = make_job(seed, world, window);
    add_steps(p);
    int culprit = (int)play_random(p, (uint32_t)world);
    snprintf(what, sizeof(what), "fault %d, %d ranks, %d in flight, seed %d", kind, world, window, (int)seed);
    inject(p, culprit, kind);
    play_run(p, 1 << 20);
    bool failed = play_random(p, 2) == 1;
    tess_history *history = play_history(p, 2000 * play_ms, failed, seed % 3 == 0 ? 8 : 0);
    expect_diagnosis(history, kind_of_fault[kind], world == 2 ? -1 : culprit, what);
    tess_history_destroy(&history);
    free(p);
}

/* Swapped operations look like a skipped one until the second is there: it takes two in flight. */
static void the_odd_request_is_named_with_what_is_odd(void)
{
    static const int worlds[] = {3, 4, 8};
    int n = 0;
    for (int kind = 0; kind < N_FAULTS; kind++)
        for (int w = 0; w < 3; w++)
            for (int window = kind == SWAP ? 12 : 1; window <= 12; window += 11)
                for (uint64_t seed = 1; seed <= 20; seed++, n++)
                    try_fault((fault)kind, worlds[w], window, seed * 977 + (uint64_t)kind);
    printf("%d cases\n", n);
}

static void two_ranks_that_disagree_are_a_tie(void)
{
    for (int kind = WRONG_OP; kind <= WRONG_LABEL; kind++)
        for (uint64_t seed = 1; seed <= 4; seed++)
            try_fault((fault)kind, 2, 1, seed);
    for (uint64_t seed = 1; seed <= 20; seed++)
        try_fault(SWAP, 2, 12, seed);
}

/* All ranks called the same four sums, the last of which failed; rank `odd` called that from another call site. */
static tess_history *make_swap_of_alike(int world, int odd)
{
    tess_history *history;
    EXPECT_OK(tess_history_create(test_mem(), TESS_HISTORY_RINGS, world, &history));
    history->now_ns = 100000 * play_ms;
    for (int r = 0; r < world; r++) {
        EXPECT_OK(tess_history_add_member(history, 7, "world", world, r, r));
        history->ranks[r].present = true;
        for (uint64_t i = 0; i < 4; i++) {
            bool last = i == 3;
            tess_record record = {.team = 7,
                                  .sequence = i,
                                  .count = 100,
                                  .call_site = i % 2 == 0 || (last && r == odd) ? 0x40 : 0x80,
                                  .enqueued_ns = (1 + i) * play_ms,
                                  .completed_ns = (2 + i) * play_ms,
                                  .root = -1,
                                  .op = TESS_TRACE_ALL_REDUCE,
                                  .state = last ? TESS_TRACE_FAILED : TESS_TRACE_COMPLETED};
            EXPECT_OK(tess_history_add_record(history, r, &record));
        }
        history->ranks[r].last_ns = 5 * play_ms;
    }
    return history;
}

static void alike_operations_are_swapped_when_the_guard_says_so(void)
{
    static const char error[] = "team 'world': ranks disagree" TESS_ERROR_BY_PLACE ", the odd one out: rank 1: ...";
    tess_history *history = make_swap_of_alike(3, 1);
    snprintf(history->ranks[2].error, sizeof(history->ranks[2].error), "%s", error);
    expect_diagnosis(history, TESS_DIAGNOSIS_ORDER, 1, "places");
    tess_history_destroy(&history);
    history = make_swap_of_alike(2, 1);
    snprintf(history->ranks[0].error, sizeof(history->ranks[0].error), "%s", error);
    expect_diagnosis(history, TESS_DIAGNOSIS_ORDER, -1, "places of two");
    tess_history_destroy(&history);
    /* The call sites of an operation that failed for another reason do not matter. */
    tess_diagnosis diagnosis;
    history = make_swap_of_alike(3, 1);
    snprintf(history->ranks[2].error, sizeof(history->ranks[2].error), "team 'world': the link broke");
    EXPECT_OK(tess_diagnosis_find(history, 0.75, &diagnosis));
    EXPECT(diagnosis.kind != TESS_DIAGNOSIS_ORDER);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
}

/* ---- Missing ranks ----------------------------------------------------------------------------------------
 */
typedef struct absence {
    const char *name;
    tess_situation situation; /* noted by the watchdog; WELL: none */
    int signal, exit_code;
    bool ended, missing;
    tess_diagnosis_kind kind;
} absence;

static const absence absences[] = {
    {"crashed", TESS_RANK_WELL, SIGSEGV, 0, true, false, TESS_DIAGNOSIS_LOST},
    {"killed", TESS_RANK_WELL, SIGKILL, 0, true, false, TESS_DIAGNOSIS_LOST},
    {"oom", TESS_RANK_OOM_KILLED, SIGKILL, 0, true, false, TESS_DIAGNOSIS_LOST},
    {"exited", TESS_RANK_WELL, 0, 3, true, false, TESS_DIAGNOSIS_LOST},
    {"left", TESS_RANK_WELL, 0, 0, true, false, TESS_DIAGNOSIS_LEFT},
    {"host lost", TESS_RANK_HOST_LOST, 0, 0, true, false, TESS_DIAGNOSIS_LOST},
    {"stopped", TESS_RANK_STOPPED, 0, 0, false, false, TESS_DIAGNOSIS_STOPPED},
    {"in I/O", TESS_RANK_BLOCKED_IN_IO, 0, 0, false, false, TESS_DIAGNOSIS_IO},
    {"loads data", TESS_RANK_LOADING_DATA, 0, 0, false, false, TESS_DIAGNOSIS_BUSY},
    {"sleeps", TESS_RANK_SLEEPING, 0, 0, false, false, TESS_DIAGNOSIS_BUSY},
    {"computes", TESS_RANK_COMPUTING, 0, 0, false, false, TESS_DIAGNOSIS_BUSY},
    {"unknown", TESS_RANK_UNKNOWN, 0, 0, false, false, TESS_DIAGNOSIS_MISSING},
    {"no dump", TESS_RANK_WELL, 0, 0, false, true, TESS_DIAGNOSIS_MISSING},
};
enum { N_ABSENCES = sizeof(absences) / sizeof(absences[0]) };

static void apply_absence(tess_history *history, int rank, const absence *a)
{
    tess_rank_history *r = &history->ranks[rank];
    r->situation = a->situation;
    r->signal = a->signal;
    r->exit_code = a->exit_code;
    r->ended = a->ended;
    r->present = !a->missing;
    if (a->missing)
        r->n_records = 0;
}

/* The others fail one after the other, and each blames the rank that it saw missing. */
static void fail_in_a_chain(tess_history *history, int culprit)
{
    for (int i = 1; i < history->world; i++) {
        tess_rank_history *r = &history->ranks[(culprit + i) % history->world];
        r->ended = true;
        r->exit_code = 1;
        r->first_error = 1 + (culprit + i - 1) % history->world;
        r->ended_ns = history->now_ns + (uint64_t)i;
        snprintf(r->error, sizeof(r->error), "all_reduce: rank %d was lost", r->first_error - 1);
    }
}

static void try_absence(const absence *a, int world, uint64_t seed)
{
    char what[128];
    play *p = make_job(seed, world, 1 + (int)(seed % 2) * 5);
    add_steps(p);
    int culprit = (int)play_random(p, (uint32_t)world);
    p->ranks[culprit].stops_before = pick_call(p, culprit, seed % 2 == 0 ? WORLD : SHARD);
    snprintf(what, sizeof(what), "%s, %d ranks, seed %d", a->name, world, (int)seed);
    play_run(p, 1 << 20);
    bool failed = play_random(p, 2) == 1;
    tess_history *history = play_history(p, 2000 * play_ms, failed, seed % 3 == 0 ? 8 : 0);
    apply_absence(history, culprit, a);
    if (failed)
        fail_in_a_chain(history, culprit);
    expect_diagnosis(history, a->kind, culprit, what);
    tess_history_destroy(&history);
    free(p);
}

static void who_does_not_come_is_named_with_the_reason(void)
{
    static const int worlds[] = {2, 3, 4, 8};
    for (int i = 0; i < N_ABSENCES; i++)
        for (int w = 0; w < 4; w++)
            for (uint64_t seed = 1; seed <= 20; seed++)
                try_absence(&absences[i], worlds[w], seed + 100 * (uint64_t)i);
}

static void a_rank_that_never_joined_is_named(void)
{
    play *p = make_job(5, 4, 1);
    add_steps(p);
    p->ranks[2].stops_before = 0;
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, false, 0);
    history->ranks[2].situation = TESS_RANK_NOT_JOINED;
    expect_diagnosis(history, TESS_DIAGNOSIS_NOT_JOINED, 2, "not joined");
    tess_history_destroy(&history);
    free(p);
}

/* Rank 3 waits for 2 in a team that 0 and 1 are not in; they wait for 3. */
static void a_chain_over_teams_leads_to_its_end(void)
{
    play *p = make_job(7, 4, 1);
    add_steps(p);
    int c = 0;
    while (p->ranks[2].calls[c].team != HALF + 1 || p->ranks[2].calls[c].record.step != 2)
        c++;
    p->ranks[2].stops_before = c;
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, false, 0);
    history->ranks[2].situation = TESS_RANK_COMPUTING;
    expect_diagnosis(history, TESS_DIAGNOSIS_BUSY, 2, "chain");
    tess_history_destroy(&history);
    free(p);
}

static void an_error_about_numbers_goes_before_what_it_caused(void)
{
    play *p = make_job(9, 4, 1);
    add_steps(p);
    p->ranks[1].stops_before = pick_call(p, 1, WORLD);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 100 * play_ms, true, 0);
    fail_in_a_chain(history, 1);
    history->ranks[1].ended = true;
    history->ranks[1].exit_code = 1;
    snprintf(history->ranks[1].error, sizeof(history->ranks[1].error), "step 2: layers.1.mlp: gradient has 3 NaN");
    expect_diagnosis(history, TESS_DIAGNOSIS_NUMBERS, 1, "numbers");
    tess_history_destroy(&history);
    free(p);
}

static void a_rank_that_ends_by_its_own_error_is_told_with_it(void)
{
    play *p = make_job(11, 4, 1);
    add_steps(p);
    p->ranks[3].stops_before = pick_call(p, 3, WORLD);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 100 * play_ms, true, 0);
    fail_in_a_chain(history, 3);
    history->ranks[3].ended = true;
    history->ranks[3].exit_code = 2;
    snprintf(history->ranks[3].error, sizeof(history->ranks[3].error), "data/x.bin: cannot be opened");
    expect_diagnosis(history, TESS_DIAGNOSIS_FAILED, 3, "failed");
    tess_history_destroy(&history);
    free(p);
}

/* The launcher ends a rank that hung: the cause is the watchdog's earlier finding, not the signal. */
static void a_kill_after_the_failure_is_no_cause(void)
{
    play *p = make_job(13, 4, 1);
    add_steps(p);
    p->ranks[0].stops_before = pick_call(p, 0, WORLD);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, true, 0);
    for (int r = 1; r < 4; r++) {
        history->ranks[r].ended = true;
        history->ranks[r].exit_code = 1;
        history->ranks[r].first_error = 1;
        snprintf(history->ranks[r].error, sizeof(history->ranks[r].error), "deadline passed: rank 0 did not come");
    }
    history->ranks[0].ended = history->ranks[0].asked = true;
    history->ranks[0].signal = SIGTERM;
    history->ranks[0].situation = TESS_RANK_KILLED;
    expect_diagnosis(history, TESS_DIAGNOSIS_MISSING, 0, "asked");
    tess_history_destroy(&history);
    free(p);
}

/* All ranks came to the barrier, and one of them stops inside it. */
static void a_rank_that_stops_inside_an_operation_is_named(void)
{
    play *p = make_job(21, 4, 1);
    add_steps(p);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, false, 0);
    for (int r = 0; r < 4; r++) {
        tess_rank_history *rank = &history->ranks[r];
        rank->records[rank->n_records - 1].state = TESS_TRACE_STARTED;
        rank->records[rank->n_records - 1].completed_ns = 0;
    }
    tess_diagnosis diagnosis;
    EXPECT_OK(tess_diagnosis_find(history, 0.75, &diagnosis));
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_UNDECIDED); /* no rank left records */
    EXPECT_CONTAINS(diagnosis.headline, "to which all have come");
    tess_diagnosis_free(history, &diagnosis);
    history->ranks[2].situation = TESS_RANK_STOPPED;
    expect_diagnosis(history, TESS_DIAGNOSIS_STOPPED, 2, "stopped inside");
    tess_history_destroy(&history);
    free(p);
}

/* All ranks were killed at once, without a record of the time; the watchdog had found before why one was missing. */
static void a_reason_does_without_the_time(void)
{
    play *p = make_job(25, 4, 1);
    add_steps(p);
    p->ranks[3].stops_before = pick_call(p, 3, WORLD);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 0, false, 0);
    tess_diagnosis diagnosis;
    EXPECT_OK(tess_diagnosis_find(history, 0.75, &diagnosis));
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_UNDECIDED);
    tess_diagnosis_free(history, &diagnosis);
    history->ranks[3].situation = TESS_RANK_BLOCKED_IN_IO;
    expect_diagnosis(history, TESS_DIAGNOSIS_IO, 3, "no time");
    tess_history_destroy(&history);
    free(p);
}

/* A rank skips a whole step: all requests fit up to the end, where it has left and the others wait. */
static void a_rank_that_left_out_a_step_is_named(void)
{
    play *p = make_job(23, 4, 1);
    add_steps(p);
    play_rank *r = &p->ranks[1];
    int a_step = r->n_calls / STEPS;
    for (int i = 0; i < a_step; i++)
        remove_call(r, a_step);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, false, 0);
    history->ranks[1].ended = true;
    expect_diagnosis(history, TESS_DIAGNOSIS_SKIPPED, 1, "a step left out");
    tess_history_destroy(&history);
    free(p);
}

/* ---- Circles and messages ------------------------------------------------------------------------------------------
 */
static void teams_in_another_order_are_a_circle(void)
{
    for (int world = 2; world <= 8; world += world < 4 ? 1 : 4) {
        play *p = make_job(17, world, 1);
        for (int r = 0; r < world; r++) {
            play_call a = play_make(WORLD, TESS_TRACE_ALL_REDUCE, 10, "a", -1, 0, "forward", 0x100);
            play_call b = play_make(SHARD, TESS_TRACE_ALL_GATHER, 20, "b", -1, 0, "forward", 0x200);
            play_add_call(p, r, r == 1 ? &b : &a);
            play_add_call(p, r, r == 1 ? &a : &b);
        }
        play_run(p, 1 << 20);
        tess_history *history = play_history(p, 2000 * play_ms, false, 0);
        expect_diagnosis(history, TESS_DIAGNOSIS_DEADLOCK, world == 2 ? -1 : 1, "circle");
        tess_history_destroy(&history);
        free(p);
    }
}

/* Three teams of two, and every rank calls the next one first: none is more to blame. */
static void a_circle_of_three_names_all(void)
{
    play *p = play_create(1, 3, 1);
    for (int t = 0; t < 3; t++)
        play_add_team(p, "pair", (int[]){t, (t + 1) % 3}, 2);
    for (int r = 0; r < 3; r++) {
        play_call first = play_make(r, TESS_TRACE_BARRIER, 0, "", -1, 0, "forward", 0x100);
        play_call second = play_make((r + 2) % 3, TESS_TRACE_BARRIER, 0, "", -1, 0, "forward", 0x100);
        play_add_call(p, r, &first);
        play_add_call(p, r, &second);
    }
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, false, 0);
    tess_diagnosis diagnosis;
    EXPECT_OK(tess_diagnosis_find(history, 0.75, &diagnosis));
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_DEADLOCK);
    EXPECT_INT(diagnosis.n_ranks, 3);
    EXPECT(diagnosis.tie);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static play_call message(int op, int peer, uint64_t count, uint64_t tag, int64_t step)
{
    play_call call = play_make(WORLD, op, count, "", -1, step, "forward", op == TESS_TRACE_SEND ? 0x10 : 0x20);
    call.record.root = peer;
    call.record.tag = tag;
    return call;
}

/* A play in which rank 1 sends to rank 2 in every step, then all call a barrier. */
static play *make_pipeline(uint64_t seed)
{
    play *p = make_job(seed, 4, 1);
    for (int step = 0; step < STEPS; step++) {
        play_call send = message(TESS_TRACE_SEND, 2, 100, 7, step), recv = message(TESS_TRACE_RECV, 1, 100, 7, step);
        play_add_call(p, 1, &send);
        play_add_call(p, 2, &recv);
        play_call barrier = play_make(WORLD, TESS_TRACE_BARRIER, 0, "step", -1, step, "optimizer", 0x600);
        play_add_collective(p, &barrier);
    }
    return p;
}

static void expect_message(play *p, int culprit, const char *what)
{
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, false, 0);
    expect_diagnosis(history, TESS_DIAGNOSIS_MESSAGE, culprit, what);
    tess_history_destroy(&history);
    free(p);
}

static void messages_that_do_not_fit_are_named(void)
{
    play *p = make_pipeline(1);
    p->ranks[1].calls[4].record.count = 99;
    expect_message(p, 1, "count");
    p = make_pipeline(2);
    p->ranks[2].calls[4].record.tag = 8;
    expect_message(p, 2, "tag");
    p = make_pipeline(3);
    p->ranks[2].calls[0].record.dtype = TESS_BF16;
    expect_message(p, -1, "the first of all: a tie");
}

static void a_message_without_its_other_side_is_named(void)
{
    play *p = make_pipeline(1);
    remove_call(&p->ranks[1], 4);
    expect_message(p, 1, "a receive without a send");
    p = make_pipeline(2);
    remove_call(&p->ranks[2], 4);
    expect_message(p, 2, "a send without a receive");
}

/* ---- No false alarm ------------------------------------------------------------------------------------------------
 */
static void a_healthy_job_is_never_blamed(void)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        play *p = make_job(seed, 2 + (int)(seed % 7), 1 + (int)(seed % 12));
        add_steps(p);
        play_run(p, (int)play_random(p, (uint32_t)(p->world * p->ranks[0].n_calls)));
        tess_history *history = play_history(p, play_random(p, 700) * play_ms, false, 60);
        history->source = seed % 2 == 0 ? TESS_HISTORY_LIVE : TESS_HISTORY_RINGS;
        tess_diagnosis diagnosis;
        EXPECT_OK(tess_diagnosis_find(history, 0.75, &diagnosis));
        if (diagnosis.kind != TESS_DIAGNOSIS_HEALTHY && diagnosis.kind != TESS_DIAGNOSIS_UNDECIDED) {
            print_diagnosis(&diagnosis);
            test_fail(__FILE__, __LINE__, "seed %d", (int)seed);
        }
        tess_diagnosis_free(history, &diagnosis);
        tess_history_destroy(&history);
        free(p);
    }
}

static void a_job_that_ended_well_is_finished(void)
{
    play *p = make_job(3, 4, 2);
    add_steps(p);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 0, false, 0);
    for (int r = 0; r < 4; r++)
        history->ranks[r].ended = true;
    tess_diagnosis diagnosis;
    EXPECT_OK(tess_diagnosis_find(history, 0.75, &diagnosis));
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_FINISHED);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static const test_case cases[] = {
    CASE(the_odd_request_is_named_with_what_is_odd),
    CASE(alike_operations_are_swapped_when_the_guard_says_so),
    CASE(two_ranks_that_disagree_are_a_tie),
    CASE(who_does_not_come_is_named_with_the_reason),
    CASE(a_rank_that_never_joined_is_named),
    CASE(a_chain_over_teams_leads_to_its_end),
    CASE(an_error_about_numbers_goes_before_what_it_caused),
    CASE(a_rank_that_ends_by_its_own_error_is_told_with_it),
    CASE(a_kill_after_the_failure_is_no_cause),
    CASE(a_rank_that_stops_inside_an_operation_is_named),
    CASE(a_reason_does_without_the_time),
    CASE(a_rank_that_left_out_a_step_is_named),
    CASE(teams_in_another_order_are_a_circle),
    CASE(a_circle_of_three_names_all),
    CASE(messages_that_do_not_fit_are_named),
    CASE(a_message_without_its_other_side_is_named),
    CASE(a_healthy_job_is_never_blamed),
    CASE(a_job_that_ended_well_is_finished),
};

TEST_MAIN(cases)
