#include "ckpt/store/copy_apart.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"

/* Memory that both processes share. The caller's `out` follows. */
struct copy_apart {
    _Atomic uint64_t moves; /* number of reports of progress */
    int32_t status;
    bool done; /* the function has returned */
    char message[2048];
    _Alignas(16) char out[];
};

void copy_apart_moves(copy_apart *apart)
{
    if (apart != NULL)
        atomic_fetch_add(&apart->moves, 1);
}

_Noreturn static void run_child(copy_apart_fn fn, void *self, copy_apart *apart, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close_range(STDERR_FILENO + 1, ~0U, 0); /* a child that hangs forever must not hold the caller's locks */
    apart->status = (int32_t)fn(self, apart, apart->out);
    if (apart->status != TESS_OK)
        snprintf(apart->message, sizeof(apart->message), "%s", tess_error_message());
    apart->done = true;
    _exit(0);
}

/* Waits until the child has ended. False: it reported no progress for patience_s. */
static bool wait_for(pid_t pid, const copy_apart *apart, double patience_s)
{
    uint64_t moves = 0;
    for (double until_s = tess_os_now_s() + patience_s; waitpid(pid, NULL, WNOHANG) == 0;) {
        uint64_t now = atomic_load(&apart->moves);
        if (now != moves)
            until_s = tess_os_now_s() + patience_s;
        moves = now;
        if (tess_os_now_s() > until_s)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

/* Kills a child that hangs. One that the kernel holds (a dead network disk) dies when the disk answers. */
static tess_status kill_child(pid_t pid, double patience_s)
{
    kill(-pid, SIGKILL);
    for (int i = 0; i < 100 && waitpid(pid, NULL, WNOHANG) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return TESS_FAIL(TESS_E_TIMEOUT, "no answer in %.3g s", patience_s);
}

static tess_status take(const copy_apart *apart, void *out, size_t size)
{
    TESS_CHECK(apart->done, TESS_E_IO, "the process that was to answer died");
    if (size > 0)
        memcpy(out, apart->out, size);
    return apart->status == TESS_OK ? TESS_OK : TESS_FAIL((tess_status)apart->status, "%s", apart->message);
}

tess_status copy_run_apart(copy_apart_fn fn, void *self, double patience_s, void *out, size_t size)
{
    void *shared;
    pid_t parent = getpid();
    size_t bytes = sizeof(copy_apart) + size;
    TESS_TRY(tess_os_share("answer of a process", bytes, &shared));
    fflush(NULL); /* otherwise the child would write our buffered output again */
    pid_t pid = fork();
    if (pid == 0)
        run_child(fn, self, shared, parent);
    tess_status status;
    if (pid < 0) {
        status = tess_os_error("fork", "a process that waits");
    } else {
        setpgid(pid, pid); /* both processes call it, so that the group exists before it is killed */
        status = wait_for(pid, shared, patience_s) ? take(shared, out, size) : kill_child(pid, patience_s);
    }
    tess_os_unmap_shared(shared, bytes);
    return status;
}
