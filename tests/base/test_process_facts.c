/* Facts that the system reports of a process from outside: its call, its file, its stack, and an OOM kill. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/oom.h"
#include "base/os/os.h"
#include "base/os/process_facts.h"
#include "base/os/stack.h"
#include "base/os/symbols.h"
#include "support/memory_group.h"
#include "support/test.h"

/* ---- Children that are stuck ---- */
static const char *path; /* the file that a child works on */

static void sleep_long(void)
{
    nanosleep(&(struct timespec){.tv_sec = 3600}, NULL);
}

static void read_pipe(void)
{
    int ends[2];
    char byte;
    if (pipe(ends) == 0 && read(ends[0], &byte, 1) == 1)
        abort();
}

static void poll_pipe(void)
{
    int ends[2];
    if (pipe(ends) == 0 && poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 3600 * 1000) == 1)
        abort();
}

static void open_fifo(void)
{
    if (open(path, O_RDONLY) >= 0)
        abort();
}

static void lock_file(void)
{
    int fd = open(path, O_RDONLY);
    if (lseek(fd, 7, SEEK_SET) != 7 || flock(fd, LOCK_EX) == 0)
        abort();
}

__attribute__((noinline)) void spin_in_user_code(void);
void spin_in_user_code(void)
{
    for (volatile unsigned n = 0;; n++)
        ;
}

static void *read_in_thread(void *unused)
{
    (void)unused;
    read_pipe();
    return NULL;
}

static void wait_for_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, read_in_thread, NULL);
    pthread_join(thread, NULL);
}

static void stop(void)
{
    raise(SIGSTOP);
}

static int start(void (*what)(void))
{
    int parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a case that fails leaves nobody behind */
        if (getppid() != parent)
            _exit(0);
        what();
        _exit(0);
    }
    return pid;
}

