/* Reads the stored bytes of a piece once, in parts that stay in the cache while their checksum is computed. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

#include "base/os/os.h"
#include "ckpt/catalog/catalog_impl.h"
#include "ckpt/safetensors/safetensors.h"

enum { PART_BYTES = 256 << 10 };

#define SUM_DIFFERS "its checksum is %016" PRIx64 ", not the %016" PRIx64 " of its save: the disk or a copy damaged it"

typedef struct fetch {
    const tess_catalog *catalog;
    tess_piece_reader *reader;
    const tess_catalog_piece *piece;
    const tess_piece_sink *sink;
    uint64_t padding;       /* number of bytes after the piece that must be zero */
    tess_sum_kind sum_kind; /* kind of checksum that is computed: the piece's, or none */
    uint32_t crc32;
    XXH3_state_t xxh3; /* must be aligned to 64 bytes */
} fetch;

static tess_status check_size(const tess_catalog_file *file, uint64_t size)
{
    TESS_CHECK(file->bytes == 0 || size == file->bytes, TESS_E_FORMAT, "%s has %" PRIu64 " bytes, not %" PRIu64 ": %s",
               file->path, size, file->bytes, size < file->bytes ? "it is cut short" : "something was added to it");
    return TESS_OK;
}

tess_status tess_file_check(const tess_catalog_file *file)
{
    uint64_t size;
    TESS_TRY(tess_os_file_size(file->path, &size));
    return check_size(file, size);
}

static tess_status need_scratch(fetch *f)
{
    uint64_t most = f->piece->stored > f->padding ? f->piece->stored : f->padding;
    tess_piece_reader *reader = f->reader;
    size_t bytes = most < PART_BYTES ? (size_t)most : PART_BYTES;
    if (reader->scratch_bytes >= bytes)
        return TESS_OK;
    tess_mem_free(f->catalog->mem, reader->scratch);
    reader->scratch_bytes = 0;
    reader->scratch = NULL;
    TESS_TRY(tess_mem_alloc(f->catalog->mem, TESS_POOL_MISC, bytes, "checkpoint read", (void **)&reader->scratch));
    reader->scratch_bytes = bytes;
    return TESS_OK;
}

/* Reads bytes [at, +n) of the piece. The sink must want either all or none of them. */
static tess_status fetch_part(fetch *f, uint64_t at, size_t n)
{
    const tess_piece_sink *sink = f->sink;
    bool wanted = at >= sink->begin && at < sink->end;
    uint8_t *to = wanted && sink->decode == NULL ? sink->dst + (at - sink->begin) : NULL;
    if (to == NULL) {
        TESS_TRY(need_scratch(f));
        to = f->reader->scratch;
    }
    TESS_TRY(tess_os_read_at(f->reader->fd, f->piece->offset + at, to, n, f->reader->path));
    if (f->sum_kind == TESS_SUM_KIND_XXH3)
        XXH3_64bits_update(&f->xxh3, to, n);
    else if (f->sum_kind == TESS_SUM_KIND_CRC32)
        f->crc32 = (uint32_t)crc32(f->crc32, to, (uInt)n);
    if (wanted && sink->decode != NULL) {
        float *dst = (float *)sink->dst + (at - sink->begin) / (uint64_t)sink->element_bytes;
        tess_st_decode(sink->decode, to, (int64_t)(n / (size_t)sink->element_bytes), dst);
    }
    return TESS_OK;
}

static tess_status fetch_range(fetch *f, uint64_t begin, uint64_t end)
{
    for (uint64_t at = begin, next; at < end; at = next) {
        /* Parts are cut at the sink's bounds. */
        next = at < f->sink->begin ? f->sink->begin : at < f->sink->end ? f->sink->end : end;
        next = next < end ? next : end;
        next = next - at > PART_BYTES ? at + PART_BYTES : next;
        TESS_TRY(fetch_part(f, at, (size_t)(next - at)));
    }
    return TESS_OK;
}

static tess_status check_padding(fetch *f)
{
    uint64_t begin = f->piece->offset + f->piece->stored, end = begin + f->padding;
    if (f->padding > 0)
        TESS_TRY(need_scratch(f));
    for (uint64_t at = begin; at < end;) {
        size_t n = end - at < PART_BYTES ? (size_t)(end - at) : PART_BYTES;
        TESS_TRY(tess_os_read_at(f->reader->fd, at, f->reader->scratch, n, f->reader->path));
        for (size_t i = 0; i < n; i++)
            TESS_CHECK(f->reader->scratch[i] == 0, TESS_E_FORMAT,
                       "byte %" PRIu64 ", of the zeroes behind it, is 0x%02x: the disk or a copy damaged the file",
                       at + i, f->reader->scratch[i]);
        at += n;
    }
    return TESS_OK;
}

