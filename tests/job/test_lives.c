/* The variables that pass a job's earlier lives to the next one over MPI. */
#include <stdlib.h>
#include <string.h>

#include "job/lives.h"
#include "support/test.h"

enum { RANKS = 512 };

static void what_is_told_is_heard(void)
{
    tess_job job;
    int64_t omitted[JOB_OMITTED] = {0, 40, 9000000000000000000, 0, 8};
    tess_rank_past past[RANKS] = {[0] = {.n_before = 3, .faults_before = 0x8001},
                                  [RANKS - 1] = {.n_before = 1, .faults_before = 4, .happened = {7}}};
    EXPECT_OK(tess_lives_report(3, omitted, past, RANKS));
    EXPECT_OK(tess_job_create(RANKS, &job));
    EXPECT_OK(tess_lives_read(&job));
    EXPECT_INT(atomic_load(&job.header->epoch), 3);
    EXPECT_INT(atomic_load(&job.header->omitted[0]), 40);
    EXPECT_INT(atomic_load(&job.header->omitted[1]), 9000000000000000000);
    EXPECT_INT(atomic_load(&job.header->omitted[2]), 8);
    EXPECT_INT(atomic_load(&job.header->omitted[3]), 0);
    past[RANKS - 1].happened[0] = 0;
    EXPECT(memcmp(job.past, past, sizeof(past)) == 0);
    tess_job_close(&job, true);
    EXPECT_OK(tess_job_create(2, &job)); /* a life with fewer ranks leaves out what it has no rank for */
    EXPECT_OK(tess_lives_read(&job));
    EXPECT(memcmp(job.past, past, 2 * sizeof(past[0])) == 0);
    EXPECT_INT(job.header->faults_of_gone, 4); /* but for the faults that have happened */
    tess_job_close(&job, true);
    EXPECT_OK(tess_lives_report(0, (int64_t[JOB_OMITTED]){0}, (tess_rank_past[RANKS]){0}, RANKS));
    EXPECT(getenv("TESSERA_OMITTED") == NULL && getenv("TESSERA_PAST") == NULL);
}

static void without_a_word_it_is_the_first_life(void)
{
    tess_job job;
    unsetenv("TESSERA_LIVES_BEFORE");
    unsetenv("TESSERA_OMITTED");
    unsetenv("TESSERA_PAST");
    EXPECT_OK(tess_job_create(1, &job));
    EXPECT_OK(tess_lives_read(&job));
    EXPECT_INT(atomic_load(&job.header->epoch), 0);
    EXPECT_INT(atomic_load(&job.header->omitted[0]), 0);
    EXPECT_INT(job.past[0].n_before, 0);
    tess_job_close(&job, true);
}

static void other_lists_of_steps_are_refused(void)
{
    static const char *const lists[] = {
        "4,", ",4", "0", "-4", "4 ", "4,,8", "x", " 4", "4;8", "99999999999999999999", "1,2,3,4,5,6,7,8,9"};
    tess_job job;
    EXPECT_OK(tess_job_create(1, &job));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        setenv("TESSERA_OMITTED", lists[i], 1);
        EXPECT_FAILS(tess_lives_read(&job), TESS_E_INVALID, "expected at most 8 steps like 4,8");
    }
    tess_job_close(&job, true);
}

static void other_pasts_are_refused(void)
{
    static const char *const pasts[] = {"1", "1:", ":1", "-1:0", "1:10000", "1:0,", ",1:0", "1:0;1:0", "1:0 ", "x"};
    tess_job job;
    EXPECT_OK(tess_job_create(1, &job));
    for (size_t i = 0; i < sizeof(pasts) / sizeof(pasts[0]); i++) {
        setenv("TESSERA_PAST", pasts[i], 1);
        EXPECT_FAILS(tess_lives_read(&job), TESS_E_INVALID, "expected pairs like 1:0,2:5");
    }
    tess_job_close(&job, true);
    unsetenv("TESSERA_PAST");
}

static void faults_are_reported_as_a_line(void)
{
    char line[TESS_LIVES_LINE_BYTES];
    tess_rank_past past[RANKS] = {[511] = {.faults_before = 2}};
    EXPECT_TEXT(tess_lives_line_write(511, 0x8001, line), "tessera-faults: rank 511 set 8001");
    EXPECT(tess_lives_line_read(line, past, RANKS));
    EXPECT_INT(past[511].faults_before, 0x8003);
    EXPECT(tess_lives_line_read("[1,0]<stderr>: tessera-faults: rank 0 set 1", past, RANKS));
    EXPECT_INT(past[0].faults_before, 1);
    static const char *const others[] = {"tessera-faults: rank 512 set 1", "tessera-faults: rank -1 set 1",
                                         "tessera-faults: rank 1 set 10000", "tessera-faults: rank 1",
                                         "tessera-failure: rank 1 set 1"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        EXPECT(!tess_lives_line_read(others[i], past, RANKS));
    EXPECT_INT(past[1].faults_before, 0);
}

static void the_micro_batch_is_reported_as_a_line(void)
{
    char line[TESS_LIVES_LINE_BYTES];
    int64_t rows = 0;
    EXPECT(tess_lives_rows_read(tess_lives_rows_write(65536, line), &rows));
    EXPECT_INT(rows, 65536);
    EXPECT(tess_lives_rows_read("[1,0]<stderr>: tessera-micro-batch: rows 3", &rows));
    EXPECT(!tess_lives_rows_read("tessera-micro-batch: rows 0", &rows));
    EXPECT(!tess_lives_rows_read("tessera-micro-batch: none", &rows));
    EXPECT_INT(rows, 3);
}

static const test_case cases[] = {
    CASE(what_is_told_is_heard),
    CASE(without_a_word_it_is_the_first_life),
    CASE(other_lists_of_steps_are_refused),
    CASE(other_pasts_are_refused),
    CASE(faults_are_reported_as_a_line),
    CASE(the_micro_batch_is_reported_as_a_line),
};

TEST_MAIN(cases)
