/* Memory pools that only count. They serve to find out how much memory a computation takes before it runs. */
#ifndef TESS_BASE_MEM_DRY_MEM_H
#define TESS_BASE_MEM_DRY_MEM_H

#include "tessera/memory.h"

/* Creates pools whose larger blocks are addresses without memory: a page is there once it is touched, and it is zero.
 * Pools on disk (base/mem/named.h) are counted, but there is no file. Streams and devices that are created with such
 * pools compute nothing (device/dry_device.h). */
tess_status tess_mem_create_dry(tess_mem **mem);
bool tess_mem_is_dry(const tess_mem *mem);

#endif
