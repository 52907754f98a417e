/* No rank is blamed without evidence, and a report on a rank says where that rank was. */
#include <signal.h>

#include "diagnosis/play.h"

enum { WORLD = 0, STEPS = 3, LAYERS = 2 };

/* Every step gathers and reduces two layers and sums a loss. */
static play *make_job(uint64_t seed, int world, int window)
{
    int all[PLAY_MAX_RANKS];
    play *p = play_create(seed, world, window);
    for (int r = 0; r < world; r++)
        all[r] = r;
    play_add_team(p, "world", all, world);
    for (int step = 0; step < STEPS; step++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            play_call gather = play_make(WORLD, TESS_TRACE_ALL_GATHER, 1000, "layer", layer, step, "forward", 0x100);
            play_add_collective(p, &gather);
        }
        for (int layer = LAYERS; layer-- > 0;) {
            play_call scatter =
                play_make(WORLD, TESS_TRACE_REDUCE_SCATTER, 2000, "layer", layer, step, "backward", 0x300);
            play_add_collective(p, &scatter);
        }
        play_call loss = play_make(WORLD, TESS_TRACE_ALL_REDUCE, 1, "loss", -1, step, "optimizer", 0x400);
        play_add_collective(p, &loss);
    }
    return p;
}

static tess_history *run_to(play *p, int rank, int call, bool failed)
{
    p->ranks[rank].stops_before = call;
    play_run(p, 1 << 20);
    return play_history(p, 2000 * play_ms, failed, 0);
}

static void find(const tess_history *history, tess_diagnosis *diagnosis)
{
    EXPECT_OK(tess_diagnosis_find(history, 0.75, diagnosis));
    printf("%s%s: %s\n", tess_diagnosis_name(diagnosis->kind), diagnosis->tie ? " (tie)" : "", diagnosis->headline);
    for (int i = 0; i < diagnosis->n_lines; i++)
        printf("    %s\n", diagnosis->lines[i]);
}

static void expect_lines_without(const tess_diagnosis *diagnosis, const char *words)
{
    for (int i = 0; i < diagnosis->n_lines; i++)
        if (strstr(diagnosis->lines[i], words) != NULL)
            test_fail(__FILE__, __LINE__, "'%s' is in '%s'", words, diagnosis->lines[i]);
}

static void end_with(tess_history *history, int rank, int blamed, const char *error)
{
    tess_rank_history *r = &history->ranks[rank];
    r->ended = true;
    r->exit_code = 1;
    r->situation = TESS_RANK_EXITED;
    r->first_error = 1 + blamed;
    r->ended_ns = history->now_ns + (uint64_t)(10 - rank);
    snprintf(r->error, sizeof(r->error), "%s", error);
}

static void expect_finding(int world, const char *error, tess_diagnosis_kind kind)
{
    tess_diagnosis diagnosis;
    play *p = make_job(1, world, 1);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 100 * play_ms, false, 0);
    for (int r = 0; r < world; r++)
        end_with(history, r, -1, error);
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, kind);
    EXPECT(diagnosis.tie);
    EXPECT_INT(diagnosis.n_ranks, 0);
    EXPECT_CONTAINS(diagnosis.headline, error);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static void what_ranks_found_together_is_not_the_fault_of_who_ended_first(void)
{
    expect_finding(2, "step 8: replicas have diverged: no majority says who is right (a tie)", TESS_DIAGNOSIS_NUMBERS);
    expect_finding(4, "step 8: replicas have diverged: ranks 0 and 2 hold other bits (a tie)", TESS_DIAGNOSIS_NUMBERS);
    expect_finding(2, "before the first step: what ranks plan to call differs: a tie", TESS_DIAGNOSIS_FAILED);
}

