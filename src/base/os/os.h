/* Clock, files, memory files, futexes: system calls live here and in threads.h, except a module's very purpose. */
#ifndef TESS_BASE_OS_OS_H
#define TESS_BASE_OS_OS_H

#include "tessera/memory.h"

double tess_os_now_s(void);               /* monotonic */
uint64_t tess_os_now_ns(void);            /* monotonic */
double tess_os_process_age_s(void);       /* since this process was started, to 10 ms; 0 when the system does not say */
double tess_os_age_of_process_s(int pid); /* likewise */
char tess_os_process_state(int pid);      /* 'R', 'S', 'D', 'T', 'Z' ... of proc(5); '\0': there is no such process */
uint64_t tess_os_process_starved_ns(int pid); /* time that its first thread was runnable without a core; 0: not known */
int tess_os_process_parent(int pid);          /* 0: there is no such process */
int tess_os_cores(void);                      /* cores that this process may use (affinity and cgroup quota) */
uint64_t tess_os_cores_hash(void);            /* equal for equal sets of cores (affinity) */
/* Binds the calling thread to the `number`-th core of those that it may use; does nothing when there are fewer. */
void tess_os_bind(int number);

/* ---- Files ---- */
typedef struct tess_mapping {
    const uint8_t *data; /* NULL when size is 0 */
    size_t size;
} tess_mapping;

/* Maps a regular file read-only. Every call below that opens a file to read has these errors; they name the path:
 * TESS_E_NOT_FOUND, TESS_E_INVALID (a folder, a pipe, a circle of links), TESS_E_FORMAT (a pointer of git-lfs),
 * TESS_E_IO. */
tess_status tess_os_map(const char *path, tess_mapping *mapping);
void tess_os_unmap(tess_mapping *mapping);

/* Reads a whole file into memory from `mem` (MISC), NUL-terminated; refuses files over `limit` bytes. */
tess_status tess_os_read(tess_mem *mem, const char *path, size_t limit, char **data, size_t *size);

/* Opens a regular file for tess_os_read_at. */
tess_status tess_os_open_read(const char *path, int *fd, uint64_t *size);
/* Reads exactly `size` bytes. TESS_E_IO: the file is shorter or the device failed; names path and offset. */
tess_status tess_os_read_at(int fd, uint64_t offset, void *data, size_t size, const char *path);

/* Writes `path` atomically: a temporary sibling, fsync, rename, fsync of the folder. TESS_E_NO_SPACE when the disk is
 * full: nothing is left behind and an old file is unchanged. */
tess_status tess_os_write_atomic(const char *path, const void *data, size_t size);
/* Copies a regular file: reads as tess_os_map, writes as tess_os_write_atomic. */
tess_status tess_os_copy(const char *from, const char *to);

/* write(2) until done, with EINTR and short writes handled; errors name `path`. */
tess_status tess_os_write_all(int fd, const void *data, size_t size, const char *path);

/* Appends to a file that has no other writer: all or, on failure, nothing, so that the next append starts a line. */
tess_status tess_os_append(int fd, const void *data, size_t size, const char *path);

/* Creates (or empties) a file that several ranks will write in parts, and closes it. One rank calls it. The bytes are
 * reserved where the file system can, so that a full disk shows here and not halfway. */
tess_status tess_os_create(const char *path, size_t size);
tess_status tess_os_open(const char *path, int *fd); /* opens an existing file for writing */
tess_status tess_os_write_at(int fd, size_t offset, const void *data, size_t size, const char *path);
/* Gives a file `size` bytes, reserved on disk where the file system can: TESS_E_NO_SPACE shows here. */
tess_status tess_os_reserve(int fd, uint64_t size, const char *path);
tess_status tess_os_sync(int fd, const char *path); /* fsync, which a signal does not end */
/* tess_os_sync, then close; *fd becomes -1. -1 is fine. */
tess_status tess_os_sync_close(int *fd, const char *path);
void tess_os_close(int *fd);

/* ---- Paths ---- */
bool tess_os_is_dir(const char *path);
bool tess_os_is_file(const char *path);

/* Kinds of a path's target, for callers that must distinguish "not there" from "could not be looked at". */
typedef enum tess_os_kind { TESS_OS_NOTHING, TESS_OS_FILE, TESS_OS_FOLDER, TESS_OS_OTHER } tess_os_kind;
typedef struct tess_os_entry {
    tess_os_kind kind;
    uint64_t bytes; /* size of a file */
} tess_os_entry;
tess_status tess_os_look_up(const char *path, tess_os_entry *entry);

