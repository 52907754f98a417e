/* The root cause of a failure, from the board. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "job/call_sites.h"
#include "job/rank_end.h"
#include "support/test.h"
#include "diagnosis/history.h"

/* A board with all ranks in `state`; no rank blames another. */
static void make_board(int world, uint32_t state, tess_job *job)
{
    EXPECT_OK(tess_job_create(world, job));
    for (int r = 0; r < world; r++)
        atomic_store(&job->rows[r].state, state);
}

static void blame(const tess_job *job, int rank, int blamed)
{
    tess_board_error(&job->rows[rank], "lost a peer", blamed);
}

static void blame_leads_to_where_it_begins(void)
{
    for (int world = 2; world <= 5; world++) {
        tess_job job;
        make_board(world, JOB_RANK_LOST, &job);
        for (int r = 1; r < world; r++)
            blame(&job, r, r - 1);
        for (int r = 0; r < world; r++)
            EXPECT_INT(tess_ending_cause(&job, r), 0);
        tess_job_close(&job, true);
    }
}

extern const char __executable_start[]; /* the linker's: where the program is mapped */

/* The place of this program's code, in its file. */
static unsigned long offset_here(void)
{
    return (unsigned long)((uintptr_t)make_board - (uintptr_t)__executable_start) + 1;
}

/* Rank 1 belongs to another host, so that its ring is not in this memory: rank 0 runs the same program. */
static void a_call_site_of_another_host_has_its_line(void)
{
    tess_job job;
    char text[512];
    make_board(3, JOB_RANK_JOINED, &job);
    ssize_t n = readlink("/proc/self/exe", tess_job_ring(&job, 0)->owner.program, TESS_TRACE_PROGRAM_BYTES - 1);
    EXPECT(n > 0);
    job.rows[0].program_hash = job.rows[1].program_hash = 7;
    job.rows[2].program_hash = 8; /* a program that nobody here runs */
    for (int r = 0; r < 3; r++) {
        snprintf(text, sizeof(text), "barrier #3 (called at program+0x%lx), in phase 'data'", offset_here());
        tess_call_sites_name(&job, r, text, sizeof(text));
        EXPECT_CONTAINS(text, r < 2 ? "barrier #3 (called by make_board" : "barrier #3 (called at program+0x");
    }
    tess_job_close(&job, true);
}

/* A rank that runs is not the cause of another's failure: the rank that blames it is. */
static void ranks_that_run_are_no_cause(void)
{
    tess_job job;
    make_board(3, JOB_RANK_LOST, &job);
    blame(&job, 2, 1);
    blame(&job, 1, 0);
    atomic_store(&job.rows[0].state, JOB_RANK_JOINED);
    EXPECT_INT(tess_ending_cause(&job, 2), 1);
    tess_job_close(&job, true);
}

/* One rank times out and blames the other, which then loses it. The cause does not depend on the number of ranks. */
static void ranks_that_blame_each_other_end_the_walk(void)
{
    for (int world = 2; world <= 5; world++) {
        tess_job job;
        make_board(world, JOB_RANK_LOST, &job);
        blame(&job, 0, 1);
        blame(&job, 1, 0);
        for (int r = 2; r < world; r++)
            blame(&job, r, 1);
        EXPECT_INT(tess_ending_cause(&job, 0), 0);
        for (int r = 1; r < world; r++)
            EXPECT_INT(tess_ending_cause(&job, r), 1);
        tess_job_close(&job, true);
    }
}

/* Rank 0 was seen to exit before the end of rank 1 was. */
static void who_was_struck_goes_before_who_exited(void)
{
    static const struct {
        int signal, exit_code, first;
    } ends[] = {
        {SIGKILL, 128 + SIGKILL, 1}, {SIGSEGV, 128 + SIGSEGV, 1}, {0, 0, 1}, {SIGABRT, 128 + SIGABRT, 0}, {0, 1, 0}};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        tess_job job;
        int code;
        make_board(3, JOB_RANK_JOINED, &job);
        tess_ending_lose(&job, 0, 0, 7);
        tess_ending_lose(&job, 1, ends[i].signal, ends[i].exit_code);
        EXPECT_INT(tess_ending_find(&job, 0, true, &code), ends[i].first);
        EXPECT_INT(code, ends[i].first == 0 ? 7 : ends[i].exit_code);
        EXPECT_INT(tess_ending_find(&job, 0, false, &code), 0); /* the launcher may have killed rank 1 */
        EXPECT_INT(code, 0);
        tess_job_close(&job, true);
    }
}

static void set_wait(const tess_job *job, int rank, int missing, uint64_t sequence)
{
    tess_fingerprint op = {.kind = TESS_TRACE_ALL_REDUCE, .sequence = sequence};
    uint64_t set = UINT64_C(1) << missing;
    tess_board_wait(job, rank, &op, "world", 1, &set);
}