static void end(int pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A child may take long to reach its call on a busy machine. */
enum { PATIENCE_S = 120 };

/* The condition of loops that wait: false when time is up, else true after some milliseconds. */
static bool wait_on(double begin_s)
{
    usleep(5000);
    return tess_os_now_s() - begin_s < PATIENCE_S;
}

/* Reads the facts until the thread that explains most is of this kind and state. */
static tess_process_facts look_until(int pid, tess_call_kind kind, char state)
{
    tess_process_facts facts;
    double begin_s = tess_os_now_s();
    do {
        tess_os_process_facts(pid, &facts);
        if (facts.thread.kind == kind && (state == 0 || facts.thread.state == state))
            return facts;
    } while (wait_on(begin_s));
    char text[512];
    test_fail(__FILE__, __LINE__, "still %s", tess_os_facts_report(&facts, text, sizeof(text)));
}

/* ---- Facts ---- */
static void a_sleeper_is_seen_to_sleep(void)
{
    int pid = start(sleep_long);
    tess_process_facts facts = look_until(pid, TESS_CALL_SLEEP, 'S');
    EXPECT(facts.here && facts.n_threads == 1 && facts.rss_bytes > 0);
    EXPECT_CONTAINS(facts.thread.call_name, "nanosleep");
    end(pid);
    tess_os_process_facts(pid, &facts);
    EXPECT(!facts.here);
}

static void a_read_names_its_pipe(void)
{
    char text[512];
    int pid = start(read_pipe);
    tess_process_facts facts = look_until(pid, TESS_CALL_FILE, 'S');
    EXPECT_TEXT(facts.thread.call_name, "read");
    EXPECT_CONTAINS(facts.file, "pipe:[");
    EXPECT_CONTAINS(tess_os_facts_report(&facts, text, sizeof(text)), "in read of pipe:[");
    end(pid);
}

static void an_open_names_its_path(void)
{
    char fifo[300];
    snprintf(fifo, sizeof(fifo), "%s/fifo", test_folder());
    EXPECT_INT(mkfifo(fifo, 0600), 0);
    path = fifo;
    int pid = start(open_fifo);
    tess_process_facts facts = look_until(pid, TESS_CALL_FILE, 'S');
    EXPECT_TEXT(facts.file, fifo);
    end(pid);
}

static void a_call_on_a_file_names_it_with_its_position(void)
{
    char file[300];
    snprintf(file, sizeof(file), "%s/shard.bin", test_folder());
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    EXPECT_INT(write(fd, "0123456789", 10), 10);
    EXPECT_INT(flock(fd, LOCK_EX), 0);
    path = file;
    int pid = start(lock_file);
    tess_process_facts facts = look_until(pid, TESS_CALL_FILE, 'S');
    EXPECT_TEXT(facts.thread.call_name, "flock");
    EXPECT_TEXT(facts.file, file);
    EXPECT_INT(facts.position, 7);
    end(pid);
    close(fd);
}

static void the_thread_that_others_wait_for_is_told(void)
{
    int pid = start(wait_for_thread);
    tess_process_facts facts = look_until(pid, TESS_CALL_FILE, 'S');
    EXPECT(facts.main.kind == TESS_CALL_FUTEX && facts.thread.tid != pid && facts.n_threads == 2);
    end(pid);
}

static void computing_and_sleeping_are_told_apart_by_cpu_time(void)
{
    int spinner = start(spin_in_user_code), sleeper = start(sleep_long);
    tess_process_facts before[2], after[2];
    double begin_s = tess_os_now_s();
    look_until(sleeper, TESS_CALL_SLEEP, 'S');
    tess_os_process_facts(spinner, &before[0]);
    tess_os_process_facts(sleeper, &before[1]);
    do
        tess_os_process_facts(spinner, &after[0]);
    while (after[0].cpu_ns < before[0].cpu_ns + 20000000 && wait_on(begin_s));
    tess_os_process_facts(sleeper, &after[1]);
    EXPECT(after[0].cpu_ns > before[0].cpu_ns);
    EXPECT_INT(after[1].cpu_ns - before[1].cpu_ns, 0);
    EXPECT_INT(after[0].thread.kind, TESS_CALL_NONE);
    end(spinner);
    end(sleeper);
}

static void a_stopped_process_is_seen_to_be_stopped(void)
{
    int pid = start(stop);
    tess_process_facts facts;
    double begin_s = tess_os_now_s();
    do
        tess_os_process_facts(pid, &facts);
    while (facts.main.state != 'T' && wait_on(begin_s));
    EXPECT_INT(facts.main.state, 'T');
    end(pid);
}

/* ---- Stacks and symbols ---- */
static bool names(const tess_stack *stack, const char *what)
{
    for (int i = 0; i < stack->n_lines; i++)
        if (strstr(stack->lines[i], what) != NULL)
            return true;
    return false;
}

/* A probe may come before the child is in its call, and ends without a stack when this machine takes seconds for it. */
static void take_until(int pid, const char *what, tess_stack *stack)
{
    double begin_s = tess_os_now_s();
    do
        tess_stack_take(pid, pid, stack);
    while (!names(stack, what) && wait_on(begin_s));
    if (!names(stack, what))
        test_fail(__FILE__, __LINE__, "no %s in a stack of %d frames: %s", what, stack->n_lines, stack->reason);
}

static void a_stack_from_outside_names_functions_and_lines(void)
{
    tess_stack stack;
    tess_process_facts facts;
    int pid = start(spin_in_user_code);
    take_until(pid, "spin_in_user_code", &stack);
    EXPECT_CONTAINS(stack.lines[0], "spin_in_user_code (test_process_facts.c:");
    EXPECT(names(&stack, "main (test_process_facts.c:") || names(&stack, "test_main"));
    printf("stack of %d frames in %.1f ms\n", stack.n_lines, stack.seconds * 1e3);
    look_until(pid, TESS_CALL_NONE, 'R'); /* it runs on */
    end(pid);
    pid = start(stop);
    while (tess_os_process_facts(pid, &facts), facts.main.state != 'T')
        usleep(1000);
    take_until(pid, "raise", &stack);
    tess_os_process_facts(pid, &facts);
    EXPECT_INT(facts.main.state, 'T'); /* and stays stopped */
    end(pid);
}

static void a_sleep_goes_on_after_a_look_at_the_stack(void)
{
    tess_stack stack;
    int pid = start(sleep_long);
    look_until(pid, TESS_CALL_SLEEP, 'S');
    take_until(pid, "nanosleep", &stack);
    EXPECT(stack.first_own > 0 && stack.first_own < stack.n_lines);
    EXPECT_CONTAINS(stack.lines[stack.first_own], "test_process_facts");
    look_until(pid, TESS_CALL_SLEEP, 'S');
    end(pid);
}

/* ---- Signals that come while a stack is looked at ---- */
static struct {
    volatile long n_sent, n_taken;
    volatile bool is_ready, is_over;
} * signals; /* shared */

static void take_signal(int number)
{
    (void)number;
    signals->n_taken++;
}

static void take_signals(void)
{
    struct sigaction action = {.sa_handler = take_signal};
    setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){200, 200});
    sigaction(SIGRTMIN, &action, NULL);
    signals->is_ready = true;
    for (;;)
        pause();
}

