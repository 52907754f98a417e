/* The watchdog names ranks that keep others waiting and what they do instead. It reports no others. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "job/job_memory.h"
#include "control/launch/launcher.h"
#include "support/heard.h"
#include "support/test.h"
#include "tessera/comm.h"

typedef enum fault_kind { SLEEP, SPIN, STOP, READ_FIFO, LOAD_DATA, STAY_AWAY } fault_kind;

/* One run: what rank `victim` does, and what was reported of it. Ranks and launcher share it. */
typedef struct run {
    fault_kind kind;
    int world, victim;
    double soft_s, timeout_s;
    volatile int victim_pid, is_over; /* over: the victim may go on */
    volatile int has_come;            /* and has been told to have: all may leave */
    _Atomic int n_past;               /* ranks that have left the first barrier */
    volatile int n_rounds;            /* rounds that the launcher has done */
    volatile uint64_t longest_ns[4];  /* longest time of a rank in or before one collective */
    volatile uint64_t begin_ns;       /* the last honest rank has come */
    char fifo[300];
    bool has_stack;
    double first_line_s; /* when it came */
    double heard_s;      /* the first line, from then on */
    test_heard heard;
    tess_notices notices; /* afterwards: what is kept of it */
    tess_launch_result result;
} run;

/* ---- Ranks ---- */
static void nap(double s)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)}, NULL);
}

static void wake(int number)
{
    (void)number;
}

__attribute__((noinline)) void spin_in_user_code(run *r);
void spin_in_user_code(run *r)
{
    while (!r->is_over)
        ;
}

/* Waits until the launcher has seen that all ranks left the first barrier. Otherwise, on a slow machine, a stall there
 * and the one that follows would be one stall. */
static void await_calm(const run *r)
{
    while (r->n_past < r->world)
        usleep(1000);
    for (int seen = r->n_rounds; r->n_rounds < seen + 5;)
        usleep(1000);
}