tess_status tess_os_file_size(const char *path, uint64_t *size); /* size of a regular file */
double tess_os_changed_s(const char *path);                      /* time of the last change since 1970; 0: not there */
bool tess_os_same_file(const char *a, const char *b);            /* the same existing file or folder, by any path */

/* Identifies a folder: one made later at the same path has another number. 0: not a folder. */
uint64_t tess_os_folder_id(const char *path);

tess_status tess_os_make_dirs(const char *path); /* mkdir -p; the new names survive a power cut */
tess_status tess_os_make_dir(const char *path);
tess_status tess_os_fsync_dir(const char *path);

tess_status tess_os_rename(const char *from, const char *to);
tess_status tess_os_link(const char *from, const char *to); /* another name of the same file */
/* Exchanges the names `from` and `to` in one step. TESS_E_UNSUPPORTED: the file system cannot, and nothing changed. */
tess_status tess_os_exchange(const char *from, const char *to);
void tess_os_remove(const char *path); /* removes a file if it is there */
void tess_os_remove_empty_dir(const char *path);
tess_status tess_os_remove_tree(const char *path); /* a folder or a file; nothing there is fine */

/* Calls visit(context, name) for every name in the folder except "." and "..", in no order. */
tess_status tess_os_list(const char *folder, tess_status (*visit)(void *context, const char *name), void *context);

tess_status tess_os_own_path(char *path, size_t size); /* path of this program */
/* Replaces a "~" that is the path, or the "~" before its first '/', by $HOME. TESS_E_INVALID: HOME is not set, or the
 * result does not fit into `size`. */
tess_status tess_os_expand_home(char *path, size_t size);

/* "a/b" + "c" -> "a/b/c"; TESS_E_INVALID when it does not fit. */
tess_status tess_os_join(char *out, size_t size, const char *folder, const char *name);

/* Status for errno after a failed call on `path`: ENOENT, ENOSPC/EDQUOT, others TESS_E_IO; records "<what> <path>:
 * reason". */
tess_status tess_os_error(const char *what, const char *path);

/* ---- Memory shared between processes ---- */
tess_status tess_os_memfd(const char *name, size_t size, int *fd); /* sparse; closed on exec */
void tess_os_inherit(int fd);                                      /* no longer closed on exec */
tess_status tess_os_fd_size(int fd, size_t *size);
size_t tess_os_memory_bytes(void); /* memory of the machine */
tess_status tess_os_map_shared(int fd, size_t offset, size_t size, void **address);
/* Zeroed memory that processes forked from now on share. */
tess_status tess_os_share(const char *name, size_t size, void **address);
/* Maps a new file of zeroes with its bytes reserved (TESS_E_NO_SPACE); stores survive the process. A file at `path` is
 * replaced. */
tess_status tess_os_map_new(const char *path, size_t size, void **address);
void tess_os_unmap_shared(void *address, size_t size);
/* Populates pages of shared memory now, not one by one at the first write. `address` is page-aligned. */
void tess_os_populate(void *address, size_t size);
void tess_os_punch(int fd, size_t offset, size_t size); /* gives the pages back; they then read as zero */

/* Large memory files (shared_files.c): maps `offset`, a multiple of a huge page, at the start of a huge page, so that
 * the file can have huge pages. `size` in whole pages. */
tess_status tess_os_map_shared_huge(int fd, size_t offset, size_t size, void **address);
/* Populates `size` bytes from `offset`, mapped at `address`, with huge pages where the system has them. TESS_E_NO_SPACE
 * where touching them would kill the process. */
tess_status tess_os_reserve_shared(int fd, size_t offset, void *address, size_t size);
tess_status tess_os_open_shared(const char *path, int *fd); /* opens, or creates for this user alone */
tess_status tess_os_resize_zeroed(int fd, size_t size, const char *path);
/* mkdir -p whose last folder belongs to this user alone; TESS_E_INVALID: it exists and is another user's. */
tess_status tess_os_make_private_dir(const char *path);
/* False: another process holds the lock. Held until the last copy of the descriptor is closed. */
bool tess_os_lock(int fd);

/* Copies memory of another process of the same user. False: the system forbids it, or the process has ended. */
bool tess_os_read_process(int pid, void *to, uint64_t address, size_t size);
/* Allows `pid` and its children to read this process, where the system asks for that; replaces an earlier permission.
 * 0: nobody. */
void tess_os_allow_reading(int pid);

/* Sleeps while *word == expected, at most timeout_ns (across processes). Spurious wake-ups happen. */
void tess_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void tess_os_futex_wake(const uint32_t *word, int n_waiters);

#endif