static int receiver;

static void send_signals(void)
{
    while (!signals->is_over)
        signals->n_sent += sigqueue(receiver, SIGRTMIN, (union sigval){0}) == 0;
    _exit(0);
}

static void a_look_at_the_stack_loses_no_signal(void)
{
    tess_stack stack;
    signals = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(signals != MAP_FAILED);
    receiver = start(take_signals);
    while (!signals->is_ready)
        usleep(1000);
    int sender = start(send_signals);
    for (int i = 0; i < 10; i++)
        tess_stack_take(receiver, receiver, &stack);
    signals->is_over = true;
    waitpid(sender, NULL, 0);
    double begin_s = tess_os_now_s();
    while (signals->n_taken < signals->n_sent && wait_on(begin_s))
        ;
    EXPECT_INT(signals->n_sent - signals->n_taken, 0);
    end(receiver);
    munmap(signals, 4096);
}

static void where_there_is_no_stack_the_reason_is_told(void)
{
    tess_stack stack;
    int pid = start(sleep_long);
    end(pid);
    tess_stack_take(pid, pid, &stack);
    EXPECT_INT(stack.n_lines, 0);
    EXPECT(stack.reason[0] != '\0');
}

/* Addresses in position-independent programs count from where the program is loaded. */
static void offsets_in_a_program_have_names(void)
{
    char program[512], text[200];
    tess_symbols symbols;
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    EXPECT(n > 0);
    program[n] = '\0';
    extern const char __executable_start;
    uint64_t offset = (uint64_t)((const char *)(uintptr_t)&spin_in_user_code - &__executable_start);
    EXPECT_OK(tess_symbols_open(program, &symbols));
    EXPECT_CONTAINS(tess_symbols_report(&symbols, "", offset + 1, text, sizeof(text)),
                    "spin_in_user_code (test_process_facts.c:");
    EXPECT_TEXT(tess_symbols_report(&symbols, "", UINT64_C(1) << 40, text, sizeof(text)), "");
    EXPECT_TEXT(tess_symbols_report(&symbols, "", 0, text, sizeof(text)), "");
    tess_symbols_close(&symbols);
    EXPECT_TEXT(tess_symbols_report(&symbols, "", offset + 1, text, sizeof(text)), "");
}

