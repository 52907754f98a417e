/* Writes the file of one writer. Boxes are gathered from memory, rounded, packed and checksummed, one block at a
 * time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include "base/core/flat.h"
#include "base/core/round_up.h"
#include "base/os/os.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/store/part.h"
#include "ckpt/store/store_impl.h"
#include "device/bf16.h"

/* ---- A file as a stream: data of any size is written as large blocks at aligned offsets ---- */
/* BLOCK_BYTES is large enough for the disk, and small enough that a block is still in the cache between checksum and
 * write. */
enum { BLOCK_BYTES = 8 << 20, COPY_BYTES = 256 << 10 };

typedef struct stream {
    const tess_io *io;
    char path[TESS_CKPT_PATH];
    int fd;
    bool direct;       /* whether writes bypass the page cache */
    uint8_t *block;    /* data not written yet */
    size_t used;       /* number of bytes used in the block */
    uint64_t at;       /* the block's offset in the file: a multiple of TESS_IO_BLOCK */
    uint64_t reserved; /* number of bytes reserved for the file */
} stream;

static tess_status write_out(stream *s, const void *data, size_t size)
{
    TESS_TRY(tess_io_write(s->io, TESS_SAVE_WRITE, s->fd, s->at, data, size, s->direct ? TESS_IO_BLOCK : 1, s->path));
    s->at += size;
    return TESS_OK;
}

static tess_status flush(stream *s)
{
    size_t size = s->used;
    s->used = 0;
    return write_out(s, s->block, size);
}

/* Whether whole blocks of the data can be written from its own memory, without a copy. */
static bool is_in_place(const stream *s, const void *data)
{
    return !s->direct || (uintptr_t)data % TESS_IO_BLOCK == 0;
}

static tess_status stream_put(stream *s, const void *from, size_t size)
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

/* Writes zeros up to the next multiple of TESS_IO_BLOCK. */
static tess_status stream_align(stream *s)
{
    /* BLOCK_BYTES is a multiple of TESS_IO_BLOCK, so the padding fits into the block */
    size_t padding = -s->used % TESS_IO_BLOCK;
    memset(s->block + s->used, 0, padding);
    s->used += padding;
    return s->used == BLOCK_BYTES ? flush(s) : TESS_OK;
}

static uint64_t stream_position(const stream *s)
{
    return s->at + s->used;
}

/* Writes the buffered rest, frees unused space, and syncs. The file ends at a multiple of TESS_IO_BLOCK. */
static tess_status stream_finish(stream *s)
{
    TESS_TRY(stream_align(s));
    TESS_TRY(flush(s));
    if (s->at < s->reserved)
        TESS_TRY(tess_io_trim(s->io, s->fd, s->at, s->path));
    return tess_io_sync(s->io, TESS_SAVE_SYNC, s->fd, s->path);
}

/* ---- The sink of a piece ---- */
enum { CHUNK_BYTES = 256 << 10, ZSTD_LEVEL = 1 };

struct tess_store_sink {
    tess_scope scope;
    const tess_store_options *options;
    const char *file;
    json_t *part;
    stream stream;
    uint16_t *rounded; /* a chunk with the stored dtype, if that differs from the dtype in memory */
    char *gathered;    /* a chunk with the dtype in memory, if it is not contiguous there */
    ZSTD_CCtx *packer; /* NULL: no packing */
    uint8_t *packed;
    size_t packed_bytes;
    XXH3_state_t sum; /* checksum of the current piece */
    size_t left;      /* number of bytes of the current piece that are still to come */
};

static tess_shape shape_of(const tess_store_piece *p)
{
    tess_shape shape = {.n_dims = p->n_dims};
    memcpy(shape.dim, p->dim, (size_t)p->n_dims * sizeof(p->dim[0]));
    return tess_shape_atleast_1d(&shape);
}

/* Returns the stored bytes of a row of the box. */
static size_t row_bytes(const tess_store_piece *p)
{
    size_t bytes = (size_t)tess_st_dtype_bytes(p->dtype);
    for (int d = 1; d < p->n_dims; d++)
        bytes *= (size_t)p->box.size[d];
    return bytes;
}

/* Returns an upper bound of a piece's stored bytes: a zstd frame may be larger than its content. An empty piece is not
 * written. */
static uint64_t most_stored(const tess_store_sink *w, uint64_t bytes)
{
    uint64_t stored = w->options->codec == TESS_CODEC_ZSTD ? ZSTD_compressBound(bytes) : bytes;
    return tess_round_up(stored, TESS_IO_BLOCK);
}

