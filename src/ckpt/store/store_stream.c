#include "ckpt/store/store_stream.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"

/* Large enough for the disk, and small enough to stay in the cache between checksum and write. */
enum { BLOCK_BYTES = 8 << 20, COPY_BYTES = 256 << 10 };

static tess_status open_file(store_stream *s, uint64_t bytes)
{
    TESS_TRY(tess_io_create(s->io, s->path, &s->direct, &s->fd));
    TESS_TRY(tess_io_reserve(s->io, s->fd, bytes, s->path));
    return tess_mem_alloc(s->mem, TESS_POOL_MISC, BLOCK_BYTES, "block of a checkpoint", (void **)&s->block);
}

tess_status store_stream_open(tess_mem *mem, const tess_io *io, const char *path, bool direct, uint64_t bytes,
                              store_stream *s)
{
    *s = (store_stream){.mem = mem, .io = io, .fd = -1, .direct = direct, .reserved = bytes};
    snprintf(s->path, sizeof(s->path), "%s", path);
    tess_status status = open_file(s, bytes);
    if (status != TESS_OK)
        store_stream_close(s);
    return status;
}

static tess_status write_out(store_stream *s, const void *data, size_t size)
{
    TESS_TRY(tess_io_write(s->io, TESS_SAVE_WRITE, s->fd, s->at, data, size, s->direct ? TESS_IO_BLOCK : 1, s->path));
    s->at += size;
    return TESS_OK;
}

static tess_status flush(store_stream *s)
{
    size_t size = s->used;
    s->used = 0;
    return write_out(s, s->block, size);
}

/* Whole blocks are written from where they lie, without a copy. */
static bool is_in_place(const store_stream *s, const void *data)
{
    return !s->direct || (uintptr_t)data % TESS_IO_BLOCK == 0;
}

size_t store_stream_chunk(const store_stream *s, const void *data)
{
    return is_in_place(s, data) ? BLOCK_BYTES : COPY_BYTES;
}

tess_status store_stream_put(store_stream *s, const void *from, size_t size)
{
    const uint8_t *data = from;
    if (size >= BLOCK_BYTES && s->used % TESS_IO_BLOCK == 0)
        TESS_TRY(flush(s));
    while (size > 0) {
        size_t n = BLOCK_BYTES - s->used < size ? BLOCK_BYTES - s->used : size;
        if (s->used == 0 && size >= BLOCK_BYTES && is_in_place(s, data)) {
            TESS_TRY(write_out(s, data, n));
        } else {
            memcpy(s->block + s->used, data, n);
            s->used += n;
            if (s->used == BLOCK_BYTES)
                TESS_TRY(flush(s));
        }
        data += n;
        size -= n;
    }
    return TESS_OK;
}

tess_status store_stream_align(store_stream *s)
{
    size_t padding = -s->used % TESS_IO_BLOCK; /* BLOCK_BYTES is a multiple of it */
    memset(s->block + s->used, 0, padding);
    s->used += padding;
    return s->used == BLOCK_BYTES ? flush(s) : TESS_OK;
}

uint64_t store_stream_position(const store_stream *s)
{
    return s->at + s->used;
}

tess_status store_stream_finish(store_stream *s)
{
    TESS_TRY(store_stream_align(s));
    TESS_TRY(flush(s));
    if (s->at < s->reserved)
        TESS_TRY(tess_io_trim(s->io, s->fd, s->at, s->path));
    return tess_io_sync(s->io, TESS_SAVE_SYNC, s->fd, s->path);
}

void store_stream_close(store_stream *s)
{
    tess_os_close(&s->fd);
    tess_mem_free(s->mem, s->block);
    s->block = NULL;
}
