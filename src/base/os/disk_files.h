/* Files that serve as memory: nameless ones, on a disk. */
#ifndef TESS_BASE_OS_DISK_FILES_H
#define TESS_BASE_OS_DISK_FILES_H

#include "tessera/types.h"

/* Opens a file in `folder` that disappears when it is closed, with `flags` in addition to O_TMPFILE (O_RDWR, O_DIRECT).
 * File systems without O_TMPFILE get one that is unlinked at once. -1: errno says why. */
int tess_os_open_nameless(const char *folder, int flags);

/* TESS_E_NOT_FOUND, TESS_E_INVALID: `folder` is no folder, or its file system keeps files in memory. The message names
 * both, and begins with `key`, the option that says so. */
tess_status tess_os_check_disk(const char *folder, const char *key);

/* Whether the file is one of memory, such as a memfd. */
bool tess_os_is_in_memory(int fd);

/* Opens a nameless file of `bytes`, sparse, for memory that is on disk: TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_os_open_disk(const char *folder, size_t bytes, int *fd);
/* The size of a sparse file that serves as memory in `folder`. It is twice the disk, since space that is given back
 * leaves holes, and no more than file systems allow. */
size_t tess_os_disk_file_bytes(const char *folder);
/* Gives [offset, offset + bytes) blocks of the disk, which read as zero: a store to a hole would kill the process when
 * the disk is full. TESS_E_NO_SPACE names `name`. */
tess_status tess_os_reserve_disk(int fd, uint64_t offset, size_t bytes, const char *name);

#endif
