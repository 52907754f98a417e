/* System calls by number, with what a thread that sleeps in the call waits for. */
#ifndef TESS_BASE_OS_SYSCALLS_H
#define TESS_BASE_OS_SYSCALLS_H

#include "base/os/process_facts.h"

typedef struct tess_syscall {
    const char *name;
    int number;
    tess_call_kind kind;
    int fd;   /* index of the argument that is a file descriptor, -1: none */
    int path; /* index of the argument that is the address of a path, -1: none */
} tess_syscall;

/* Returns the entry of a system call; NULL: not in the table. */
const tess_syscall *tess_syscall_find(int number);

#endif
