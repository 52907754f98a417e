#include "rl/reward/grader_process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/machine.h"
#include "base/os/os.h"
#include "rl/reward/grader_filter.h"
#include "rl/reward/grader_sandbox.h"

enum {
    END_S = 5
}; /* time that killed processes have to disappear; a process that is stuck in the kernel takes longer */

/* Calls visit for every process. */
static void for_each_process(void (*visit)(void *context, pid_t pid), void *context)
{
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0]))
            visit(context, (pid_t)atoi(entry->d_name));
    if (all != NULL)
        closedir(all);
}

/* ---- Start ---- */

/* The arguments of the new process. It may only call async-signal-safe functions, since other threads may hold locks.
 */
typedef struct start {
    const grader_command *command;
    char **environment;
    int in, out, err, failed; /* the process's ends of the pipes; `failed` receives errno */
    int filter;               /* system call filter; -1: none */
    uint64_t processes;       /* limit of the user's processes */
    pid_t parent;
} start;

static void limit(__rlimit_resource_t what, uint64_t value)
{
    struct rlimit old;
    if (getrlimit(what, &old) != 0)
        return;
    rlim_t most = old.rlim_max < value ? old.rlim_max : (rlim_t)value;
    setrlimit(what, &(struct rlimit){most, most});
}

static void set_limits(const start *s)
{
    const grader_limits *limits = &s->command->limits;
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_AS, limits->memory_bytes);
    limit(RLIMIT_FSIZE, limits->file_bytes);
    if (limits->cpu_s > 0) /* the first signal is SIGXCPU, which says what happened */
        setrlimit(RLIMIT_CPU, &(struct rlimit){limits->cpu_s, limits->cpu_s + 1});
    if (!s->command->sandboxed)
        limit(RLIMIT_NPROC, s->processes);
}

static void default_signals(void)
{
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void give_up(const start *s)
{
    int failed = errno;
    ssize_t written = write(s->failed, &failed, sizeof(failed));
    _exit(written > 0 ? 127 : 126);
}

/* Changes the user. Uses system calls because libc's functions take locks. */
static bool become_user(const grader_command *command)
{
    return syscall(SYS_setgroups, 1, &command->group) == 0 &&
           syscall(SYS_setresgid, command->group, command->group, command->group) == 0 &&
           syscall(SYS_setresuid, command->user, command->user, command->user) == 0;
}

_Noreturn static void become(const start *s)
{
    setsid();
    if (s->command->changes_user && !become_user(s->command))
        give_up(s);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
    if (getppid() != s->parent)
        _exit(126);
    if (!s->command->sandboxed)
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0,
              0); /* no program that it runs can change the user, so our signals always reach it */
    default_signals();
    dup2(s->in, STDIN_FILENO);
    dup2(s->out, STDOUT_FILENO);
    dup2(s->err, STDERR_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC); /* ranks inherit the job's memory; graders must not */
    if (s->filter >= 0)
        dup2(s->filter, GRADER_FILTER_FD);
    set_limits(s);
    execve(s->command->program, s->command->argv, s->environment);
    give_up(s);
}

/* Moves a descriptor above those that the grader gets, so that no dup2 to one of them hits another. */
static void move_up(int *fd)
{
    if (*fd <= GRADER_FILTER_FD) {
        const int low = *fd;
        *fd = fcntl(low, F_DUPFD_CLOEXEC, GRADER_FILTER_FD + 1);
        close(low);
    }
}

static bool make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    move_up(&ends[0]);
    move_up(&ends[1]);
    return true;
}

typedef struct task_count {
    uid_t user;
    uint64_t n;
} task_count;

static void count_tasks(void *context, pid_t pid)
{
    task_count *count = context;
    char path[64], text[4096];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    if (tess_os_read_text(path, text, sizeof(text)) <= 0)
        return;
    const char *user = strstr(text, "\nUid:"), *threads = strstr(text, "\nThreads:");
    if (user != NULL && threads != NULL && strtoul(user + 5, NULL, 10) == count->user)
        count->n += strtoul(threads + 9, NULL, 10);
}

