/* The service of asynchronous saves: the writer process and its keeper. The keeper is a process between the one that
 * starts ranks and the writer. It only waits for the writer: when a writer dies, it records how and starts another
 * one. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/variables.h"
#include "base/os/process_handle.h"
#include "ckpt/async/async_impl.h"

static const uint64_t poll_ns = 500000000; /* time between checks of the writer whether the owner still runs */

/* A pause before a writer is restarted, so that writers that die at once do not keep a core busy. */
static const struct timespec pause_after_death = {.tv_nsec = 20000000};

struct tess_async_service {
    tess_mem *mem;
    async_area area;
    pid_t keeper;
};

/* Ignores requests to stop, which are meant for ranks: the writer first writes what they have staged. Ignores SIGXFSZ
 * so that a file that is too large gives an error. */
static void ignore_requests(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ};
    sigset_t none;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* ---- The writer ---- */
static void write_one(async_writer *w, async_write_fn write)
{
    async_header *header = w->area->header;
    async_outcome outcome = {.step = -1};
    header->attempts++;
    outcome.status = (int32_t)write(w, &outcome);
    if (outcome.status != TESS_OK)
        snprintf(outcome.message, sizeof(outcome.message), "%s", tess_error_message());
    outcome.seconds = (double)(tess_os_now_ns() - atomic_load(&header->queued_ns)) * 1e-9;
    async_end(header, ASYNC_WRITING, &outcome);
}

/* Writes saves until the area is closing or its owner has ended. */
static void run_writer(const async_area *area, int owner_fd, async_write_fn write)
{
    async_header *header = area->header;
    async_writer w = {.area = area, .owner_fd = owner_fd};
    if (tess_mem_create(&w.mem) != TESS_OK)
        return;
    atomic_store(&header->writer_pid, (int32_t)getpid());
    for (;;) {
        uint32_t ticket = atomic_load(&header->doorbell);
        if (async_step(header, ASYNC_QUEUED, ASYNC_WRITING))
            write_one(&w, write);
        else if (atomic_load(&header->closing) != 0 || async_has_ended(owner_fd))
            break;
        else
            tess_os_futex_wait((const uint32_t *)&header->doorbell, ticket, poll_ns);
    }
    for (int i = 0; i < w.n_faults; i++)
        tess_faults_destroy(w.mem, &w.faults[i].faults);
    tess_mem_free(w.mem, w.faults);
    tess_mem_destroy(&w.mem);
}

/* ---- The keeper ---- */
static pid_t start_writer(const async_area *area, int owner_fd, async_write_fn write)
{
    pid_t keeper = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_NAME, "tessera-writer");
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the writer dies with the keeper, because ranks watch only the keeper */
    if (getppid() != keeper)
        _exit(1);
    run_writer(area, owner_fd, write);
    _exit(0);
}

/* Records how a writer died, and queues its save again or ends it. */
static void record_death(async_header *header, pid_t pid, int state)
{
    char *text = header->death;
    size_t size = sizeof(header->death);
    if (WIFSIGNALED(state))
        snprintf(text, size, "the process that writes checkpoints (pid %d) was killed by signal %d (SIG%s)", (int)pid,
                 WTERMSIG(state), sigabbrev_np(WTERMSIG(state)) != NULL ? sigabbrev_np(WTERMSIG(state)) : "?");
    else
        snprintf(text, size, "the process that writes checkpoints (pid %d) ended with code %d", (int)pid,
                 WEXITSTATUS(state));
    atomic_fetch_add(&header->deaths, 1);
    if (header->attempts < ASYNC_ATTEMPTS && async_step(header, ASYNC_WRITING, ASYNC_QUEUED))
        return;
    async_outcome outcome = {.status = TESS_E_IO, .step = -1};
    snprintf(outcome.message, sizeof(outcome.message), "%s, and so was the one before it", text);
    if (atomic_load(&header->state) == ASYNC_WRITING)
        async_end(header, ASYNC_WRITING, &outcome);
}

static void run_keeper(const async_area *area, int owner_fd, async_write_fn write)
{
    for (;;) {
        int state;
        pid_t pid = start_writer(area, owner_fd, write);
        if (pid < 0)
            return;
        while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
            ;
        if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
            return;
        record_death(area->header, pid, state);
        nanosleep(&pause_after_death, NULL);
    }
}

/* ---- The owner ---- */
static tess_status fork_keeper(tess_async_service *s, async_write_fn write)
{
    int owner_fd = tess_os_process_handle(getpid());
    if (owner_fd < 0)
        return tess_os_error("pidfd_open", "of this process");
    fflush(NULL); /* otherwise the child would write our buffered output again */
    s->keeper = fork();
    if (s->keeper == 0) {
        prctl(PR_SET_NAME, "tessera-keeper");
        ignore_requests();
        s->area.header->keeper_pid = (int32_t)getpid();
        run_keeper(&s->area, owner_fd, write);
        _exit(0);
    }
    tess_status status =
        s->keeper > 0 ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "start the writer of checkpoints: fork: %s", strerror(errno));
    s->area.header->keeper_pid = (int32_t)s->keeper;
    tess_os_close(&owner_fd);
    return status;
}

static tess_status start(tess_async_service *s, async_write_fn write)
{
    char number[16];
    TESS_TRY(async_area_create(&s->area));
    tess_os_inherit(s->area.fd);
    snprintf(number, sizeof(number), "%d", s->area.fd);
    setenv(tess_variable_name(TESS_VAR_SAVES), number, 1);
    return fork_keeper(s, write);
}

static void release(tess_async_service *s)
{
    tess_mem *mem = s->mem;
    unsetenv(tess_variable_name(TESS_VAR_SAVES));
    async_area_close(&s->area, true);
    tess_mem_free(mem, s);
    tess_mem_destroy(&mem);
}

tess_status async_service_start(async_write_fn write, tess_async_service **service)
{
    tess_mem *mem;
    tess_async_service *s;
    TESS_TRY(tess_mem_create(&mem));
    tess_status status = TESS_NEW(mem, 1, "service of saves", &s);
    if (status != TESS_OK) {
        tess_mem_destroy(&mem);
        return status;
    }
    *s = (tess_async_service){.mem = mem, .area = {.fd = -1}};
    status = start(s, write);
    if (status != TESS_OK)
        release(s);
    else
        *service = s;
    return status;
}

tess_status tess_async_service_start(tess_async_service **service)
{
    return async_service_start(async_write_checkpoint, service);
}

void tess_async_service_look(tess_async_service *s)
{
    if (s == NULL || s->keeper == 0)
        return;
    siginfo_t end = {0}; /* not reaped yet, so that no rank mistakes a new process with the same pid for it */
    if (waitid(P_PID, (id_t)s->keeper, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != s->keeper)
        return;
    atomic_store(&s->area.header->keeper_ended, 1);
    waitpid(s->keeper, NULL, 0);
    s->keeper = 0;
}

void tess_async_service_stop(tess_async_service **service)
{
    tess_async_service *s = *service;
    if (s == NULL)
        return;
    *service = NULL;
    async_header *header = s->area.header;
    atomic_store(&header->closing, 1);
    atomic_fetch_add(&header->doorbell, 1);
    tess_os_futex_wake((const uint32_t *)&header->doorbell, INT32_MAX);
    while (s->keeper != 0 && waitpid(s->keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    release(s);
}