static void what_is_no_program_has_no_symbols(void)
{
    char file[300];
    tess_symbols symbols;
    EXPECT_FAILS(tess_symbols_open("/nowhere/at/all", &symbols), TESS_E_NOT_FOUND, "/nowhere/at/all");
    snprintf(file, sizeof(file), "%s/text", test_folder());
    EXPECT_OK(tess_os_write_atomic(file, "\177ELFnot really", 15));
    EXPECT_FAILS(tess_symbols_open(file, &symbols), TESS_E_FORMAT, "text");
}

/* ---- Memory ---- */
static void lines_of_the_kernels_log_are_read(void)
{
    tess_oom_kill kill;
    EXPECT(tess_oom_parse("3,901,5000,-;Memory cgroup out of memory: Killed process 4711 (tessera) total-vm:9000kB, "
                          "anon-rss:2000kB, file-rss:20kB, shmem-rss:4kB, UID:0 pgtables:40kB oom_score_adj:0",
                          &kill));
    EXPECT_INT(kill.pid, 4711);
    EXPECT_INT(kill.bytes, 2024 * 1024);
    EXPECT(tess_oom_parse("Out of memory: Killed process 12 (x)", &kill) && kill.pid == 12 && kill.bytes == 0);
    EXPECT(!tess_oom_parse("oom-kill:constraint=CONSTRAINT_MEMCG,task=tessera,pid=4711,uid=0", &kill));
    EXPECT(!tess_oom_parse("Killed process everything", &kill));
    EXPECT(!tess_oom_parse("", &kill));

    /* A process number that is used again does not inherit the verdict. */
    tess_oom_answer answer;
    tess_oom_watch watch = {.log = -1, .n_logged = 2};
    watch.logged[0] = (tess_oom_kill){.pid = 4711, .bytes = 1, .at_ns = tess_os_now_ns()};
    watch.logged[1] = (tess_oom_kill){.pid = 12, .bytes = 1, .at_ns = 1};
    tess_oom_ask(&watch, 4711, &answer);
    EXPECT(answer.certain && answer.held_bytes == 1);
    tess_oom_ask(&watch, 4711, &answer);
    EXPECT(!answer.killed);
    if (tess_os_now_s() > 120) {
        tess_oom_ask(&watch, 12, &answer);
        EXPECT(!answer.killed);
    }
}

static void write_group_file(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
}

/* A full page cache is not a lack of memory: only what cannot be dropped counts. */
static void copies_of_files_are_no_need_of_a_group(void)
{
    tess_memory_group group = {.version2 = true, .mount_length = strlen(test_folder())};
    uint64_t limit = 0, bytes = 0;
    snprintf(group.folder, sizeof(group.folder), "%s/job", test_folder());
    EXPECT_OK(tess_os_make_dirs(group.folder));
    write_group_file("job/memory.max", "max\n");
    EXPECT(!tess_memory_group_need(&group, &limit, &bytes));
    write_group_file("memory.max", "1000\n");
    write_group_file("memory.current", "990\n");
    write_group_file("memory.stat", "anon 400\nfile 590\nshmem 90\ninactive_file 300\nactive_file 200\n");
    EXPECT(tess_memory_group_limit(&group, &limit, &bytes));
    EXPECT_INT(limit, 1000);
    EXPECT_INT(bytes, 990);
    EXPECT(tess_memory_group_need(&group, &limit, &bytes));
    EXPECT_INT(limit, 1000);
    EXPECT_INT(bytes, 490);
    EXPECT(tess_memory_group_room(&group, &bytes));
    EXPECT_INT(bytes, 510);
    write_group_file("memory.current", "1600\n"); /* the limit was lowered below what is held */
    EXPECT(tess_memory_group_room(&group, &bytes));
    EXPECT_INT(bytes, 0);
}

static void hog(void)
{
    for (;;) {
        volatile char *block = malloc(1 << 20);
        for (size_t i = 0; i < 1 << 20; i += 4096)
            block[i] = 1;
    }
}

