/* The variables that pass a job's earlier lives to the next one over MPI. */
#include <stdlib.h>

#include "job/lives.h"
#include "support/test.h"

static void what_is_told_is_heard(void)
{
    tess_job job;
    int64_t omitted[JOB_OMITTED] = {0, 40, 9000000000000000000, 0, 8};
    tess_lives_report(3, omitted);
    EXPECT_OK(tess_job_create(1, &job));
    EXPECT_OK(tess_lives_read(&job));
    EXPECT_INT(atomic_load(&job.header->epoch), 3);
    EXPECT_INT(atomic_load(&job.header->omitted[0]), 40);
    EXPECT_INT(atomic_load(&job.header->omitted[1]), 9000000000000000000);
    EXPECT_INT(atomic_load(&job.header->omitted[2]), 8);
    EXPECT_INT(atomic_load(&job.header->omitted[3]), 0);
    tess_job_close(&job, true);
    tess_lives_report(0, (int64_t[JOB_OMITTED]){0});
    EXPECT(getenv("TESSERA_OMITTED") == NULL);
}

static void without_a_word_it_is_the_first_life(void)
{
    tess_job job;
    unsetenv("TESSERA_LIVES_BEFORE");
    unsetenv("TESSERA_OMITTED");
    EXPECT_OK(tess_job_create(1, &job));
    EXPECT_OK(tess_lives_read(&job));
    EXPECT_INT(atomic_load(&job.header->epoch), 0);
    EXPECT_INT(atomic_load(&job.header->omitted[0]), 0);
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

static const test_case cases[] = {
    {"what_is_told_is_heard", what_is_told_is_heard},
    {"without_a_word_it_is_the_first_life", without_a_word_it_is_the_first_life},
    {"other_lists_of_steps_are_refused", other_lists_of_steps_are_refused},
};

TEST_MAIN(cases)
