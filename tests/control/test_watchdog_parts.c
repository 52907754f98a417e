/* Parts of the watchdog that need no process: its patience, deadlines, classifying a rank from two looks. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "job/patience.h"
#include "control/launch/watchdog/watchdog_impl.h"
#include "support/test.h"

/* ---- Patience ---- */
static void two_long_waits_are_usual_one_is_an_accident(void)
{
    watchdog_patience p = {.soft_s = 0.75};
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 0) == 0.75);
    watchdog_patience_learn(&p, WATCHDOG_TRAINING, 10, 1);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 2) == 0.75);
    watchdog_patience_learn(&p, WATCHDOG_TRAINING, 2, 3);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 4) == 6);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_EVALUATION, 4) == 3);
    watchdog_patience_learn(&p, WATCHDOG_TRAINING, 10, 5);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 6) == 30);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 400) == 0.75); /* the long wait was long ago */
    for (int i = 0; i < 2 * WATCHDOG_REMEMBERED; i++)
        watchdog_patience_learn(&p, WATCHDOG_TRAINING, 0.1, 6);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 7) == 30); /* short waits make no long one be forgotten */
    for (int i = 0; i < WATCHDOG_REMEMBERED; i++)
        watchdog_patience_learn(&p, WATCHDOG_TRAINING, 0.5, 6);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 7) == 1.5);
}

static void patience_ends_before_the_deadline(void)
{
    watchdog_patience p = {.soft_s = 0.75, .timeout_s = 4};
    for (int i = 0; i < 3; i++)
        watchdog_patience_learn(&p, WATCHDOG_TRAINING, 100, 1);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_TRAINING, 2) == 2);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_SETUP, 2) == 2);
    EXPECT(watchdog_patience_limit(&p, WATCHDOG_CHECKPOINT, 2) == 6);
}

/* ---- Deadlines ---- */
static void deadlines_grow_with_phase_and_size(void)
{
    EXPECT(watchdog_deadline(600, "forward", 1000, 4000, 0) == 600);
    EXPECT(watchdog_deadline(600, NULL, 1000, 4000, 0) == 600);
    EXPECT(watchdog_deadline(600, "validation", 1000, 4000, 0) == 1800);
    EXPECT(watchdog_deadline(600, "checkpoint", 1000, 4000, 0) == 1800);
    EXPECT(watchdog_deadline(600, "forward", 10000000, 4, 0) == 900);
    EXPECT(watchdog_deadline(600, "forward", 100000000, 4, 0) == 1800);
    EXPECT(watchdog_deadline(3, "forward", 1000, UINT64_C(1) << 30, 0) > 200);
    EXPECT(watchdog_deadline(3, "forward", 1000, 100000000, 5e6) == 400);
    EXPECT(watchdog_deadline(3, "forward", 1000, 100000000, 5e9) == 20);
    EXPECT(watchdog_deadline(3, "forward", 1000, 100000000, 1) == 2000);
}

static void one_slow_operation_is_an_accident_many_are_a_slow_link(void)
{
    double speed = watchdog_learn_speed(0, 1e5);
    EXPECT(speed > 5e7);
    for (int i = 0; i < 12; i++)
        speed = watchdog_learn_speed(speed, 1e6);
    EXPECT(speed > 1e6 && speed < 1.1e6);
    for (int i = 0; i < 80; i++)
        speed = watchdog_learn_speed(speed, 8e9);
    EXPECT(speed > 7.9e9 && speed < 8e9);
}

/* ---- Two looks ---- */
static tess_process_facts seen(char state, tess_call_kind kind, const char *call, uint64_t time_ns, uint64_t cpu_ns)
{
    tess_process_facts facts = {.pid = 1, .here = true, .time_ns = time_ns, .cpu_ns = cpu_ns};
    facts.main = (tess_thread_facts){.tid = 1, .state = state, .kind = kind, .call = kind == TESS_CALL_NONE ? -1 : 1};
    snprintf(facts.main.call_name, sizeof(facts.main.call_name), "%s", call);
    facts.thread = facts.main;
    return facts;
}

static void expect_class(const char *phase, tess_process_facts before, tess_process_facts after, tess_situation want)
{
    watchdog_row row = {.copy.state = JOB_RANK_JOINED, .awaited = &(uint64_t){0}, .world = 4};
    watchdog_finding finding;
    snprintf(row.copy.phase, sizeof(row.copy.phase), "%s", phase);
    watchdog_classify(&row, &before, &after, &finding);
    EXPECT_TEXT(tess_situation_name(finding.situation), tess_situation_name(want));
    EXPECT(finding.why[0] != '\0');
}