static int64_t rows_of_piece(const tess_store_piece *p)
{
    size_t row = row_bytes(p);
    return row == 0 || row >= TESS_STORE_PIECE_BYTES ? 1 : (int64_t)(TESS_STORE_PIECE_BYTES / row);
}

/* ---- One piece ---- */
static tess_status put(tess_store_sink *w, const void *data, size_t size)
{
    XXH3_64bits_update(&w->sum, data, size);
    return stream_put(&w->stream, data, size);
}

static tess_status put_packed(tess_store_sink *w, const void *data, size_t size)
{
    ZSTD_inBuffer in = {.src = data, .size = size};
    bool last = w->left == 0;
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

tess_status tess_store_put(tess_store_sink *w, const void *data, size_t size)
{
    w->left -= size;
    return w->packer != NULL ? put_packed(w, data, size) : put(w, data, size);
}

/* Puts a part of the box of `p` into the sink, converted. Contiguous data is not copied first. */
static tess_status put_part(tess_store_sink *w, const tess_store_piece *p, const tess_box *part)
{
    if (p->read != NULL)
        return p->read(p->self, p, part, w);
    int n_dims = shape_of(p).n_dims;
    size_t n = (size_t)tess_box_count(n_dims, part), stored_bytes = (size_t)tess_st_dtype_bytes(p->dtype);
    size_t element = p->rounds ? sizeof(float) : stored_bytes;
    bool run = tess_flat_is_run(n_dims, p->held.size, part->size);
    const char *from = (const char *)p->data + (size_t)tess_flat_offset(n_dims, &p->held, part) * element;
    /* Limits the size of a copy, so that it is still in the cache when it is written. */
    size_t most = !run || p->rounds ? CHUNK_BYTES : is_in_place(&w->stream, from) ? BLOCK_BYTES : COPY_BYTES;
    for (size_t done = 0, taken; done < n; done += taken) {
        const void *values = from + done * element;
        taken = n - done < most / stored_bytes ? n - done : most / stored_bytes;
        if (!run) {
            tess_flat_copy(n_dims, element, &p->held, p->data, part, (int64_t)done, (int64_t)taken, w->gathered);
            values = w->gathered;
        }
        for (size_t i = 0; p->rounds && i < taken; i++)
            w->rounded[i] = tess_float_to_bf16(((const float *)values)[i]);
        TESS_TRY(tess_store_put(w, p->rounds ? w->rounded : values, taken * stored_bytes));
    }
    return TESS_OK;
}

static tess_status begin_piece(tess_store_sink *w, size_t bytes)
{
    XXH3_64bits_reset(&w->sum);
    w->left = bytes;
    if (w->packer == NULL)
        return TESS_OK;
    size_t failed = ZSTD_CCtx_setPledgedSrcSize(w->packer, bytes); /* tells readers how much memory to allocate */
    TESS_CHECK(!ZSTD_isError(failed), TESS_E_INTERNAL, "zstd: %s", ZSTD_getErrorName(failed));
    return TESS_OK;
}

/* Writes a part of the box of `p` as one piece. */
static tess_status write_piece(tess_store_sink *w, const tess_store_piece *p, const tess_box *part)
{
    size_t bytes = (size_t)part->size[0] * row_bytes(p);
    tess_part_piece piece = {.file = w->file,
                             .rank = p->rank,
                             .offset = stream_position(&w->stream),
                             .bytes = bytes,
                             .codec = w->packer != NULL ? TESS_CODEC_ZSTD : TESS_CODEC_NONE,
                             .box = *part};
    TESS_TRY(begin_piece(w, bytes));
    TESS_TRY(put_part(w, p, part));
    piece.stored = stream_position(&w->stream) - piece.offset;
    piece.xxh3 = XXH3_64bits_digest(&w->sum);
    TESS_TRY(stream_align(&w->stream));
    return tess_part_add_piece(w->part, p->name, p->n_dims, &piece);
}

/* Writes a box. A large one becomes several pieces of whole rows. */
static tess_status write_box(tess_store_sink *w, const tess_store_piece *p)
{
    int64_t most = rows_of_piece(p), rows = row_bytes(p) > 0 ? p->box.size[0] : 0;
    TESS_TRY(tess_part_add_tensor(w->part, p->name, p->dtype, p->n_dims, p->dim));
    for (int64_t row = 0; row < rows; row += most) {
        tess_box part = p->box;
        part.begin[0] += row;
        part.size[0] = rows - row < most ? rows - row : most;
        TESS_TRY(write_piece(w, p, &part));
    }
    return TESS_OK;
}

/* ---- All pieces ---- */
static tess_status check(const tess_store_piece *p)
{
    bool known = p->dtype != NULL && tess_st_dtype_bytes(p->dtype) > 0;
    TESS_CHECK(known && (!p->rounds || strcmp(p->dtype, "BF16") == 0), TESS_E_UNSUPPORTED,
               "checkpoint: '%s'%s cannot be stored as %s", p->name, p->rounds ? " of float32" : "",
               p->dtype != NULL ? p->dtype : "it is");
    const tess_shape shape = shape_of(p);
    const tess_box whole = tess_box_whole(&shape);
    bool inside = tess_box_contains(shape.n_dims, &whole, &p->box);
    bool there = p->data == NULL || tess_box_count(shape.n_dims, &p->box) == 0 ||
                 tess_box_contains(shape.n_dims, &p->held, &p->box);
    char box[300], other[300];
    TESS_CHECK(inside && there, TESS_E_INVALID, "checkpoint: rank %d writes %s of '%s', which is not inside %s",
               p->rank, tess_box_format(shape.n_dims, &p->box, box, sizeof(box)), p->name,
               inside ? tess_box_format(shape.n_dims, &p->held, other, sizeof(other))
                      : tess_shape_format(&shape, other, sizeof(other)));
    return TESS_OK;
}

/* Returns an upper bound of the file's size. */
static uint64_t measure(const tess_store_sink *w, const tess_store_piece *pieces, int n)
{
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        const tess_store_piece *p = &pieces[i];
        int64_t most = rows_of_piece(p), whole = p->box.size[0] / most, rest = p->box.size[0] % most;
        uint64_t row = row_bytes(p);
        if (row == 0)
            continue;
        bytes += (uint64_t)whole * most_stored(w, (uint64_t)most * row);
        bytes += rest > 0 ? most_stored(w, (uint64_t)rest * row) : 0;
    }
    return bytes;
}

