/* Requests to stop that reach ranks before they have met. Ranks that die of the signal and ranks that leave are told
 * apart. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/launch/launcher.h"
#include "support/test.h"
#include "tessera/runtime.h"

enum { RANKS = 2, LEFT = 130 };

/* Shared by ranks and launcher. */
typedef struct run {
    volatile int n_begun, n_asked; /* ranks that run; looks of the launcher since it was asked */
    char told[320];                /* the newest notice */
    tess_launch_result result;
} run;

/* A rank that is still starting: it never meets the others. */
static int start_slowly(void *context)
{
    run *r = context;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    __atomic_add_fetch(&r->n_begun, 1, __ATOMIC_SEQ_CST);
    while (r->n_asked < 3)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return LEFT;
}

static void ask(run *r, int number)
{
    if (r->n_begun == RANKS && r->n_asked++ == 0)
        raise(number);
}

static void interrupt(void *self, const struct tess_job *job, const pid_t *pids)
{
    (void)job, (void)pids;
    ask(self, SIGINT);
}

static void terminate(void *self, const struct tess_job *job, const pid_t *pids)
{
    (void)job, (void)pids;
    ask(self, SIGTERM);
}

static run *make_run(void)
{
    void *memory;
    EXPECT_OK(tess_os_share("run", sizeof(run), &memory));
    return memory;
}

static void launch(run *r, tess_launch_options options)
{
    options.grace_s = 600;
    options.self = r;
    EXPECT_OK(tess_launch_function_with(RANKS, start_slowly, r, &options, 600, &r->result));
    EXPECT(r->result.asked_to_stop);
}

/* Ranks that died of the signal and ranks that left give the job the same exit code. */
static void ranks_that_die_of_an_interrupt_have_not_left(void)
{
    run *r = make_run();
    launch(r, (tess_launch_options){.tick = interrupt});
    EXPECT_INT(r->result.exit_code, LEFT);
    EXPECT(!r->result.left);
}

static void ranks_that_are_to_save_what_is_kept_are_let_come(void)
{
    run *r = make_run();
    launch(r, (tess_launch_options){.tick = terminate, .stops_at_once = true});
    EXPECT_INT(r->result.exit_code, LEFT);
    EXPECT_INT(r->result.stop_signal, SIGTERM);
    EXPECT(r->result.left);
}

/* ---- Ranks that have joined ---- */
/* Waits for the end in the way of a program that knows nothing of requests; `looks`: it asks for them. */
static int join(run *r, bool looks)
{
    tess_runtime *runtime;
    if (tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime) != TESS_OK)
        return 1;
    while (looks && !tess_runtime_stop_requested(runtime)) {
        r->n_begun = RANKS;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    r->n_begun = RANKS;
    while (!looks)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    tess_runtime_destroy(&runtime);
    return LEFT;
}

static int join_and_look(void *context)
{
    return join(context, true);
}

static int join_only(void *context)
{
    return join(context, false);
}

static void note(void *self, const char *line)
{
    run *r = self;
    snprintf(r->told, sizeof(r->told), "%s", line);
}

static run *launch_joined(int (*rank)(void *context), const tess_launch_options *wanted)
{
    run *r = make_run();
    tess_launch_options options = *wanted;
    options.grace_s = 600;
    options.self = r;
    options.reporter = (tess_reporter){note, r};
    EXPECT_OK(tess_launch_function_with(RANKS, rank, r, &options, 600, &r->result));
    EXPECT(r->result.asked_to_stop);
    EXPECT(strstr(r->told, "asked to stop") != NULL);
    return r;
}

static void joined_ranks_that_never_look_for_a_request_get_a_signal(void)
{
    run *r = launch_joined(join_only, &(tess_launch_options){.tick = interrupt});
    EXPECT_INT(r->result.exit_code, LEFT);
    EXPECT(r->result.report[0] == '\0');
    EXPECT(!r->result.left);
    r = launch_joined(join_only, &(tess_launch_options){.tick = terminate});
    EXPECT_INT(r->result.exit_code, 128 + SIGTERM);
}

static void joined_ranks_that_look_for_a_request_leave_by_themselves(void)
{
    run *r = launch_joined(join_and_look, &(tess_launch_options){.tick = interrupt});
    EXPECT_INT(r->result.exit_code, LEFT);
    EXPECT(r->result.left);
}

static void twice(void *self, const struct tess_job *job, const pid_t *pids)
{
    (void)job, (void)pids;
    run *r = self;
    if (r->n_begun == RANKS && r->n_asked < 2) {
        r->n_asked++;
        raise(SIGINT);
    }
}

static void keep(void *helpers, int64_t steps, char *text, size_t size)
{
    EXPECT(steps <= 0);
    strncat(text, helpers, size - strlen(text) - 1);
}

static void a_second_request_kills_and_the_report_says_what_is_kept(void)
{
    run *r = launch_joined(
        join_only, &(tess_launch_options){.tick = twice, .heeds_stop = true, .kept = keep, .helpers = "; nothing"});
    EXPECT_INT(r->result.exit_code, LEFT);
    EXPECT_TEXT(r->result.report, "stopped by the operator (asked to stop twice: the ranks were killed); nothing");
}

static const test_case cases[] = {
    CASE(joined_ranks_that_never_look_for_a_request_get_a_signal),
    CASE(joined_ranks_that_look_for_a_request_leave_by_themselves),
    CASE(a_second_request_kills_and_the_report_says_what_is_kept),
    CASE(ranks_that_die_of_an_interrupt_have_not_left),
    CASE(ranks_that_are_to_save_what_is_kept_are_let_come),
};

TEST_MAIN(cases)
