/* Decisions over the life of a job: pauses, the window, places, the ladder, and the end. */
#include <signal.h>

#include "control/recover/policy.h"
#include "base/text/text.h"
#include "support/test.h"

static const tess_recover_settings usual = {.respawns = true,
                                            .rolls_back = true,
                                            .max_failures = 3,
                                            .window_s = 3600,
                                            .backoff_s = 1,
                                            .backoff_max_s = 60,
                                            .retry_s = 300,
                                            .seed = 7};

static bool powers_of_two(const void *self, int n_ranks)
{
    (void)self;
    return (n_ranks & (n_ranks - 1)) == 0;
}

static tess_recover job;
static tess_recovery now;

static void begin(const tess_recover_settings *settings, int n_ranks, int min, int max)
{
    tess_slots_free(&job.slots);
    tess_recover_begin(&job, settings, &(tess_worlds){powers_of_two, NULL});
    EXPECT_OK(tess_slots_begin(&job.slots, n_ranks, min, max, 0));
    tess_ladder_begin(&job.ladder, TESS_LADDER_NONE, 2, 12, 48);
}

static void fail_with(int rank, int signal, tess_status status, int64_t step, double at_s)
{
    tess_failure failure = {.rank = rank,
                            .signal = signal,
                            .exit_code = signal != 0 ? 128 + signal : 1,
                            .status = status,
                            .step = step,
                            .steps_done = step - 1};
    snprintf(failure.text, sizeof(failure.text), "rank %d failed at step %lld", rank, (long long)step);
    tess_recover_decide(&job, &failure, at_s, &now);
    printf("%g s: action %d: %s\n", at_s, (int)now.action, now.what);
}

static void pauses_double_up_to_a_limit_and_the_seed_decides_them(void)
{
    EXPECT(tess_backoff_s(1, 60, 7, 1) == 0);
    double full_s = 1;
    for (int n = 2; n < 40; n++) {
        double pause_s = tess_backoff_s(1, 60, 7, n);
        EXPECT(pause_s <= full_s && pause_s > full_s / 2);
        EXPECT(pause_s == tess_backoff_s(1, 60, 7, n));
        full_s = full_s * 2 > 60 ? 60 : full_s * 2;
    }
    EXPECT(tess_backoff_s(1, 60, 8, 3) != tess_backoff_s(1, 60, 7, 3));
}

static void a_killed_rank_is_replaced_and_without_a_step_since_all_start_again(void)
{
    tess_recover_settings settings = usual;
    settings.max_failures = 9;
    begin(&settings, 4, 0, 0);
    fail_with(2, SIGKILL, TESS_OK, 5, 10);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    EXPECT(now.delay_s == 0);
    EXPECT_INT(now.n_ranks, 4);
    for (int i = 2; i <= 3; i++) {
        fail_with(1, SIGKILL, TESS_OK, 5, 10 + i);
        EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    }
    fail_with(1, SIGKILL, TESS_OK, 5, 14);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
    EXPECT(now.delay_s > 2 && now.delay_s <= 4);
    EXPECT_CONTAINS(now.what, "all ranks start again from the newest checkpoint in ");
    EXPECT_CONTAINS(now.what, "failure 4, 9 within 3600 s end the job");
}

static void the_third_failure_within_the_window_stops_with_a_report(void)
{
    char text[2000];
    begin(&usual, 4, 0, 0);
    fail_with(0, SIGKILL, TESS_OK, 5, 10);
    EXPECT_TEXT(tess_recover_report(&job, 10, text, sizeof(text)), "");
    fail_with(1, SIGKILL, TESS_OK, 9, 20);
    fail_with(2, SIGKILL, TESS_OK, 12, 30);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "3 failures within 3600 s (recovery.max_failures, recovery.window_s)");
    tess_recover_report(&job, 40, text, sizeof(text));
    EXPECT_CONTAINS(text, "3 failures in all:\n  30.0 s ago: rank 0 failed at step 5; that rank is replaced");
    EXPECT_CONTAINS(text, "\n  20.0 s ago: rank 1 failed at step 9; ");
    EXPECT_CONTAINS(text, "\n  10.0 s ago: rank 2 failed at step 12; 3 failures within");
}

