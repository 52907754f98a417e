/* Every system call by which a save changes the disk or a look finds out what is there, one function each, so that a
 * test or a drill may have any of them fail or be the last one, or keep a record. What a change is for, it is told as a
 * point (inject/save_points.h).
 *
 * One thread a tess_io with a hook; without one any thread. */
#ifndef TESS_CKPT_STORE_IO_H
#define TESS_CKPT_STORE_IO_H

#include "base/os/os.h"
#include "inject/inject.h"
#include "inject/save_points.h"
#include "tessera/memory.h"

/* A call that has been made: what a power cut may undo until it is synced. */
typedef enum tess_io_change {
    TESS_IO_MADE_FOLDER,
    TESS_IO_CREATED,   /* an empty file */
    TESS_IO_SIZED,     /* a file is `size` bytes long */
    TESS_IO_WRITTEN,   /* (size) `data` at `offset` of a file */
    TESS_IO_SYNCED,    /* what a file holds */
    TESS_IO_LISTED,    /* the names in a folder are synced */
    TESS_IO_RENAMED,   /* path to `to` */
    TESS_IO_EXCHANGED, /* path and `to` */
    TESS_IO_REMOVED    /* a file, or a folder with all that is in it */
} tess_io_change;

typedef struct tess_io_call {
    tess_io_change change;
    const char *path, *to;
    uint64_t offset, size;
    const void *data;
} tess_io_call;

/* All but the first may be NULL. */
typedef struct tess_io {
    /* Asked before each call: 0, it is made; an errno, it fails with that and changes nothing (ENOSYS for an exchange:
     * this file system cannot); TESS_IO_SHORT, a write writes half (other calls are made). May not return at all. */
    int (*ask)(void *self, tess_save_point point);
    void *self;
    void (*made)(void *self, const tess_io_call *call); /* hears of every call that was made */
    int (*look)(void *self, const char *path);          /* asked before each look at what is there: 0, or an errno */
} tess_io;

enum { TESS_IO_SHORT = TESS_INJECT_SHORT };

/* Hooks of a rank's or a writer's faults, for a save of `step`: `faults` may be NULL. */
typedef struct tess_io_faults {
    tess_faults *faults;
    int64_t step;
} tess_io_faults;
tess_io tess_io_with_faults(tess_io_faults *faults);

/* In all of them `io` may be NULL: nothing is asked. Errors are those of tess_os_error, and name the path. */
tess_status tess_io_make_folder(const tess_io *io, const char *path);
tess_status tess_io_remove_tree(const tess_io *io, tess_save_point point, const char *path); /* nothing there is fine */

/* A new, empty file. *direct (may be NULL): in, whether writes are to go past the page cache; out, whether they do, as
 * not every file system can. */
tess_status tess_io_create(const tess_io *io, const char *path, bool *direct, int *fd);
/* Gives the file its size, and the blocks for it where the file system can: TESS_E_NO_SPACE is met here. */
tess_status tess_io_reserve(const tess_io *io, int fd, uint64_t size, const char *path);
/* All of it. `unit`: a write that came short goes on from a multiple of it (direct writes: TESS_IO_BLOCK; else 1). */
enum { TESS_IO_BLOCK = 4096 };
tess_status tess_io_write(const tess_io *io, tess_save_point point, int fd, uint64_t offset, const void *data,
                          size_t size, size_t unit, const char *path);
tess_status tess_io_trim(const tess_io *io, int fd, uint64_t size, const char *path);
tess_status tess_io_sync(const tess_io *io, tess_save_point point, int fd, const char *path);

/* A small file: written and synced as `<path>.tmp`, then named. Three points, the first of them `write`. */
tess_status tess_io_write_file(const tess_io *io, tess_save_point write, const char *path, const void *data,
                               size_t size);
tess_status tess_io_sync_folder(const tess_io *io, tess_save_point point, const char *path);
tess_status tess_io_rename(const tess_io *io, tess_save_point point, const char *from, const char *to);
/* As tess_os_exchange. */
tess_status tess_io_exchange(const tess_io *io, const char *from, const char *to);

/* ---- Looking. TESS_E_IO, TESS_E_NOMEM: it cannot be looked at now, which says nothing of what it holds. */
tess_status tess_io_look_up(const tess_io *io, const char *path, tess_os_entry *entry); /* TESS_OK for nothing there */
tess_status tess_io_list(const tess_io *io, const char *folder, tess_status (*visit)(void *context, const char *name),
                         void *context); /* as tess_os_list */
/* All of a file, with a NUL behind it; free *data. TESS_E_FORMAT: it is missing, or no file of at most `limit` bytes.
 */
tess_status tess_io_read(const tess_io *io, const char *path, size_t limit, char **data, size_t *size);

#endif
