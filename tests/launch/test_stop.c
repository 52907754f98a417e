/* Requests to stop that reach ranks before they have met. Ranks that die of the signal and ranks that leave are told
 * apart. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "launch/launcher.h"
#include "support/test.h"

enum { RANKS = 2, LEFT = 130 };

/* Shared by ranks and launcher. */
typedef struct run {
    volatile int n_begun, n_asked; /* ranks that run; looks of the launcher since it was asked */
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

static const test_case cases[] = {
    {"ranks_that_die_of_an_interrupt_have_not_left", ranks_that_die_of_an_interrupt_have_not_left},
    {"ranks_that_are_to_save_what_is_kept_are_let_come", ranks_that_are_to_save_what_is_kept_are_let_come},
};

TEST_MAIN(cases)
