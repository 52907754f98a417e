/* Ranks that keep others waiting are named from outside, with what they do instead; ranks that do not are left alone.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/memory_group.h"
#include "base/os/os.h"
#include "comm/launch.h"
#include "support/test.h"
#include "tessera/comm.h"

enum { MOST_LINES = 16 };

typedef enum fault_kind {
    SLEEP,
    SPIN,
    STOP,
    READ_FIFO,
    OTHER_TEAM,
    LOAD_DATA,
    STAY_AWAY,
    CRASH,
    EXIT,
    KILL,
    HOG
} fault_kind;

/* One run: what rank `victim` does, and what was heard of it. Ranks and launcher share it. */
typedef struct run {
    fault_kind kind;
    int world, victim;
    double soft_s, timeout_s;
    volatile int victim_pid, is_over; /* over: the victim may go on */
    volatile uint64_t begin_ns;       /* the last honest rank has come */
    char fifo[300];
    int n_lines;
    double heard_s[MOST_LINES];
    char lines[MOST_LINES][1024];
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
    if (r->kind == OTHER_TEAM)
        wait_in_other_team(team, r);
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
    if (r->n_lines < MOST_LINES) {
        snprintf(r->lines[r->n_lines], sizeof(r->lines[0]), "%s", line);
        r->heard_s[r->n_lines++] = r->begin_ns != 0 ? (double)(now_ns - r->begin_ns) * 1e-9 : 0;
    }
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
    *r = (run){.kind = kind, .world = world, .victim = victim, .soft_s = 0.3, .timeout_s = 60};
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

static void expect_line(const run *r, const char *needle)
{
    for (int i = 0; i < r->n_lines; i++)
        if (strstr(r->lines[i], needle) != NULL)
            return;
    for (int i = 0; i < r->n_lines; i++)
        fprintf(stderr, "      heard: %s\n", r->lines[i]);
    test_fail(__FILE__, __LINE__, "none of %d lines has '%s' (%d ranks, rank %d)", r->n_lines, needle, r->world,
              r->victim);
}

/* A stall that ends well: one notice with the right rank and class, its stack, and word that it has come. */
static void expect_notice(fault_kind kind, const char *what, const char *stack)
{
    for (int world = 2; world <= 8; world *= 2) {
        char needle[128];
        run *r = make_run(kind, world, world == 4 ? 0 : world - 1);
        launch(r);
        if (r->result.exit_code != 0)
            test_fail(__FILE__, __LINE__, "%d ranks: %s", world, r->result.report);
        snprintf(needle, sizeof(needle), "rank %d has kept ", r->victim);
        expect_line(r, needle);
        expect_line(r, what);
        if (stack != NULL)
            expect_line(r, stack);
        snprintf(needle, sizeof(needle), "rank %d has come after ", r->victim);
        expect_line(r, needle);
        EXPECT(r->n_lines <= 3);
        EXPECT(r->heard_s[0] <= 3);
        printf("%d ranks, %.2f s: %s\n", world, r->heard_s[0], r->lines[0]);
        tess_os_unmap_shared(r, sizeof(*r));
    }
}

static void a_sleeping_rank_is_named(void)
{
    expect_notice(SLEEP,
                  "in barrier #1 'layers 7' of team 'world'; it is in phase 'forward' of step 12 (3), asleep, in "
                  "clock_nanosleep",
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
    expect_notice(LOAD_DATA, "in phase 'data' of step 12 (3), loading data", NULL);
}

static void a_rank_that_does_not_join_is_named(void)
{
    run *r = make_run(STAY_AWAY, 4, 2);
    r->soft_s = 0.05;
    launch(r);
    EXPECT_INT(r->result.exit_code, 0);
    expect_line(r, "rank 2 has kept the job waiting for ");
    expect_line(r, "spin_in_user_code (test_watchdog.c:");
}

/* ---- Ends ---- */
static void expect_end(fault_kind kind, int code, const char *what)
{
    for (int world = 2; world <= 8; world *= 2) {
        char needle[160];
        run *r = make_run(kind, world, world == 4 ? 0 : world - 1);
        uint64_t begin_ns = tess_os_now_ns();
        launch(r);
        snprintf(needle, sizeof(needle), "rank %d %s", r->victim, what);
        EXPECT_CONTAINS(r->result.report, needle);
        EXPECT_CONTAINS(r->result.report, "barrier");
        EXPECT_INT(r->result.failed_rank, r->victim);
        EXPECT_INT(r->result.exit_code, code);
        EXPECT_INT(r->n_lines, 0);
        EXPECT((double)(tess_os_now_ns() - begin_ns) * 1e-9 < 5);
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

static bool write_text(const char *folder, const char *name, const char *text)
{
    char file[600];
    snprintf(file, sizeof(file), "%s/%s", folder, name);
    int fd = open(file, O_WRONLY);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

static void a_rank_killed_for_want_of_memory_is_told_as_such(void)
{
    tess_memory_group group;
    char folder[700];
    bool found = tess_memory_group_find((int)getpid(), &group);
    snprintf(folder, sizeof(folder), "%s/tessera-test-%d", group.folder, (int)getpid());
    if (!found || mkdir(folder, 0755) != 0) {
        printf("SKIPPED: no right to make a memory control group here\n");
        return;
    }
    EXPECT(write_text(folder, group.version2 ? "memory.max" : "memory.limit_in_bytes", "67108864"));
    EXPECT(write_text(folder, "cgroup.procs", "0"));
    run *r = make_run(HOG, 2, 1);
    launch(r);
    EXPECT(write_text(group.folder, "cgroup.procs", "0"));
    EXPECT_INT(rmdir(folder), 0);
    printf("%s\n", r->result.report);
    EXPECT_CONTAINS(r->result.report, "rank 1 was killed by the system because memory ran out");
    EXPECT_INT(r->result.failed_rank, 1);
}

/* ---- The deadline ---- */
static void expect_verdict(fault_kind kind, int world, int victim, const char *what)
{
    char needle[64];
    run *r = make_run(kind, world, victim);
    r->timeout_s = 0.9;
    uint64_t begin_ns = tess_os_now_ns();
    launch(r);
    printf("%.2f s: %s\n", (double)(tess_os_now_ns() - begin_ns) * 1e-9, r->result.report);
    snprintf(needle, sizeof(needle), "rank %d never came to barrier #1", victim);
    EXPECT_CONTAINS(r->result.report, needle);
    EXPECT_CONTAINS(r->result.report, what);
    EXPECT_INT(r->result.failed_rank, victim);
    EXPECT(r->result.exit_code != 0);
    EXPECT(r->n_lines >= 1 && r->n_lines <= 2);
    EXPECT((double)(tess_os_now_ns() - begin_ns) * 1e-9 < 5);
}

static void at_the_deadline_the_guilty_rank_is_named_not_its_victims(void)
{
    expect_verdict(STOP, 4, 1, "it is in phase 'forward' of step 12, stopped (state T");
}

static void a_rank_in_another_teams_collective_is_named(void)
{
    run *r = make_run(OTHER_TEAM, 4, 0);
    r->timeout_s = 0.9;
    launch(r);
    expect_line(r, "rank 0 has kept ");
    expect_line(r, "waiting for rank 1 in barrier #0 of team 'pair'");
    EXPECT(r->result.exit_code != 0);
    EXPECT(r->n_lines <= 2);
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
    if (r->n_lines > 0)
        test_fail(__FILE__, __LINE__, "a false alarm: %s", r->lines[0]);
}

static const test_case cases[] = {
    {"a_sleeping_rank_is_named", a_sleeping_rank_is_named},
    {"a_spinning_rank_is_named_with_its_line", a_spinning_rank_is_named_with_its_line},
    {"a_stopped_rank_is_named", a_stopped_rank_is_named},
    {"a_rank_that_reads_is_named_with_its_file", a_rank_that_reads_is_named_with_its_file},
    {"a_rank_that_loads_data_is_named", a_rank_that_loads_data_is_named},
    {"a_rank_that_does_not_join_is_named", a_rank_that_does_not_join_is_named},
    {"a_crash_is_told_with_its_signal", a_crash_is_told_with_its_signal},
    {"an_exit_is_told_with_its_code", an_exit_is_told_with_its_code},
    {"a_kill_by_hand_is_not_taken_for_want_of_memory", a_kill_by_hand_is_not_taken_for_want_of_memory},
    {"a_rank_killed_for_want_of_memory_is_told_as_such", a_rank_killed_for_want_of_memory_is_told_as_such},
    {"at_the_deadline_the_guilty_rank_is_named_not_its_victims",
     at_the_deadline_the_guilty_rank_is_named_not_its_victims},
    {"a_rank_in_another_teams_collective_is_named", a_rank_in_another_teams_collective_is_named},
    {"stalls_shorter_than_the_limit_are_nobodys_business", stalls_shorter_than_the_limit_are_nobodys_business,
     .timeout_s = 600},
};

TEST_MAIN(cases)