static void expect_named(int culprit, int own, const char *error, tess_diagnosis_kind kind)
{
    tess_diagnosis diagnosis;
    play *p = make_job(2, 4, 1);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 100 * play_ms, false, 0);
    for (int r = 0; r < 4; r++)
        end_with(history, r, r == culprit ? own : culprit, error);
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, kind);
    EXPECT(!diagnosis.tie);
    EXPECT_INT(diagnosis.n_ranks, 1);
    EXPECT_INT(diagnosis.ranks[0], culprit);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static void a_finding_that_names_a_rank_blames_it(void)
{
    expect_named(2, -1, "gradient norm nan: first came rank 2", TESS_DIAGNOSIS_NUMBERS);
    expect_named(1, 1, "before the first step: rank 1 plans something else", TESS_DIAGNOSIS_FAILED);
}

static void ranks_that_fail_alike_are_named_together(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(3, 3, 1);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 100 * play_ms, false, 0);
    for (int r = 0; r < 3; r++)
        end_with(history, r, r, r == 1 ? "the disk is full" : "data/x.bin: cannot be opened");
    history->ranks[1].ended_ns += 100;
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_FAILED);
    EXPECT_INT(diagnosis.n_ranks, 2);
    EXPECT_CONTAINS(diagnosis.headline, "ranks 0 2 ended by the same error");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

/* Rank 0 exits, and rank 1 ends by the signal that much later. */
static void who_was_struck_goes_before_who_exited_just_then(void)
{
    static const struct {
        int signal, later_ms, culprit;
    } ends[] = {{SIGKILL, 500, 1}, {SIGSEGV, -500, 1}, {SIGKILL, 2000, 0}, {SIGABRT, 500, 0}, {SIGABRT, -500, 1}};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        tess_diagnosis diagnosis;
        play *p = make_job(2, 3, 1);
        play_run(p, 1 << 20);
        tess_history *history = play_history(p, 100 * play_ms, false, 0);
        end_with(history, 0, -1, "");
        history->ranks[1].ended = true;
        history->ranks[1].signal = ends[i].signal;
        history->ranks[1].ended_ns = history->ranks[0].ended_ns + (uint64_t)((int64_t)play_ms * ends[i].later_ms);
        find(history, &diagnosis);
        EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_LOST);
        EXPECT_INT(diagnosis.n_ranks, 1);
        EXPECT_INT(diagnosis.ranks[0], ends[i].culprit);
        tess_diagnosis_free(history, &diagnosis);
        tess_history_destroy(&history);
        free(p);
    }
}

/* Rank 2 had done its work before the others were stopped. */
static void who_has_left_does_not_keep_the_others_from_being_all_stopped(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(4, 3, 1);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 100 * play_ms, false, 0);
    for (int r = 0; r < 3; r++)
        history->ranks[r].situation = r == 2 ? TESS_RANK_LEFT : TESS_RANK_STOPPED;
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_STOPPED);
    EXPECT_INT(diagnosis.n_ranks, 2);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

/* Rank 2 never came to the last operation; rank 3 left no records. */
static void a_missing_record_does_not_accuse_where_another_shows_who_stayed_away(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(4, 4, 1);
    tess_history *history = run_to(p, 2, 7, false);
    history->ranks[3].present = false;
    history->ranks[3].n_records = 0;
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_MISSING);
    EXPECT_INT(diagnosis.n_ranks, 1);
    EXPECT_INT(diagnosis.ranks[0], 2);
    expect_lines_without(&diagnosis, "rank 2 waits");
    EXPECT_CONTAINS(diagnosis.lines[0], "rank 3 has left no record");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

/* Only the watchdog's finding distinguishes rank 2 from rank 3; neither of them waits. */
static void only_who_waits_is_said_to_wait(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(5, 4, 1);
    p->ranks[3].stops_before = 7;
    tess_history *history = run_to(p, 2, 7, false);
    history->ranks[2].situation = TESS_RANK_BLOCKED_IN_IO;
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_IO);
    EXPECT_INT(diagnosis.ranks[0], 2);
    expect_lines_without(&diagnosis, "rank 3 waits");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static void enter_phase(tess_history *history, int rank, const char *phase, int64_t step, int64_t detail)
{
    tess_rank_history *r = &history->ranks[rank];
    tess_phase_span span = {.begin_ns = r->last_ns, .step = step, .detail = detail};
    snprintf(span.phase, sizeof(span.phase), "%s", phase);
    EXPECT_OK(tess_history_add_span(history, rank, &span));
}