static void give_up(const tess_job *job, int rank, int blamed)
{
    blame(job, rank, blamed);
    atomic_store(&job->rows[rank].broken_team, 7);
}

/* Ranks 0 and 1 wait for each other, and the watchdog has a finding about rank 1. */
static void make_circle(tess_job *job)
{
    make_board(2, JOB_RANK_LOST, job);
    set_wait(job, 0, 1, 5);
    set_wait(job, 1, 0, 9);
    tess_board_phase(&job->rows[1], "checkpoint", 4, 2, 1);
    tess_board_situation(&job->rows[1], TESS_RANK_IN_OTHER_COLLECTIVE, "waiting for rank 0 in all_reduce #9");
}

/* Whichever rank gives up first, the watchdog's finding stands. */
static void in_a_circle_it_is_the_one_the_watchdog_named(void)
{
    for (int both = 0; both < 2; both++)
        for (int first = 0; first < 2; first++) {
            tess_job job;
            char text[1024];
            make_circle(&job);
            give_up(&job, first, 1 - first);
            if (both)
                give_up(&job, 1 - first, first);
            else
                atomic_store(&job.rows[1 - first].state, JOB_RANK_JOINED);
            int cause = tess_ending_cause(&job, first), stuck = tess_ending_stuck(&job, cause);
            EXPECT_INT(stuck, 1);
            tess_ending_report(&job, cause, stuck, text, sizeof(text));
            EXPECT_CONTAINS(text, "rank 1 never came to all_reduce #5 ");
            EXPECT_CONTAINS(text, "in phase 'checkpoint' of step 4 (2), waiting for rank 0");
            EXPECT(tess_ending_leaves_finding(&job, 1) == (both || first == 1));
            EXPECT(!tess_ending_leaves_finding(&job, 0));
            tess_job_close(&job, true);
        }
}

/* An error of its own replaces the finding. */
static void who_fails_by_itself_is_not_left_as_it_was_found(void)
{
    tess_job job;
    make_circle(&job);
    give_up(&job, 1, 1);
    EXPECT(!tess_ending_leaves_finding(&job, 1));
    tess_job_close(&job, true);
}

static void who_gave_up_has_not_left_in_good_order(void)
{
    tess_job job;
    char text[1024];
    make_board(2, JOB_RANK_LEFT, &job);
    EXPECT_CONTAINS(tess_board_describe_end(&job, 0, text, sizeof(text)), "left the job");
    give_up(&job, 0, 1);
    EXPECT_CONTAINS(tess_board_describe_end(&job, 0, text, sizeof(text)), "rank 0 gave up");
    tess_job_close(&job, true);
}

static void a_rank_killed_for_memory_is_told_with_its_phase(void)
{
    tess_job job;
    char text[1024];
    make_board(2, JOB_RANK_LOST, &job);
    tess_board_phase(&job.rows[1], "data", 5, -1, 1);
    tess_board_situation(&job.rows[1], TESS_RANK_OOM_KILLED, "killed by the system because memory ran out");
    EXPECT_CONTAINS(tess_ending_report(&job, 1, -1, text, sizeof(text)), "in phase 'data' of step 5");
    tess_job_close(&job, true);
}

static void the_last_line_counts_the_batches(void)
{
    tess_job job;
    char text[1024];
    make_board(4, JOB_RANK_LOST, &job);
    for (int r = 0; r < 4; r++) {
        tess_board_phase(&job.rows[r], r == 1 ? "checkpoint" : "backward", r == 1 ? 4 : 5, -1, 1);
        set_wait(&job, r, r == 1 ? 0 : 1, 5);
        give_up(&job, r, r == 1 ? 0 : 1);
    }
    tess_board_situation(&job.rows[1], TESS_RANK_IN_OTHER_COLLECTIVE, "waiting for ranks 0 2 3 in all_reduce #9");
    tess_ending_report(&job, 1, 1, text, sizeof(text));
    EXPECT_CONTAINS(text, "rank 1 is at step 4, the others at step 5: it has had one batch less");
    tess_job_close(&job, true);
}

static const test_case cases[] = {
    CASE(blame_leads_to_where_it_begins),
    CASE(a_call_site_of_another_host_has_its_line),
    CASE(ranks_that_run_are_no_cause),
    CASE(who_was_struck_goes_before_who_exited),
    CASE(ranks_that_blame_each_other_end_the_walk),
    CASE(in_a_circle_it_is_the_one_the_watchdog_named),
    CASE(who_fails_by_itself_is_not_left_as_it_was_found),
    CASE(the_last_line_counts_the_batches),
    CASE(who_gave_up_has_not_left_in_good_order),
    CASE(a_rank_killed_for_memory_is_told_with_its_phase),
};

TEST_MAIN(cases)
