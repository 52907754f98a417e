/* Memory pools that only count. They serve to find out how much memory a computation takes before it runs. */
#ifndef TESS_BASE_MEM_DRY_MEM_H
#define TESS_BASE_MEM_DRY_MEM_H

#include "tessera/memory.h"

/* Creates pools whose larger blocks are addresses without memory: a page is there once it is touched, and it is zero.
 * Pools on disk (base/mem/named.h) are counted, but there is no file. Streams and devices that are created with such
 * pools compute nothing (device/dry_device.h). */
tess_status tess_mem_create_dry(tess_mem **mem);
bool tess_mem_is_dry(const tess_mem *mem);
/* Gives memory to the blocks that are allocated from now on: zeros that were touched. Measured kernels need it. */
void tess_mem_dry_fill(tess_mem *mem);

/* ---- The peak ---- */
enum { TESS_PEAK_NAMES = 48, TESS_PEAK_NAME = 48 };

/* The bytes of blocks with one name, in one pool. */
typedef struct tess_peak_name {
    char what[TESS_PEAK_NAME];
    tess_pool pool;
    double bytes;
} tess_peak_name;

/* The blocks that are allocated when all pools but MISC have most together. */
typedef struct tess_mem_peak {
    double bytes;
    char moment[64];                       /* text of tess_mem_peak_moment at that time */
    tess_peak_name names[TESS_PEAK_NAMES]; /* the last entry has all further names */
    int n_names;
} tess_mem_peak;

/* Starts to follow the blocks that are allocated from now on. `peak` is borrowed; NULL: no more. */
void tess_mem_follow_peak(tess_mem *mem, tess_mem_peak *peak);
/* Sets the text of the moments that follow. */
void tess_mem_peak_moment(tess_mem *mem, const char *moment);

#endif
