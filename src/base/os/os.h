/* Clock, files, memory files, futexes: system calls that are not a module's very purpose live here and in threads.h. */
#ifndef TESS_BASE_OS_OS_H
#define TESS_BASE_OS_OS_H

#include "tessera/memory.h"

double tess_os_now_s(void);               /* monotonic */
uint64_t tess_os_now_ns(void);            /* monotonic */
double tess_os_process_age_s(void);       /* since this process was started, to 10 ms; 0 when the system does not say */
double tess_os_age_of_process_s(int pid); /* likewise */
char tess_os_process_state(int pid);      /* 'R', 'S', 'D', 'T', 'Z' ... of proc(5); '\0': there is no such process */
uint64_t tess_os_process_starved_ns(int pid); /* its first thread: ready to run, but without a core; 0: not known */
int tess_os_process_parent(int pid);          /* 0: there is no such process */
int tess_os_cores(void);                      /* that this process may run on (affinity and cgroup quota) */
uint64_t tess_os_cores_hash(void);            /* equal for equal sets of cores (affinity) */
/* Keeps the calling thread on the core of this number among those that it may run on; nothing when there are fewer. */
void tess_os_bind(int number);

/* ---- Files ---- */
typedef struct tess_mapping {
    const uint8_t *data; /* NULL when size is 0 */
    size_t size;
} tess_mapping;

/* Maps a regular file read-only. TESS_E_NOT_FOUND, TESS_E_INVALID (a folder), TESS_E_IO: the message names the path. */
tess_status tess_os_map(const char *path, tess_mapping *mapping);
void tess_os_unmap(tess_mapping *mapping);

/* Whole file into memory from `mem` (MISC) with a NUL behind it; refuses files over `limit` bytes. */
tess_status tess_os_read(tess_mem *mem, const char *path, size_t limit, char **data, size_t *size);

/* A regular file for tess_os_read_at. */
tess_status tess_os_open_read(const char *path, int *fd, uint64_t *size);
/* Exactly `size` bytes; TESS_E_IO: the file ends before them, or the device fails: the message names path and offset.
 */
tess_status tess_os_read_at(int fd, uint64_t offset, void *data, size_t size, const char *path);

/* Writes `path` atomically: a temporary sibling, fsync, rename, fsync of the folder. TESS_E_NO_SPACE when full: nothing
 * is left behind and an old file stays as it was. */
tess_status tess_os_write_atomic(const char *path, const void *data, size_t size);

/* write(2) until done, with EINTR and short writes handled; errors name `path`. */
tess_status tess_os_write_all(int fd, const void *data, size_t size, const char *path);

/* Adds to the end of a file that nobody else writes: all of it or, on failure, nothing, so that what comes later stands
 * at the beginning of a line. */
tess_status tess_os_append(int fd, const void *data, size_t size, const char *path);

/* A file that several ranks write at many places: one of them creates (or empties) it and reserves its bytes where the
 * file system can, so that a full disk is met here and not halfway; it is left closed. */
tess_status tess_os_create(const char *path, size_t size);
tess_status tess_os_open(const char *path, int *fd); /* for writing; must exist */
tess_status tess_os_write_at(int fd, size_t offset, const void *data, size_t size, const char *path);
/* Gives a file `size` bytes, taken from the disk now where the file system can do so: TESS_E_NO_SPACE is met here. */
tess_status tess_os_reserve(int fd, uint64_t size, const char *path);
tess_status tess_os_sync(int fd, const char *path); /* fsync, which a signal does not end */
/* tess_os_sync, then close; *fd becomes -1. -1 is fine. */
tess_status tess_os_sync_close(int *fd, const char *path);
void tess_os_close(int *fd);

/* ---- Paths ---- */
bool tess_os_is_dir(const char *path);
bool tess_os_is_file(const char *path);

/* What is at a path: where "it is not there" must be told from "it could not be looked at". */
typedef enum tess_os_kind { TESS_OS_NOTHING, TESS_OS_FILE, TESS_OS_FOLDER, TESS_OS_OTHER } tess_os_kind;
typedef struct tess_os_entry {
    tess_os_kind kind;
    uint64_t bytes; /* of a file */
} tess_os_entry;
tess_status tess_os_look_up(const char *path, tess_os_entry *entry);