static void what_a_rank_does_follows_from_two_looks(void)
{
    const uint64_t s = 1000000000, ms = 1000000;
    expect_class("forward", seen('R', TESS_CALL_NONE, "", s, 0), seen('R', TESS_CALL_NONE, "", s + 100 * ms, 100 * ms),
                 TESS_RANK_COMPUTING);
    expect_class("data", seen('R', TESS_CALL_NONE, "", s, 0), seen('R', TESS_CALL_NONE, "", s + 100 * ms, 100 * ms),
                 TESS_RANK_LOADING_DATA);
    expect_class("forward", seen('S', TESS_CALL_FUTEX, "futex", s, 0),
                 seen('S', TESS_CALL_FUTEX, "futex", s + 100 * ms, 0), TESS_RANK_SLEEPING);
    expect_class("forward", seen('S', TESS_CALL_FUTEX, "futex", s, 0),
                 seen('S', TESS_CALL_FUTEX, "futex", s + 100 * ms, 50 * ms), TESS_RANK_COMPUTING);
    expect_class("data", seen('S', TESS_CALL_SLEEP, "nanosleep", s, 0),
                 seen('S', TESS_CALL_SLEEP, "nanosleep", s + 100 * ms, 0), TESS_RANK_SLEEPING);
    expect_class("data", seen('S', TESS_CALL_FILE, "read", s, 0), seen('S', TESS_CALL_FILE, "read", s + 100 * ms, 0),
                 TESS_RANK_BLOCKED_IN_IO);
    expect_class("forward", seen('R', TESS_CALL_NONE, "", s, 0), seen('D', TESS_CALL_UNKNOWN, "", s + 100 * ms, 0),
                 TESS_RANK_BLOCKED_IN_IO);
    expect_class("forward", seen('T', TESS_CALL_NONE, "", s, 0), seen('T', TESS_CALL_NONE, "", s + 100 * ms, 0),
                 TESS_RANK_STOPPED);
    expect_class("forward", seen('S', TESS_CALL_NONE, "", s, 0), (tess_process_facts){.pid = 1}, TESS_RANK_UNKNOWN);
    tess_process_facts reads = seen('S', TESS_CALL_FILE, "read", s + 100 * ms, 0);
    reads.io_bytes = 4096; /* it moves */
    expect_class("data", seen('S', TESS_CALL_FILE, "read", s, 0), reads, TESS_RANK_LOADING_DATA);
}

static void expect_why(tess_process_facts before, tess_process_facts after, const char *want)
{
    watchdog_row row = {.copy = {.state = JOB_RANK_JOINED, .phase = "forward"}, .awaited = &(uint64_t){0}, .world = 4};
    watchdog_finding finding;
    watchdog_classify(&row, &before, &after, &finding);
    EXPECT_CONTAINS(finding.why, want);
}

static void time_without_a_core_is_not_told_as_time_on_one(void)
{
    const uint64_t s = 1000000000, ms = 1000000;
    tess_process_facts before = seen('R', TESS_CALL_NONE, "", s, 0);
    tess_process_facts after = seen('R', TESS_CALL_NONE, "", s + 100 * ms, 50 * ms);
    after.main.waiting_ns = 64 * ms;
    expect_why(before, after, "computing (state R, 50% of a core)");
    after.cpu_ns = 108 * ms;
    expect_why(before, after, "computing (state R, 100% of a core)");
    after.cpu_ns = 0;
    expect_why(before, after, "computing: ready to run, but it gets no core (state R, 0% of one)");
    after.main.waiting_ns = 0; /* the system counts it only once the wait is over */
    expect_why(before, after, "computing: ready to run, but it gets no core (state R, 0% of one)");
}

/* ---- The ranks that are waited for ---- */
static void let_wait(const tess_job *job, int rank, int missing, uint64_t since_ns)
{
    uint64_t set = UINT64_C(1) << missing;
    tess_fingerprint fp = {.kind = TESS_TRACE_BARRIER, .team = 1, .root = -1};
    tess_board_wait(job, rank, &fp, "t", since_ns, &set);
}

static void chains_of_waits_lead_to_their_end(void)
{
    tess_job job;
    watchdog_waits waits = {0};
    EXPECT_OK(tess_job_create(4, &job));
    EXPECT_OK(watchdog_waits_create(test_mem(), 4, &waits));
    for (int r = 0; r < 4; r++)
        atomic_store(&job.rows[r].state, JOB_RANK_JOINED);
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 0);
    let_wait(&job, 0, 1, 10);
    let_wait(&job, 1, 2, 20);
    let_wait(&job, 3, 2, 15);
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 1);
    EXPECT_INT(waits.list[0].rank, 2);
    EXPECT_INT(waits.list[0].waiter, 3);
    EXPECT_INT(waits.list[0].since_ns, 15);
    EXPECT_INT(watchdog_count_waiters(&job, 2, &waits), 3);
    let_wait(&job, 2, 3, 30); /* 3 waits for 2 and 2 for 3: the one that more wait for stands for the circle */
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 1);
    EXPECT_INT(waits.list[0].rank, 2);
    watchdog_waits_free(test_mem(), &waits);
    tess_job_close(&job, true);
}