static void the_phase_told_is_that_of_the_rank_not_of_its_last_operation(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(6, 4, 1);
    tess_history *history = run_to(p, 1, 5, false); /* its last operation was the loss of step 0 */
    enter_phase(history, 1, "forward", 1, 0);
    history->ranks[1].ended = true;
    history->ranks[1].signal = SIGSEGV;
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_LOST);
    EXPECT_CONTAINS(diagnosis.headline, "in forward 0 of step 1");
    EXPECT(strstr(diagnosis.headline, "optimizer of step 0") == NULL);
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

/* The rank submitted the reduction of layer 1 and went on to the backward pass of layer 0, where it sleeps. */
static void an_operation_in_flight_is_not_where_its_rank_is(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(7, 4, 4);
    tess_history *history = run_to(p, 1, 3, false);
    tess_rank_history *r = &history->ranks[1];
    r->records[r->n_records - 1].state = TESS_TRACE_STARTED;
    enter_phase(history, 1, "backward", 0, 0);
    r->situation = TESS_RANK_SLEEPING;
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_BUSY);
    EXPECT_CONTAINS(diagnosis.headline, "sleeps in its own code after asking for reduce_scatter");
    EXPECT_CONTAINS(diagnosis.headline, "in backward 0 of step 0");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static int add_second_team(play *p)
{
    int all[PLAY_MAX_RANKS];
    for (int r = 0; r < p->world; r++)
        all[r] = r;
    return play_add_team(p, "other", all, p->world);
}

/* No other rank calls anything at that call site. */
static void an_operation_made_in_a_team_of_its_own_is_not_skipped(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(8, 4, 4);
    p->ranks[2].calls[7].team = add_second_team(p);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, true, 0);
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_MISMATCH_TEAM);
    EXPECT_INT(diagnosis.ranks[0], 2);
    EXPECT_CONTAINS(diagnosis.headline, "called reduce_scatter #0 of team 'other'");
    EXPECT_CONTAINS(diagnosis.headline, "called reduce_scatter #7 of team 'world'");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

/* If no later operation follows, it is not known whether the missing one was skipped or delayed. */
static void an_operation_that_may_come_later_is_told_so(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(9, 4, 1);
    play_rank *r = &p->ranks[2];
    memmove(&r->calls[12], &r->calls[13], (size_t)(r->n_calls - 13) * sizeof(r->calls[0]));
    r->n_calls--;
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, true, 0);
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_SKIPPED);
    EXPECT_CONTAINS(diagnosis.headline, ", or has put it off");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

/* Rank 1 has no data for the last step and goes to the end of the job, where it waits for the others. */
static void a_batch_less_is_told_with_the_steps(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(10, 4, 1);
    play_rank *r = &p->ranks[1];
    r->n_calls = 10;
    play_call agree =
        play_make(add_second_team(p), TESS_TRACE_ALL_REDUCE, 1, "agree", -1, STEPS - 2, "checkpoint", 0x900);
    play_add_call(p, 1, &agree);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, true, 0);
    for (int rank = 0; rank < 4; rank++)
        enter_phase(history, rank, rank == 1 ? "checkpoint" : "forward", rank == 1 ? STEPS - 2 : STEPS - 1, -1);
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.ranks[0], 1);
    EXPECT_CONTAINS(diagnosis.headline, "rank 1 was at step 1, ranks 0 2 3 at step 2, as where batches are uneven");
    EXPECT_CONTAINS(diagnosis.fix, "give all ranks the same number of batches");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static void who_was_asked_to_stop_has_not_just_finished(void)
{
    tess_diagnosis diagnosis;
    play *p = make_job(11, 2, 1);
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 100 * play_ms, false, 0);
    for (int r = 0; r < 2; r++) {
        enter_phase(history, r, "checkpoint", 135, -1);
        history->ranks[r].ended = history->ranks[r].asked = true;
        history->ranks[r].exit_code = 130;
    }
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_FINISHED);
    EXPECT_TEXT(diagnosis.headline, "all ranks were asked to stop and did, at step 135");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