static void make_mark(char mark[GRADER_MARK])
{
    snprintf(mark, GRADER_MARK, "%s=%d.%llx", tess_variable_name(TESS_VAR_GRADER), (int)getpid(),
             (unsigned long long)tess_os_wall_ns());
}

static void close_pipes(int (*pipes)[2], int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 2; j++)
            tess_os_close(&pipes[i][j]);
}

static void set_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static tess_status fork_into(grader_process *process, const start *s, int pipes[4][2])
{
    process->pid = fork();
    if (process->pid == 0)
        become(s);
    if (process->pid < 0) {
        process->pid = 0;
        return tess_os_error("fork for", s->command->program);
    }
    tess_os_close(&pipes[3][1]);
    int failed = 0;
    ssize_t n;
    do
        n = read(pipes[3][0], &failed, sizeof(failed)); /* ends at exec */
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return TESS_OK;
    waitpid(process->pid, NULL, 0);
    process->pid = 0;
    errno = failed;
    return tess_os_error("run", s->command->program);
}

static tess_status prepare(const grader_command *command, start *s, int pipes[4][2])
{
    for (int i = 0; i < 4; i++)
        if (!make_pipe(pipes[i]))
            return tess_os_error("make a pipe for", command->program);
    s->in = pipes[0][0];
    s->out = pipes[1][1];
    s->err = pipes[2][1];
    s->failed = pipes[3][1];
    if (command->sandboxed) {
        TESS_TRY(grader_filter_open(&s->filter));
        move_up(&s->filter);
        return TESS_OK;
    }
    task_count running = {.user = command->user};
    for_each_process(count_tasks, &running); /* the limit is on all that a user runs */
    s->processes += running.n;
    return TESS_OK;
}

tess_status grader_process_start(const grader_command *command, grader_process *process)
{
    int pipes[4][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}; /* standard input, output, error, and errno */
    *process = (grader_process){.in = -1, .out = -1, .err = -1};
    make_mark(process->mark);
    command->environment[command->n_variables] = process->mark;
    start s = {.command = command,
               .environment = command->environment,
               .filter = -1,
               .parent = getpid(),
               .processes = command->limits.processes};
    tess_status status = prepare(command, &s, pipes);
    if (status == TESS_OK)
        status = fork_into(process, &s, pipes);
    if (status == TESS_OK) {
        int *const ours[] = {&pipes[0][1], &pipes[1][0], &pipes[2][0]};
        int *const theirs[] = {&process->in, &process->out, &process->err};
        for (int i = 0; i < 3; i++) {
            set_nonblocking(*ours[i]);
            *theirs[i] = *ours[i];
            *ours[i] = -1;
        }
    }
    command->environment[command->n_variables] = NULL;
    tess_os_close(&s.filter);
    close_pipes(pipes, 4);
    return status;
}

/* ---- End ---- */
bool grader_process_has_ended(const grader_process *process)
{
    siginfo_t info = {0};
    int failed = waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return failed != 0 || info.si_pid != 0; /* it failed: if SIGCHLD is ignored, there is no child to wait for */
}

static bool is_below(pid_t pid, pid_t ancestor)
{
    while (pid > 1 && pid != ancestor)
        pid = (pid_t)tess_os_process_parent(pid);
    return pid == ancestor;
}

/* Finds the grader's descendants that have left its group, including dead ones that it has not reaped. When their
 * parents die, they become our children. */
typedef struct leavers {
    pid_t leader;
    pid_t pid[1024];
    int n;
} leavers;

static void find_leaver(void *context, pid_t pid)
{
    leavers *l = context;
    int most = sizeof(l->pid) / sizeof(l->pid[0]);
    if (pid == l->leader || getpgid(pid) == l->leader || l->n == most || !is_below(pid, l->leader))
        return;
    kill(pid, SIGKILL);
    l->pid[l->n++] = pid;
}

/* Whether a process is in the middle of an exec, when it has no environment for a moment. A process with an empty
 * environment still has the address of its end, and kernel threads are children of process 2. */
