/* Clocks, files, memory files and futexes: the system calls that most modules need. Threads are in threads.h; other
 * modules make only the calls that are their purpose. */
#ifndef TESS_BASE_OS_OS_H
#define TESS_BASE_OS_OS_H

#include "base/mem/scoped.h"

double tess_os_now_s(void);               /* monotonic */
uint64_t tess_os_now_ns(void);            /* monotonic */
double tess_os_age_of_process_s(int pid); /* time since process `pid` was started, to 10 ms; 0: not known */
char tess_os_process_state(int pid);      /* 'R', 'S', 'D', 'T', 'Z' ... of proc(5); '\0': there is no such process */
uint64_t tess_os_process_starved_ns(int pid); /* time that its first thread was runnable without a core; 0: not known */
int tess_os_process_parent(int pid);          /* 0: there is no such process */
/* Number of cores that this process may use (affinity and cgroup quota) */
int tess_os_cores(void);
uint64_t tess_os_cores_hash(void); /* equal for equal affinity sets of cores */
/* Binds the calling thread to the `number`-th core that it may use. Does nothing if there are fewer cores. */
void tess_os_bind(int number);

/* ---- Files ---- */
typedef struct tess_mapping {
    const uint8_t *data; /* NULL when size is 0 */
    size_t size;
} tess_mapping;

/* Maps a regular file read-only. All functions below that open a file for reading return these errors, with the path in
 * the message:
 *   TESS_E_NOT_FOUND  no such file
 *   TESS_E_INVALID    a folder, a pipe, a circle of links
 *   TESS_E_FORMAT     a pointer of git-lfs
 *   TESS_E_IO         other failures */
tess_status tess_os_map(const char *path, tess_mapping *mapping);
void tess_os_unmap(tess_mapping *mapping);

/* Reads a whole file into memory from `mem` (MISC), NUL-terminated. Fails if the file has more than `limit` bytes. */
tess_status tess_os_read(tess_mem *mem, const char *path, size_t limit, char **data, size_t *size);

/* Opens a regular file for tess_os_read_at. */
tess_status tess_os_open_read(const char *path, int *fd, uint64_t *size);
/* Reads exactly `size` bytes. TESS_E_IO: the file is shorter, or the device failed; the message names path and
 * offset. */
tess_status tess_os_read_at(int fd, uint64_t offset, void *data, size_t size, const char *path);

/* Writes `path` atomically: a temporary file next to it, fsync, rename, fsync of the folder. TESS_E_NO_SPACE: the disk
 * is full; the temporary file is removed and an old file is unchanged. */
tess_status tess_os_write_atomic(const char *path, const void *data, size_t size);
/* Copies a regular file. Reads like tess_os_map, writes like tess_os_write_atomic. */
tess_status tess_os_copy(const char *from, const char *to);

/* Calls write(2) until everything is written; handles EINTR and short writes. Errors name `path`. */
tess_status tess_os_write_all(int fd, const void *data, size_t size, const char *path);

/* Appends to a file that has no other writer. On failure the file keeps its old size, so that the next append starts a
 * line. */
tess_status tess_os_append(int fd, const void *data, size_t size, const char *path);

/* Creates (or empties) a file that several ranks will write in parts, and closes it. One rank calls it. Reserves the
 * bytes where the file system can, so that a full disk is reported here and not in the middle of writing. */
tess_status tess_os_create(const char *path, size_t size);
tess_status tess_os_open(const char *path, int *fd); /* opens an existing file for writing */
tess_status tess_os_write_at(int fd, size_t offset, const void *data, size_t size, const char *path);
/* Gives a file `size` bytes, reserved on disk where the file system can. A full disk is reported here as
 * TESS_E_NO_SPACE. */
tess_status tess_os_reserve(int fd, uint64_t size, const char *path);
tess_status tess_os_sync(int fd, const char *path); /* fsync, repeated if a signal interrupts it */
/* Calls tess_os_sync, then close. Sets *fd to -1. A *fd of -1 is fine. */
tess_status tess_os_sync_close(int *fd, const char *path);
void tess_os_close(int *fd);

/* ---- Paths ---- */
bool tess_os_is_dir(const char *path);
bool tess_os_is_file(const char *path);

/* The kind of a path's target, for callers that must distinguish "not there" from "could not be looked at". */
typedef enum tess_os_kind { TESS_OS_NOTHING, TESS_OS_FILE, TESS_OS_FOLDER, TESS_OS_OTHER } tess_os_kind;
typedef struct tess_os_entry {
    tess_os_kind kind;
    uint64_t bytes; /* size of a file */
} tess_os_entry;
tess_status tess_os_look_up(const char *path, tess_os_entry *entry);

tess_status tess_os_file_size(const char *path, uint64_t *size); /* size of a regular file */
/* Time of the last change, in seconds since 1970; 0: no such file */
double tess_os_changed_s(const char *path);
/* true: both paths lead to the same existing file or folder */
bool tess_os_same_file(const char *a, const char *b);

