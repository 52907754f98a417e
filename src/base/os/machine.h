/* Reads the limits that the system sets for this process, and what the system reports about the machine: disk space,
 * clocks, /proc. */
#ifndef TESS_BASE_OS_MACHINE_H
#define TESS_BASE_OS_MACHINE_H

#include "tessera/memory.h"

/* Reads a file of /proc or /sys (their sizes are not known) as text, without the last newline, cut to `size` - 1 bytes.
 * Returns its length. -1: the file cannot be read, and `text` is "". */
ptrdiff_t tess_os_read_text(const char *path, char *text, size_t size);

typedef enum tess_os_limit {
    TESS_OS_OPEN_FILES,
    TESS_OS_LOCKED_MEMORY, /* bytes */
    TESS_OS_PROCESSES,     /* processes and threads of the user */
    TESS_OS_CORE_FILE,     /* bytes */
    TESS_OS_ADDRESS_SPACE, /* bytes */
    TESS_OS_LIMIT_COUNT
} tess_os_limit;

/* This process's current (soft) limit; UINT64_MAX: no limit. */
uint64_t tess_os_limit_of(tess_os_limit limit);

/* Raises the limit on open files to `n`, as far as the hard limit allows. Returns the limit that now holds. */
uint64_t tess_os_raise_open_files(uint64_t n);

typedef struct tess_os_space {
    uint64_t total, free;       /* bytes; free: for this user */
    uint64_t files, free_files; /* number of files that fit, and that can still be created; both 0: no limit */
} tess_os_space;

/* Reads the space of the file system that `path` is on. */
tess_status tess_os_space_at(const char *path, tess_os_space *space);

/* Measures how fast a checkpoint could be written to `folder`. Writes to a nameless file, bypassing the page cache
 * where possible, until `most_bytes` or `most_s` are reached. No file remains. *bytes_per_s includes the fsync. Fails
 * as a checkpoint there would: TESS_E_NOT_FOUND, TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_os_write_rate(const char *folder, size_t most_bytes, double most_s, double *bytes_per_s);

/* tess_os_wall_ns: the wall clock
 * tess_os_clock_is_synced: whether the kernel considers it synchronised, and its error. False: the system does not
 * say */
uint64_t tess_os_wall_ns(void);
bool tess_os_clock_is_synced(bool *synced, double *error_s);

double tess_os_thread_cpu_s(void); /* CPU time that the calling thread has used */
int tess_os_core_now(void);        /* core of the calling thread; -1: not known */
int tess_os_affinity_cores(void);  /* cores that this process may run on, ignoring a cgroup's quota */
bool tess_os_is_root(void);
bool tess_os_futex_works(void); /* true: a futex wait of a millisecond takes that long */

/* Runs fn(context) on a new thread bound to one core, and waits for its end. The core is entry `number` (modulo their
 * count) of the cores that the process may use. TESS_E_NOMEM: the system could not start a thread. */
tess_status tess_os_on_core(int number, void (*fn)(void *context), void *context);

#endif
