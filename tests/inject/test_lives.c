/* The lives of a rank in a drill: which faults happen to which process, what survivors remember, and the warnings. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/rejoin.h"
#include "inject/inject.h"
#include "control/launch/launcher.h"
#include "support/test.h"

enum { WORLD = 3, STEPS = 6 };

/* A job. Its ranks and the launcher share it. */
typedef struct job {
    const char *fault;
    int errors; /* file that the ranks' standard error goes to */
    _Atomic int n_processes[WORLD], n_spoilt[WORLD];
} job;

/* Begins at step 1 in each life of the job, so survivors meet their faults again. */
static tess_status take_steps(job *j, tess_runtime *rt)
{
    for (int step = 1; step <= STEPS; step++) {
        float x[4] = {0};
        int64_t sum = 1;
        tess_runtime_phase(rt, "backward", step, 0);
        j->n_spoilt[tess_runtime_rank(rt)] += tess_inject_tensor(rt, TESS_FAULT_GRADIENT, "x", x, 4, TESS_F32);
        TESS_TRY(tess_all_reduce(tess_runtime_team(rt), &sum, &sum, 1, TESS_I64, TESS_SUM, NULL));
    }
    return TESS_OK;
}

static int take_part(void *context)
{
    job *j = context;
    j->n_processes[test_rank()]++;
    dup2(j->errors, STDERR_FILENO);
    for (;;) {
        tess_runtime *rt = NULL;
        tess_status status =
            tess_runtime_create(&(tess_runtime_options){.comm_timeout_s = 600, .fault = j->fault}, &rt);
        if (status == TESS_OK)
            status = take_steps(j, rt);
        tess_runtime_destroy(&rt);
        if (status == TESS_OK)
            return 0;
        if (!tess_launch_await())
            return 1;
    }
}

static void replace(void *self, const tess_failure *failure, tess_launch_decision *decision)
{
    (void)self, (void)failure;
    decision->action = TESS_ACTION_RESPAWN;
}

/* Runs the drill on WORLD ranks; a lost one is replaced. errors: what the ranks have written. */
static job *run(const char *fault, tess_rank_past *past, int n_recovered, char *errors, size_t size)
{
    void *memory;
    tess_launch_result result;
    EXPECT_OK(tess_os_share("lives", sizeof(job), &memory));
    job *j = memory;
    j->fault = fault;
    j->errors = memfd_create("errors", 0);
    const tess_launch_options options = {
        .grace_s = 600, .past = past, .n_past = past != NULL ? 3 : 0, .decide = replace, .self = j};
    EXPECT_OK(tess_launch_function_with(WORLD, take_part, j, &options, 600, &result));
    EXPECT_TEXT(result.report, "");
    EXPECT_INT(result.exit_code, 0);
    EXPECT_INT(result.n_recovered, n_recovered);
    ssize_t n = pread(j->errors, errors, size - 1, 0);
    errors[n > 0 ? n : 0] = '\0';
    close(j->errors);
    return j;
}

static void ranks_that_die_one_after_the_other_each_do_so_in_their_first_life(void)
{
    char errors[1024];
    job *j = run("rank=1 step=2 kind=sigkill; rank=2 step=4 kind=sigkill", NULL, 2, errors, sizeof(errors));
    static const int processes[WORLD] = {1, 2, 2};
    for (int r = 0; r < WORLD; r++)
        EXPECT_INT(j->n_processes[r], processes[r]);
    EXPECT_TEXT(errors, "");
}

/* Rank 0 survives two recoveries, so it takes step 1 three times. Rank 1 takes it in three processes. */
static void a_survivor_remembers_what_has_happened_and_a_new_process_begins_anew(void)
{
    char errors[1024];
    job *j = run("rank=1 step=3 kind=sigkill; rank=1 step=3 kind=sigkill life=2; "
                 "rank=0 step=1 point=gradient kind=nan times=2; rank=1 step=1 point=gradient kind=nan times=2 life=0; "
                 "rank=2 step=1 point=gradient kind=nan",
                 NULL, 2, errors, sizeof(errors));
    EXPECT_INT(j->n_processes[1], 3);
    EXPECT_INT(j->n_spoilt[0], 2);
    EXPECT_INT(j->n_spoilt[1], 3);
    EXPECT_INT(j->n_spoilt[2], 1);
    EXPECT_TEXT(errors, "");
}

static void a_fault_of_a_life_that_never_came_is_warned_of(void)
{
    char errors[1024];
    run("rank=1 step=2 kind=sigkill; rank=0 step=3 kind=exit life=2; rank=2 step=9 kind=exit; rank=1 step=9 kind=exit",
        NULL, 1, errors, sizeof(errors));
    EXPECT_CONTAINS(errors, "warning: fault 2 never happened on rank 0: rank=0 step=3 kind=exit life=2 (it is for life "
                            "2 of the rank, which ends in its life 1)\n");
    EXPECT_CONTAINS(errors, "warning: fault 3 never happened on rank 2: rank=2 step=9 kind=exit\n");
    EXPECT_CONTAINS(errors, "warning: fault 4 never happened on rank 1: rank=1 step=9 kind=exit (it is for life 1 of "
                            "the rank, which ends in its life 2)\n");
    EXPECT(strstr(errors, "fault 1 ") == NULL);
}

/* The job was launched twice before, with one rank more at first. Rank 1 is new since the second launch. */
static void lives_are_counted_over_launches(void)
{
    char errors[1024];
    tess_rank_past past[3] = {[0] = {.n_before = 2}, [1] = {.n_before = 1, .faults_before = 1}, [2] = {.n_before = 2}};
    job *j = run("rank=1 step=2 kind=exit; rank=1 step=3 kind=exit life=2; rank=2 step=4 kind=exit", past, 1, errors,
                 sizeof(errors));
    EXPECT_INT(j->n_processes[1], 2);
    EXPECT_INT(past[0].n_before, 3);
    EXPECT_INT(past[1].n_before, 3);
    EXPECT_INT(past[1].faults_before, 3);
    EXPECT_INT(past[2].faults_before, 0);
    EXPECT_INT(past[1].happened[1], 0);
    EXPECT_TEXT(errors, "warning: fault 3 never happened on rank 2: rank=2 step=4 kind=exit (it is for life 1 of the "
                        "rank, which ends in its life 3)\n");
}

static const test_case cases[] = {
    CASE(ranks_that_die_one_after_the_other_each_do_so_in_their_first_life),
    CASE(a_survivor_remembers_what_has_happened_and_a_new_process_begins_anew),
    CASE(a_fault_of_a_life_that_never_came_is_warned_of),
    CASE(lives_are_counted_over_launches),
};

TEST_MAIN(cases)
