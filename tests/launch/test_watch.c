/* Watching an mpirun: which signals are a request to stop, also one that comes before mpirun runs. */
#include <signal.h>
#include <stdio.h>

#include "launch/mpirun/launch_watch.h"
#include "support/test.h"

static tess_launch_line line;

static void hear_nothing(void *self, const char *text)
{
    (void)self;
    printf("%s\n", text);
}

/* Raises the signal once, as a launcher does that got it before mpirun ran. */
static const char *raise_once(void *self)
{
    int *number = self;
    if (*number != 0)
        raise(*number);
    *number = 0;
    return NULL;
}

static void a_request_that_came_before_mpirun_ran_is_served(void)
{
    static char shell[] = "/bin/sh", flag[] = "-c", program[] = "trap 'exit 130' USR2; while :; do sleep 0.1; done";
    tess_launch_line_end end;
    int number = SIGTERM;
    line = (tess_launch_line){.words = {shell, flag, program, NULL}, .n = 3};
    const tess_launch_watch watch = {
        .mpi = TESS_MPI_OPEN_MPI, .usr1_stops = true, .hear = hear_nothing, .say = raise_once, .self = &number};
    EXPECT_OK(tess_launch_line_run(&line, &watch, &end));
    EXPECT_INT(end.stop_signal, SIGTERM);
    EXPECT(!end.twice);
    EXPECT(end.exit_code == 130 || end.exit_code == 128 + SIGTERM); /* 143: the shell had not set its trap yet */
}

static const test_case cases[] = {
    {"a_request_that_came_before_mpirun_ran_is_served", a_request_that_came_before_mpirun_ran_is_served},
};

TEST_MAIN(cases)
