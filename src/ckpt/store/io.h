/* Every system call with which a save changes the disk, or a look finds out what is there. Each has one function, so
 * that a test or a drill can make it fail, make it the last one, or record it. A point (inject/save_points.h) says what
 * a change is for.
 *
 * A tess_io with a hook is for one thread; without a hook, for any. */
#ifndef TESS_CKPT_STORE_IO_H
#define TESS_CKPT_STORE_IO_H

#include "base/os/os.h"
#include "inject/inject.h"
#include "inject/save_points.h"
#include "tessera/memory.h"

/* A call that succeeded; a power cut may undo it until it is synced. */
typedef enum tess_io_change {
    TESS_IO_MADE_FOLDER,
    TESS_IO_CREATED,   /* an empty file */
    TESS_IO_SIZED,     /* a file is `size` bytes long */
    TESS_IO_WRITTEN,   /* (size) `data` at `offset` of a file */
    TESS_IO_SYNCED,    /* a file's content */
    TESS_IO_LISTED,    /* a folder's names are synced */
    TESS_IO_RENAMED,   /* path to `to` */
    TESS_IO_EXCHANGED, /* path and `to` */
    TESS_IO_REMOVED    /* a file, or a folder with its content */
} tess_io_change;

typedef struct tess_io_call {
    tess_io_change change;
    const char *path, *to;
    uint64_t offset, size;
    const void *data;
} tess_io_call;

/* Every member may be NULL. */
typedef struct tess_io {
    /* Called before each call. 0: make it. An errno: it fails with that and changes nothing (ENOSYS for an exchange:
     * the file system cannot). TESS_IO_SHORT: a write writes half (other calls are made). May not return. */
    int (*ask)(void *self, tess_save_point point);
    void *self;
    void (*made)(void *self, const tess_io_call *call); /* called after every call that was made */
    int (*look)(void *self, const char *path);          /* called before each look: 0, or an errno */
} tess_io;

enum { TESS_IO_SHORT = TESS_INJECT_SHORT };

/* Hooks for the injected faults of a rank or writer, for a save of `step`. `faults` may be NULL. */
typedef struct tess_io_faults {
    tess_faults *faults;
    int64_t step;
} tess_io_faults;
tess_io tess_io_with_faults(tess_io_faults *faults);

/* All of these accept `io` NULL: no hooks. Errors are those of tess_os_error, and name the path. */
tess_status tess_io_make_folder(const tess_io *io, const char *path);
tess_status tess_io_remove_tree(const tess_io *io, tess_save_point point, const char *path); /* may be missing */

/* Creates an empty file. *direct (may be NULL): in, whether to bypass the page cache; out, whether writes will, as not
 * every file system can. */
tess_status tess_io_create(const tess_io *io, const char *path, bool *direct, int *fd);
/* Sets the file's size and allocates its blocks if the file system can: a full disk gives TESS_E_NO_SPACE here. */
tess_status tess_io_reserve(const tess_io *io, int fd, uint64_t size, const char *path);
/* Writes all of `data`. A short write continues from a multiple of `unit` (direct writes: TESS_IO_BLOCK; else 1). */
enum { TESS_IO_BLOCK = 4096 };
tess_status tess_io_write(const tess_io *io, tess_save_point point, int fd, uint64_t offset, const void *data,
                          size_t size, size_t unit, const char *path);
tess_status tess_io_trim(const tess_io *io, int fd, uint64_t size, const char *path);
tess_status tess_io_sync(const tess_io *io, tess_save_point point, int fd, const char *path);

/* Writes a small file: writes and syncs `<path>.tmp`, then renames it. Three points, beginning with `write`. */
tess_status tess_io_write_file(const tess_io *io, tess_save_point write, const char *path, const void *data,
                               size_t size);
tess_status tess_io_sync_folder(const tess_io *io, tess_save_point point, const char *path);
tess_status tess_io_rename(const tess_io *io, tess_save_point point, const char *from, const char *to);
/* Calls tess_os_exchange. */
tess_status tess_io_exchange(const tess_io *io, const char *from, const char *to);

/* ---- Looking. TESS_E_IO, TESS_E_NOMEM: looking failed now; the content is unknown. */
tess_status tess_io_look_up(const tess_io *io, const char *path, tess_os_entry *entry); /* TESS_OK if nothing there */
tess_status tess_io_list(const tess_io *io, const char *folder, tess_status (*visit)(void *context, const char *name),
                         void *context); /* calls tess_os_list */
/* Reads a file and adds a NUL; free *data. TESS_E_FORMAT: it is missing, or not a file of at most `limit` bytes. */
tess_status tess_io_read(const tess_io *io, const char *path, size_t limit, char **data, size_t *size);

#endif
