/* The supervision of a job: every line for the user goes through its reporter, and a supervision knows nothing of an
 * earlier one in the same process. */
#include <stdio.h>
#include <string.h>

#include "control/supervise/exit.h"
#include "control/supervise/supervise.h"
#include "support/heard.h"
#include "support/test.h"

/* A job whose first lives fail; it starts no process. */
typedef struct fake_job {
    int n_fail; /* this many lives fail */
    int n_lives;
    int n_before;     /* starts before the newest life */
    char resume[64];  /* last word of the newest command */
    test_heard heard; /* the reporter's lines */
} fake_job;

static void hear(void *self, const char *line)
{
    test_hear(&((fake_job *)self)->heard, line);
}

static tess_status start(void *self, const tess_slots *slots, char *const *words, const tess_launch_options *options,
                         tess_launch_result *result)
{
    (void)slots;
    fake_job *job = self;
    tess_launch_decision decision = {0};
    *result = (tess_launch_result){.failed_rank = -1};
    job->n_before = options->n_before;
    for (int i = 0; words[i] != NULL; i++)
        snprintf(job->resume, sizeof(job->resume), "%s", words[i]);
    if (job->n_lives++ >= job->n_fail)
        return TESS_OK;
    tess_failure failure = {.rank = 1, .signal = 9, .step = 7, .steps_done = 7, .text = "rank 1 was killed"};
    options->decide(options->self, &failure, &decision);
    result->failed_rank = 1;
    result->exit_code = result->rank0_code = 137;
    result->action = decision.action;
    result->reported = decision.reported;
    return TESS_OK;
}

static int run(fake_job *job, const char *text)
{
    tess_config config;
    tess_slots slots;
    tess_own_command command;
    char *words[] = {(char *)"train", NULL};
    const tess_launch_options options = {.reporter = {hear, job}};
    const tess_supervise_starter starter = {.start = start, .self = job};
    EXPECT_OK(tess_config_parse(test_mem(), text, strlen(text), "c.yaml", &config));
    snprintf(config.job.dump_folder, sizeof(config.job.dump_folder), "%s", test_folder());
    config.training.global_batch_size = 16;
    EXPECT_OK(tess_slots_begin(&slots, 2, (int)config.elastic.min_ranks, 0, 0));
    EXPECT_OK(tess_own_command_of(1, words, &command));
    int code = tess_supervise_with(&starter, &slots, &config, &command, &options);
    tess_slots_free(&slots);
    tess_config_free(&config);
    return code;
}

#define CONFIG "recovery: {enable: true, backoff_s: 0.01, backoff_max_s: 0.02, max_failures: 2}\n"

static void the_reporter_gets_every_line(void)
{
    fake_job job = {.n_fail = 1};
    EXPECT_INT(run(&job, CONFIG), TESS_EXIT_OK);
    EXPECT_INT(job.n_lives, 2);
    EXPECT_INT(job.n_before, 1);
    EXPECT_TEXT(job.resume, "checkpoint.resume=true");
    EXPECT(job.heard.n_lines >= 1);
    EXPECT_CONTAINS(job.heard.lines[0], "rank 1 was killed; ");
}

static void the_report_of_all_failures_is_the_last_line(void)
{
    fake_job job = {.n_fail = 100};
    EXPECT_INT(run(&job, CONFIG), 137);
    EXPECT_CONTAINS(job.heard.lines[job.heard.n_lines - 1], "2 failures in all:\n");
}

static void a_layout_that_cannot_lose_a_place_is_told_at_the_start(void)
{
    fake_job job = {0};
    EXPECT_INT(run(&job, "elastic: {min_ranks: 1}\nrecovery: {enable: false}\n"), TESS_EXIT_OK);
    EXPECT_INT(job.heard.n_lines, 1);
    EXPECT_TEXT(job.heard.lines[0], "warning: elastic.min_ranks=1 leaves no rank out: set recovery.enable=true");
}

static void a_supervision_knows_nothing_of_an_earlier_one(void)
{
    fake_job first = {.n_fail = 1}, second = {0};
    EXPECT_INT(run(&first, CONFIG), TESS_EXIT_OK);
    EXPECT_INT(run(&second, CONFIG), TESS_EXIT_OK);
    EXPECT_INT(second.n_before, 0);
    EXPECT_INT(second.heard.n_lines, 0);
    EXPECT(strcmp(second.resume, "checkpoint.resume=true") != 0);
}

static const test_case cases[] = {
    CASE(the_reporter_gets_every_line),
    CASE(the_report_of_all_failures_is_the_last_line),
    CASE(a_layout_that_cannot_lose_a_place_is_told_at_the_start),
    CASE(a_supervision_knows_nothing_of_an_earlier_one),
};
TEST_MAIN(cases)
