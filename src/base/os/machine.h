/* What the system lets a process do, and what it says of the machine: limits, room on disks, clocks, texts of /proc. */
#ifndef TESS_BASE_OS_MACHINE_H
#define TESS_BASE_OS_MACHINE_H

#include "tessera/memory.h"

/* A file of /proc or /sys (which have no size of their own) as text, without the last newline, cut to `size` - 1 bytes.
 * Returns its length; -1, and "": it cannot be read. */
ptrdiff_t tess_os_read_text(const char *path, char *text, size_t size);

typedef enum tess_os_limit {
    TESS_OS_OPEN_FILES,
    TESS_OS_LOCKED_MEMORY, /* bytes */
    TESS_OS_PROCESSES,     /* and threads, of the user */
    TESS_OS_CORE_FILE,     /* bytes */
    TESS_OS_ADDRESS_SPACE, /* bytes */
    TESS_OS_LIMIT_COUNT
} tess_os_limit;

/* What this process may have of it now (the soft limit); UINT64_MAX: no limit. */
uint64_t tess_os_limit_of(tess_os_limit limit);

typedef struct tess_os_space {
    uint64_t total, free;       /* bytes; free: for this user */
    uint64_t files, free_files; /* that it can hold; both 0: it sets no limit */
} tess_os_space;

/* Of the file system that `path` is on. */
tess_status tess_os_space_at(const char *path, tess_os_space *space);

/* Writes to a file without a name in `folder`, past the page cache where that goes, until `most_bytes` or `most_s` are
 * reached, and leaves nothing behind. *bytes_per_s includes the fsync. Errors are those of a checkpoint there:
 * TESS_E_NOT_FOUND, TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_os_write_rate(const char *folder, size_t most_bytes, double most_s, double *bytes_per_s);

/* The wall clock, and what the kernel knows of it. False: the system does not say. */
uint64_t tess_os_wall_ns(void);
bool tess_os_clock_is_synced(bool *synced, double *error_s);

double tess_os_thread_cpu_s(void); /* used by the calling thread */
int tess_os_core_now(void);        /* that the calling thread is on; -1: not known */
int tess_os_affinity_cores(void);  /* that this process may run on, whatever a cgroup's quota */
bool tess_os_is_root(void);
bool tess_os_futex_works(void); /* a wait of a millisecond takes one */

/* Runs fn(context) on a thread of its own that stays on the core of this number among those of the process (`number` is
 * taken modulo their count), and waits for its end. TESS_E_NOMEM: there is no thread to be had. */
tess_status tess_os_on_core(int number, void (*fn)(void *context), void *context);

#endif
