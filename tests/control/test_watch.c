/* Watching an mpirun: which signals are a request to stop, also one that comes before mpirun runs, and its output. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/launch/mpirun/launch_watch.h"
#include "support/test.h"

static tess_launch_line line;

static void use_shell(char *program)
{
    static char shell[] = "/bin/sh", flag[] = "-c";
    line = (tess_launch_line){.words = {shell, flag, program, NULL}, .n = 3};
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
    static char program[] = "trap 'exit 130' USR2; while :; do sleep 0.1; done";
    tess_launch_line_end end;
    int number = SIGTERM;
    use_shell(program);
    const tess_launch_watch watch = {
        .mpi = TESS_MPI_OPEN_MPI, .usr1_stops = true, .next_input = raise_once, .self = &number};
    EXPECT_OK(tess_launch_line_run(&line, &watch, &end));
    EXPECT_INT(end.stop_signal, SIGTERM);
    EXPECT(!end.twice);
    EXPECT(end.exit_code == 130 || end.exit_code == 128 + SIGTERM); /* 143: the shell had not set its trap yet */
}

static bool take_reports(void *self, const char *text)
{
    (void)self;
    return strncmp(text, "report", 6) == 0;
}

/* Runs a shell program with both outputs of this process in `file`. */
static void run_into(int file, char *program, tess_launch_line_end *end)
{
    int before[] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    use_shell(program);
    const tess_launch_watch watch = {.mpi = TESS_MPI_MPICH, .on_error_line = take_reports};
    tess_status status = tess_launch_line_run(&line, &watch, end);
    dup2(before[0], STDOUT_FILENO);
    dup2(before[1], STDERR_FILENO);
    EXPECT_OK(status);
}

static const char *passed_on(char *program)
{
    static char path[4200], text[16384];
    tess_launch_line_end end;
    snprintf(path, sizeof(path), "%s/output", test_folder());
    int file = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    run_into(file, program, &end);
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void standard_output_passes_unchanged_and_without_a_wait_for_lines(void)
{
    static char program[] = "printf 'a\\rb\\033[1m'; while ! grep -q b $FOLDER/output; do sleep 0.01; done; printf c";
    setenv("FOLDER", test_folder(), 1);
    EXPECT_TEXT(passed_on(program), "a\rb\033[1mc");
}

static void lines_that_are_heard_do_not_pass(void)
{
    static char program[] = "exec >&2; printf repo; sleep 0.05; echo rt; seq 1000 | sed 's/.*/&\\nreport &/'; "
                            "printf '%09000d\\nend' 0";
    static char expected[16384];
    size_t n = 0;
    for (int i = 1; i <= 1000; i++)
        n += (size_t)sprintf(expected + n, "%d\n", i);
    sprintf(expected + n, "%09000d\nend", 0);
    EXPECT_TEXT(passed_on(program), expected);
}

static void output_that_nobody_reads_ends_nothing(void)
{
    static char program[] = "yes | head -n 200000 && yes | head -n 200000 >&2 && exit 7";
    int ends[2];
    tess_launch_line_end end;
    signal(SIGPIPE, SIG_IGN);
    EXPECT(pipe(ends) == 0);
    close(ends[0]);
    run_into(ends[1], program, &end);
    EXPECT_INT(end.exit_code, 7);
}

/* The reader of a full pipe, which goes once the program has been asked to stop. */
static pid_t start_reader(const int ends[2], const char *asked)
{
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        while (access(asked, F_OK) != 0)
            usleep(10000);
        _exit(0);
    }
    close(ends[0]);
    return reader;
}

/* Asks this process to stop once the program is ready for it: `self` is the name of a file that it makes. */
static const char *ask_when_ready(void *self)
{
    if (unlink(self) == 0)
        raise(SIGTERM);
    return NULL;
}

static void a_request_is_served_while_the_reader_is_slow(void)
{
    static char program[] = "yes & trap 'kill $!; touch $FOLDER/asked; exit 130' USR2; touch $FOLDER/ready; "
                            "while :; do wait; done";
    char asked[4200], ready[4200];
    int ends[2], before = dup(STDOUT_FILENO);
    tess_launch_line_end end;
    signal(SIGPIPE, SIG_IGN);
    setenv("FOLDER", test_folder(), 1);
    snprintf(asked, sizeof(asked), "%s/asked", test_folder());
    snprintf(ready, sizeof(ready), "%s/ready", test_folder());
    EXPECT(pipe(ends) == 0);
    pid_t reader = start_reader(ends, asked);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    use_shell(program);
    const tess_launch_watch watch = {.mpi = TESS_MPI_OPEN_MPI, .next_input = ask_when_ready, .self = ready};
    EXPECT_OK(tess_launch_line_run(&line, &watch, &end));
    dup2(before, STDOUT_FILENO);
    EXPECT_INT(waitpid(reader, NULL, 0), reader);
    EXPECT_INT(end.exit_code, 130);
}

static const test_case cases[] = {
    CASE(a_request_that_came_before_mpirun_ran_is_served),
    CASE(standard_output_passes_unchanged_and_without_a_wait_for_lines),
    CASE(lines_that_are_heard_do_not_pass),
    CASE(output_that_nobody_reads_ends_nothing),
    CASE(a_request_is_served_while_the_reader_is_slow),
};

TEST_MAIN(cases)
