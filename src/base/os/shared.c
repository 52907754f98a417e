/* Memory that processes share, memory of other processes, and the futex on shared memory. */
#include "base/os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

tess_status tess_os_memfd(const char *name, size_t size, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC);
    if (*fd < 0)
        return tess_os_error("memfd_create", name);
    if (ftruncate(*fd, (off_t)size) != 0) {
        tess_status status = tess_os_error("size shared memory", name);
        tess_os_close(fd);
        return status;
    }
    return TESS_OK;
}

void tess_os_inherit(int fd)
{
    fcntl(fd, F_SETFD, 0);
}

tess_status tess_os_fd_size(int fd, size_t *size)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return tess_os_error("stat", "shared memory");
    *size = (size_t)info.st_size;
    return TESS_OK;
}

size_t tess_os_memory_bytes(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

tess_status tess_os_map_shared(int fd, size_t offset, size_t size, void **address)
{
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
    if (mapped == MAP_FAILED)
        return tess_os_error("map", "shared memory");
    /* A core file that includes this memory could be as large as the machine's memory */
    madvise(mapped, size, MADV_DONTDUMP);
    *address = mapped;
    return TESS_OK;
}

tess_status tess_os_share(const char *name, size_t size, void **address)
{
    TESS_AUTO(tess_os_close) int fd = -1;
    TESS_TRY(tess_os_memfd(name, size, &fd));
    return tess_os_map_shared(fd, 0, size, address);
}

tess_status tess_os_map_new(const char *path, size_t size, void **address)
{
    /* Unlinks instead of truncating: another process may still read or write the file that was there. */
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return tess_os_error("create", path);
    do /* unlike tess_os_reserve this never leaves holes; on a full disk a store to a hole would kill the process */
        errno = posix_fallocate(fd, 0, (off_t)size);
    while (errno == EINTR);
    tess_status status =
        errno == 0 ? tess_os_map_shared(fd, 0, size, address) : tess_os_error("reserve room for", path);
    tess_os_close(&fd);
    if (status != TESS_OK)
        unlink(path);
    return status;
}

void tess_os_keep_from_forks(void *address, size_t size, bool keep)
{
    (void)madvise(address, size, keep ? MADV_DONTFORK : MADV_DOFORK);
}

void tess_os_unmap_shared(void *address, size_t size)
{
    munmap(address, size);
}

void tess_os_populate(void *address, size_t size)
{
    /* An older kernel does not know the advice and populates pages one by one later */
    (void)madvise(address, size, MADV_POPULATE_WRITE);
}

void tess_os_punch(int fd, size_t offset, size_t size)
{
    /* If the file system cannot punch holes, the pages stay: this only wastes memory. */
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

bool tess_os_read_process(int pid, void *to, uint64_t address, size_t size)
{
    while (size > 0) {
        struct iovec here = {.iov_base = to, .iov_len = size};
        struct iovec there = {.iov_base = (void *)(uintptr_t)address, .iov_len = size};
        ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (n <= 0)
            return false;
        to = (uint8_t *)to + n;
        address += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

void tess_os_allow_reading(int pid)
{
    prctl(PR_SET_PTRACER, pid, 0, 0, 0);
}

void tess_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / UINT64_C(1000000000)),
                               .tv_nsec = (long)(timeout_ns % UINT64_C(1000000000))};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
}

void tess_os_futex_wake(const uint32_t *word, int n_waiters)
{
    syscall(SYS_futex, word, FUTEX_WAKE, n_waiters, NULL, NULL, 0);
}
