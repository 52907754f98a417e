/* Nameless files on a disk, which serve as memory. */
#ifndef TESS_BASE_OS_DISK_FILES_H
#define TESS_BASE_OS_DISK_FILES_H

#include "tessera/types.h"

/* Opens a file in `folder` that disappears when it is closed, with O_TMPFILE and `flags` (O_RDWR, O_DIRECT). On file
 * systems without O_TMPFILE the file is created and unlinked at once. -1: errno says why. */
int tess_os_open_nameless(const char *folder, int flags);

/* TESS_E_NOT_FOUND: `folder` is no folder. TESS_E_INVALID: its file system keeps files in memory. The message names the
 * folder and its file system, and begins with `key`, the option that sets the folder. */
tess_status tess_os_check_disk(const char *folder, const char *key);

/* Whether the file is in memory, such as a memfd. */
bool tess_os_is_in_memory(int fd);

/* Opens a sparse nameless file of `bytes` for memory on disk. TESS_E_NO_SPACE, TESS_E_IO. */
tess_status tess_os_open_disk(const char *folder, size_t bytes, int *fd);
/* Returns the size of a sparse file that serves as memory in `folder`: twice the size of the disk, since freed space
 * leaves holes, and at most what file systems allow. */
size_t tess_os_disk_file_bytes(const char *folder);
/* Allocates disk blocks for [offset, offset + bytes), which read as zero. Without them a store to a hole would kill the
 * process when the disk is full. TESS_E_NO_SPACE: the message names `name`. */
tess_status tess_os_reserve_disk(int fd, uint64_t offset, size_t bytes, const char *name);

#endif
