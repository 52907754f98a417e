/* A handle of a process: poll() on it returns when the process has ended. glibc has pidfd_open only since 2.36. Through
 * the system call our programs also start on older systems, such as RHEL 9 and Ubuntu 22.04. */
#ifndef TESS_BASE_OS_PROCESS_HANDLE_H
#define TESS_BASE_OS_PROCESS_HANDLE_H

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Returns a descriptor that the caller closes, or -1 and sets errno. */
static inline int tess_os_process_handle(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

#endif