/* Reads the whole piece, and checks its checksum and the zeros after it. */
static tess_status fetch_all(fetch *f)
{
    f->sum_kind = f->piece->sum_kind != TESS_SUM_KIND_CRC32_UNPACKED ? f->piece->sum_kind : TESS_SUM_KIND_NONE;
    XXH3_INITSTATE(&f->xxh3);
    XXH3_64bits_reset(&f->xxh3);
    TESS_TRY(fetch_range(f, 0, f->piece->stored));
    uint64_t sum = f->sum_kind == TESS_SUM_KIND_XXH3 ? XXH3_64bits_digest(&f->xxh3) : f->crc32;
    TESS_CHECK(f->sum_kind == TESS_SUM_KIND_NONE || sum == f->piece->sum, TESS_E_FORMAT, SUM_DIFFERS, sum,
               f->piece->sum);
    return check_padding(f);
}

static tess_status open_file(fetch *f, int file)
{
    tess_piece_reader *r = f->reader;
    const tess_catalog_file *of = &f->catalog->files[file];
    if (r->path == of->path)
        return TESS_OK;
    uint64_t size;
    if (r->path != NULL)
        tess_os_close(&r->fd);
    r->path = NULL;
    TESS_TRY(tess_os_open_read(of->path, &r->fd, &size));
    tess_status status = check_size(of, size);
    if (status == TESS_OK)
        r->path = of->path;
    else
        tess_os_close(&r->fd);
    return status;
}

static tess_status run(fetch *f, int file, bool all)
{
    tess_piece_reader own = {.fd = -1};
    tess_piece_reader *kept = f->reader;
    f->reader = kept != NULL ? kept : &own;
    tess_status status = open_file(f, file);
    if (status == TESS_OK)
        status = all ? fetch_all(f) : fetch_range(f, f->sink->begin, f->sink->end);
    tess_piece_reader_close(f->catalog, &own);
    return status;
}

void tess_piece_reader_close(const tess_catalog *catalog, tess_piece_reader *reader)
{
    if (reader->path != NULL)
        tess_os_close(&reader->fd);
    tess_mem_free(catalog->mem, reader->scratch);
    *reader = (tess_piece_reader){.fd = -1};
}

/* Adds to a failure's message which bytes it is about. */
static tess_status blame(const tess_catalog *c, const tess_catalog_tensor *tensor, const tess_catalog_piece *piece,
                         tess_status status)
{
    char writer[48] = "";
    if (status == TESS_OK)
        return TESS_OK;
    if (piece->rank >= 0)
        snprintf(writer, sizeof(writer), ", written by rank %d", piece->rank);
    return tess_fail_context(status, "%s: bytes [%" PRIu64 ", %" PRIu64 ") of tensor '%s'%s",
                             c->files[piece->file].path, piece->offset, piece->offset + piece->stored, tensor->name,
                             writer);
}

static tess_status run_piece(const tess_catalog *c, const tess_catalog_tensor *tensor, int index,
                             const tess_piece_sink *sink, bool all, tess_piece_reader *reader)
{
    const tess_catalog_piece *piece = &c->pieces[index];
    fetch f = {.catalog = c, .reader = reader, .piece = piece, .sink = sink, .padding = c->impl->padding[index]};
    tess_status status = run(&f, piece->file, all);
    if (status == TESS_OK && all)
        tess_catalog_trust(c, index);
    return blame(c, tensor, piece, status);
}

void tess_catalog_trust(const tess_catalog *catalog, int piece)
{
    __atomic_store_n(&catalog->impl->verified[piece], 1, __ATOMIC_RELAXED);
}

tess_status tess_piece_fetch(const tess_catalog *c, const tess_catalog_tensor *tensor, int index,
                             const tess_piece_sink *sink)
{
    bool summed = c->pieces[index].sum_kind != TESS_SUM_KIND_NONE;
    TESS_TRY(tess_piece_check_range(c, tensor, index));
    return run_piece(c, tensor, index, sink, summed && !__atomic_load_n(&c->impl->verified[index], __ATOMIC_RELAXED),
                     NULL);
}

