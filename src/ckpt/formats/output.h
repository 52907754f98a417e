/* A file that is written from its begin to its end. */
#ifndef TESS_CKPT_FORMATS_OUTPUT_H
#define TESS_CKPT_FORMATS_OUTPUT_H

#include "tessera/memory.h"

typedef struct output {
    tess_mem *mem;
    char path[4096];
    int fd;
    uint64_t at; /* bytes so far, with those that wait */
    uint8_t *wait;
    size_t n_wait;
} output;

tess_status output_create(tess_mem *mem, const char *path, output *out);
tess_status output_write(output *out, const void *data, size_t size);
/* Writes what waits, syncs, closes; with a failure in `status` it only closes. Returns the worse. */
tess_status output_finish(output *out, tess_status status);

#endif