/* No rank waited, and no launcher is left to report a crash or a kill. */
static void records_that_just_end_are_no_good_news(void)
{
    play *p = make_job(12, 4, 1);
    play_run(p, 1 << 20);
    for (int live = 0; live < 2; live++) {
        tess_diagnosis diagnosis;
        tess_history *history = play_history(p, 0, false, 0);
        history->source = live ? TESS_HISTORY_LIVE : TESS_HISTORY_RINGS;
        find(history, &diagnosis);
        EXPECT_INT(diagnosis.kind, live ? TESS_DIAGNOSIS_HEALTHY : TESS_DIAGNOSIS_UNDECIDED);
        EXPECT_CONTAINS(diagnosis.headline, live ? "no rank keeps others waiting"
                                                 : "the records end in the middle of the work and do not say why");
        tess_diagnosis_free(history, &diagnosis);
        tess_history_destroy(&history);
    }
    free(p);
}

/* The hash that distinguishes them is in the evidence, not in the headline. */
static void expect_other_pieces(uint64_t more)
{
    tess_diagnosis diagnosis;
    play *p = make_job(12, 4, 1);
    for (int r = 0; r < 4; r++) {
        tess_record *record = &p->ranks[r].calls[7].record;
        record->op = TESS_TRACE_REDUCE_SCATTER_PIECES;
        record->tag = r == 2 ? 0xabc : 0xdef;
        record->count += r == 2 ? more : 0;
    }
    play_run(p, 1 << 20);
    tess_history *history = play_history(p, 2000 * play_ms, true, 0);
    find(history, &diagnosis);
    EXPECT_INT(diagnosis.kind, TESS_DIAGNOSIS_MISMATCH_COUNT);
    EXPECT(strstr(diagnosis.headline, "pieces 0") == NULL);
    EXPECT((strstr(diagnosis.headline, "(as many elements, in other pieces)") != NULL) == (more == 0));
    EXPECT_CONTAINS(diagnosis.lines[0], "pieces 00000def");
    tess_diagnosis_free(history, &diagnosis);
    tess_history_destroy(&history);
    free(p);
}

static void the_headline_has_no_hashes(void)
{
    expect_other_pieces(1);
    expect_other_pieces(0);
}

static const test_case cases[] = {
    CASE(what_ranks_found_together_is_not_the_fault_of_who_ended_first),
    CASE(a_finding_that_names_a_rank_blames_it),
    CASE(ranks_that_fail_alike_are_named_together),
    CASE(a_missing_record_does_not_accuse_where_another_shows_who_stayed_away),
    CASE(who_was_struck_goes_before_who_exited_just_then),
    CASE(who_has_left_does_not_keep_the_others_from_being_all_stopped),
    CASE(only_who_waits_is_said_to_wait),
    CASE(the_phase_told_is_that_of_the_rank_not_of_its_last_operation),
    CASE(an_operation_made_in_a_team_of_its_own_is_not_skipped),
    CASE(an_operation_that_may_come_later_is_told_so),
    CASE(a_batch_less_is_told_with_the_steps),
    CASE(who_was_asked_to_stop_has_not_just_finished),
    CASE(records_that_just_end_are_no_good_news),
    CASE(the_headline_has_no_hashes),
    CASE(an_operation_in_flight_is_not_where_its_rank_is),
};

TEST_MAIN(cases)
