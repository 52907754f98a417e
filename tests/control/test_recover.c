/* Ranks that are lost and replaced: the others keep their processes, and all meet again. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/rejoin.h"
#include "job/persist/persist.h"
#include "control/launch/launcher.h"
#include "support/test.h"
#include "tessera/comm.h"
#include "trace/notice.h"

enum { STEPS = 30, MOST_LINES = 16 };

typedef enum how { KILL, EXIT, IN_SETUP, STUBBORN, STOPPED_IN_SETUP, BLAMED } how;

/* The events of a run, and the reports of it. Ranks and launcher share it. */
typedef struct run {
    int world;
    uint32_t victims; /* set of ranks */
    how how;
    double grace_s;
    int n_failures; /* how often the victims fail, at steps 10, 11, ... */
    tess_action action;
    _Atomic int n_struck[8], n_processes[8], n_sums, n_ready;
    _Atomic int n_asked;
    tess_failure failure;
    int n_lines;
    char lines[MOST_LINES][1024];
    tess_notices notices;
} run;

/* A rank's persistent memory holds its number of steps. */
static int64_t *kept_step(const tess_runtime *rt)
{
    void *address;
    bool found;
    EXPECT_OK(tess_persist_region(tess_persist_of(rt), "step", sizeof(int64_t), &address, &found));
    return address;
}

static void misbehave(run *r, int rank, int64_t step)
{
    if ((r->victims >> rank & 1) == 0 || r->n_struck[rank] >= r->n_failures || step < 10)
        return;
    r->n_struck[rank]++;
    if (r->how == EXIT)
        _exit(7);
    raise(SIGKILL);
}

/* The victim ends and blames rank 0, which leaves and awaits the decision. */
static tess_status blame(const run *r, tess_runtime *rt)
{
    int rank = tess_runtime_rank(rt);
    if ((r->victims >> rank & 1) == 0)
        return TESS_E_PEER_LOST;
    tess_runtime_report_status(rt, TESS_E_INVALID);
    tess_runtime_report_of(rt, 0, "the settings are wrong");
    tess_runtime_destroy(&rt);
    _exit(2);
}

static tess_status take_steps(run *r, tess_runtime *rt)
{
    int rank = tess_runtime_rank(rt);
    if (r->how == BLAMED)
        return blame(r, rt);
    int64_t *done = kept_step(rt), least = *done;
    TESS_TRY(tess_all_reduce(tess_runtime_team(rt), &least, &least, 1, TESS_I64, TESS_MIN, NULL));
    *done = least;
    if (rank == 0)
        tess_launch_resumed(rt, least);
    while (*done < STEPS) {
        int64_t sum = 1;
        misbehave(r, rank, *done);
        TESS_TRY(tess_all_reduce(tess_runtime_team(rt), &sum, &sum, 1, TESS_I64, TESS_SUM, NULL));
        EXPECT_INT(sum, r->world);
        ++*done;
        r->n_sums++;
    }
    return TESS_OK;
}

/* The victims die of the signal that asks the job to stop. The others do not, and lose them. */
static void be_stopped_in_setup(run *r, int rank)
{
    if ((r->victims >> rank & 1) == 0) {
        signal(SIGTERM, SIG_IGN);
        r->n_ready++;
        return;
    }
    while (r->n_ready < r->world - 1)
        usleep(1000);
    kill(getppid(), SIGTERM);
    for (;;)
        pause();
}

static int take_part(void *context)
{
    run *r = context;
    int rank = test_rank();
    tess_runtime_options options = {.comm_timeout_s = 600};
    if (r->how == IN_SETUP && r->n_processes[rank]++ == 0 && (r->victims >> rank & 1) != 0)
        raise(SIGKILL);
    if (r->how == STOPPED_IN_SETUP)
        be_stopped_in_setup(r, rank);
    if (r->how != IN_SETUP)
        r->n_processes[rank]++;
    for (;;) {
        tess_runtime *rt = NULL;
        tess_status status = tess_runtime_create(&options, &rt);
        if (status == TESS_OK)
            status = take_steps(r, rt);
        tess_runtime_destroy(&rt);
        if (status == TESS_OK)
            return 0;
        if (r->how == STUBBORN && rank == 0 && r->n_processes[0] == 1)
            for (;;)
                pause(); /* does not come out */
        if (!tess_launch_await())
            return 1;
    }
}

static void hear(void *self, const char *line)
{
    run *r = self;
    if (r->n_lines < MOST_LINES)
        snprintf(r->lines[r->n_lines++], sizeof(r->lines[0]), "%s", line);
}

static void decide(void *self, const tess_failure *failure, tess_launch_decision *decision)
{
    run *r = self;
    r->n_asked++;
    r->failure = *failure;
    decision->action = r->action;
}

static run *begin(int world, uint32_t victims, how how)
{
    void *memory;
    EXPECT_OK(tess_os_share("recover", sizeof(run), &memory));
    run *r = memory;
    r->world = world;
    r->victims = victims;
    r->how = how;
    r->n_failures = 1;
    r->grace_s = how == STUBBORN ? 5 : 600;
    r->action = TESS_ACTION_RESPAWN;
    return r;
}

static tess_launch_result launch(run *r)
{
    tess_persist_set persist;
    tess_launch_result result;
    EXPECT_OK(tess_persist_set_create(test_mem(), r->world, NULL, 1, &persist));
    tess_launch_options options = {.grace_s = r->grace_s,
                                   .reporter = {hear, r},
                                   .persist = &persist,
                                   .notices = &r->notices,
                                   .decide = decide,
                                   .self = r};
    EXPECT_OK(tess_launch_function_with(r->world, take_part, r, &options, 600, &result));
    tess_persist_set_destroy(&persist, true);
    return result;
}

