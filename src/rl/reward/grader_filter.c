/* The system calls that a sandboxed grader may not make. It is a list of refused calls, because graders may be any
 * programs. Calls that are newer than this list are refused, too, so that a new kernel adds no unreviewed call. */
#include "rl/reward/grader_filter.h"

#include "base/os/os.h"

#ifndef __x86_64__

tess_status grader_filter_open(TESS_UNUSED int *fd)
{
    return TESS_FAIL(TESS_E_UNSUPPORTED, "reward.sandbox: there is no system call filter for this architecture");
}

#else

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls that fail with EPERM. */
static const unsigned refused[] = {
    /* Mounts and roots: with these a grader could undo the read-only view. */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig,
    SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_swapon, SYS_swapoff, SYS_quotactl, SYS_quotactl_fd,
    /* New namespaces give new capabilities, which reach much of the kernel. clone(2) and clone3(2): see below. */
    SYS_unshare, SYS_setns,
    /* Files by handle, which mounts cannot hide. */
    SYS_open_by_handle_at, SYS_name_to_handle_at,
    /* Other processes. */
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_pidfd_getfd, SYS_kcmp,
    /* Large parts of the kernel with many past faults, which no grader needs. */
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
    SYS_fanotify_init, SYS_lookup_dcookie, SYS_personality, SYS_modify_ldt, SYS_uselib,
    /* The kernel's keys belong to the user, not to the sandbox. */
    SYS_keyctl, SYS_add_key, SYS_request_key,
    /* The machine itself. */
    SYS_kexec_load, SYS_kexec_file_load, SYS_reboot, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_iopl,
    SYS_ioperm, SYS_acct, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex,
    SYS_sethostname, SYS_setdomainname, SYS_vhangup};

static const unsigned new_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
static const unsigned terminal_input[] = {TIOCSTI, TIOCLINUX}; /* they insert characters into another program's input */
static const unsigned own_network[] = {AF_INET, AF_INET6, AF_NETLINK};
static const unsigned connected[] = {SOCK_STREAM, SOCK_SEQPACKET};

enum {
    NEWEST = 456,      /* futex_requeue of Linux 6.7. The calls of x32 are above, too. */
    SOCKET_TYPE = 0xf, /* mask that removes SOCK_CLOEXEC and SOCK_NONBLOCK */
    MOST = 512
};
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

typedef struct program {
    struct sock_filter code[MOST];
    size_t n;
} program;

static void add(program *p, unsigned short code, unsigned k, unsigned char if_true, unsigned char if_false)
{
    p->code[p->n++] = (struct sock_filter){code, if_true, if_false, k};
}

static void add_load(program *p, size_t offset)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

/* Loads the low half of an argument; the kernel reads only this half of an int. */
static void add_load_argument(program *p, size_t i)
{
    add_load(p, offsetof(struct seccomp_data, args) + i * sizeof(__u64));
}

static void add_return(program *p, unsigned action)
{
    add(p, BPF_RET | BPF_K, action, 0, 0);
}

static void add_refuse(program *p, unsigned error)
{
    add_return(p, SECCOMP_RET_ERRNO | error);
}

/* Executes the next instruction only if the loaded value equals `value`. */
static void add_if(program *p, unsigned value)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
}

/* Executes the next `n` instructions only for the system call `number`. */
static void add_if_call(program *p, unsigned number, unsigned char n)
{
    add(p, BPF_JMP | BPF_JEQ | BPF_K, number, 0, n);
}

/* Allows arguments that equal one of the `values`, and refuses all others with EPERM. */
static void add_allow_only(program *p, const unsigned *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add_if(p, values[i]);
        add_return(p, SECCOMP_RET_ALLOW);
    }
    add_refuse(p, EPERM);
}

static void add_clone(program *p)
{
    add_if_call(p, SYS_clone, 4);
    add_load_argument(p, 0);
    add(p, BPF_JMP | BPF_JSET | BPF_K, new_namespaces, 0, 1);
    add_refuse(p, EPERM);
    add_return(p, SECCOMP_RET_ALLOW);
    add_if_call(p, SYS_clone3, 1); /* its flags are in memory, which a filter cannot read; libc falls back to clone */
    add_refuse(p, ENOSYS);
}

static void add_ioctl(program *p)
{
    add_if_call(p, SYS_ioctl, 2 + 2 * COUNT(terminal_input));
    add_load_argument(p, 1);
    for (size_t i = 0; i < COUNT(terminal_input); i++) {
        add_if(p, terminal_input[i]);
        add_refuse(p, EPERM);
    }
    add_return(p, SECCOMP_RET_ALLOW);
}

/* Refuses Unix sockets. Sockets in the file system (of docker or agents) belong to no network namespace, and a
 * read-only mount does not prevent a connection. Socket pairs are allowed, except for datagrams, which may be sent
 * to any address. */
static void add_sockets(program *p)
{
    add_if_call(p, SYS_socket, 2 + 2 * COUNT(own_network));
    add_load_argument(p, 0);
    add_allow_only(p, own_network, COUNT(own_network));
    add_if_call(p, SYS_socketpair, 3 + 2 * COUNT(connected));
    add_load_argument(p, 1);
    add(p, BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE, 0, 0);
    add_allow_only(p, connected, COUNT(connected));
}

static void build(program *p)
{
    add_load(p, offsetof(struct seccomp_data, arch));
    add(p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    add_return(p, SECCOMP_RET_KILL_PROCESS); /* int 0x80 has other call numbers, which this filter does not know */
    add_load(p, offsetof(struct seccomp_data, nr));
    add(p, BPF_JMP | BPF_JGT | BPF_K, NEWEST, 0, 1);
    add_refuse(p, ENOSYS);
    for (size_t i = 0; i < COUNT(refused); i++) {
        add_if(p, refused[i]);
        add_refuse(p, EPERM);
    }
    add_clone(p);
    add_ioctl(p);
    add_sockets(p);
    add_return(p, SECCOMP_RET_ALLOW);
}

tess_status grader_filter_open(int *fd)
{
    program p = {.n = 0};
    build(&p);
    TESS_TRY(tess_os_memfd("grader-filter", 0, fd));
    tess_status status = tess_os_write_all(*fd, p.code, p.n * sizeof(p.code[0]), "a system call filter");
    if (status == TESS_OK && lseek(*fd, 0, SEEK_SET) != 0)
        status = tess_os_error("rewind", "a system call filter");
    if (status != TESS_OK)
        tess_os_close(fd);
    return status;
}

#endif
