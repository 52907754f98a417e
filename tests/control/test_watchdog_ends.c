/* Jobs that end because of one rank: the launcher's diagnosis names that rank and the reason at once. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/comm_impl.h"
#include "control/launch/launcher.h"
#include "support/heard.h"
#include "support/memory_group.h"
#include "support/test.h"
#include "tessera/comm.h"

typedef enum fault_kind { CRASH, EXIT, KILL, HOG, STOP, OTHER_TEAM } fault_kind;

/* One run: what rank `victim` does, and what was reported of it. Ranks and launcher share it. */
typedef struct run {
    fault_kind kind;
    int world, victim;
    double timeout_s, soft_s;
    test_heard heard;
    volatile uint64_t died_ns, reported_ns; /* the victim died; the last of the others knew */
    tess_launch_result result;
} run;

/* ---- Ranks ---- */
static void wait_in_other_team(tess_team *team, const run *r)
{
    tess_team *pair;
    int me = tess_team_rank(team);
    bool is_member = me == r->victim || me == (r->victim + 1) % r->world;
    EXPECT_OK(tess_team_split(team, is_member ? 0 : 1, me, "pair", &pair));
    if (me == r->victim && tess_barrier(pair, NULL) != TESS_OK)
        _exit(1);
}

static void eat_memory(void)
{
    for (;;) {
        volatile char *block = malloc(1 << 20);
        for (size_t i = 0; block != NULL && i < 1 << 20; i += 4096)
            block[i] = 1;
    }
}

static void misbehave(run *r, tess_runtime *rt)
{
    tess_runtime_phase(rt, "forward", 12, 3);
    r->died_ns = tess_os_now_ns();
    switch (r->kind) {
    case CRASH:
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        break;
    case EXIT:
        _exit(7);
    case KILL:
        raise(SIGKILL);
        break;
    case HOG:
        eat_memory();
        break;
    case STOP:
        raise(SIGSTOP);
        break;
    case OTHER_TEAM:
        break;
    }
}

/* Waits until the watchdog sees the victim in one state. */
static void await_misbehaviour(const run *r, const tess_runtime *rt)
{
    const tess_job_row *row = &rt->job.rows[r->victim];
    while (r->kind == STOP && tess_os_process_state(atomic_load(&row->pid)) != 'T')
        usleep(1000);
    while (r->kind == OTHER_TEAM && atomic_load(&row->wait_since_ns) == 0)
        usleep(1000);
}

static int take_part(void *context)
{
    run *r = context;
    tess_runtime *rt;
    tess_runtime_options options = {.comm_timeout_s = r->timeout_s, .n_threads = 1};
    EXPECT_OK(tess_runtime_create(&options, &rt));
    tess_team *team = tess_runtime_team(rt);
    EXPECT_OK(tess_barrier(team, NULL));
    if (r->kind == OTHER_TEAM)
        wait_in_other_team(team, r);
    if (tess_team_rank(team) == r->victim)
        misbehave(r, rt);
    else
        await_misbehaviour(r, rt);
    tess_status status = tess_barrier(team, NULL);
    r->reported_ns = tess_os_now_ns();
    tess_runtime_destroy(&rt);
    return status == TESS_OK ? 0 : 1;
}

/* ---- The launcher ---- */
static void hear(void *self, const char *line)
{
    run *r = self;
    test_hear(&r->heard, line);
}

static run *make_run(fault_kind kind, int world, int victim)
{
    void *memory;
    EXPECT_OK(tess_os_share("run", sizeof(run), &memory));
    run *r = memory;
    *r = (run){.kind = kind, .world = world, .victim = victim, .timeout_s = 600, .soft_s = 300};
    return r;
}

static void launch(run *r)
{
    tess_launch_options options = {.grace_s = 600, .soft_timeout_s = r->soft_s, .reporter = {hear, r}, .self = r};
    EXPECT_OK(tess_launch_function_with(r->world, take_part, r, &options, 600, &r->result));
}

