#include "base/os/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "base/os/os.h"

ptrdiff_t tess_os_read_text(const char *path, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t n = 0;
    while (at + 1 < size && (n = read(fd, text + at, size - 1 - at)) > 0)
        at += (size_t)n;
    close(fd);
    if (n < 0 && at == 0)
        return -1;
    if (at > 0 && text[at - 1] == '\n')
        at--;
    text[at] = '\0';
    return (ptrdiff_t)at;
}

uint64_t tess_os_limit_of(tess_os_limit limit)
{
    static const __rlimit_resource_t names[TESS_OS_LIMIT_COUNT] = {
        [TESS_OS_OPEN_FILES] = RLIMIT_NOFILE, [TESS_OS_LOCKED_MEMORY] = RLIMIT_MEMLOCK,
        [TESS_OS_PROCESSES] = RLIMIT_NPROC,   [TESS_OS_CORE_FILE] = RLIMIT_CORE,
        [TESS_OS_ADDRESS_SPACE] = RLIMIT_AS,
    };
    struct rlimit value;
    if (getrlimit(names[limit], &value) != 0 || value.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return value.rlim_cur;
}

tess_status tess_os_space_at(const char *path, tess_os_space *space)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0)
        return tess_os_error("look at the file system of", path);
    space->total = (uint64_t)info.f_blocks * info.f_frsize;
    space->free = (uint64_t)info.f_bavail * info.f_frsize;
    space->files = (uint64_t)info.f_files;
    space->free_files = (uint64_t)info.f_favail;
    return TESS_OK;
}

uint64_t tess_os_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

bool tess_os_clock_is_synced(bool *synced, double *error_s)
{
    struct timex state = {0};
    int result = adjtimex(&state);
    *synced = result != TIME_ERROR && !(state.status & STA_UNSYNC);
    *error_s = (double)state.maxerror * 1e-6;
    return result >= 0;
}

double tess_os_thread_cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int tess_os_core_now(void)
{
    return sched_getcpu();
}

int tess_os_affinity_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

bool tess_os_is_root(void)
{
    return geteuid() == 0;
}

bool tess_os_futex_works(void)
{
    const uint32_t word = 0;
    uint64_t begin = tess_os_now_ns();
    tess_os_futex_wait(&word, 0, 1000000);
    return tess_os_now_ns() - begin >= 900000; /* where the system forbids the call, it returns at once */
}

typedef struct errand {
    int number;
    void (*fn)(void *context);
    void *context;
} errand;

static void *run_errand(void *self)
{
    errand *e = self;
    tess_os_bind(e->number);
    e->fn(e->context);
    return NULL;
}

tess_status tess_os_on_core(int number, void (*fn)(void *context), void *context)
{
    errand e = {number % tess_os_affinity_cores(), fn, context};
    pthread_t thread;
    int reason = pthread_create(&thread, NULL, run_errand, &e);
    TESS_CHECK(reason == 0, TESS_E_NOMEM, "start a thread on core %d: %s", e.number, strerror(reason));
    pthread_join(thread, NULL);
    return TESS_OK;
}