tess_status tess_os_file_size(const char *path, uint64_t *size); /* of a regular file */
double tess_os_changed_s(const char *path);                      /* since 1970, when it was written; 0: not there */
bool tess_os_same_file(const char *a, const char *b);            /* the same existing file or folder, by any path */

/* Which folder this is, told from one of the same path that was made later; 0: it is none. */
uint64_t tess_os_folder_id(const char *path);

tess_status tess_os_make_dirs(const char *path); /* mkdir -p; the names of what it makes outlive a power cut */
tess_status tess_os_make_dir(const char *path);
tess_status tess_os_fsync_dir(const char *path);

tess_status tess_os_rename(const char *from, const char *to);
tess_status tess_os_link(const char *from, const char *to); /* another name of the same file */
/* Puts `from` where `to` is, and what was there takes the name `from`, in one step. TESS_E_UNSUPPORTED: the file system
 * cannot, and nothing has changed. */
tess_status tess_os_exchange(const char *from, const char *to);
void tess_os_remove(const char *path); /* a file, if it is there */
void tess_os_remove_empty_dir(const char *path);
tess_status tess_os_remove_tree(const char *path); /* or a file; nothing there is fine */

/* Calls visit(context, name) for every name in the folder but "." and "..", in no order. */
tess_status tess_os_list(const char *folder, tess_status (*visit)(void *context, const char *name), void *context);

/* "a/b" + "c" -> "a/b/c"; TESS_E_INVALID when it does not fit. */
tess_status tess_os_join(char *out, size_t size, const char *folder, const char *name);

/* Status for errno after a failed call on `path`: ENOENT, ENOSPC/EDQUOT, others TESS_E_IO; records "<what> <path>:
 * reason". */
tess_status tess_os_error(const char *what, const char *path);

/* ---- Memory shared between processes ---- */
tess_status tess_os_memfd(const char *name, size_t size, int *fd); /* sparse; closed on exec */
void tess_os_inherit(int fd);                                      /* no longer closed on exec */
tess_status tess_os_fd_size(int fd, size_t *size);
size_t tess_os_memory_bytes(void); /* of the machine */
tess_status tess_os_map_shared(int fd, size_t offset, size_t size, void **address);
/* Zeroed memory that processes forked from now on share. */
tess_status tess_os_share(const char *name, size_t size, void **address);
/* Maps a new file of zeroes, with its bytes reserved (TESS_E_NO_SPACE); what is stored there stays whatever becomes of
 * the process. What was at `path` is replaced. */
tess_status tess_os_map_new(const char *path, size_t size, void **address);
void tess_os_unmap_shared(void *address, size_t size);
/* Gives shared memory its pages now and not one by one when they are first written. `address` is at a page. */
void tess_os_populate(void *address, size_t size);
void tess_os_punch(int fd, size_t offset, size_t size); /* gives the pages back; reads as zero after */

/* Large memory files (shared_files.c): `offset`, at a huge page of the file, is mapped at a huge page's start, so that
 * they can have huge pages. `size` in whole pages. */
tess_status tess_os_map_shared_huge(int fd, size_t offset, size_t size, void **address);
/* Gives `size` bytes from `offset`, mapped at `address`, their pages now, huge ones where the system has them.
 * TESS_E_NO_SPACE, where touching them would kill. */
tess_status tess_os_reserve_shared(int fd, size_t offset, void *address, size_t size);
tess_status tess_os_open_shared(const char *path, int *fd); /* made when it is not there, for this user alone */
tess_status tess_os_resize_zeroed(int fd, size_t size, const char *path);
/* mkdir -p whose last folder is this user's alone; TESS_E_INVALID: it is there and somebody else's. */
tess_status tess_os_make_private_dir(const char *path);
/* False: another process has it. Held until the last copy of the descriptor is closed. */
bool tess_os_lock(int fd);

/* Copies memory of another process of the same user. False: the system forbids it, or the process has ended. */
bool tess_os_read_process(int pid, void *to, uint64_t address, size_t size);
/* Lets `pid` and its children do so where the system asks for it, in place of whoever was let before; 0: nobody. */
void tess_os_allow_reading(int pid);

/* Sleeps while *word == expected, at most timeout_ns (across processes). Spurious wake-ups happen. */
void tess_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void tess_os_futex_wake(const uint32_t *word, int n_waiters);

#endif
