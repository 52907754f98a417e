/* A data file as a stream: what is put goes out in large blocks at aligned places, whatever it is put in. */
#ifndef TESS_CKPT_STORE_STORE_STREAM_H
#define TESS_CKPT_STORE_STORE_STREAM_H

#include "ckpt/store/io.h"

typedef struct store_stream {
    tess_mem *mem;
    const tess_io *io;
    char path[4096];
    int fd;
    bool direct;       /* past the page cache */
    uint8_t *block;    /* what is not written yet */
    size_t used;       /* of the block */
    uint64_t at;       /* where the block goes in the file: a multiple of TESS_IO_BLOCK */
    uint64_t reserved; /* of the file */
} store_stream;

/* Makes the file, with space for `bytes`. Nothing of `s` is left open by a failure. */
tess_status store_stream_open(tess_mem *mem, const tess_io *io, const char *path, bool direct, uint64_t bytes,
                              store_stream *s);
/* The size of the pieces in which data at this address is best put: what is to be copied, while it is in the cache. */
size_t store_stream_chunk(const store_stream *s, const void *data);
tess_status store_stream_put(store_stream *s, const void *data, size_t size);
/* Zeros up to the next multiple of TESS_IO_BLOCK. */
tess_status store_stream_align(store_stream *s);
uint64_t store_stream_position(const store_stream *s);
/* Writes what is left, gives back the space that was not needed, and syncs. The file ends at a multiple of
 * TESS_IO_BLOCK. */
tess_status store_stream_finish(store_stream *s);
/* After success or failure. */
void store_stream_close(store_stream *s);

#endif
