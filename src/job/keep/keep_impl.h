/* What a block looks like. */
#ifndef TESS_JOB_KEEP_KEEP_IMPL_H
#define TESS_JOB_KEEP_KEEP_IMPL_H

#include <stdatomic.h>

#include "job/keep/keep.h"

#define KEEP_MAGIC "TESSKEP" /* and its NUL; written last */

enum { KEEP_VERSION = 1, KEEP_HUGE_PAGE = 2 << 20 };

typedef struct keep_entry {
    char name[TESS_KEEP_NAME];
    uint64_t offset;
    _Atomic uint64_t bytes; /* 0: there is none; written last */
} keep_entry;

typedef struct keep_header {
    char magic[8];
    uint32_t version;
    _Atomic uint32_t n_regions;
    uint64_t bytes;    /* of the block */
    uint64_t identity; /* of whom it belongs to */
    uint64_t n_launches;
    uint64_t end; /* of the last region */
    keep_entry regions[TESS_KEEP_REGIONS];
} keep_header;

struct tess_keep {
    tess_mem *mem;
    int fd; /* borrowed */
    keep_header *header;
    uint8_t *base;
    size_t bytes;
};

/* Makes what is behind `fd` an empty block. */
tess_status keep_format(int fd, size_t bytes, uint64_t identity);
/* Whether `keep` belongs to `identity`; then it has one launch more. */
bool keep_take_over(tess_keep *keep, uint64_t identity);

#endif
