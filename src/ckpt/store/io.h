/* Every system call by which a save changes the disk, one function each, so that a test or a drill may have any of
 * them fail or be the last one. What a call is for, it is told as a point (comm/inject/save_points.h).
 *
 * One thread a tess_io with a hook; without one any thread. */
#ifndef TESS_CKPT_STORE_IO_H
#define TESS_CKPT_STORE_IO_H

#include "comm/inject/inject.h"
#include "comm/inject/save_points.h"
#include "tessera/memory.h"

typedef struct tess_io {
    /* Asked before each call: 0, it is made; an errno, it fails with that and changes nothing; TESS_IO_SHORT, a write
     * writes half (other calls are made). May not return at all. */
    int (*ask)(void *self, tess_save_point point);
    void *self;
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
tess_status tess_io_exchange(const tess_io *io, const char *from, const char *to);

#endif