static void expect_end(fault_kind kind, int code, const char *what)
{
    for (int world = 2; world <= 8; world *= 2) {
        char needle[160];
        run *r = make_run(kind, world, world == 4 ? 0 : world - 1);
        launch(r);
        snprintf(needle, sizeof(needle), "rank %d %s", r->victim, what);
        EXPECT_CONTAINS(r->result.report, needle);
        EXPECT_CONTAINS(r->result.report, "barrier");
        EXPECT_INT(r->result.failed_rank, r->victim);
        EXPECT_INT(r->result.exit_code, code);
        EXPECT_INT(r->heard.n_lines, r->result.reported); /* the report itself, where survivors are long in ending */
        double known_s = (double)(r->reported_ns - r->died_ns) * 1e-9;
        printf("%d ranks, known to the last of them after %.4f s\n", world, known_s);
        tess_os_unmap_shared(r, sizeof(*r));
    }
}

static void a_crash_is_told_with_its_signal(void)
{
    expect_end(CRASH, 128 + SIGSEGV, "was killed by signal 11 (SIGSEGV)");
}

static void an_exit_is_told_with_its_code(void)
{
    expect_end(EXIT, 7, "exited with code 7");
}

static void a_kill_by_hand_is_not_taken_for_want_of_memory(void)
{
    expect_end(KILL, 128 + SIGKILL, "was killed by signal 9 (SIGKILL)");
}

static void a_rank_killed_for_want_of_memory_is_told_as_such(void)
{
    test_memory_group group;
    if (!test_memory_group_enter(64 << 20, &group)) {
        printf("SKIPPED: no right to make a memory control group here\n");
        return;
    }
    run *r = make_run(HOG, 2, 1);
    launch(r);
    test_memory_group_leave(&group);
    printf("%s\n", r->result.report);
    EXPECT_CONTAINS(r->result.report, "rank 1 was killed by the system because memory ran out");
    EXPECT_INT(r->result.failed_rank, 1);
}

/* ---- The deadline ---- */
/* Both are short, but the notice comes first even where the watchdog rarely gets a core. */
static void make_impatient(run *r)
{
    r->soft_s = 0.3;
    r->timeout_s = 4;
}

static void expect_diagnosis(fault_kind kind, int world, int victim, const char *what)
{
    char needle[64];
    run *r = make_run(kind, world, victim);
    make_impatient(r);
    uint64_t begin_ns = tess_os_now_ns();
    launch(r);
    printf("%.2f s: %s\n", (double)(tess_os_now_ns() - begin_ns) * 1e-9, r->result.report);
    snprintf(needle, sizeof(needle), "rank %d never came to barrier #1", victim);
    EXPECT_CONTAINS(r->result.report, needle);
    EXPECT_CONTAINS(r->result.report, what);
    EXPECT_INT(r->result.failed_rank, victim);
    EXPECT(r->result.exit_code != 0);
    EXPECT(r->heard.n_lines >= 1 && r->heard.n_lines <= 2);
}

static void at_the_deadline_the_guilty_rank_is_named_not_its_victims(void)
{
    expect_diagnosis(STOP, 4, 1, "it is in phase 'forward' of step 12 (3), stopped (state T");
}

static void a_rank_in_another_teams_collective_is_named(void)
{
    run *r = make_run(OTHER_TEAM, 4, 0);
    make_impatient(r);
    launch(r);
    EXPECT_HEARD(&r->heard, "rank 0 has kept ");
    EXPECT_HEARD(&r->heard, "waiting for rank 1 in barrier #0 of team 'pair'");
    EXPECT(r->result.exit_code != 0);
    EXPECT(r->heard.n_lines <= 2);
}

static const test_case cases[] = {
    CASE(a_crash_is_told_with_its_signal),
    CASE(an_exit_is_told_with_its_code),
    CASE(a_kill_by_hand_is_not_taken_for_want_of_memory),
    CASE(a_rank_killed_for_want_of_memory_is_told_as_such),
    CASE(at_the_deadline_the_guilty_rank_is_named_not_its_victims),
    CASE(a_rank_in_another_teams_collective_is_named),
};

TEST_MAIN(cases)