static void expect_well(const run *r, const tess_launch_result *result, int n_recovered)
{
    EXPECT_TEXT(result->report, "");
    EXPECT_INT(result->exit_code, 0);
    EXPECT_INT(result->failed_rank, -1);
    EXPECT_INT(result->n_recovered, n_recovered);
    EXPECT_INT(r->n_asked, n_recovered);
}

static void one_rank_that_is_killed_is_replaced_and_the_others_keep_their_processes(void)
{
    run *r = begin(4, 1 << 2, KILL);
    tess_launch_result result = launch(r);
    expect_well(r, &result, 1);
    for (int i = 0; i < 4; i++)
        EXPECT_INT(r->n_processes[i], i == 2 ? 2 : 1);
    EXPECT_INT(r->failure.rank, 2);
    EXPECT_INT(r->failure.signal, SIGKILL);
    EXPECT_INT(r->n_lines, 1);
    EXPECT_CONTAINS(r->lines[0], "rank 2 was killed by signal 9 (SIGKILL)");
    EXPECT_CONTAINS(r->lines[0], "; replaced in ");
    EXPECT_CONTAINS(r->lines[0], ", going on from step 10");
}

/* One list has the notices of all lives, although the job was reset between them. */
static void expect_replacements_noted(const run *r, int n)
{
    tess_notice notices[TESS_NOTICES];
    EXPECT_INT(tess_notices_read(&r->notices, notices), n);
    for (int i = 0; i < n; i++) {
        EXPECT_INT(notices[i].kind, TESS_NOTICE_REPLACED);
        EXPECT_INT(notices[i].rank, 0);
        EXPECT(notices[i].step >= 10);
        EXPECT_CONTAINS(notices[i].text, "; replaced in ");
    }
}

static void a_rank_that_fails_again_and_again_is_replaced_as_often_as_is_decided(void)
{
    run *r = begin(2, 1 << 0, EXIT);
    r->n_failures = 5;
    tess_launch_result result = launch(r);
    expect_well(r, &result, 5);
    EXPECT_INT(r->n_processes[0], 6);
    EXPECT_INT(r->n_processes[1], 1);
    EXPECT_INT(r->failure.exit_code, 7);
    expect_replacements_noted(r, 5);
}

static void all_ranks_at_once_are_replaced(void)
{
    run *r = begin(4, 15, KILL);
    tess_launch_result result = launch(r);
    EXPECT_INT(result.exit_code, 0);
    EXPECT(result.n_recovered >= 1);
    EXPECT_TEXT(result.report, "");
}

static void a_rank_that_dies_before_it_joins_is_replaced(void)
{
    run *r = begin(3, 1 << 1, IN_SETUP);
    r->n_failures = 0;
    tess_launch_result result = launch(r);
    expect_well(r, &result, 1);
    EXPECT_INT(r->n_processes[1], 2);
    EXPECT_CONTAINS(r->lines[0], "going on from step 0");
}

static void a_survivor_that_does_not_come_out_is_killed_and_replaced(void)
{
    run *r = begin(3, 1 << 2, STUBBORN);
    tess_launch_result result = launch(r);
    expect_well(r, &result, 1);
    EXPECT_INT(r->n_processes[0], 2);
    EXPECT_INT(r->n_processes[1], 1);
    EXPECT_CONTAINS(r->lines[0], "2 ranks replaced in");
}

static void a_job_that_is_stopped_while_it_starts_ends_so(void)
{
    run *r = begin(3, 1u << 1, STOPPED_IN_SETUP);
    tess_launch_result result = launch(r);
    EXPECT_TEXT(result.report, "");
    EXPECT_INT(result.exit_code, 128 + SIGTERM);
    EXPECT_INT(result.failed_rank, -1);
    EXPECT_INT(r->n_asked, 0);
    EXPECT(result.asked_to_stop);
}

static void a_rank_that_awaits_a_decision_is_not_waited_for(void)
{
    run *r = begin(2, 1u << 1, BLAMED);
    r->action = TESS_ACTION_STOP;
    tess_launch_result result = launch(r);
    EXPECT_INT(result.exit_code, 2);
    EXPECT_INT(r->n_asked, 1);
    EXPECT_INT(r->failure.signal, 0);
}

static void when_the_end_is_decided_the_job_ends_as_it_failed(void)
{
    for (int i = 0; i < 2; i++) {
        run *r = begin(3, 1 << 1, EXIT);
        r->action = i == 0 ? TESS_ACTION_STOP : TESS_ACTION_RESTART;
        double begin_s = tess_os_now_s();
        tess_launch_result result = launch(r);
        EXPECT_INT(result.exit_code, 7);
        EXPECT_INT(result.failed_rank, 1);
        EXPECT_INT(result.action, r->action);
        EXPECT_INT(result.n_recovered, 0);
        EXPECT_CONTAINS(result.report, "rank 1 exited with code 7");
        EXPECT(tess_os_now_s() - begin_s < 60); /* nobody waits for a grace */
    }
}

static const test_case cases[] = {
    CASE(one_rank_that_is_killed_is_replaced_and_the_others_keep_their_processes),
    CASE(a_rank_that_fails_again_and_again_is_replaced_as_often_as_is_decided),
    CASE(all_ranks_at_once_are_replaced),
    CASE(a_rank_that_dies_before_it_joins_is_replaced),
    CASE(a_survivor_that_does_not_come_out_is_killed_and_replaced),
    CASE(a_job_that_is_stopped_while_it_starts_ends_so),
    CASE(a_rank_that_awaits_a_decision_is_not_waited_for),
    CASE(when_the_end_is_decided_the_job_ends_as_it_failed),
};

TEST_MAIN(cases)
