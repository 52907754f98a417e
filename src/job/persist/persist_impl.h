/* The layout of a block. */
#ifndef TESS_JOB_PERSIST_PERSIST_IMPL_H
#define TESS_JOB_PERSIST_PERSIST_IMPL_H

#include <stdatomic.h>

#include "job/persist/persist.h"

/* The name in messages of a block on disk, because the rank does not know its folder. */
#define PERSIST_ON_DISK "state on disk (offload.folder)"

#define PERSIST_MAGIC "TESSKEP" /* and its NUL; written last */

enum { PERSIST_VERSION = 1, PERSIST_HUGE_PAGE = 2 << 20 };

typedef struct persist_entry {
    char name[TESS_PERSIST_NAME];
    uint64_t offset;
    _Atomic uint64_t bytes; /* 0: unused entry; written last */
} persist_entry;

typedef struct persist_header {
    char magic[8];
    uint32_t version;
    _Atomic uint32_t n_regions;
    uint64_t bytes;    /* size of the block */
    uint64_t identity; /* identity of the owner */
    uint64_t n_launches;
    uint64_t end; /* end of the last region */
    persist_entry regions[TESS_PERSIST_REGIONS];
} persist_header;

struct tess_persist {
    tess_mem *mem;
    int fd; /* borrowed */
    persist_header *header;
    uint8_t *base;
    size_t bytes;
    bool is_on_disk;
};

/* Formats the file of `fd` as an empty block. */
tess_status persist_format(int fd, size_t bytes, uint64_t identity);
/* Whether `persist` belongs to `identity`; if so, counts one more launch. */
bool persist_take_over(tess_persist *persist, uint64_t identity);

#endif
