/* A data file as a stream: puts of any size are written as large blocks at aligned offsets. */
#ifndef TESS_CKPT_STORE_STORE_STREAM_H
#define TESS_CKPT_STORE_STORE_STREAM_H

#include "ckpt/store/io.h"

typedef struct store_stream {
    tess_mem *mem;
    const tess_io *io;
    char path[4096];
    int fd;
    bool direct;       /* bypasses the page cache */
    uint8_t *block;    /* data not written yet */
    size_t used;       /* of the block */
    uint64_t at;       /* the block's offset in the file: a multiple of TESS_IO_BLOCK */
    uint64_t reserved; /* of the file */
} store_stream;

/* Creates the file with space for `bytes`. After a failure, `s` needs no close. */
tess_status store_stream_open(tess_mem *mem, const tess_io *io, const char *path, bool direct, uint64_t bytes,
                              store_stream *s);
/* The best size of puts for data at this address: data that is copied should still be in the cache. */
size_t store_stream_chunk(const store_stream *s, const void *data);
tess_status store_stream_put(store_stream *s, const void *data, size_t size);
/* Writes zeros up to the next multiple of TESS_IO_BLOCK. */
tess_status store_stream_align(store_stream *s);
uint64_t store_stream_position(const store_stream *s);
/* Writes the rest, frees unused space, and syncs. The file ends at a multiple of TESS_IO_BLOCK. */
tess_status store_stream_finish(store_stream *s);
/* After success or failure. */
void store_stream_close(store_stream *s);

#endif
