/* Ranks that keep others waiting are named from outside, with what they do instead; ranks that do not are left alone.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "comm/launch.h"
#include "support/heard.h"
#include "support/test.h"
#include "tessera/comm.h"

typedef enum fault_kind { SLEEP, SPIN, STOP, READ_FIFO, LOAD_DATA, STAY_AWAY } fault_kind;

/* One run: what rank `victim` does, and what was heard of it. Ranks and launcher share it. */
typedef struct run {
    fault_kind kind;
    int world, victim;
    double soft_s, timeout_s;
    volatile int victim_pid, is_over; /* over: the victim may go on */
    volatile uint64_t begin_ns;       /* the last honest rank has come */
    char fifo[300];
    double heard_s; /* the first line, from then on */
    test_heard heard;
    tess_launch_result result;
} run;

/* ---- Ranks ---- */
static void nap(double s)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)}, NULL);
}

__attribute__((noinline)) void spin_in_user_code(run *r);
void spin_in_user_code(run *r)
{
    while (!r->is_over)
        ;
}

static void misbehave(run *r, tess_runtime *rt)
{
    char byte;
    int fd;
    r->victim_pid = (int)getpid();
    tess_runtime_phase(rt, r->kind == LOAD_DATA ? "data" : "forward", 12, 3);
    switch (r->kind) {
    case SLEEP:
        while (!r->is_over)
            nap(0.1);
        break;
    case SPIN:
        spin_in_user_code(r);
        break;
    case LOAD_DATA:
        spin_in_user_code(r);
        break;
    case STOP:
        raise(SIGSTOP);
        break;
    case READ_FIFO:
        fd = open(r->fifo, O_RDWR);
        EXPECT_INT(read(fd, &byte, 1), 1);
        close(fd);
        break;
    default:
        break;
    }
}

static int take_part(void *context)
{
    run *r = context;
    tess_runtime *rt;
    tess_runtime_options options = {.comm_timeout_s = r->timeout_s, .n_threads = 1};
    if (r->kind == STAY_AWAY && test_rank() == r->victim)
        spin_in_user_code(r);
    EXPECT_OK(tess_runtime_create(&options, &rt));
    tess_team *team = tess_runtime_team(rt);
    int me = tess_team_rank(team);
    EXPECT_OK(tess_barrier(team, NULL));
    if (me == r->victim)
        misbehave(r, rt);
    else
        r->begin_ns = tess_os_now_ns();
    tess_team_label(team, "layers", 7);
    tess_status status = tess_barrier(team, NULL);
    usleep(100000); /* or the first to leave would be missed by the last to look */
    tess_runtime_destroy(&rt);
    return status == TESS_OK ? 0 : 1;
}

/* ---- The launcher ---- */
static void hear(void *self, const char *line)
{
    run *r = self;
    uint64_t now_ns = tess_os_now_ns();
    if (r->heard.n_lines == 0)
        r->heard_s = r->begin_ns != 0 ? (double)(now_ns - r->begin_ns) * 1e-9 : 0;
    test_hear(&r->heard, line);
    /* A look at the stack follows the notice: once it is told, or there is none to be told, the victim may go on. */
    bool is_last = strstr(line, "stack:") != NULL || strstr(line, "stopped") != NULL;
    if (!is_last)
        return;
    r->is_over = 1;
    if (r->kind == STOP && r->timeout_s > 10)
        kill(r->victim_pid, SIGCONT);
    if (r->kind == READ_FIFO) {
        int fd = open(r->fifo, O_RDWR | O_NONBLOCK);
        EXPECT_INT(write(fd, "x", 1), 1);
        close(fd);
    }
}

static run *make_run(fault_kind kind, int world, int victim)
{
    void *memory;
    EXPECT_OK(tess_os_share("run", sizeof(run), &memory));
    run *r = memory;
    *r = (run){.kind = kind, .world = world, .victim = victim, .soft_s = 0.2, .timeout_s = 60};
    snprintf(r->fifo, sizeof(r->fifo), "%s/fifo", test_folder());
    return r;
}

static void launch(run *r)
{
    if (r->kind == READ_FIFO && access(r->fifo, F_OK) != 0)
        EXPECT_INT(mkfifo(r->fifo, 0600), 0);
    tess_launch_options options = {.grace_s = 5, .soft_timeout_s = r->soft_s, .notice = hear, .self = r};
    EXPECT_OK(tess_launch_function_with(r->world, take_part, r, &options, 30, &r->result));
}