static bool is_in_exec(pid_t pid)
{
    enum { STATE = 3, ENVIRONMENT_END = 51, KTHREADD = 2 }; /* fields of proc(5)'s stat */
    char path[64], text[2048];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    const char *at = tess_os_read_text(path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
    if (at == NULL || at[1] == '\0' || at[2] == 'Z' || tess_os_process_parent(pid) == KTHREADD || pid == KTHREADD)
        return false;
    for (int field = STATE - 1; at != NULL && field < ENVIRONMENT_END; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && strtoull(at + 1, NULL, 10) == 0;
}

typedef enum mark_of { MARK_ABSENT, MARK_PRESENT, MARK_UNKNOWN } mark_of;

static mark_of look_for_mark(pid_t pid, const char *mark)
{
    char path[64], text[8192];
    size_t n = strlen(mark), kept = 0, total = 0;
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return MARK_ABSENT;
    bool found = false;
    for (ssize_t got; !found && (got = read(fd, text + kept, sizeof(text) - kept)) > 0;) {
        size_t size = kept + (size_t)got;
        total += (size_t)got;
        found = memmem(text, size, mark, n + 1) != NULL; /* the mark with its NUL */
        kept = size < n ? size : n;
        memmove(text, text + size - kept, kept);
    }
    close(fd);
    if (found)
        return MARK_PRESENT;
    return total == 0 && is_in_exec(pid) ? MARK_UNKNOWN : MARK_ABSENT;
}

typedef struct marked {
    const char *mark;
    pid_t leader; /* other code reaps it */
    int n;        /* number of processes that had the mark, or may have it */
} marked;

/* Reaps processes that have become our children. */
static void kill_marked(void *context, pid_t pid)
{
    marked *m = context;
    mark_of has = look_for_mark(pid, m->mark);
    m->n += has != MARK_ABSENT;
    if (has != MARK_PRESENT)
        return;
    kill(pid, SIGKILL);
    if (pid != m->leader && tess_os_process_parent(pid) == (int)getpid())
        waitpid(pid, NULL, 0);
}

static void pause_1_ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Reaps a killed process, which is our child or will become it. */
static void reap_one(pid_t pid, double until_s)
{
    while (waitpid(pid, NULL, WNOHANG) != pid && kill(pid, 0) == 0 && tess_os_now_s() < until_s)
        pause_1_ms();
}

static void reap_group(pid_t group, double until_s)
{
    for (pid_t pid; ((pid = waitpid(-group, NULL, WNOHANG)) >= 0 || errno == EINTR) && tess_os_now_s() < until_s;)
        if (pid == 0)
            pause_1_ms();
}

/* Reaps the leader only after all processes that have left the group are gone. Until then no other process can get
 * its number, which is also the group's. The group's own members come last, because a process whose parent has left
 * the group becomes our child only when that parent has died. */
static void end_family(const grader_process *process, int *state)
{
    double until_s = tess_os_now_s() + END_S;
    leavers l = {.leader = process->pid};
    marked m = {.mark = process->mark, .leader = process->pid};
    kill(-process->pid, SIGSTOP);
    for_each_process(find_leaver, &l);
    kill(-process->pid, SIGKILL);
    while (waitid(P_PID, (id_t)process->pid, NULL, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < l.n; i++)
        reap_one(l.pid[i], until_s);
    do {
        m.n = 0;
        for_each_process(kill_marked, &m);
    } while (m.n > 0 && tess_os_now_s() < until_s);
    while (waitpid(process->pid, state, 0) < 0 && errno == EINTR)
        ;
    reap_group(process->pid, until_s);
}

void grader_process_end(grader_process *process, int *state)
{
    int adopts = 0;
    *state = 0;
    tess_os_close(&process->in);
    tess_os_close(&process->out);
    tess_os_close(&process->err);
    prctl(PR_GET_CHILD_SUBREAPER, &adopts);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    end_family(process, state);
    prctl(PR_SET_CHILD_SUBREAPER, adopts);
    process->pid = 0;
}
