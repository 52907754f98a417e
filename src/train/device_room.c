#include "train/device_room.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/os.h"
#include "device/device.h"

/* The child's message about one GPU. The first that has an error is the last. */
typedef struct room_answer {
    tess_device_seen seen;
    int32_t status;
    char message[1024];
} room_answer;

enum { OPEN_S = 120, END_S = 5 }; /* a driver that hangs ends the child after OPEN_S seconds */

static tess_status look_at(tess_mem *mem, const char *name, int number, tess_device_seen *seen)
{
    tess_device *device;
    size_t left = 0;
    TESS_TRY(tess_device_open(mem, name, number, &device));
    const tess_status status = tess_device_memory_left(device, &left);
    seen->left = left < INT64_MAX ? (int64_t)left : 0;
    snprintf(seen->place, sizeof(seen->place), "%s", tess_device_get_properties(device)->place);
    tess_device_close(&device);
    return status;
}

static bool write_answer(int to, const room_answer *a)
{
    size_t done = 0;
    for (ssize_t n = 0; done < sizeof(*a) && (n >= 0 || errno == EINTR); done += n > 0 ? (size_t)n : 0)
        n = write(to, (const char *)a + done, sizeof(*a) - done);
    return done == sizeof(*a);
}

static _Noreturn void answer(const tess_config *config, int first, int n, int to)
{
    tess_mem *mem;
    tess_status status = tess_mem_create(&mem);
    bool is_written = true;
    alarm(OPEN_S);
    for (int i = 0; i < n && status == TESS_OK && is_written; i++) {
        room_answer a = {.status = TESS_OK};
        status = look_at(mem, tess_config_device(config), first + i, &a.seen);
        a.status = (int32_t)status;
        if (status != TESS_OK)
            snprintf(a.message, sizeof(a.message), "%s", tess_error_message());
        is_written = write_answer(to, &a);
    }
    _exit(status == TESS_OK && is_written ? 0 : 1);
}

/* Reads an answer by a time of the monotonic clock. Returns whether it is whole. */
static bool read_answer(int from, double end_s, room_answer *a)
{
    size_t done = 0;
    while (done < sizeof(*a)) {
        const double left_s = end_s - tess_os_now_s();
        struct pollfd ready = {.fd = from, .events = POLLIN};
        const int n_ready = left_s > 0 ? poll(&ready, 1, (int)(left_s * 1e3) + 1) : 0;
        if (n_ready < 0 && errno == EINTR)
            continue;
        const ssize_t n = n_ready > 0 ? read(from, (char *)a + done, sizeof(*a) - done) : 0;
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Ends the child. Returns its wait status; -1: it does not end, because the kernel's driver holds it. */
static int end_child(pid_t child)
{
    const double end_s = tess_os_now_s() + END_S;
    int how = 0;
    kill(child, SIGKILL);
    for (;;) {
        const pid_t ended = waitpid(child, &how, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR))
            return how;
        if (tess_os_now_s() > end_s)
            return -1;
        usleep(1000);
    }
}

static tess_status explain(pid_t child, int how, bool is_late)
{
    static const char fix[] = "look for its driver's messages in the kernel's log, or set training.memory_budget to do "
                              "without";
    TESS_CHECK(how != -1, TESS_E_TIMEOUT,
               "the driver of the GPUs holds process %d, which looks at their memory and cannot be ended: %s",
               (int)child, fix);
    TESS_CHECK(!is_late && !(WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM), TESS_E_TIMEOUT,
               "the GPUs have not told their memory within %d s: %s", OPEN_S, fix);
    TESS_CHECK(!WIFSIGNALED(how), TESS_E_IO,
               "the process that looks at the memory of the GPUs was ended by signal %d (%s): %s", WTERMSIG(how),
               strsignal(WTERMSIG(how)), fix);
    return TESS_FAIL(TESS_E_IO, "the process that looks at the memory of the GPUs ended early with exit code %d: %s",
                     WEXITSTATUS(how), fix);
}

tess_status tess_device_look(const tess_config *config, int first, int n, tess_device_seen *seen)
{
    const double end_s = tess_os_now_s() + OPEN_S + END_S;
    int ends[2];
    room_answer a = {.status = TESS_OK};
    bool is_whole = true;
    TESS_CHECK(pipe2(ends, O_CLOEXEC) == 0, TESS_E_IO, "a pipe to look at the GPUs: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0)
        answer(config, first, n, ends[1]);
    const int error = errno;
    close(ends[1]);
    for (int i = 0; child > 0 && i < n && is_whole && a.status == TESS_OK; i++) {
        is_whole = read_answer(ends[0], end_s, &a);
        if (is_whole)
            seen[i] = a.seen;
    }
    close(ends[0]);
    TESS_CHECK(child > 0, TESS_E_NOMEM, "a process to look at the GPUs: %s", strerror(error));
    const bool is_late = tess_os_now_s() >= end_s;
    const int how = end_child(child);
    TESS_CHECK(!is_whole || a.status == TESS_OK, (tess_status)a.status, "%s", a.message);
    return is_whole ? TESS_OK : explain(child, how, is_late);
}

static bool is_same(const tess_device_seen *x, const tess_device_seen *y)
{
    return x->host == y->host && strcmp(x->place, y->place) == 0;
}

int64_t tess_device_least_share(const tess_device_seen *seen, int n)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < n; i++) {
        int64_t sharers = 0, left = seen[i].left;
        for (int j = 0; j < n; j++)
            if (is_same(&seen[i], &seen[j])) {
                sharers++;
                left = seen[j].left < left ? seen[j].left : left;
            }
        least = left / sharers < least ? left / sharers : least;
    }
    return n > 0 ? least : 0;
}
