/* Every row of the table: from the facts of a failure to its class and action. */
#include <signal.h>

#include "job/failure.h"
#include "support/test.h"

static const tess_failure base = {.rank = 1, .step = 5, .text = "rank 1 ..."};

static void expect(const char *what, tess_failure failure, tess_failure_class class, tess_action action)
{
    tess_failure_class got = tess_failure_classify(&failure);
    if (got != class)
        test_fail(__FILE__, __LINE__, "%s is '%s', expected '%s'", what, tess_failure_name(got),
                  tess_failure_name(class));
    EXPECT_INT(tess_failure_action(got), action);
    EXPECT(tess_failure_advice(got)[0] != '\0');
}

static tess_failure by_signal(int signal)
{
    tess_failure failure = base;
    failure.signal = signal;
    failure.exit_code = 128 + signal;
    return failure;
}

static tess_failure by_status(tess_status status)
{
    tess_failure failure = base;
    failure.status = status;
    failure.exit_code = 1;
    return failure;
}

static void signals_of_its_own_are_crashes_and_others_come_from_outside(void)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    static const int others[] = {SIGKILL, SIGTERM, SIGHUP, SIGXCPU};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        expect("a signal of its own", by_signal(own[i]), TESS_FAILURE_CRASH, TESS_ACTION_RESPAWN);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        expect("a signal from outside", by_signal(others[i]), TESS_FAILURE_KILLED, TESS_ACTION_RESPAWN);
}

static void a_status_decides_where_the_rank_ended_by_itself(void)
{
    static const struct {
        tess_status status;
        tess_failure_class class;
        tess_action action;
    } rows[] = {
        {TESS_E_NOMEM, TESS_FAILURE_NO_MEMORY, TESS_ACTION_SHRINK},
        {TESS_E_PEER_LOST, TESS_FAILURE_LOST, TESS_ACTION_RESTART},
        {TESS_E_MISMATCH, TESS_FAILURE_MISMATCH, TESS_ACTION_RESTART},
        {TESS_E_NOT_FINITE, TESS_FAILURE_NUMBERS, TESS_ACTION_RESTART},
        {TESS_E_TIMEOUT, TESS_FAILURE_STUCK, TESS_ACTION_RESTART},
        {TESS_E_NO_SPACE, TESS_FAILURE_DISK_FULL, TESS_ACTION_STOP},
        {TESS_E_IO, TESS_FAILURE_IO, TESS_ACTION_RESTART},
        {TESS_E_DEVICE, TESS_FAILURE_DEVICE, TESS_ACTION_RESTART},
        {TESS_E_INTERRUPTED, TESS_FAILURE_PREEMPTED, TESS_ACTION_STOP},
        {TESS_E_INVALID, TESS_FAILURE_REFUSED, TESS_ACTION_STOP},
        {TESS_E_NOT_FOUND, TESS_FAILURE_REFUSED, TESS_ACTION_STOP},
        {TESS_E_FORMAT, TESS_FAILURE_REFUSED, TESS_ACTION_STOP},
        {TESS_E_UNSUPPORTED, TESS_FAILURE_REFUSED, TESS_ACTION_STOP},
        {TESS_E_INTERNAL, TESS_FAILURE_UNKNOWN, TESS_ACTION_RESTART},
        {TESS_E_CANCELLED, TESS_FAILURE_UNKNOWN, TESS_ACTION_RESTART},
        {TESS_OK, TESS_FAILURE_UNKNOWN, TESS_ACTION_RESTART},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect(tess_status_name(rows[i].status), by_status(rows[i].status), rows[i].class, rows[i].action);
}

static void what_the_system_did_comes_before_what_the_rank_said(void)
{
    tess_failure failure = by_signal(SIGKILL);
    failure.status = TESS_E_MISMATCH;
    expect("killed, with an error", failure, TESS_FAILURE_KILLED, TESS_ACTION_RESPAWN);
    failure.oom_killed = true;
    expect("killed for want of memory", failure, TESS_FAILURE_OOM_KILLED, TESS_ACTION_SHRINK);
    failure = by_signal(SIGKILL);
    failure.stuck = true;
    expect("stuck, ended by us", failure, TESS_FAILURE_STUCK, TESS_ACTION_RESTART);
    failure.host_lost = true;
    expect("host lost", failure, TESS_FAILURE_LOST, TESS_ACTION_RESTART);
    failure.asked = true;
    expect("asked to stop", failure, TESS_FAILURE_PREEMPTED, TESS_ACTION_STOP);
}

static void a_command_that_refuses_its_input_says_so_with_its_exit_code(void)
{
    tess_failure failure = base;
    failure.exit_code = 2;
    expect("exit code 2", failure, TESS_FAILURE_REFUSED, TESS_ACTION_STOP);
    failure.exit_code = 3;
    expect("exit code 3", failure, TESS_FAILURE_UNKNOWN, TESS_ACTION_RESTART);
}

/* A failure with an outside cause may come at the same step by chance, however often. */
static void only_what_lies_in_the_job_is_proven_by_coming_twice(void)
{
    EXPECT(!tess_failure_is_of_step(TESS_FAILURE_KILLED));
    EXPECT(!tess_failure_is_of_step(TESS_FAILURE_LOST));
    EXPECT(!tess_failure_is_of_step(TESS_FAILURE_OOM_KILLED));
    EXPECT(tess_failure_is_of_step(TESS_FAILURE_CRASH));
    EXPECT(tess_failure_is_of_step(TESS_FAILURE_NUMBERS));
    EXPECT(tess_failure_is_of_step(TESS_FAILURE_MISMATCH));
    EXPECT(tess_failure_is_of_step(TESS_FAILURE_UNKNOWN));
}

static const test_case cases[] = {
    CASE(signals_of_its_own_are_crashes_and_others_come_from_outside),
    CASE(a_status_decides_where_the_rank_ended_by_itself),
    CASE(what_the_system_did_comes_before_what_the_rank_said),
    CASE(a_command_that_refuses_its_input_says_so_with_its_exit_code),
    CASE(only_what_lies_in_the_job_is_proven_by_coming_twice),
};

TEST_MAIN(cases)
