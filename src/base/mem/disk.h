/* Memory on disk: mapped blocks of one nameless file in a folder, moved by a pager. The file disappears when the
 * process ends. job/persist has memory on disk that outlives the process. */
#ifndef TESS_BASE_MEM_DISK_H
#define TESS_BASE_MEM_DISK_H

#include "base/mem/named.h"
#include "base/mem/pager.h"

typedef struct tess_disk tess_disk;

/* `pager` is borrowed until destroy. TESS_E_NO_SPACE, TESS_E_IO: the message names the folder. */
tess_status tess_disk_create(tess_mem *mem, const char *folder, tess_pager *pager, tess_disk **disk);
/* Also frees its blocks. NULL is fine. */
void tess_disk_destroy(tess_disk **disk);

/* Sets the functions for private memory in `mem_disk`, and its pager, to those of `disk`. Blocks have pages of their
 * own, and their disk space is reserved, so that no later store can fail. Only one thread at a time may allocate.
 * TESS_E_NO_SPACE: the message names `what`, the folder, and the bytes requested and free. */
void tess_disk_attach(tess_disk *disk, tess_mem_disk *mem_disk);

#endif