static tess_status make_packer(tess_store_sink *w)
{
    if (w->options->codec == TESS_CODEC_NONE)
        return TESS_OK;
    TESS_CHECK(w->options->codec == TESS_CODEC_ZSTD, TESS_E_UNSUPPORTED, "checkpoint: pieces are packed by zstd");
    w->packer = ZSTD_createCCtx();
    TESS_CHECK(w->packer != NULL, TESS_E_NOMEM, "no memory to pack a checkpoint");
    ZSTD_CCtx_setParameter(w->packer, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    w->packed_bytes = ZSTD_CStreamOutSize();
    return TESS_NEW_IN(&w->scope, w->packed_bytes, "packed block", &w->packed);
}

static tess_status prepare(tess_store_sink *w, const char *folder, const tess_store_piece *pieces, int n)
{
    stream *s = &w->stream;
    for (int i = 0; i < n; i++)
        TESS_TRY(check(&pieces[i]));
    TESS_TRY(tess_part_create(&w->part));
    TESS_TRY(make_packer(w));
    TESS_TRY(tess_scope_alloc(&w->scope, TESS_POOL_MISC, CHUNK_BYTES, 1, "rounded block", (void **)&w->rounded));
    TESS_TRY(TESS_NEW_IN(&w->scope, 2 * CHUNK_BYTES, "gathered block", &w->gathered));
    s->direct = w->options->direct;
    s->reserved = measure(w, pieces, n);
    TESS_TRY(tess_os_join(s->path, sizeof(s->path), folder, w->file));
    TESS_TRY(tess_io_create(s->io, s->path, &s->direct, &s->fd));
    TESS_TRY(tess_io_reserve(s->io, s->fd, s->reserved, s->path));
    return TESS_NEW_IN(&w->scope, BLOCK_BYTES, "block of a checkpoint", &s->block);
}

static tess_status write_all(tess_store_sink *w, const tess_store_piece *pieces, int n)
{
    for (int i = 0; i < n; i++)
        TESS_TRY_CTX(write_box(w, &pieces[i]), "tensor '%s'", pieces[i].name);
    TESS_TRY(stream_finish(&w->stream));
    return tess_part_add_file(w->part, w->file, stream_position(&w->stream));
}

tess_status tess_store_write_part(tess_mem *mem, const tess_store_options *options, const char *folder,
                                  const char *file, const tess_store_piece *pieces, int n, json_t **part)
{
    static const tess_store_options none = {0};
    tess_store_sink w = {.scope.mem = mem, .options = options != NULL ? options : &none, .file = file};
    w.stream = (stream){.io = w.options->io, .fd = -1};
    tess_status status = prepare(&w, folder, pieces, n);
    if (status == TESS_OK)
        status = write_all(&w, pieces, n);
    tess_os_close(&w.stream.fd);
    tess_scope_end(&w.scope);
    ZSTD_freeCCtx(w.packer);
    *part = status == TESS_OK ? json_incref(w.part) : NULL;
    json_decref(w.part);
    return status;
}