/* Rank 650 waits for nobody; of the others the last waits for it, and all before for the last. */
static void sets_hold_any_number_of_ranks(void)
{
    enum { RANKS = 700, MISSED = 650 };
    tess_job job;
    watchdog_waits waits = {0};
    uint64_t set[(RANKS + 63) / 64] = {0};
    tess_fingerprint fp = {.kind = TESS_TRACE_BARRIER, .team = 1, .root = -1};
    EXPECT_OK(tess_job_create(RANKS, &job));
    EXPECT_OK(watchdog_waits_create(test_mem(), RANKS, &waits));
    tess_bits_add(set, RANKS - 1);
    for (int r = 0; r < RANKS; r++) {
        atomic_store(&job.rows[r].state, JOB_RANK_JOINED);
        if (r != MISSED && r != RANKS - 1)
            tess_board_wait(&job, r, &fp, "t", 100 + (uint64_t)r, set);
    }
    uint64_t last[(RANKS + 63) / 64] = {0};
    tess_bits_add(last, MISSED);
    tess_board_wait(&job, RANKS - 1, &fp, "t", 50, last);
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 1);
    EXPECT_INT(waits.list[0].rank, MISSED);
    EXPECT_INT(waits.list[0].waiter, RANKS - 1);
    EXPECT_INT(watchdog_count_waiters(&job, MISSED, &waits), RANKS - 1);
    EXPECT_INT(watchdog_count_waiters(&job, RANKS - 1, &waits), RANKS - 2);
    watchdog_row row = {.copy.state = JOB_RANK_JOINED, .awaited = set, .world = RANKS};
    tess_process_facts looks = seen('S', TESS_CALL_FUTEX, "futex", 1, 0);
    watchdog_finding finding;
    tess_board_export(&job.rows[0], &row.copy);
    watchdog_classify(&row, &looks, &looks, &finding);
    EXPECT_CONTAINS(finding.why, "waiting for rank 699 in barrier");
    watchdog_waits_free(test_mem(), &waits);
    tess_job_close(&job, true);
}

/* Ranks 0 and 1 wait for each other, but also for rank 2, which has left. */
static void a_circle_that_waits_for_another_is_not_named(void)
{
    tess_job job;
    watchdog_waits waits = {0};
    EXPECT_OK(tess_job_create(3, &job));
    EXPECT_OK(watchdog_waits_create(test_mem(), 3, &waits));
    for (int r = 0; r < 3; r++)
        atomic_store(&job.rows[r].state, r < 2 ? JOB_RANK_JOINED : JOB_RANK_LEFT);
    let_wait(&job, 1, 0, 10);
    let_wait(&job, 0, 1, 20);
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 1);
    atomic_fetch_or(tess_job_awaited(&job, 0), 4);
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 0);
    watchdog_waits_free(test_mem(), &waits);
    tess_job_close(&job, true);
}

/* Rank 1 is stopped in a wait for rank 2, which comes after that; then all wait for rank 1. */
static void make_circle(tess_job *job, int host)
{
    EXPECT_OK(tess_job_create(4, job));
    job->header->n_hosts = 2;
    for (int r = 0; r < 4; r++) {
        atomic_store(&job->rows[r].state, JOB_RANK_JOINED);
        job->rows[r].host = r / 2; /* ranks 0 and 1, ranks 2 and 3 */
    }
    job->header->host = (uint32_t)host;
    let_wait(job, 1, 2, 10);
    let_wait(job, 0, 1, 20);
    let_wait(job, 2, 1, 30);
    let_wait(job, 3, 2, 40);
}

static int start_stopped(void)
{
    int pid = fork();
    if (pid == 0)
        for (raise(SIGSTOP);;)
            pause();
    EXPECT(pid > 0);
    EXPECT_INT(waitpid(pid, NULL, WUNTRACED), pid);
    return pid;
}

