/* Where the failure of a job began, from what is on its board. */
#include "comm/ending.h"
#include "support/test.h"

/* `state` of all ranks; nobody blames anybody. */
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

/* One that runs is not why another failed: the one that blames it is. */
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

/* One times out and blames the other, which then has lost it: the cause does not depend on how many ranks there are. */
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

static const test_case cases[] = {
    {"blame_leads_to_where_it_begins", blame_leads_to_where_it_begins, 0, 0},
    {"ranks_that_run_are_no_cause", ranks_that_run_are_no_cause, 0, 0},
    {"ranks_that_blame_each_other_end_the_walk", ranks_that_blame_each_other_end_the_walk, 0, 0},
};

TEST_MAIN(cases)