static void misbehave(run *r, tess_runtime *rt)
{
    char byte;
    int fd;
    await_calm(r);
    signal(SIGUSR2, wake);
    tess_runtime_phase(rt, r->kind == LOAD_DATA ? "data" : "forward", 12, 3);
    r->victim_pid = (int)getpid();
    switch (r->kind) {
    case SLEEP:
        nap(600);
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

/* The others begin to wait only once the victim does what it is to be named for. */
static void await_misbehaviour(const run *r)
{
    bool spins = r->kind == SPIN || r->kind == LOAD_DATA;
    char state = spins ? 'R' : r->kind == STOP ? 'T' : 'S';
    while (r->kind != STAY_AWAY && (r->victim_pid == 0 || tess_os_process_state(r->victim_pid) != state))
        usleep(1000);
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
    r->n_past++;
    if (me == r->victim)
        misbehave(r, rt);
    else
        await_misbehaviour(r);
    if (me != r->victim)
        r->begin_ns = tess_os_now_ns();
    tess_team_label(team, "layers", 7);
    tess_status status = tess_barrier(team, NULL);
    while (r->kind != STAY_AWAY && !r->has_come) /* or the first to leave would be missed by the last to look */
        usleep(1000);
    tess_runtime_destroy(&rt);
    return status == TESS_OK ? 0 : 1;
}

/* ---- The launcher ---- */
static void release(run *r)
{
    if (r->is_over)
        return;
    r->is_over = 1;
    if (r->kind == STOP || r->kind == SLEEP)
        kill(r->victim_pid, r->kind == STOP ? SIGCONT : SIGUSR2);
    if (r->kind == READ_FIFO) {
        int fd = open(r->fifo, O_RDWR | O_NONBLOCK);
        EXPECT_INT(write(fd, "x", 1), 1);
        close(fd);
    }
}

/* A line about the victim, or its stack. On a machine that gives ranks no core there are others: each rank may be late
 * at the first barrier. */
static bool is_about(const run *r, const char *line)
{
    char victim[32];
    snprintf(victim, sizeof(victim), "rank %d", r->victim);
    return strncmp(line, victim, strlen(victim)) == 0 && (r->victim_pid != 0 || r->kind == STAY_AWAY);
}

static void hear(void *self, const char *line)
{
    run *r = self;
    uint64_t now_ns = tess_os_now_ns();
    if (!is_about(r, line) || strstr(line, " in barrier #0 ") != NULL)
        return;
    if (r->heard.n_lines == 0)
        r->heard_s = r->begin_ns != 0 ? (double)(now_ns - r->begin_ns) * 1e-9 : 0;
    test_hear(&r->heard, line);
    /* A look at the stack follows the notice: once it is reported, or there is none to report, the victim may go on. */
    if (r->heard.n_lines == 1)
        r->first_line_s = tess_os_now_s();
    r->has_come = r->has_come || strstr(line, " has come after ") != NULL;
    r->has_stack = r->has_stack || strstr(line, "stack:") != NULL;
    if (r->has_stack || strstr(line, "stopped") != NULL)
        release(r);
}

/* Counts the launcher's rounds. A process that cannot be stopped for its stack in time is released without one: a slow
 * machine gives no stack. */
static void end_round(void *self, const tess_job *job, const pid_t *pids)
{
    run *r = self;
    (void)job;
    (void)pids;
    r->n_rounds++;
    if (r->heard.n_lines > 0 && tess_os_now_s() - r->first_line_s > 20)
        release(r);
}

static run *make_run(fault_kind kind, int world, int victim)
{
    void *memory;
    EXPECT_OK(tess_os_share("run", sizeof(run), &memory));
    run *r = memory;
    *r = (run){.kind = kind, .world = world, .victim = victim, .soft_s = 0.2, .timeout_s = 600};
    snprintf(r->fifo, sizeof(r->fifo), "%s/fifo", test_folder());
    return r;
}

static void launch(run *r)
{
    if (r->kind == READ_FIFO && access(r->fifo, F_OK) != 0)
        EXPECT_INT(mkfifo(r->fifo, 0600), 0);
    tess_launch_options options = {.grace_s = 600,
                                   .soft_timeout_s = r->soft_s,
                                   .reporter = {hear, r},
                                   .notices = &r->notices,
                                   .tick = end_round,
                                   .self = r};
    EXPECT_OK(tess_launch_function_with(r->world, take_part, r, &options, 600, &r->result));
}

/* All lines about a stall leave one notice: how long it lasted, and why. */
static void expect_kept(const run *r, const char *what)
{
    tess_notice notices[TESS_NOTICES];
    char why[256];
    int n = 0, kept = tess_notices_read(&r->notices, notices);
    snprintf(why, sizeof(why), "%s", strstr(what, "it is ") != NULL ? strstr(what, "it is ") + strlen("it is ") : what);
    for (int i = 0; i < kept; i++)
        if (notices[i].rank == r->victim &&
            strstr(notices[i].text, " s in barrier #1 'layers 7' of team 'world'; it was ") != NULL)
            notices[n++] = notices[i];
    EXPECT_INT(n, 1);
    EXPECT_INT(notices[0].kind, TESS_NOTICE_WAIT);
    EXPECT_CONTAINS(notices[0].text, " waiting for ");
    EXPECT_CONTAINS(notices[0].text, why);
    if (r->has_stack)
        EXPECT_CONTAINS(notices[0].text, "; its stack: ");
    EXPECT(strstr(notices[0].text, "and more") == NULL);
}

/* A stall that ends well: one notice with the right rank and situation, its stack, and a line that it has come. */
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
    if (stack != NULL && r->has_stack)
        EXPECT_HEARD(&r->heard, stack);
    snprintf(needle, sizeof(needle), "rank %d has come after ", r->victim);
    EXPECT_HEARD(&r->heard, needle);
    EXPECT(r->heard.n_lines <= 3);
    expect_kept(r, what);
    printf("%d ranks, %.2f s%s: %s\n", world, r->heard_s, r->has_stack ? "" : ", no stack", r->heard.lines[0]);
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
    /* If neighbours leave it no core, the line goes on: ", computing: ready to run, but it gets no core". */
    expect_notice(SPIN, ", computing", "'s stack: spin_in_user_code (test_watchdog.c:");
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
    run *r = make_run(STAY_AWAY, 2, 1); /* several have not come: all are named */
    r->soft_s = 0.05;
    launch(r);
    EXPECT_INT(r->result.exit_code, 0);
    EXPECT_HEARD(&r->heard, "rank 1 has kept the job waiting for ");
    if (r->has_stack)
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

/* Notes how long a rank took since `begin_ns`, and begins anew. */
static void note_time(run *r, int rank, uint64_t *begin_ns)
{
    uint64_t now_ns = tess_os_now_ns(), took_ns = now_ns - *begin_ns;
    r->longest_ns[rank] = took_ns > r->longest_ns[rank] ? took_ns : r->longest_ns[rank];
    *begin_ns = now_ns;
}

static int stall_now_and_then(void *context)
{
    run *r = context;
    tess_runtime *rt;
    uint64_t begin_ns = tess_os_now_ns();
    EXPECT_OK(tess_runtime_create(NULL, &rt));
    tess_team *team = tess_runtime_team(rt);
    uint32_t state = 4711;
    for (int i = 0; i < n_stalls(); i++) {
        int who = (int)(next_random(&state) % 4), ms = (int)(next_random(&state) % 120);
        if (tess_team_rank(team) == who)
            usleep((unsigned)ms * 1000);
        EXPECT_OK(tess_barrier(team, NULL));
        note_time(r, test_rank(), &begin_ns);
    }
    usleep(200000); /* time in which lines could come */
    tess_runtime_destroy(&rt);
    note_time(r, test_rank(), &begin_ns);
    return 0;
}

static void hear_alarm(void *self, const char *line)
{
    run *r = self;
    test_hear(&r->heard, line);
}

static void stalls_shorter_than_the_limit_are_nobodys_business(void)
{
    const double soft_s = 0.75;
    run *r = make_run(SLEEP, 4, 0);
    tess_launch_options options = {.grace_s = 600, .soft_timeout_s = soft_s, .reporter = {hear_alarm, r}};
    EXPECT_OK(tess_launch_function_with(4, stall_now_and_then, r, &options, 600, &r->result));
    EXPECT_INT(r->result.exit_code, 0);
    double longest_s = 0;
    for (int i = 0; i < 4; i++)
        longest_s = fmax(longest_s, (double)r->longest_ns[i] * 1e-9);
    if (longest_s >= soft_s) {
        printf("SKIPPED: ranks stood still for %.1f s: that is an alarm\n", longest_s);
        return;
    }
    if (r->heard.n_lines > 0)
        test_fail(__FILE__, __LINE__, "a false alarm: %s", r->heard.lines[0]);
}

static const test_case cases[] = {
    CASE(a_sleeping_rank_is_named),
    CASE(a_spinning_rank_is_named_with_its_line),
    CASE(a_stopped_rank_is_named),
    CASE(a_rank_that_reads_is_named_with_its_file),
    CASE(a_rank_that_loads_data_is_named),
    CASE(a_rank_that_does_not_join_is_named),
    CASE(stalls_shorter_than_the_limit_are_nobodys_business, .timeout_s = 600),
};

TEST_MAIN(cases)
