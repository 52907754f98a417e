/* A failure as a line of text. */
#include <signal.h>
#include <string.h>

#include "job/failure.h"
#include "support/test.h"

static void a_failure_comes_back_as_it_was(void)
{
    tess_failure failure = {.rank = 511,
                            .signal = SIGKILL,
                            .exit_code = 137,
                            .status = TESS_E_TIMEOUT,
                            .stuck = true,
                            .evaluating = true,
                            .step = 12345678901,
                            .steps_done = -1,
                            .host = "node-2.cluster",
                            .text = "rank 511: in 'data'\nof step 7: host h2: %s"};
    tess_failure read;
    char line[TESS_FAILURE_LINE_BYTES];
    tess_failure_line_write(&failure, line);
    EXPECT(strchr(line, '\n') == NULL);
    EXPECT(tess_failure_line_read(line, &read));
    EXPECT_INT(read.rank, 511);
    EXPECT_INT(read.signal, SIGKILL);
    EXPECT_INT(read.exit_code, 137);
    EXPECT_INT(read.status, TESS_E_TIMEOUT);
    EXPECT(read.stuck && read.evaluating && !read.oom_killed && !read.host_lost && !read.stopping);
    EXPECT_INT(read.step, 12345678901);
    EXPECT_INT(read.steps_done, -1);
    EXPECT_TEXT(read.host, "node-2.cluster");
    EXPECT_TEXT(read.text, "rank 511: in 'data' of step 7: host h2: %s");
    failure.host[0] = '\0';
    EXPECT(tess_failure_line_read(tess_failure_line_write(&failure, line), &read));
    EXPECT_TEXT(read.host, "");
}

static void other_lines_are_none(void)
{
    static const char *const lines[] = {"",
                                        "tessera: rank 1 was killed",
                                        "tessera-failure: ",
                                        "tessera-failure: rank 1",
                                        "tessera-failure: rank -2 signal 9 code 137 status 0 oom 0 stuck 0 lost 0 "
                                        "stopping 0 evaluating 0 step 1 done 1 host h2: x",
                                        "tessera-failure: rank 1 signal 9 code 256 status 0 oom 0 stuck 0 lost 0 "
                                        "stopping 0 evaluating 0 step 1 done 1 host h2: x",
                                        "tessera-failure: rank 1 signal 9 code 137 status 0 oom 2 stuck 0 lost 0 "
                                        "stopping 0 evaluating 0 step 1 done 1 host h2: x",
                                        "tessera-failure: rank 1 signal 9 code 137 status 0 oom 0 stuck 0 lost 0 "
                                        "stopping 0 evaluating 0 step 1 done 1 host : x",
                                        "tessera-failure: rank 1 signal 9 code 137 status 0 oom 0 stuck 0 lost 0 "
                                        "stopping 0 evaluating 0 step 1 done 1 host h2 x"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        tess_failure failure = {.rank = 77};
        EXPECT(!tess_failure_line_read(lines[i], &failure));
        EXPECT_INT(failure.rank, 77);
    }
}

static const test_case cases[] = {
    CASE(a_failure_comes_back_as_it_was),
    CASE(other_lines_are_none),
};

TEST_MAIN(cases)
