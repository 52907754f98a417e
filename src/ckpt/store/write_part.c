/* What one writer writes: rows are rounded, packed and summed on their way into a data file, a block at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "base/os/os.h"
#include "ckpt/store/part.h"
#include "ckpt/store/store_impl.h"
#include "ckpt/store/stream.h"
#include "device/bf16.h"

enum { ROUNDED_BYTES = 256 << 10, ZSTD_LEVEL = 1 };

typedef struct part_writer {
    tess_mem *mem;
    const tess_store_options *options;
    const char *file;
    json_t *part;
    store_stream stream;
    uint16_t *rounded; /* a chunk as it is stored, where that is not how it lies in memory */
    ZSTD_CCtx *packer; /* NULL: nothing is packed */
    uint8_t *packed;
    size_t packed_bytes;
    XXH3_state_t sum; /* of the piece under way */
} part_writer;

static size_t row_bytes(const tess_store_piece *p, tess_dtype dtype)
{
    return (size_t)tess_shape_row_count(&p->shape) * tess_dtype_size(dtype);
}

/* A zstd frame may be larger than what is in it; a piece of no bytes is not written. */
static uint64_t most_stored(const part_writer *w, uint64_t bytes)
{
    uint64_t stored = w->options->codec == TESS_CODEC_ZSTD ? ZSTD_compressBound(bytes) : bytes;
    return (stored + TESS_IO_BLOCK - 1) / TESS_IO_BLOCK * TESS_IO_BLOCK;
}

static int64_t rows_of_piece(const tess_store_piece *p)
{
    size_t row = row_bytes(p, p->stored);
    return row == 0 || row >= TESS_STORE_PIECE_BYTES ? 1 : (int64_t)(TESS_STORE_PIECE_BYTES / row);
}

/* ---- One piece ---- */
static tess_status put(part_writer *w, const void *data, size_t size)
{
    XXH3_64bits_update(&w->sum, data, size);
    return store_stream_put(&w->stream, data, size);
}

/* `last`: no more of the piece comes. */
static tess_status put_packed(part_writer *w, const void *data, size_t size, bool last)
{
    ZSTD_inBuffer in = {.src = data, .size = size};
    for (size_t left = 1; left > 0;) {
        ZSTD_outBuffer out = {.dst = w->packed, .size = w->packed_bytes};
        left = ZSTD_compressStream2(w->packer, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        TESS_CHECK(!ZSTD_isError(left), TESS_E_INTERNAL, "zstd: %s", ZSTD_getErrorName(left));
        TESS_TRY(put(w, w->packed, out.pos));
        if (!last)
            left = in.size - in.pos;
    }
    return TESS_OK;
}

static tess_status put_chunk(part_writer *w, const void *data, size_t size, bool last)
{
    return w->packer != NULL ? put_packed(w, data, size, last) : put(w, data, size);
}

static const void *round_chunk(part_writer *w, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w->rounded[i] = tess_float_to_bf16(from[i]);
    return w->rounded;
}

/* `bytes` as they are stored, from where they lie in memory. */
static tess_status put_rows(part_writer *w, const tess_store_piece *p, const char *from, size_t bytes)
{
    bool rounds = p->given != p->stored;
    size_t most = rounds ? ROUNDED_BYTES : store_stream_chunk(&w->stream, from), given = tess_dtype_size(p->given);
    for (size_t done = 0; done < bytes;) {
        size_t size = bytes - done < most ? bytes - done : most, n = size / tess_dtype_size(p->stored);
        const void *chunk = rounds ? round_chunk(w, (const float *)(const void *)from, n) : from;
        done += size;
        TESS_TRY(put_chunk(w, chunk, size, done == bytes));
        from += n * given;
    }
    return TESS_OK;
}

static tess_status begin_piece(part_writer *w, size_t bytes)
{
    XXH3_64bits_reset(&w->sum);
    if (w->packer == NULL)
        return TESS_OK;
    size_t failed = ZSTD_CCtx_setPledgedSrcSize(w->packer, bytes); /* so that a reader knows what to make room for */
    TESS_CHECK(!ZSTD_isError(failed), TESS_E_INTERNAL, "zstd: %s", ZSTD_getErrorName(failed));
    return TESS_OK;
}

/* Rows [row, +n_rows), counted from the first of `p`. */
static tess_status write_piece(part_writer *w, const tess_store_piece *p, int64_t row, int64_t n_rows)
{
    size_t bytes = (size_t)n_rows * row_bytes(p, p->stored);
    tess_part_piece piece = {.file = w->file,
                             .rank = p->rank,
                             .offset = store_stream_position(&w->stream),
                             .bytes = bytes,
                             .codec = w->packer != NULL ? TESS_CODEC_ZSTD : TESS_CODEC_NONE,
                             .row_begin = p->row_begin + row,
                             .n_rows = n_rows};
    TESS_TRY(begin_piece(w, bytes));
    TESS_TRY(put_rows(w, p, (const char *)p->data + (size_t)row * row_bytes(p, p->given), bytes));
    piece.stored = store_stream_position(&w->stream) - piece.offset;
    piece.xxh3 = XXH3_64bits_digest(&w->sum);
    TESS_TRY(store_stream_align(&w->stream));
    return tess_part_add_piece(w->part, p->name, p->shape.n_dims, p->shape.dim, &piece);
}

static tess_status write_rows(part_writer *w, const tess_store_piece *p)
{
    int64_t most = rows_of_piece(p);
    TESS_TRY(tess_part_add_tensor(w->part, p->name, tess_store_dtype_text(p->stored), p->shape.n_dims, p->shape.dim));
    for (int64_t row = 0, n; row < p->n_rows && row_bytes(p, p->stored) > 0; row += n) {
        n = p->n_rows - row < most ? p->n_rows - row : most;
        TESS_TRY(write_piece(w, p, row, n));
    }
    return TESS_OK;
}

/* ---- All of them ---- */
static tess_status check(const tess_store_piece *p)
{
    bool known = p->given == p->stored || (p->given == TESS_F32 && p->stored == TESS_BF16);
    TESS_CHECK(known && tess_store_dtype_text(p->stored) != NULL, TESS_E_UNSUPPORTED,
               "checkpoint: '%s' of %s cannot be stored as %s", p->name, tess_dtype_name(p->given),
               tess_dtype_name(p->stored));
    TESS_CHECK(p->row_begin >= 0 && p->n_rows >= 0 && p->row_begin + p->n_rows <= tess_shape_rows(&p->shape),
               TESS_E_INVALID, "checkpoint: rows [%" PRId64 ", +%" PRId64 ") of '%s', which has %" PRId64, p->row_begin,
               p->n_rows, p->name, tess_shape_rows(&p->shape));
    return TESS_OK;
}

/* Bytes that the file can come to. */
static uint64_t measure(const part_writer *w, const tess_store_piece *pieces, int n)
{
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        const tess_store_piece *p = &pieces[i];
        int64_t most = rows_of_piece(p), whole = p->n_rows / most, rest = p->n_rows % most;
        uint64_t row = row_bytes(p, p->stored);
        if (row == 0)
            continue;
        bytes += (uint64_t)whole * most_stored(w, (uint64_t)most * row);
        bytes += rest > 0 ? most_stored(w, (uint64_t)rest * row) : 0;
    }
    return bytes;
}