/* Returns a number that identifies a folder: a folder created later at the same path has another number. 0: not a
 * folder. */
uint64_t tess_os_folder_id(const char *path);

tess_status tess_os_make_dirs(const char *path); /* mkdir -p; the new names survive a power failure */
tess_status tess_os_make_dir(const char *path);
tess_status tess_os_fsync_dir(const char *path);

tess_status tess_os_rename(const char *from, const char *to);
tess_status tess_os_link(const char *from, const char *to); /* adds another name of the same file */
/* Exchanges the names `from` and `to` in one step. TESS_E_UNSUPPORTED: the file system cannot, and nothing changed. */
tess_status tess_os_exchange(const char *from, const char *to);
void tess_os_remove(const char *path); /* removes a file if it is there */
void tess_os_remove_empty_dir(const char *path);
tess_status tess_os_remove_tree(const char *path); /* removes a folder or a file; no error if there is none */

/* Calls visit(context, name) for every name in the folder except "." and "..", in no particular order. */
tess_status tess_os_list(const char *folder, tess_status (*visit)(void *context, const char *name), void *context);

tess_status tess_os_own_path(char *path, size_t size); /* path of this program */
/* Replaces a leading "~" (the whole path, or before the first '/') by $HOME. TESS_E_INVALID: HOME is not set, or the
 * result does not fit into `size`. */
tess_status tess_os_expand_home(char *path, size_t size);

/* Joins "a/b" and "c" to "a/b/c". TESS_E_INVALID: the result does not fit. */
tess_status tess_os_join(char *out, size_t size, const char *folder, const char *name);

/* Returns the status for errno after a failed call on `path`, and records "<what> <path>: reason". ENOENT is
 * TESS_E_NOT_FOUND; ENOSPC and EDQUOT are TESS_E_NO_SPACE; others are TESS_E_IO. */
tess_status tess_os_error(const char *what, const char *path);

/* ---- Memory shared between processes ---- */
tess_status tess_os_memfd(const char *name, size_t size, int *fd); /* sparse; closed on exec */
void tess_os_inherit(int fd);                                      /* keeps the descriptor open on exec */
tess_status tess_os_fd_size(int fd, size_t *size);
size_t tess_os_memory_bytes(void); /* memory of the machine */
tess_status tess_os_map_shared(int fd, size_t offset, size_t size, void **address);
/* Maps zeroed memory that this process shares with the processes that it forks from now on. */
tess_status tess_os_share(const char *name, size_t size, void **address);
/* Maps a new file of zeroes whose bytes are reserved on disk (TESS_E_NO_SPACE). What is stored in it survives the
 * process. Replaces a file at `path`. */
tess_status tess_os_map_new(const char *path, size_t size, void **address);
/* Keeps a mapping out of processes that are forked later, or no longer. */
void tess_os_keep_from_forks(void *address, size_t size, bool keep);
void tess_os_unmap_shared(void *address, size_t size);
/* Populates pages of shared memory now, instead of one by one at the first write. `address` must be page-aligned. */
void tess_os_populate(void *address, size_t size);
void tess_os_punch(int fd, size_t offset, size_t size); /* frees the pages of this part; it then reads as zero */

/* Large memory files (shared_files.c): maps `offset`, a multiple of a huge page, at the start of a huge page, so that
 * the file can have huge pages. `size` is a whole number of pages. */
tess_status tess_os_map_shared_huge(int fd, size_t offset, size_t size, void **address);
/* Populates `size` bytes from `offset`, mapped at `address`, with huge pages where the system has them.
 * TESS_E_NO_SPACE: there is not enough memory, so touching them would kill the process. */
tess_status tess_os_reserve_shared(int fd, size_t offset, void *address, size_t size);
/* Opens the file, or creates it with access for this user only */
tess_status tess_os_open_shared(const char *path, int *fd);
tess_status tess_os_resize_zeroed(int fd, size_t size, const char *path);
/* mkdir -p; the last folder must belong to this user only. TESS_E_INVALID: it exists and belongs to another user. */
tess_status tess_os_make_private_dir(const char *path);
/* Takes a lock, which is held until the last copy of the descriptor is closed. False: another process holds it. */
bool tess_os_lock(int fd);

/* Copies memory from another process of the same user. False: the system forbids it, or the process has ended. */
bool tess_os_read_process(int pid, void *to, uint64_t address, size_t size);
/* Allows `pid` and its children to read this process's memory, where the system requires a permission. It replaces an
 * earlier permission. 0: no process may. */
void tess_os_allow_reading(int pid);

/* Sleeps while *word == expected, at most timeout_ns (across processes). Spurious wake-ups happen. */
void tess_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void tess_os_futex_wake(const uint32_t *word, int n_waiters);

#endif
