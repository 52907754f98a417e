#include "base/os/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/memory_group.h"
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

uint64_t tess_os_raise_open_files(uint64_t n)
{
    struct rlimit value;
    if (getrlimit(RLIMIT_NOFILE, &value) != 0)
        return UINT64_MAX;
    if (value.rlim_cur < n && value.rlim_cur < value.rlim_max) {
        value.rlim_cur = n < value.rlim_max ? n : value.rlim_max;
        setrlimit(RLIMIT_NOFILE, &value);
    }
    return tess_os_limit_of(TESS_OS_OPEN_FILES);
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

int tess_os_core_now(void)
{
    return sched_getcpu();
}

int tess_os_affinity_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

int tess_os_cores(void)
{
    double quota;
    int cores = tess_os_affinity_cores();
    return tess_control_group_cores("", &quota) && quota < cores ? (int)ceil(quota) : cores;
}

uint64_t tess_os_cores_hash(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return tess_hash_bytes(&set, sizeof(set), 0);
}

void tess_os_bind(int number)
{
    cpu_set_t set, one;
    if (sched_getaffinity(0, sizeof(set), &set) != 0 || number >= CPU_COUNT(&set))
        return;
    int cpu = -1;
    do
        cpu++;
    while (!CPU_ISSET(cpu, &set) || number-- > 0);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
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
    return tess_os_now_ns() - begin >= 900000; /* the wait returns at once if the system forbids the call */
}

typedef struct core_task {
    int number;
    void (*fn)(void *context);
    void *context;
} core_task;

static void *run_on_core(void *self)
{
    core_task *e = self;
    tess_os_bind(e->number);
    e->fn(e->context);
    return NULL;
}

tess_status tess_os_on_core(int number, void (*fn)(void *context), void *context)
{
    core_task e = {number % tess_os_affinity_cores(), fn, context};
    pthread_t thread;
    int reason = pthread_create(&thread, NULL, run_on_core, &e);
    TESS_CHECK(reason == 0, TESS_E_NOMEM, "start a thread on core %d: %s", e.number, strerror(reason));
    pthread_join(thread, NULL);
    return TESS_OK;
}