static tess_status make_packer(part_writer *w)
{
    if (w->options->codec == TESS_CODEC_NONE)
        return TESS_OK;
    TESS_CHECK(w->options->codec == TESS_CODEC_ZSTD, TESS_E_UNSUPPORTED, "checkpoint: pieces are packed by zstd");
    w->packer = ZSTD_createCCtx();
    TESS_CHECK(w->packer != NULL, TESS_E_NOMEM, "no memory to pack a checkpoint");
    ZSTD_CCtx_setParameter(w->packer, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    w->packed_bytes = ZSTD_CStreamOutSize();
    return tess_mem_alloc(w->mem, TESS_POOL_MISC, w->packed_bytes, "packed block", (void **)&w->packed);
}

static tess_status prepare(part_writer *w, const char *folder, const tess_store_piece *pieces, int n)
{
    char path[TESS_CKPT_PATH];
    for (int i = 0; i < n; i++)
        TESS_TRY(check(&pieces[i]));
    TESS_TRY(tess_part_create(&w->part));
    TESS_TRY(make_packer(w));
    TESS_TRY(tess_mem_alloc(w->mem, TESS_POOL_MISC, ROUNDED_BYTES, "rounded block", (void **)&w->rounded));
    TESS_TRY(tess_os_join(path, sizeof(path), folder, w->file));
    return store_stream_open(w->mem, w->options->io, path, w->options->direct, measure(w, pieces, n), &w->stream);
}

static tess_status write_all(part_writer *w, const tess_store_piece *pieces, int n)
{
    for (int i = 0; i < n; i++)
        TESS_TRY(write_rows(w, &pieces[i]));
    TESS_TRY(store_stream_finish(&w->stream));
    return tess_part_add_file(w->part, w->file, store_stream_position(&w->stream));
}

tess_status tess_store_write_part(tess_mem *mem, const tess_store_options *options, const char *folder,
                                  const char *file, const tess_store_piece *pieces, int n, json_t **part)
{
    static const tess_store_options none = {0};
    part_writer w = {.mem = mem, .options = options != NULL ? options : &none, .file = file, .stream = {.fd = -1}};
    w.stream.mem = mem;
    tess_status status = prepare(&w, folder, pieces, n);
    if (status == TESS_OK)
        status = write_all(&w, pieces, n);
    store_stream_close(&w.stream);
    tess_mem_free(mem, w.rounded);
    tess_mem_free(mem, w.packed);
    ZSTD_freeCCtx(w.packer);
    *part = status == TESS_OK ? json_incref(w.part) : NULL;
    json_decref(w.part);
    return status;
}
