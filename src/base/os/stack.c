#include "base/os/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/debug_info.h"
#include "base/os/os.h"

/* The probe writes the stack's lines, or one line that begins with no_stack and says why there are none. A line in the
 * C library begins with in_c_library. */
static const char no_stack = '!', in_c_library = '~';

/* ---- The probing process ---- */
typedef struct frames {
    int n;
    Dwarf_Addr at[TESS_STACK_FRAMES];
} frames;

static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf, .find_debuginfo = tess_find_debug_info};

_Noreturn static void give_up(int fd, const char *what, const char *why)
{
    dprintf(fd, "%c%s: %s\n", no_stack, what, why);
    _exit(0);
}

static int take_frame(Dwfl_Frame *frame, void *context)
{
    frames *f = context;
    Dwarf_Addr pc;
    bool is_activation;
    if (!dwfl_frame_pc(frame, &pc, &is_activation))
        return DWARF_CB_ABORT;
    f->at[f->n++] = pc - !is_activation; /* a return address points after the call, so one less is inside it */
    return f->n < TESS_STACK_FRAMES ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* SIGALRM ends this process if the thread does not stop in time (state D). The system then releases the thread. */
static void limit_hold(int ms)
{
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    struct itimerval timer = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void collect(Dwfl *dwfl, int pid, int tid, int fd, frames *f)
{
    int state;
    limit_hold(TESS_STACK_HOLD_MS);
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0 || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0)
        give_up(fd, "no right to trace it", strerror(errno));
    if (waitpid(tid, &state, __WALL) != tid || !WIFSTOPPED(state))
        give_up(fd, "it cannot be held", strerror(errno));
    if (dwfl_linux_proc_attach(dwfl, pid, true) == 0)
        dwfl_getthread_frames(dwfl, tid, take_frame, f);
    /* The thread may have been stopped by a signal on its way to a handler. The signal must then be passed on to it. */
    uintptr_t signal = state >> 16 == PTRACE_EVENT_STOP ? 0 : (uintptr_t)WSTOPSIG(state);
    ptrace(PTRACE_DETACH, tid, NULL, signal);
    limit_hold(0);
}

static void report(Dwfl *dwfl, const frames *f, int fd)
{
    for (int i = 0; i < f->n; i++) {
        char line[TESS_STACK_LINE_BYTES] = "";
        Dwfl_Module *module = dwfl_addrmodule(dwfl, f->at[i]);
        const char *object = module != NULL ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
        if (module != NULL)
            tess_place_report(module, f->at[i], object != NULL ? object : "", line, sizeof(line));
        if (line[0] == '\0')
            snprintf(line, sizeof(line), "0x%llx (%s)", (unsigned long long)f->at[i], object != NULL ? object : "?");
        if (object != NULL && strstr(object, "/libc.so") != NULL)
            dprintf(fd, "%c", in_c_library);
        dprintf(fd, "%s\n", line);
    }
}

_Noreturn static void look(int pid, int tid, int fd)
{
    frames f = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (dwfl == NULL)
        give_up(fd, "libdwfl", dwfl_errmsg(-1));
    int failure = dwfl_linux_proc_report(dwfl, pid);
    if (failure != 0)
        give_up(fd, "its memory map cannot be read", failure > 0 ? strerror(failure) : dwfl_errmsg(-1));
    dwfl_report_end(dwfl, NULL, NULL);
    collect(dwfl, pid, tid, fd, &f);
    if (f.n == 0)
        give_up(fd, "no frames", dwfl_errmsg(-1));
    report(dwfl, &f, fd);
    _exit(0);
}

/* ---- The calling process ---- */
void tess_stack_begin(tess_stack_probe *probe, int pid, int tid)
{
    int ends[2];
    *probe = (tess_stack_probe){.fd = -1, .begin_ns = tess_os_now_ns()};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        probe->error = errno;
        return;
    }
    pid_t child = fork();
    probe->error = errno;
    if (child == 0)
        look(pid, tid, ends[1]);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    probe->pid = child;
    probe->fd = ends[0];
}

void tess_stack_cancel(tess_stack_probe *probe)
{
    if (probe->pid > 0) {
        kill(probe->pid, SIGKILL);
        while (waitpid(probe->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    tess_os_close(&probe->fd);
    probe->pid = 0;
}

static void parse(tess_stack_probe *probe, tess_stack *stack)
{
    char *line, *rest = probe->bytes;
    probe->bytes[probe->n_bytes] = '\0';
    while (stack->n_lines < TESS_STACK_FRAMES && (line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        if (line[0] == no_stack) {
            snprintf(stack->reason, sizeof(stack->reason), "%s", line + 1);
            continue;
        }
        bool is_own = line[0] != in_c_library;
        stack->first_own += !is_own && stack->first_own == stack->n_lines;
        snprintf(stack->lines[stack->n_lines++], TESS_STACK_LINE_BYTES, "%s", line + !is_own);
    }
    if (stack->n_lines == 0 && stack->reason[0] == '\0' && stack->seconds * 1e3 >= TESS_STACK_LIMIT_MS)
        snprintf(stack->reason, sizeof(stack->reason), "no answer within %d ms", TESS_STACK_LIMIT_MS);
    else if (stack->n_lines == 0 && stack->reason[0] == '\0')
        snprintf(stack->reason, sizeof(stack->reason), "the thread could not be stopped within %d ms",
                 TESS_STACK_HOLD_MS);
}

bool tess_stack_poll(tess_stack_probe *probe, tess_stack *stack)
{
    uint64_t now_ns = tess_os_now_ns();
    size_t room = sizeof(probe->bytes) - 1 - probe->n_bytes;
    ssize_t n = probe->fd >= 0 && room > 0 ? read(probe->fd, probe->bytes + probe->n_bytes, room) : 0;
    if (n > 0) {
        probe->n_bytes += (size_t)n;
        return tess_stack_poll(probe, stack);
    }
    bool late = now_ns - probe->begin_ns > TESS_STACK_LIMIT_MS * UINT64_C(1000000);
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !late)
        return false;
    *stack = (tess_stack){.seconds = (double)(now_ns - probe->begin_ns) * 1e-9};
    if (probe->pid == 0)
        snprintf(stack->reason, sizeof(stack->reason), "cannot start a process to take it: %s", strerror(probe->error));
    else
        parse(probe, stack);
    tess_stack_cancel(probe);
    return true;
}

void tess_stack_take(int pid, int tid, tess_stack *stack)
{
    tess_stack_probe probe;
    tess_stack_begin(&probe, pid, tid);
    while (!tess_stack_poll(&probe, stack)) {
        struct pollfd ready = {.fd = probe.fd, .events = POLLIN};
        poll(&ready, 1, 10);
    }
}