/* A stall that ends well: one notice with the right rank and class, its stack, and word that it has come. */
static void expect_notice_in(int world, fault_kind kind, const char *what, const char *stack)
{
    char needle[128];
    run *r = make_run(kind, world, world == 4 ? 0 : world - 1);
    launch(r);
    if (r->result.exit_code != 0)
        test_fail(__FILE__, __LINE__, "%d ranks: %s", world, r->result.report);
    snprintf(needle, sizeof(needle), "rank %d has kept ", r->victim);
    EXPECT_HEARD(&r->heard, needle);
    EXPECT_HEARD(&r->heard, what);
    if (stack != NULL)
        EXPECT_HEARD(&r->heard, stack);
    snprintf(needle, sizeof(needle), "rank %d has come after ", r->victim);
    EXPECT_HEARD(&r->heard, needle);
    EXPECT(r->heard.n_lines <= 3);
    EXPECT(r->heard_s <= 3);
    printf("%d ranks, %.2f s: %s\n", world, r->heard_s, r->heard.lines[0]);
    tess_os_unmap_shared(r, sizeof(*r));
}

static void expect_notice(fault_kind kind, const char *what, const char *stack)
{
    for (int world = 2; world <= 8; world *= 2)
        expect_notice_in(world, kind, what, stack);
}

static void a_sleeping_rank_is_named(void)
{
    expect_notice(SLEEP, "in barrier #1 'layers 7' of team 'world'; it is in phase 'forward' of step 12 (3), asleep",
                  "take_part (test_watchdog.c:");
}

static void a_spinning_rank_is_named_with_its_line(void)
{
    expect_notice(SPIN, "computing (state R", "'s stack: spin_in_user_code (test_watchdog.c:");
}

static void a_stopped_rank_is_named(void)
{
    expect_notice(STOP, "stopped (state T", NULL);
}

static void a_rank_that_reads_is_named_with_its_file(void)
{
    expect_notice(READ_FIFO, "/fifo (state S", "'s stack: ");
}

static void a_rank_that_loads_data_is_named(void)
{
    expect_notice_in(4, LOAD_DATA, "in phase 'data' of step 12 (3), loading data", NULL);
}

static void a_rank_that_does_not_join_is_named(void)
{
    run *r = make_run(STAY_AWAY, 4, 2);
    r->soft_s = 0.05;
    launch(r);
    EXPECT_INT(r->result.exit_code, 0);
    EXPECT_HEARD(&r->heard, "rank 2 has kept the job waiting for ");
    EXPECT_HEARD(&r->heard, "spin_in_user_code (test_watchdog.c:");
}

/* ---- No false alarm ---- */
static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static int n_stalls(void)
{
    const char *text = getenv("TESS_TEST_STALLS");
    return text != NULL ? atoi(text) : 20;
}

static int stall_now_and_then(void *context)
{
    (void)context;
    tess_runtime *rt;
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    tess_team *team = tess_runtime_team(rt);
    uint32_t state = 4711;
    for (int i = 0; i < n_stalls(); i++) {
        int who = (int)(next_random(&state) % 4), ms = (int)(next_random(&state) % 120);
        if (tess_team_rank(team) == who)
            usleep((unsigned)ms * 1000);
        EXPECT_OK(tess_barrier(team, NULL));
    }
    usleep(200000);
    tess_runtime_destroy(&rt);
    return 0;
}

static void stalls_shorter_than_the_limit_are_nobodys_business(void)
{
    run *r = make_run(SLEEP, 4, 0);
    tess_launch_options options = {.grace_s = 5, .soft_timeout_s = 0.75, .notice = hear, .self = r};
    EXPECT_OK(tess_launch_function_with(4, stall_now_and_then, NULL, &options, 600, &r->result));
    EXPECT_INT(r->result.exit_code, 0);
    if (r->heard.n_lines > 0)
        test_fail(__FILE__, __LINE__, "a false alarm: %s", r->heard.lines[0]);
}

static const test_case cases[] = {
    {"a_sleeping_rank_is_named", a_sleeping_rank_is_named},
    {"a_spinning_rank_is_named_with_its_line", a_spinning_rank_is_named_with_its_line},
    {"a_stopped_rank_is_named", a_stopped_rank_is_named},
    {"a_rank_that_reads_is_named_with_its_file", a_rank_that_reads_is_named_with_its_file},
    {"a_rank_that_loads_data_is_named", a_rank_that_loads_data_is_named},
    {"a_rank_that_does_not_join_is_named", a_rank_that_does_not_join_is_named},
    {"stalls_shorter_than_the_limit_are_nobodys_business", stalls_shorter_than_the_limit_are_nobodys_business,
     .timeout_s = 600},
};

TEST_MAIN(cases)
