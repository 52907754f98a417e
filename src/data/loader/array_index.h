/* An index of where the elements of a JSON array end, so that an array in a file can be read in blocks like lines.
 * Private to src/data. */
#ifndef TESS_DATA_LOADER_ARRAY_INDEX_H
#define TESS_DATA_LOADER_ARRAY_INDEX_H

#include "data/files/records.h"
#include "tessera/memory.h"

enum { TESS_BLOCK_BYTES = 256 << 10 };

typedef struct tess_array_index {
    tess_mem *mem;
    uint64_t *cuts; /* cuts[j]: the first cut at or after byte j * TESS_BLOCK_BYTES (see tess_array_scan_go) */
    size_t n, capacity;
} tess_array_index;

/* Makes the index by reading the file once. TESS_E_FORMAT: the file is not one array of objects, or an object has more
 * than TESS_LINE_BYTES; *at is the position of the error. */
tess_status tess_array_index_make(tess_array_index *index, int fd, const char *path, uint64_t size, uint64_t *at);
/* Finds the first cut at or after byte x, or the end of the file. */
tess_status tess_array_index_find(const tess_array_index *index, int fd, const char *path, uint64_t size, uint64_t x,
                                  uint64_t *at);
void tess_array_index_free(tess_array_index *index);

#endif
