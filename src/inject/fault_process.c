/* Injects faults of the process: it dies, stops, sleeps, computes, waits for input, or fills the memory. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"
#include "inject/inject_impl.h"

enum { HOG_BYTES = 256 << 20, HOG_PIECE = 1 << 20, LEAK_BYTES = 64 << 10, READ_BYTES = 1 << 16 };

static const double for_ever_ms = 1e12;

/* Dies by a signal. Restores the signal's default action first, because a handler of ours or of a sanitizer may
 * change its effect. */
static void die_by(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* These are functions of their own, so that a stack taken from outside shows their names. */
static __attribute__((noinline)) void tess_fault_sleep(double ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000),
                            .tv_nsec = (long)((ms - 1000 * (double)(time_t)(ms / 1000)) * 1e6)};
    while (nanosleep(&left, &left) != 0)
        ;
}

static __attribute__((noinline)) double tess_fault_spin(double ms)
{
    volatile double x = 1;
    for (double end_s = tess_os_now_s() + ms / 1000; tess_os_now_s() < end_s;)
        for (int i = 0; i < 10000; i++)
            x = x * 1.0000001 + 1e-9;
    return x;
}

/* ---- Input ---- */
typedef struct late_writer {
    int fd;
    double ms;
} late_writer;

static void *write_later(void *context)
{
    const late_writer *w = context;
    tess_fault_sleep(w->ms);
    ssize_t n = write(w->fd, "", 1);
    return (void *)n;
}

/* Reads from a pipe that delivers no data, or only after `ms`. */
static __attribute__((noinline)) void tess_fault_read_pipe(double ms)
{
    int ends[2];
    char byte;
    pthread_t thread;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    late_writer writer = {ends[1], ms > 0 ? ms : for_ever_ms};
    bool started = ms > 0 && pthread_create(&thread, NULL, write_later, &writer) == 0;
    if (read(ends[0], &byte, 1) < 0)
        tess_fault_sleep(ms);
    if (started)
        pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
}

/* Reads `path` to its end, bypassing the page cache. A FIFO has no end, because this process also holds its other
 * side. */
static __attribute__((noinline)) void tess_fault_read_file(const char *path)
{
    struct stat status;
    char bytes[READ_BYTES];
    if (stat(path, &status) != 0)
        return;
    int fd = open(path, (S_ISFIFO(status.st_mode) ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    while (read(fd, bytes, sizeof(bytes)) > 0)
        ;
    close(fd);
}

/* ---- Memory ---- */
/* Fills the memory, which is never freed: that is the fault. */
static __attribute__((noinline)) void tess_fault_hog(int64_t most)
{
    for (int64_t bytes = 0; bytes < most; bytes += HOG_PIECE) {
        void *piece = mmap(NULL, HOG_PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (piece == MAP_FAILED)
            return;
        memset(piece, 1, HOG_PIECE);
    }
}

/* Fills the memory of a pool, so that the leak is counted. */
static void leak(tess_runtime *rt, size_t bytes)
{
    void *forgotten;
    if (tess_mem_alloc(tess_runtime_mem(rt), TESS_POOL_COMM, bytes, "an injected leak", &forgotten) != TESS_OK)
        tess_error_clear();
}

/* ---- One rank alone ---- */
/* Deliberately breaks law 3: this rank starts a broadcast that the other ranks do not join. */
static void evaluate_alone(tess_runtime *rt, const tess_fault *fault)
{
    int64_t loss = 0;
    tess_runtime_phase(rt, "validation", tess_inject_faults(rt)->step, -1);
    tess_fault_spin(fault->ms);
    tess_team_label(tess_runtime_team(rt), "eval", -1);
    if (tess_broadcast(tess_runtime_team(rt), &loss, 1, TESS_I64, 0, NULL) != TESS_OK)
        tess_error_clear(); /* the team is broken, and the rank's next operation reports it */
    tess_team_label(tess_runtime_team(rt), NULL, -1);
}

void tess_fault_strike(tess_runtime *rt, const tess_fault *fault)
{
    double ms = fault->ms > 0 ? fault->ms : for_ever_ms;
    switch (fault->kind) {
    case TESS_FAULT_CRASH:
        die_by(SIGSEGV);
        break;
    case TESS_FAULT_ABORT:
        die_by(SIGABRT);
        break;
    case TESS_FAULT_EXIT:
        _exit((int)fault->code);
    case TESS_FAULT_SIGKILL:
        raise(SIGKILL);
        break;
    case TESS_FAULT_SIGSTOP:
        raise(SIGSTOP);
        break;
    case TESS_FAULT_SLEEP:
    case TESS_FAULT_SLOW_LOG:
        tess_fault_sleep(ms);
        break;
    case TESS_FAULT_SPIN:
        tess_fault_spin(ms);
        break;
    case TESS_FAULT_IO:
        if (fault->path[0] != '\0')
            tess_fault_read_file(fault->path);
        else
            tess_fault_read_pipe(fault->ms);
        break;
    case TESS_FAULT_FAIL:
        tess_inject_faults(rt)->failures += fault->n;
        break;
    case TESS_FAULT_LEAK:
        leak(rt, fault->bytes > 0 ? (size_t)fault->bytes : LEAK_BYTES);
        break;
    case TESS_FAULT_HOG:
        tess_fault_hog(fault->bytes > 0 ? fault->bytes : HOG_BYTES);
        break;
    case TESS_FAULT_RANK0_EVAL:
        evaluate_alone(rt, fault);
        break;
    default:
        break;
    }
}