static void a_stopped_rank_waits_for_nobody(void)
{
    tess_job job;
    const int pid = start_stopped();
    for (int host = 0; host < 2; host++) {
        watchdog_waits waits = {0};
        EXPECT_OK(watchdog_waits_create(test_mem(), 4, &waits));
        make_circle(&job, host);
        watchdog_find_waits(&job, 1, &waits);
        EXPECT_INT(waits.n, 0);
        if (host == 0)
            atomic_store(&job.rows[1].pid, pid);
        else
            atomic_store(&job.rows[1].run_state, 'T'); /* the agent of its host reports this */
        watchdog_find_waits(&job, 1, &waits);
        EXPECT_INT(waits.n, host == 0 ? 1 : 0); /* its own host names it */
        if (host == 0) {
            EXPECT_INT(waits.list[0].rank, 1);
            EXPECT_INT(waits.list[0].waiter, 0);
        }
        EXPECT_INT(watchdog_count_waiters(&job, 1, &waits), 3);
        EXPECT_INT(watchdog_count_waiters(&job, 2, &waits), 1);
        watchdog_waits_free(test_mem(), &waits);
        tess_job_close(&job, true);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A circle on one host is named by the rank with most waiters, which would be rank 2. */
static void a_stopped_rank_is_named_before_a_circle(void)
{
    tess_job job;
    watchdog_waits waits = {0};
    const int pid = start_stopped();
    make_circle(&job, 0);
    EXPECT_OK(watchdog_waits_create(test_mem(), 4, &waits));
    job.header->n_hosts = 1;
    for (int r = 0; r < 4; r++)
        job.rows[r].host = 0;
    let_wait(&job, 0, 2, 20);
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 1);
    EXPECT_INT(waits.list[0].rank, 2);
    atomic_store(&job.rows[1].pid, pid);
    watchdog_find_waits(&job, 1, &waits);
    EXPECT_INT(waits.n, 1);
    EXPECT_INT(waits.list[0].rank, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    watchdog_waits_free(test_mem(), &waits);
    tess_job_close(&job, true);
}

static void a_gap_between_looks_takes_nothing_from_a_wait_before_it(void)
{
    const uint64_t s = 1000000000;
    tess_job job;
    tess_watchdog *w;
    EXPECT_OK(tess_job_create(2, &job));
    for (int r = 0; r < 2; r++)
        atomic_store(&job.rows[r].state, JOB_RANK_JOINED);
    let_wait(&job, 0, 1, tess_os_now_ns() - s);
    EXPECT_OK(tess_watchdog_create(test_mem(), &job, &(tess_watchdog_options){.soft_s = 600, .timeout_s = 6000}, &w));
    tess_watchdog_look(w);
    EXPECT(w->stalls[1].is_on);
    w->stalls[1].since_ns -= 10 * s;
    w->looked_ns -= 3 * s; /* this process seems to have stood still: half a second of that counts */
    tess_watchdog_look(w);
    EXPECT(w->stalls[1].is_on && w->looked_ns - w->stalls[1].since_ns == 7 * s + s / 2);
    tess_watchdog_destroy(&w);
    tess_job_close(&job, true);
}

/* A launcher that recovers a job may have no memory for another watchdog. */
static void no_watchdog_looks_at_nothing(void)
{
    tess_watchdog *w = NULL;
    tess_watchdog_look(w);
    tess_watchdog_ended(w, 0, 1, 1 << 8, false);
    tess_watchdog_settle(w);
    tess_watchdog_destroy(&w);
}

static void ranks_that_have_not_joined_are_waited_for(void)
{
    tess_job job;
    watchdog_waits waits = {0};
    EXPECT_OK(tess_job_create(3, &job));
    EXPECT_OK(watchdog_waits_create(test_mem(), 3, &waits));
    watchdog_find_waits(&job, 0, &waits);
    EXPECT_INT(waits.n, 0);
    atomic_store(&job.rows[0].state, JOB_RANK_JOINED);
    watchdog_find_waits(&job, 7, &waits);
    EXPECT_INT(waits.n, 2);
    EXPECT_INT(waits.list[1].waiter, -1);
    watchdog_waits_free(test_mem(), &waits);
    tess_job_close(&job, true);
}

static const test_case cases[] = {
    CASE(two_long_waits_are_usual_one_is_an_accident),
    CASE(patience_ends_before_the_deadline),
    CASE(deadlines_grow_with_phase_and_size),
    CASE(one_slow_operation_is_an_accident_many_are_a_slow_link),
    CASE(what_a_rank_does_follows_from_two_looks),
    CASE(time_without_a_core_is_not_told_as_time_on_one),
    CASE(chains_of_waits_lead_to_their_end),
    CASE(a_stopped_rank_waits_for_nobody),
    CASE(sets_hold_any_number_of_ranks),
    CASE(a_circle_that_waits_for_another_is_not_named),
    CASE(a_stopped_rank_is_named_before_a_circle),
    CASE(a_gap_between_looks_takes_nothing_from_a_wait_before_it),
    CASE(no_watchdog_looks_at_nothing),
    CASE(ranks_that_have_not_joined_are_waited_for),
};

TEST_MAIN(cases)
