/* Memory that lies on disk: blocks of one nameless file in a folder, mapped, known to a pager. It ends with the
 * process. What outlives it is in job/persist. */
#ifndef TESS_BASE_MEM_DISK_H
#define TESS_BASE_MEM_DISK_H

#include "base/mem/named.h"
#include "base/mem/pager.h"

typedef struct tess_disk tess_disk;

/* `pager` is borrowed until destroy. TESS_E_NO_SPACE, TESS_E_IO name the folder. */
tess_status tess_disk_create(tess_mem *mem, const char *folder, tess_pager *pager, tess_disk **disk);
/* Also its blocks. NULL is fine. */
void tess_disk_destroy(tess_disk **disk);

/* Zeroed, on pages of its own. TESS_E_NO_SPACE names `what`, the folder, and how many bytes were asked for and are
 * free: space is reserved, so that no later store can fail. One thread at a time. */
tess_status tess_disk_alloc(tess_disk *disk, size_t bytes, const char *what, void **out);
/* Makes it that of private memory in `mem_disk`, with its pager. */
void tess_disk_attach(tess_disk *disk, tess_mem_disk *mem_disk);
/* Gives the space back. NULL is fine. */
void tess_disk_free(tess_disk *disk, void *block);

#endif