static void a_process_killed_for_memory_is_told_from_one_killed_by_hand(void)
{
    test_memory_group group;
    if (!test_memory_group_enter(32 << 20, &group)) {
        printf("SKIPPED: no right to make a memory control group here\n");
        return;
    }
    tess_oom_watch watch;
    tess_oom_answer answer;
    tess_oom_begin(&watch);
    int by_hand = start(sleep_long);
    end(by_hand);
    tess_oom_ask(&watch, by_hand, &answer);
    EXPECT(!answer.killed);
    int state, by_memory = start(hog);
    EXPECT_INT(waitpid(by_memory, &state, 0), by_memory);
    EXPECT(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
    double begin_s = tess_os_now_s();
    do
        tess_oom_ask(&watch, by_memory, &answer);
    while (!answer.killed && wait_on(begin_s));
    EXPECT(answer.killed);
    EXPECT_INT(answer.limit_bytes, 32 << 20);
    printf("held %llu bytes; %s\n", (unsigned long long)answer.held_bytes, answer.certain ? "logged" : "counted");
    tess_oom_ask(&watch, by_hand, &answer);
    EXPECT(!answer.killed);
    tess_oom_end(&watch);
    test_memory_group_leave(&group);
}

/* Taking a stack stops the thread; its call then restarts under another name. */
static void the_call_is_known_after_a_look_at_the_stack(void)
{
    static const struct {
        void (*does)(void);
        tess_call_kind kind;
        const char *name, *file;
    } cases[] = {{sleep_long, TESS_CALL_SLEEP, "nanosleep", ""}, {poll_pipe, TESS_CALL_POLL, "poll", "pipe:["}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tess_stack stack;
        tess_process_facts after;
        int pid = start(cases[i].does);
        tess_process_facts before = look_until(pid, cases[i].kind, 'S');
        double begin_s = tess_os_now_s();
        do
            tess_stack_take(pid, pid, &stack);
        while (stack.n_lines == 0 && wait_on(begin_s));
        do
            tess_os_process_facts(pid, &after);
        while (after.thread.state != 'S' && wait_on(begin_s));
        tess_os_facts_keep_call(&before, &after);
        EXPECT_CONTAINS(after.thread.call_name, cases[i].name);
        EXPECT_CONTAINS(after.file, cases[i].file);
        EXPECT_INT(after.thread.kind, cases[i].kind);
        EXPECT_TEXT(after.thread.wchan, before.thread.wchan);
        end(pid);
    }
}

static void a_stack_that_cannot_be_taken_says_why(void)
{
    struct rlimit before;
    tess_stack stack;
    EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
    EXPECT(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}) == 0);
    tess_stack_take((int)getpid(), (int)getpid(), &stack);
    EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
    EXPECT_CONTAINS(stack.reason, "Too many open files");
}

static const test_case cases[] = {
    CASE(a_stack_that_cannot_be_taken_says_why),
    CASE(the_call_is_known_after_a_look_at_the_stack),
    CASE(copies_of_files_are_no_need_of_a_group),
    CASE(a_sleeper_is_seen_to_sleep),
    CASE(a_read_names_its_pipe),
    CASE(an_open_names_its_path),
    CASE(a_call_on_a_file_names_it_with_its_position),
    CASE(the_thread_that_others_wait_for_is_told),
    CASE(computing_and_sleeping_are_told_apart_by_cpu_time),
    CASE(a_stopped_process_is_seen_to_be_stopped),
    CASE(a_stack_from_outside_names_functions_and_lines),
    CASE(a_sleep_goes_on_after_a_look_at_the_stack),
    CASE(a_look_at_the_stack_loses_no_signal),
    CASE(where_there_is_no_stack_the_reason_is_told),
    CASE(offsets_in_a_program_have_names),
    CASE(what_is_no_program_has_no_symbols),
    CASE(lines_of_the_kernels_log_are_read),
    CASE(a_process_killed_for_memory_is_told_from_one_killed_by_hand),
};

TEST_MAIN(cases)
