/* The check whether a host answers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "control/launch/mpirun/launch_probe.h"
#include "support/test.h"

/* A script that stands in for ssh. */
static const char *agent_of(const char *script)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/agent", test_folder());
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    EXPECT(chmod(path, 0755) == 0);
    return path;
}

static tess_probe_state answer_of(const char *agent, const char *host, const char *program)
{
    tess_launch_probe probe = {0};
    tess_probe_state state;
    EXPECT_OK(tess_launch_probe_begin(&probe, agent, host, program, 0));
    while ((state = tess_launch_probe_look(&probe, 0)) == TESS_PROBE_RUNS)
        usleep(1000);
    EXPECT_INT(probe.pid, 0);
    return state;
}

static const char far_away[] = "far.invalid";

/* Like ssh, it passes the words after the host to a shell. */
static void a_host_answers_when_the_program_runs_there(void)
{
    const char *agent = agent_of("test \"$1\" = far.invalid || exit 3\nshift\nexec sh -c \"$*\"");
    char words[600];
    EXPECT_INT(answer_of(agent, far_away, "/bin/true"), TESS_PROBE_ANSWERED);
    EXPECT_INT(answer_of(agent, far_away, "/bin/false"), TESS_PROBE_SILENT);
    EXPECT_INT(answer_of(agent, far_away, "/no/such/program"), TESS_PROBE_SILENT);
    EXPECT_INT(answer_of("/no/such/agent", far_away, "/bin/true"), TESS_PROBE_SILENT);
    EXPECT_INT(answer_of(agent, far_away, "/bin/true; exit 0 #"), TESS_PROBE_SILENT); /* a name, not a command */
    snprintf(words, sizeof(words), "env -i PATH=/bin:/usr/bin %s", agent);
    EXPECT_INT(answer_of(words, far_away, "/bin/true"), TESS_PROBE_ANSWERED);
}

/* ssh without a terminal would open a window for each question. */
static void nobody_is_asked_for_a_password(void)
{
    setenv("SSH_ASKPASS_REQUIRE", "force", 1);
    EXPECT_INT(answer_of(agent_of("test \"$SSH_ASKPASS_REQUIRE\" = never"), far_away, "/bin/true"),
               TESS_PROBE_ANSWERED);
    EXPECT_TEXT(getenv("SSH_ASKPASS_REQUIRE"), "force"); /* ours stays as it is */
}

static void one_that_does_not_answer_in_time_is_given_up(void)
{
    tess_launch_probe probe = {0};
    const char *agent = agent_of("exec sleep 600");
    EXPECT_OK(tess_launch_probe_begin(&probe, agent, far_away, "/bin/true", 100));
    EXPECT_INT(tess_launch_probe_look(&probe, 100 + LAUNCH_PROBE_S - 1), TESS_PROBE_RUNS);
    pid_t pid = probe.pid;
    EXPECT_INT(tess_launch_probe_look(&probe, 100 + LAUNCH_PROBE_S), TESS_PROBE_SILENT);
    EXPECT(kill(pid, 0) != 0);
    EXPECT_OK(tess_launch_probe_begin(&probe, agent, far_away, "/bin/true", 100));
    pid = probe.pid;
    tess_launch_probe_end(&probe);
    EXPECT(kill(pid, 0) != 0);
    tess_launch_probe_end(&probe); /* none is under way */
}

static void this_machine_is_not_called(void)
{
    char own[256] = "";
    gethostname(own, sizeof(own) - 1);
    EXPECT(tess_os_is_own_name(own) && tess_os_is_own_name("127.0.0.1"));
    EXPECT(!tess_os_is_own_name("192.0.2.1"));
    EXPECT_INT(answer_of("/no/such/agent", "127.0.0.1", "/bin/true"), TESS_PROBE_ANSWERED);
}

static const test_case cases[] = {
    CASE(a_host_answers_when_the_program_runs_there),
    CASE(nobody_is_asked_for_a_password),
    CASE(one_that_does_not_answer_in_time_is_given_up),
    CASE(this_machine_is_not_called),
};

TEST_MAIN(cases)
