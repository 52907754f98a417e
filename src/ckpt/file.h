/* Files written at many places by many ranks, then made visible at once. */
#ifndef TESS_CKPT_FILE_H
#define TESS_CKPT_FILE_H

#include "tessera/types.h"

/* Creates or empties `path` and reserves its bytes where the file system can, so that a full disk is met here and not
 * halfway. The file is left closed. */
tess_status tess_file_create(const char *path, size_t size);

tess_status tess_file_open(const char *path, int *fd); /* for writing; must exist */
tess_status tess_file_write_at(int fd, const char *path, size_t offset, const void *data, size_t size);
/* fsync, then close; *fd becomes -1. -1 is fine. */
tess_status tess_file_sync_close(int *fd, const char *path);
void tess_file_close(int *fd);

tess_status tess_file_rename(const char *from, const char *to);
/* Puts `from` where `to` is; what was there takes the name `from`. One atomic step where the file system can. */
tess_status tess_file_exchange(const char *from, const char *to);
void tess_file_remove(const char *path); /* a file, if it is there */
void tess_file_remove_empty_dir(const char *path);
tess_status tess_file_make_dir(const char *path);
tess_status tess_file_size(const char *path, uint64_t *size); /* of a regular file */
bool tess_file_same(const char *a, const char *b);            /* the same existing file or folder, by any path */

/* Calls visit(context, name) for every name in the folder but "." and "..", in no order. */
tess_status tess_file_list(const char *folder, tess_status (*visit)(void *context, const char *name), void *context);

#endif