/* Its text may be long: the report has it once, and cuts it between words. */
static void the_same_failure_is_reported_in_full_once(void)
{
    char text[2000];
    tess_failure failure = {.status = TESS_E_NOT_FINITE, .exit_code = 1, .step = 4, .steps_done = 3};
    size_t at = 0;
    for (int i = 0; i < 60; i++)
        at = tess_text_add(failure.text, sizeof(failure.text), at, "word%02d ", i);
    begin(&usual, 4, 0, 0);
    for (int i = 0; i < 2; i++)
        tess_recover_decide(&job, &failure, 10 * (i + 1), &now);
    tess_recover_report(&job, 20, text, sizeof(text));
    EXPECT_CONTAINS(text, "word26 word27...; all ranks start again");
    EXPECT_CONTAINS(text, "\n  0.0 s ago: the same; ");
    EXPECT(strstr(text, "word28") == NULL);
}

static void failures_older_than_the_window_do_not_count(void)
{
    begin(&usual, 4, 0, 0);
    for (int i = 0; i < 20; i++) {
        fail_with(i % 4, SIGKILL, TESS_OK, 10 * i + 1, 1801.0 * i);
        EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    }
}

static void without_a_limit_a_job_is_recovered_however_often(void)
{
    tess_recover_settings settings = usual;
    settings.max_failures = 0;
    begin(&settings, 4, 0, 0);
    for (int i = 0; i < 300; i++) {
        fail_with(i % 4, SIGKILL, TESS_OK, i + 1, i);
        EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    }
}

static void the_same_at_the_same_step_never_loops(void)
{
    static const tess_status statuses[] = {TESS_E_NOT_FINITE, TESS_E_MISMATCH, TESS_E_IO, TESS_E_TIMEOUT,
                                           TESS_E_INTERNAL};
    tess_recover_settings settings = usual;
    settings.max_failures = 0;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        begin(&settings, 4, 0, 0);
        fail_with(1, 0, statuses[i], 7, 1);
        EXPECT_INT(now.action, TESS_ACTION_RESTART);
        fail_with(1, 0, statuses[i], 8, 2); /* another step: another failure */
        EXPECT_INT(now.action, TESS_ACTION_RESTART);
        fail_with(3, 0, statuses[i], 7, 3);
        EXPECT_INT(now.action, TESS_ACTION_STOP);
        EXPECT_CONTAINS(now.what, "at step 7 for the second time: it would come again");
    }
    begin(&settings, 4, 0, 0);
    fail_with(1, SIGSEGV, TESS_OK, -1, 1);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    fail_with(1, SIGSEGV, TESS_OK, -1, 2);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "before the first step");
}

static void a_refusal_and_a_full_disk_stop_at_once(void)
{
    begin(&usual, 4, 2, 0);
    fail_with(0, 0, TESS_E_INVALID, -1, 1);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    begin(&usual, 4, 2, 0);
    fail_with(0, 0, TESS_E_NO_SPACE, 10, 1);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "free space, then start again");
}

static void a_job_that_was_asked_to_stop_is_replaced_to_save_but_does_not_start_again(void)
{
    tess_failure failure = {.rank = 1, .signal = SIGKILL, .step = 5, .steps_done = 4, .stopping = true};
    begin(&usual, 4, 0, 0);
    tess_recover_decide(&job, &failure, 10, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    failure.stuck = true;
    tess_recover_decide(&job, &failure, 11, &now);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "the job was asked to stop and does not start again");
}