static tess_status unpack(const tess_catalog_piece *piece, const uint8_t *packed, uint8_t *data)
{
    TESS_TRY(tess_unpack(piece->codec, packed, (size_t)piece->stored, data, (size_t)piece->bytes));
    if (piece->sum_kind != TESS_SUM_KIND_CRC32_UNPACKED)
        return TESS_OK;
    uint64_t sum = crc32_z(0, data, (size_t)piece->bytes);
    TESS_CHECK(sum == piece->sum, TESS_E_FORMAT, SUM_DIFFERS, sum, piece->sum);
    return TESS_OK;
}

/* Reads n bytes of a file that are no piece of their own. */
static tess_status read_bytes(const tess_catalog *c, int file, uint64_t offset, uint64_t n, uint8_t *dst)
{
    const tess_piece_sink sink = {.end = n, .dst = dst};
    const tess_catalog_piece bytes = {.offset = offset, .stored = n, .bytes = n};
    fetch f = {.catalog = c, .piece = &bytes, .sink = &sink};
    return run(&f, file, false);
}

static tess_status unpack_mxfp4(const tess_catalog *c, const tess_catalog_piece *p, const uint8_t *packed,
                                uint8_t *data)
{
    TESS_AUTO(tess_mem_drop) uint8_t *scales = NULL;
    const uint64_t n = p->stored / TESS_MXFP4_BYTES;
    TESS_TRY(TESS_NEW(c->mem, n, "scales", &scales));
    TESS_TRY(read_bytes(c, p->scales_file, p->scales, n, scales));
    TESS_TRY_CTX(tess_unpack_mxfp4(packed, scales, p->box.size[2], p->box.size[1] / TESS_MXFP4_VALUES, data),
                 "matrix %" PRId64, p->box.begin[0]);
    return TESS_OK;
}

tess_status tess_piece_unpack(const tess_catalog *c, const tess_catalog_tensor *tensor, int index, bool again,
                              uint8_t **data)
{
    const tess_catalog_piece *p = &c->pieces[index];
    TESS_AUTO(tess_mem_drop) uint8_t *packed = NULL, *unpacked = NULL;
    *data = NULL;
    TESS_TRY(TESS_NEW(c->mem, p->stored, "packed piece", &packed));
    const tess_piece_sink sink = {.end = p->stored, .dst = packed};
    TESS_TRY(again ? run_piece(c, tensor, index, &sink, true, NULL) : tess_piece_fetch(c, tensor, index, &sink));
    TESS_TRY(TESS_NEW(c->mem, p->bytes, "unpacked piece", &unpacked));
    TESS_TRY(blame(c, tensor, p,
                   p->codec == TESS_CODEC_MXFP4 ? unpack_mxfp4(c, p, packed, unpacked) : unpack(p, packed, unpacked)));
    *data = TESS_GIVE(unpacked);
    return TESS_OK;
}

tess_status tess_piece_verify(const tess_catalog *c, const tess_catalog_tensor *tensor, int index,
                              tess_piece_reader *reader)
{
    const tess_piece_sink nothing = {.begin = 0};
    uint8_t *data;
    if (c->pieces[index].codec == TESS_CODEC_NONE)
        return run_piece(c, tensor, index, &nothing, true, reader);
    TESS_TRY(tess_piece_unpack(c, tensor, index, true, &data));
    tess_mem_free(c->mem, data);
    return TESS_OK;
}

tess_status tess_range_verify(const tess_catalog *c, int index)
{
    const tess_piece_sink nothing = {.begin = 0};
    const tess_catalog_range *range = &c->ranges[index];
    const tess_catalog_file *file = &c->files[range->file];
    const tess_catalog_piece bytes = {.offset = range->offset,
                                      .stored = range->bytes,
                                      .bytes = range->bytes,
                                      .sum = range->sum,
                                      .sum_kind = range->sum_kind,
                                      .rank = range->rank};
    fetch f = {.catalog = c, .piece = &bytes, .sink = &nothing};
    tess_status status = run(&f, range->file, true);
    if (status != TESS_OK)
        return tess_fail_context(status, "%s: bytes [%" PRIu64 ", %" PRIu64 "), which are under one checksum",
                                 file->path, range->offset, range->offset + range->bytes);
    __atomic_store_n(&c->impl->range_good[index], 1, __ATOMIC_RELAXED);
    return TESS_OK;
}

tess_status tess_piece_check_range(const tess_catalog *c, const tess_catalog_tensor *tensor, int index)
{
    int range = c->impl->range_of[index];
    if (range < 0 || __atomic_load_n(&c->impl->range_good[range], __ATOMIC_RELAXED))
        return TESS_OK;
    TESS_TRY_CTX(tess_range_verify(c, range), "tensor '%s'", tensor->name);
    return TESS_OK;
}
