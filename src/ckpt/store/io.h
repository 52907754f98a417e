/* The system calls with which a save changes the disk, or with which a reader looks at it. Each has one function, so
 * that a test or a drill can make it fail, stop after it, or record it. A save point (inject/save_points.h) says what a
 * change is for.
 *
 * Only one thread at a time may use a tess_io with hooks; without hooks any number may. */
#ifndef TESS_CKPT_STORE_IO_H
#define TESS_CKPT_STORE_IO_H

#include "base/os/os.h"
#include "inject/inject.h"
#include "inject/save_points.h"
#include "tessera/memory.h"

/* The kind of a call that succeeded. A power failure may undo the change until it is synced. */
typedef enum tess_io_change {
    TESS_IO_MADE_FOLDER,
    TESS_IO_CREATED,   /* created an empty file */
    TESS_IO_SIZED,     /* set a file's size to `size` bytes */
    TESS_IO_WRITTEN,   /* wrote `data` (size) at `offset` of a file */
    TESS_IO_SYNCED,    /* synced a file's content */
    TESS_IO_LISTED,    /* synced a folder's names */
    TESS_IO_RENAMED,   /* renamed `path` to `to` */
    TESS_IO_EXCHANGED, /* exchanged `path` and `to` */
    TESS_IO_REMOVED    /* removed a file, or a folder with its content */
} tess_io_change;

typedef struct tess_io_call {
    tess_io_change change;
    const char *path, *to;
    uint64_t offset, size;
    const void *data;
} tess_io_call;

/* Hooks. Every member may be NULL. */
typedef struct tess_io {
    /* Called before each call of the system. May not return (a simulated crash). It returns one of:
     *   0              the call is made
     *   an errno       the call fails with it and changes nothing (ENOSYS for an exchange: not supported)
     *   TESS_IO_SHORT  a write writes only half of its data; other calls are made */
    int (*ask)(void *self, tess_save_point point);
    void *self;
    void (*made)(void *self, const tess_io_call *call); /* called after every call that succeeded */
    /* Called before each look at the disk; returns 0, or the errno with which it fails */
    int (*look)(void *self, const char *path);
} tess_io;

enum { TESS_IO_SHORT = TESS_INJECT_SHORT };

/* Hooks that inject the faults of a rank or writer into a save of `step`. `faults` may be NULL. */
typedef struct tess_io_faults {
    tess_faults *faults;
    int64_t step;
} tess_io_faults;
tess_io tess_io_with_faults(tess_io_faults *faults);

/* All functions accept `io` NULL: no hooks. Errors are those of tess_os_error, and name the path. */
tess_status tess_io_make_folder(const tess_io *io, const char *path);
/* No error if it is missing */
tess_status tess_io_remove_tree(const tess_io *io, tess_save_point point, const char *path);

/* Creates an empty file. *direct (may be NULL) says on entry whether to bypass the page cache, and on return whether
 * writes will bypass it: not every file system can. */
tess_status tess_io_create(const tess_io *io, const char *path, bool *direct, int *fd);
/* Sets the file's size and allocates its blocks if the file system can. A full disk is reported here as
 * TESS_E_NO_SPACE. */
tess_status tess_io_reserve(const tess_io *io, int fd, uint64_t size, const char *path);
/* Writes all of `data`. After a short write, continues at a multiple of `unit` (TESS_IO_BLOCK for direct writes, else
 * 1). */
enum { TESS_IO_BLOCK = 4096 };
tess_status tess_io_write(const tess_io *io, tess_save_point point, int fd, uint64_t offset, const void *data,
                          size_t size, size_t unit, const char *path);
tess_status tess_io_trim(const tess_io *io, int fd, uint64_t size, const char *path);
tess_status tess_io_sync(const tess_io *io, tess_save_point point, int fd, const char *path);

/* Writes a small file: writes and syncs `<path>.tmp`, then renames it. Uses three consecutive save points, starting
 * with `write`. */
tess_status tess_io_write_file(const tess_io *io, tess_save_point write, const char *path, const void *data,
                               size_t size);
tess_status tess_io_sync_folder(const tess_io *io, tess_save_point point, const char *path);
tess_status tess_io_rename(const tess_io *io, tess_save_point point, const char *from, const char *to);
/* Calls tess_os_exchange. */
tess_status tess_io_exchange(const tess_io *io, const char *from, const char *to);

/* ---- Looking. TESS_E_IO, TESS_E_NOMEM: looking failed this time, and the content is unknown. ---- */
/* TESS_OK if nothing is there */
tess_status tess_io_look_up(const tess_io *io, const char *path, tess_os_entry *entry);
tess_status tess_io_list(const tess_io *io, const char *folder, tess_status (*visit)(void *context, const char *name),
                         void *context); /* calls tess_os_list */
/* Reads a file and adds a NUL. Free *data. TESS_E_FORMAT: the file is missing, or not a regular file of at most `limit`
 * bytes. */
tess_status tess_io_read(const tess_io *io, const char *path, size_t limit, char **data, size_t *size);

#endif