/* Places of two hosts; a failure names the host, or only a rank. */
static void a_host_where_ranks_keep_failing_is_left_out_with_all_its_places(void)
{
    tess_failure failure = {.rank = 3, .signal = SIGKILL, .step = 5, .steps_done = 5};
    begin(&usual, 1, 0, 0);
    tess_slots_free(&job.slots);
    tess_slots_begin_hosts(&job.slots, 2);
    EXPECT_OK(tess_slots_add_host(&job.slots, "h1", 2));
    EXPECT_OK(tess_slots_add_host(&job.slots, "h2", 2));
    EXPECT_INT(job.slots.n_ranks, 4);
    tess_recover_decide(&job, &failure, 10, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    failure = (tess_failure){.rank = -1, .host_lost = true, .step = -1, .steps_done = -1, .host = "h2"};
    tess_recover_decide(&job, &failure, 20, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
    EXPECT_INT(now.n_ranks, 2);
    EXPECT_TEXT(now.what, "host h2 failed 2 times and is left out: 2 ranks go on from the newest checkpoint; it is "
                          "asked again in 300 s");
    EXPECT_INT(tess_slots_ranks_of(&job.slots, 0), 2);
    EXPECT_INT(tess_slots_ranks_of(&job.slots, 1), 0);
    EXPECT_INT(tess_record_count(&job.record, 20, 3600), 0);
    tess_slots_free(&job.slots);
    tess_slots_begin_hosts(&job.slots, 0);
    EXPECT_OK(tess_slots_add_host(&job.slots, "h1", 2));
    EXPECT_OK(tess_slots_add_host(&job.slots, "h2", 2));
    EXPECT(!tess_slots_fail(&job.slots, 1, &job.worlds, 1));
    EXPECT(!tess_slots_fail(&job.slots, 1, &job.worlds, 2)); /* no place can be left out */
}

static void a_host_that_was_left_out_comes_back_once_it_answers(void)
{
    begin(&usual, 1, 0, 0);
    tess_slots_free(&job.slots);
    tess_slots_begin_hosts(&job.slots, 2);
    for (int h = 0; h < 3; h++)
        EXPECT_OK(tess_slots_add_host(&job.slots, ((const char *const[]){"h1", "h2", "h3"})[h], h < 2 ? 1 : 2));
    EXPECT(!tess_slots_fail(&job.slots, 2, &job.worlds, 10) && tess_slots_fail(&job.slots, 2, &job.worlds, 20));
    EXPECT_INT(job.slots.n_ranks, 2);
    EXPECT_INT(tess_slots_to_ask(&job.slots, 300, 319), -1);
    EXPECT_INT(tess_slots_to_ask(&job.slots, 300, 320), 2);
    EXPECT_INT(tess_slots_possible(&job.slots, &job.worlds, 300, 320), 2);
    tess_slots_asked(&job.slots, 2, false, 330);
    EXPECT_INT(tess_slots_to_ask(&job.slots, 300, 629), -1);
    EXPECT_INT(tess_slots_to_ask(&job.slots, 300, 630), 2);
    tess_slots_asked(&job.slots, 2, true, 631);
    EXPECT_INT(tess_slots_to_ask(&job.slots, 300, 632), -1);
    EXPECT_INT(tess_slots_possible(&job.slots, &job.worlds, 300, 632), 4);
    tess_slots_return(&job.slots, &job.worlds, 300, 632);
    EXPECT_INT(job.slots.n_ranks, 4);
    EXPECT_INT(tess_slots_ranks_of(&job.slots, 2), 2);
    EXPECT(!tess_slots_fail(&job.slots, 2, &job.worlds, 640)); /* the count begins again */
    EXPECT(tess_slots_fail(&job.slots, 2, &job.worlds, 650));
    EXPECT_INT(tess_slots_possible(&job.slots, &job.worlds, 300, 2000), 2); /* and must answer again */
}

static void a_nan_stops_the_job_where_that_is_asked_for(void)
{
    tess_recover_settings settings = usual;
    settings.rolls_back = false;
    begin(&settings, 4, 0, 0);
    fail_with(1, 0, TESS_E_NOT_FINITE, 7, 1);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "lower optimizer.lr");
}

static void a_place_that_keeps_failing_is_left_out_and_comes_back(void)
{
    begin(&usual, 4, 2, 0);
    fail_with(3, SIGKILL, TESS_OK, 5, 10);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    fail_with(3, SIGKILL, TESS_OK, 9, 20);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
    EXPECT(now.resized);
    EXPECT_INT(now.n_ranks, 2); /* three places work, but only powers of two are admitted */
    EXPECT_CONTAINS(now.what, "the place of rank 3 failed 2 times and is left out: 2 ranks go on");
    EXPECT_INT(tess_slots_possible(&job.slots, &job.worlds, 300, 319), 2);
    EXPECT_INT(tess_slots_possible(&job.slots, &job.worlds, 300, 320), 4);
    tess_slots_return(&job.slots, &job.worlds, 300, 320);
    EXPECT_INT(job.slots.n_ranks, 4);
    /* Its failures are forgiven: the next one elsewhere is the first of the window. */
    fail_with(0, SIGKILL, TESS_OK, 30, 330);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    EXPECT_CONTAINS(now.what, "failure 1, ");
}

static void a_place_that_fails_at_the_same_step_each_time_is_left_out_too(void)
{
    tess_recover_settings settings = usual;
    settings.max_failures = 0;
    begin(&settings, 4, 2, 0);
    fail_with(3, 0, TESS_OK, 1, 10);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
    fail_with(3, 0, TESS_OK, 1, 20);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
    EXPECT_INT(now.n_ranks, 2);
    EXPECT_CONTAINS(now.what, "the place of rank 3 failed 2 times and is left out");
    for (int i = 3; i <= 5; i++) { /* the place was not the cause: one spare place is used, then none is left */
        fail_with(1, 0, TESS_OK, 1, 10 * i);
        EXPECT_INT(now.action, TESS_ACTION_RESTART);
        EXPECT_INT(now.n_ranks, 2);
    }
    fail_with(1, 0, TESS_OK, 1, 60);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "at step 1 for the second time");
}

