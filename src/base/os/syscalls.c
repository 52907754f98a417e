#include "base/os/syscalls.h"

#include <stddef.h>
#include <sys/syscall.h>

/* The columns: name, kind, index of the argument that is a file descriptor, index of the argument that points to a
 * path. */
#define CALL(name, kind, fd, path)                    \
    {                                                 \
#name, SYS_##name, TESS_CALL_##kind, fd, path \
    }

static const tess_syscall calls[] = {
    CALL(read, FILE, 0, -1),
    CALL(pread64, FILE, 0, -1),
    CALL(readv, FILE, 0, -1),
    CALL(preadv, FILE, 0, -1),
    CALL(preadv2, FILE, 0, -1),
    CALL(write, FILE, 0, -1),
    CALL(pwrite64, FILE, 0, -1),
    CALL(writev, FILE, 0, -1),
    CALL(pwritev, FILE, 0, -1),
    CALL(pwritev2, FILE, 0, -1),
    CALL(fsync, FILE, 0, -1),
    CALL(fdatasync, FILE, 0, -1),
    CALL(sync_file_range, FILE, 0, -1),
    CALL(syncfs, FILE, 0, -1),
    CALL(ftruncate, FILE, 0, -1),
    CALL(fallocate, FILE, 0, -1),
    CALL(flock, FILE, 0, -1),
    CALL(fcntl, FILE, 0, -1),
    CALL(ioctl, FILE, 0, -1),
    CALL(fstat, FILE, 0, -1),
    CALL(getdents64, FILE, 0, -1),
    CALL(close, FILE, 0, -1),
    CALL(sendfile, FILE, 1, -1),
    CALL(splice, FILE, 0, -1),
    CALL(copy_file_range, FILE, 0, -1),
    CALL(recvfrom, FILE, 0, -1),
    CALL(recvmsg, FILE, 0, -1),
    CALL(recvmmsg, FILE, 0, -1),
    CALL(sendto, FILE, 0, -1),
    CALL(sendmsg, FILE, 0, -1),
    CALL(accept, FILE, 0, -1),
    CALL(accept4, FILE, 0, -1),
    CALL(connect, FILE, 0, -1),
    CALL(openat, FILE, -1, 1),
    CALL(newfstatat, FILE, -1, 1),
    CALL(statx, FILE, -1, 1),
    CALL(mkdirat, FILE, -1, 1),
    CALL(unlinkat, FILE, -1, 1),
    CALL(renameat2, FILE, -1, 1),
    CALL(faccessat2, FILE, -1, 1),
    CALL(statfs, FILE, -1, 0),
    CALL(io_uring_enter, FILE, 0, -1),
    CALL(io_getevents, FILE, -1, -1),
    CALL(msync, FILE, -1, -1),
    CALL(sync, FILE, -1, -1),
    CALL(ppoll, POLL, -1, -1),
    CALL(pselect6, POLL, -1, -1),
    CALL(epoll_pwait, POLL, 0, -1),
    CALL(futex, FUTEX, -1, -1),
    CALL(clock_nanosleep, SLEEP, -1, -1),
    CALL(nanosleep, SLEEP, -1, -1),
    CALL(restart_syscall, SLEEP, -1, -1), /* a call with a time limit that resumes after the thread was stopped */
    CALL(rt_sigtimedwait, SLEEP, -1, -1),
    CALL(rt_sigsuspend, SLEEP, -1, -1),
    CALL(wait4, CHILD, -1, -1),
    CALL(waitid, CHILD, -1, -1),
    CALL(clone, CHILD, -1, -1),
    CALL(clone3, CHILD, -1, -1),
    CALL(sched_yield, OTHER, -1, -1),
    CALL(madvise, OTHER, -1, -1),
    CALL(mmap, OTHER, -1, -1),
    CALL(munmap, OTHER, -1, -1),
    CALL(process_vm_readv, OTHER, -1, -1),
#ifdef SYS_open /* older architectures also have the calls from before the *at calls */
    CALL(open, FILE, -1, 0),
    CALL(stat, FILE, -1, 0),
    CALL(lstat, FILE, -1, 0),
    CALL(access, FILE, -1, 0),
    CALL(mkdir, FILE, -1, 0),
    CALL(unlink, FILE, -1, 0),
    CALL(rename, FILE, -1, 0),
    CALL(poll, POLL, -1, -1),
    CALL(select, POLL, -1, -1),
    CALL(epoll_wait, POLL, 0, -1),
    CALL(pause, SLEEP, -1, -1),
    CALL(fork, CHILD, -1, -1),
    CALL(vfork, CHILD, -1, -1),
#endif
};

const tess_syscall *tess_syscall_find(int number)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (calls[i].number == number)
            return &calls[i];
    return NULL;
}