static void an_evaluation_that_ends_ranks_twice_is_left_out_and_proves_nothing_about_its_step(void)
{
    tess_failure failure = {.rank = 1, .signal = SIGSEGV, .step = 15, .steps_done = 15, .evaluating = true};
    begin(&usual, 4, 0, 0);
    tess_recover_decide(&job, &failure, 10, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    EXPECT(!now.omits); /* it is repeated once */
    tess_recover_decide(&job, &failure, 15, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    EXPECT(now.omits);
    EXPECT_CONTAINS(now.what, "; the evaluation of step 15 is left out");
    begin(&usual, 4, 0, 0);
    tess_recover_decide(&job, &failure, 10, &now);
    failure.evaluating = false;
    tess_recover_decide(&job, &failure, 20, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    EXPECT(!now.omits);
    failure = (tess_failure){.rank = 1, .step = 20, .signal = SIGSEGV, .steps_done = 20, .evaluating = true};
    tess_recover_decide(&job, &failure, 25, &now); /* another evaluation */
    EXPECT(!now.omits);
    failure = (tess_failure){.rank = 1, .signal = SIGKILL, .step = 20, .steps_done = 20, .evaluating = true};
    begin(&usual, 4, 0, 0);
    tess_recover_decide(&job, &failure, 30, &now); /* an outside cause does not count against the place */
    EXPECT_INT(now.action, TESS_ACTION_RESPAWN);
    EXPECT(!now.omits);
}

static void no_place_is_left_out_below_the_minimum(void)
{
    begin(&usual, 4, 4, 0);
    fail_with(3, SIGKILL, TESS_OK, 5, 10);
    fail_with(3, SIGKILL, TESS_OK, 9, 20);
    EXPECT(!now.resized);
    EXPECT_INT(now.n_ranks, 4);
    begin(&usual, 4, 3, 0); /* three ranks would be enough, but are not admitted */
    fail_with(3, SIGKILL, TESS_OK, 5, 10);
    fail_with(3, SIGKILL, TESS_OK, 9, 20);
    EXPECT(!now.resized);
}

static void places_beyond_the_first_ranks_are_used_after_a_while(void)
{
    begin(&usual, 2, 0, 8);
    EXPECT_INT(tess_slots_possible(&job.slots, &job.worlds, 300, 299), 2);
    EXPECT_INT(tess_slots_possible(&job.slots, &job.worlds, 300, 300), 8);
}

static void what_ranks_remember_is_gone_on_from_once_and_where_it_is_not_what_failed(void)
{
    static const tess_status blames_memory[] = {TESS_E_NOT_FINITE, TESS_E_MISMATCH};
    tess_recover_settings settings = usual;
    settings.remembers = true;
    settings.max_failures = 0;
    begin(&settings, 4, 0, 0);
    fail_with(1, 0, TESS_E_IO, 5, 10);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
    EXPECT(now.from_memory);
    EXPECT_CONTAINS(now.what, "all ranks start again from what they keep in memory at once");
    tess_failure in_vain = {.rank = 2, .exit_code = 1, .status = TESS_E_TIMEOUT, .step = 5, .steps_done = 4};
    tess_recover_decide(&job, &in_vain, 20, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
    EXPECT(!now.from_memory);
    EXPECT_CONTAINS(now.what, "all ranks start again from the newest checkpoint in ");
    fail_with(1, 0, TESS_E_IO, 9, 30); /* a step was done since */
    EXPECT(now.from_memory);
    for (size_t i = 0; i < sizeof(blames_memory) / sizeof(blames_memory[0]); i++) {
        begin(&settings, 4, 0, 0);
        fail_with(1, 0, blames_memory[i], 5, 10);
        EXPECT_INT(now.action, TESS_ACTION_RESTART);
        EXPECT(!now.from_memory);
        EXPECT_CONTAINS(now.what, "the newest checkpoint");
    }
    begin(&settings, 4, 0, 0);
    fail_with(1, 0, TESS_E_NOMEM, 5, 10);
    EXPECT(now.from_memory);
    EXPECT_CONTAINS(now.what,
                    "all ranks start again from what they keep in memory; activation_checkpoint.mode=selective");
    begin(&settings, 4, 2, 0);
    fail_with(3, SIGKILL, TESS_OK, 5, 10);
    fail_with(3, SIGKILL, TESS_OK, 9, 20);
    EXPECT_CONTAINS(now.what, "left out: 2 ranks go on from what they keep in memory");
}

static void want_of_memory_climbs_the_ladder_rung_by_rung(void)
{
    static const char *const rungs[][2] = {
        {"activation_checkpoint.mode=selective", "activation_checkpoint.recompute=attention_inputs,residual"},
        {"activation_checkpoint.mode=every_n", "activation_checkpoint.every_n=2"},
        {"activation_checkpoint.mode=full", NULL},
        {"offload.activations=true", NULL},
        {"offload.optimizer=true", "offload.activations=true"},
        {"offload.params=true", "offload.grads=true"},
        {"training.local_batch_size=6", "training.global_batch_size=48"},
        {"training.local_batch_size=3", "training.global_batch_size=48"},
        {"training.local_batch_size=1", "training.global_batch_size=48"}};
    enum { RUNGS = sizeof(rungs) / sizeof(rungs[0]), SHRUNK = RUNGS - 3 };
    char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT];
    begin(&usual, 4, 0, 0);
    job.ladder.may_offload = TESS_LADDER_ACTIVATIONS | TESS_LADDER_OPTIMIZER | TESS_LADDER_PARAMS;
    EXPECT_INT(tess_ladder_overrides(&job.ladder, overrides), 0);
    for (int i = 0; i < RUNGS; i++) {
        tess_failure killed = {.rank = 0, .signal = SIGKILL, .oom_killed = true, .step = 1};
        tess_failure refused = {.rank = 1, .exit_code = 1, .status = TESS_E_NOMEM, .step = 1};
        tess_recover_decide(&job, i % 2 == 0 ? &killed : &refused, i, &now);
        EXPECT_INT(now.action, TESS_ACTION_RESTART);
        EXPECT(now.reset);
        EXPECT((strstr(now.what, "NOT the bits") != NULL) == (i >= SHRUNK));
        EXPECT_CONTAINS(now.what, rungs[i][0]);
        int n = tess_ladder_overrides(&job.ladder, overrides), found = 0;
        EXPECT(n <= TESS_LADDER_OVERRIDES);
        for (int k = 0; k < n; k++)
            for (int wanted = 0; wanted < 2; wanted++)
                found += rungs[i][wanted] != NULL && strcmp(overrides[k], rungs[i][wanted]) == 0;
        EXPECT_INT(found, rungs[i][1] != NULL ? 2 : 1);
    }
    fail_with(0, 0, TESS_E_NOMEM, 1, 9);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "nothing is left that would need less memory");
}

/* The ladder has nothing for memory that ran out while weights were made. */
static void want_of_memory_before_the_first_step_climbs_no_ladder(void)
{
    tess_failure killed = {.rank = 0, .signal = SIGKILL, .oom_killed = true, .step = -1, .steps_done = -1};
    char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT];
    begin(&usual, 4, 0, 0);
    tess_recover_decide(&job, &killed, 0, &now);
    EXPECT_INT(now.action, TESS_ACTION_STOP);
    EXPECT_CONTAINS(now.what, "memory ran out before the first step");
    EXPECT_INT(tess_ladder_overrides(&job.ladder, overrides), 0);
    killed.steps_done = 7; /* it once had enough */
    begin(&usual, 4, 0, 0);
    tess_recover_decide(&job, &killed, 0, &now);
    EXPECT_INT(now.action, TESS_ACTION_RESTART);
}

static void ladders_begin_where_the_configuration_stands(void)
{
    tess_ladder ladder;
    tess_ladder_begin(&ladder, TESS_LADDER_EVERY_N, 4, 7, 28);
    EXPECT(tess_ladder_climb(&ladder));
    EXPECT_INT(ladder.every_n, 2);
    EXPECT(tess_ladder_climb(&ladder));
    EXPECT_INT(ladder.recompute, TESS_LADDER_FULL);
    EXPECT(ladder.same_bits);
    EXPECT(tess_ladder_climb(&ladder));
    EXPECT_INT(ladder.local_batch, 1); /* 7 has no other divisor */
    EXPECT(!tess_ladder_climb(&ladder));
    /* Every second layer may take more than what somebody has selected. */
    char overrides[TESS_LADDER_OVERRIDES][TESS_LADDER_TEXT];
    tess_ladder_begin(&ladder, TESS_LADDER_SELECTIVE, 2, 1, 4);
    EXPECT(tess_ladder_climb(&ladder));
    EXPECT_INT(ladder.recompute, TESS_LADDER_FULL);
    EXPECT_INT(tess_ladder_overrides(&ladder, overrides), 3);
    EXPECT_TEXT(overrides[1], "activation_checkpoint.recompute=");
    EXPECT_TEXT(overrides[2], "activation_checkpoint.budget=0");
    ladder.may_offload = TESS_LADDER_PARAMS; /* things that are on disk already are no rung */
    EXPECT(tess_ladder_climb(&ladder));
    EXPECT(ladder.offloaded == TESS_LADDER_PARAMS && ladder.same_bits);
    EXPECT(!tess_ladder_climb(&ladder));
    tess_ladder_begin(&ladder, TESS_LADDER_FULL, 2, 1, 4);
    EXPECT(!tess_ladder_climb(&ladder));
    tess_ladder_begin(&ladder, TESS_LADDER_FULL, 2, 8, 16);
    ladder.least_batch = 4;
    EXPECT(tess_ladder_climb(&ladder));
    EXPECT_INT(ladder.local_batch, 4);
    EXPECT(!tess_ladder_climb(&ladder));
}

static const test_case cases[] = {
    CASE(what_ranks_remember_is_gone_on_from_once_and_where_it_is_not_what_failed),
    CASE(pauses_double_up_to_a_limit_and_the_seed_decides_them),
    CASE(a_killed_rank_is_replaced_and_without_a_step_since_all_start_again),
    CASE(the_third_failure_within_the_window_stops_with_a_report),
    CASE(the_same_failure_is_reported_in_full_once),
    CASE(failures_older_than_the_window_do_not_count),
    CASE(without_a_limit_a_job_is_recovered_however_often),
    CASE(the_same_at_the_same_step_never_loops),
    CASE(a_refusal_and_a_full_disk_stop_at_once),
    CASE(a_job_that_was_asked_to_stop_is_replaced_to_save_but_does_not_start_again),
    CASE(a_host_where_ranks_keep_failing_is_left_out_with_all_its_places),
    CASE(a_host_that_was_left_out_comes_back_once_it_answers),
    CASE(a_nan_stops_the_job_where_that_is_asked_for),
    CASE(a_place_that_keeps_failing_is_left_out_and_comes_back),
    CASE(a_place_that_fails_at_the_same_step_each_time_is_left_out_too),
    CASE(an_evaluation_that_ends_ranks_twice_is_left_out_and_proves_nothing_about_its_step),
    CASE(no_place_is_left_out_below_the_minimum),
    CASE(places_beyond_the_first_ranks_are_used_after_a_while),
    CASE(want_of_memory_climbs_the_ladder_rung_by_rung),
    CASE(want_of_memory_before_the_first_step_climbs_no_ladder),
    CASE(ladders_begin_where_the_configuration_stands),
};

TEST_MAIN(cases)
