#include "data/corpus/text_stream.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/os/os.h"
#include "data/files/text_kind.h"
#include "data/loader/blocks.h"

enum { CHUNK = 256 << 10 };

typedef enum stream_kind { PLAIN, GZIP, ZSTANDARD } stream_kind;

struct tess_text_stream {
    tess_mem *mem;
    char *path;
    int fd;
    stream_kind packed;
    tess_text_kind kind;
    tess_array_scan scan; /* state of the scan of an array up to byte scan_at, which is a cut or the end */
    uint64_t scan_at;
    uint64_t file_size, file_at;
    char *input; /* (CHUNK) compressed bytes; input_at..input_size are not yet unpacked */
    size_t input_at, input_size;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool inside; /* inside a compressed frame, which has to end */
    bool ended;
    tess_buffer held;                       /* unpacked text that belongs to no block yet; it begins at byte `at` */
    uint64_t at, n_blocks, line, next_line; /* line, next_line: numbers of lines; 0: not counted */
};

/* ---- Bytes ---- */
static tess_status need_input(tess_text_stream *s)
{
    if (s->input_at < s->input_size || s->file_at == s->file_size)
        return TESS_OK;
    uint64_t left = s->file_size - s->file_at;
    s->input_at = 0;
    s->input_size = left < CHUNK ? (size_t)left : CHUNK;
    TESS_TRY(tess_os_read_at(s->fd, s->file_at, s->input, s->input_size, s->path));
    s->file_at += s->input_size;
    return TESS_OK;
}

static tess_status fail_damaged(const tess_text_stream *s, const char *why)
{
    return TESS_FAIL(TESS_E_FORMAT, "%s: damaged near byte %llu of %llu: %s", s->path, (unsigned long long)s->file_at,
                     (unsigned long long)s->file_size, why);
}

/* Each of these unpacks some input into `out`; *n: number of bytes unpacked. */
static tess_status unpack_gzip(tess_text_stream *s, char *out, size_t *n)
{
    z_stream *z = &s->gzip;
    z->next_in = (Bytef *)s->input + s->input_at;
    z->avail_in = (uInt)(s->input_size - s->input_at);
    z->next_out = (Bytef *)out;
    z->avail_out = CHUNK;
    int result = inflate(z, Z_NO_FLUSH);
    s->input_at = s->input_size - z->avail_in;
    *n = CHUNK - z->avail_out;
    s->inside = result != Z_STREAM_END;
    if (result == Z_STREAM_END) /* another member may follow */
        inflateReset(z);
    return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR
               ? TESS_OK
               : fail_damaged(s, z->msg != NULL ? z->msg : "gzip");
}

static tess_status unpack_zstd(tess_text_stream *s, char *out, size_t *n)
{
    ZSTD_inBuffer in = {s->input, s->input_size, s->input_at};
    ZSTD_outBuffer to = {out, CHUNK, 0};
    size_t left = ZSTD_decompressStream(s->zstd, &to, &in);
    s->input_at = in.pos;
    *n = to.pos;
    s->inside = left != 0;
    return ZSTD_isError(left) ? fail_damaged(s, ZSTD_getErrorName(left)) : TESS_OK;
}

/* Reads more text into `held`, or sets `ended`. */
static tess_status hold_more(tess_text_stream *s)
{
    char out[CHUNK];
    size_t n;
    TESS_TRY(need_input(s));
    bool no_input = s->input_at == s->input_size;
    if (s->packed == PLAIN) {
        TESS_TRY(tess_buffer_append(&s->held, s->input + s->input_at, s->input_size - s->input_at));
        s->input_at = s->input_size;
        s->ended = no_input;
        return TESS_OK;
    }
    if (no_input && !s->inside) {
        s->ended = true;
        return TESS_OK;
    }
    TESS_TRY(s->packed == GZIP ? unpack_gzip(s, out, &n) : unpack_zstd(s, out, &n));
    if (no_input && n == 0 && s->inside)
        return fail_damaged(s, "it is cut off");
    return tess_buffer_append(&s->held, out, n);
}

/* Reads text into `held` until it contains byte `to` - 1 or the text ends. */
static tess_status hold(tess_text_stream *s, uint64_t to)
{
    while (!s->ended && s->at + s->held.size < to)
        TESS_TRY(hold_more(s));
    return TESS_OK;
}

/* Drops the first n bytes of `held`, and counts their lines. */
static void take(tess_text_stream *s, size_t n)
{
    const char *at = s->held.data, *stop = at + n;
    while (s->next_line > 0 && at < stop && (at = memchr(at, '\n', (size_t)(stop - at))) != NULL) {
        s->next_line++;
        at++;
    }
    memmove(s->held.data, s->held.data + n, s->held.size - n);
    s->held.size -= n;
    s->at += n;
}

/* ---- Blocks ---- */
/* Finds the end of the block that begins at s->at, by the loader's rule: the first line end at or after byte x.
 * Plain text without a line end for the length of a block ends at the next character. *size: length of the block in
 * `held`. */
static tess_status find_line_end(tess_text_stream *s, uint64_t x, size_t *size)
{
    bool plain = s->kind == TESS_TEXT_PLAIN;
    uint64_t limit = x - 1 + (plain ? TESS_BLOCK_BYTES : TESS_LINE_BYTES);
    for (uint64_t from = x - 1; from < limit;) {
        TESS_TRY(hold(s, from + CHUNK < limit ? from + CHUNK : limit));
        uint64_t held_to = s->at + s->held.size, to = held_to < limit ? held_to : limit;
        const char *end = from < to ? memchr(s->held.data + (from - s->at), '\n', (size_t)(to - from)) : NULL;
        *size = end != NULL ? (size_t)(end - s->held.data) + 1 : s->held.size;
        if (end != NULL || (held_to < limit && s->ended))
            return TESS_OK;
        from = to;
    }
    TESS_CHECK(plain, TESS_E_FORMAT, "%s: line %llu has more than the %d MiB that are read: split the document",
               s->path, (unsigned long long)s->next_line, TESS_LINE_BYTES >> 20);
    TESS_TRY(hold(s, x + 4));
    size_t skip = 0, at = (size_t)(x - s->at);
    while (skip < 3 && at + skip < s->held.size && ((unsigned char)s->held.data[at + skip] & 0xc0) == 0x80)
        skip++;
    *size = at + skip;
    return TESS_OK;
}

/* Finds the end of a block of an array: the first cut at or after byte x. */
static tess_status find_cut(tess_text_stream *s, uint64_t x, size_t *size)
{
    uint64_t last = s->scan_at;
    for (bool found = false; s->scan_at < x || !found;) {
        size_t taken, from = (size_t)(s->scan_at - s->at);
        TESS_TRY(hold(s, s->scan_at + 1));
        if (from == s->held.size) {
            TESS_TRY(tess_array_scan_end(&s->scan));
            break;
        }
        TESS_TRY(tess_array_scan_go(&s->scan, s->held.data + from, s->held.size - from, &taken, &found));
        s->scan_at += taken;
        TESS_CHECK(s->scan_at - last <= TESS_LINE_BYTES, TESS_E_FORMAT,
                   "an element has more than the %d MiB that are read: split the document", TESS_LINE_BYTES >> 20);
        last = found ? s->scan_at : last;
    }
    *size = (size_t)(s->scan_at - s->at);
    return TESS_OK;
}

static tess_status find_end(tess_text_stream *s, uint64_t x, size_t *size)
{
    *size = 0;
    if (s->at >= x) /* a record is longer than a block, so this block is empty */
        return TESS_OK;
    if (s->kind != TESS_TEXT_ARRAY)
        return find_line_end(s, x, size);
    return tess_fail_context(find_cut(s, x, size), "%s: after byte %llu", s->path, (unsigned long long)s->scan_at);
}

tess_status tess_text_stream_next(tess_text_stream *s, tess_buffer *text, bool *end)
{
    uint64_t begin = s->n_blocks * TESS_BLOCK_BYTES;
    size_t size = 0;
    text->size = 0;
    TESS_TRY(hold(s, begin + 1));
    *end = s->at + s->held.size <= begin;
    if (*end)
        return TESS_OK;
    TESS_TRY(find_end(s, begin + TESS_BLOCK_BYTES, &size));
    TESS_TRY(tess_buffer_append(text, s->held.data, size));
    s->line = s->next_line;
    take(s, size);
    s->n_blocks++;
    return TESS_OK;
}

/* Skips blocks by reading them: an array's cuts are known only once it has been read up to them. */
static tess_status skip_blocks(tess_text_stream *s, uint64_t n)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = s->mem};
    for (bool end = false; s->n_blocks < n && !end;)
        TESS_TRY(tess_text_stream_next(s, &text, &end));
    return TESS_OK;
}

tess_status tess_text_stream_skip(tess_text_stream *s, uint64_t n_blocks, uint64_t at)
{
    if (s->kind == TESS_TEXT_ARRAY) {
        TESS_TRY(skip_blocks(s, n_blocks));
        TESS_CHECK(s->at == at, TESS_E_IO, "%s: the file has changed", s->path);
        return TESS_OK;
    }
    if (s->packed == PLAIN && at > 0) {
        s->held.size = 0;
        s->ended = false;
        s->next_line = 0;
        TESS_CHECK(at <= s->file_size, TESS_E_IO, "%s: the file has become shorter", s->path);
        s->at = s->file_at = at;
    }
    while (s->at < at) {
        TESS_TRY(hold(s, s->at + 1));
        TESS_CHECK(s->held.size > 0, TESS_E_IO, "%s: the file has become shorter", s->path);
        take(s, s->held.size < at - s->at ? s->held.size : (size_t)(at - s->at));
    }
    s->n_blocks = n_blocks;
    return TESS_OK;
}

/* ---- Open and close ---- */
static tess_status open_stream(tess_text_stream *s)
{
    TESS_TRY(tess_os_open_read(s->path, &s->fd, &s->file_size));
    TESS_CHECK(s->file_size > 0, TESS_E_INVALID, "%s: the file is empty", s->path);
    TESS_TRY(TESS_PART(s, CHUNK, "text", &s->input));
    TESS_TRY(need_input(s));
    s->packed = s->input_size >= 4 && memcmp(s->input, "\x28\xb5\x2f\xfd", 4) == 0 ? ZSTANDARD
                : s->input_size >= 3 && memcmp(s->input, "\x1f\x8b\x08", 3) == 0   ? GZIP
                                                                                   : PLAIN;
    s->zstd = s->packed == ZSTANDARD ? ZSTD_createDStream() : NULL;
    bool ready = s->packed == ZSTANDARD ? s->zstd != NULL
                 : s->packed == GZIP    ? inflateInit2(&s->gzip, 15 + 16) == Z_OK
                                        : true;
    TESS_CHECK(ready, TESS_E_NOMEM, "%s: no memory to unpack it", s->path);
    TESS_TRY(hold(s, TESS_TEXT_HEAD));
    size_t head = s->held.size < TESS_TEXT_HEAD ? s->held.size : TESS_TEXT_HEAD;
    return tess_text_kind_of(s->path, s->held.data != NULL ? s->held.data : "", head, false, &s->kind);
}

tess_status tess_text_stream_open(tess_mem *mem, const char *path, tess_text_stream **out)
{
    void *block;
    size_t length = strlen(path);
    *out = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_text_stream) + length + 1, "text", &block));
    TESS_AUTO(tess_text_stream_close) tess_text_stream *s = block;
    *s = (tess_text_stream){.mem = mem, .path = (char *)(s + 1), .fd = -1, .held = {.mem = mem}, .next_line = 1};
    memcpy(s->path, path, length + 1);
    TESS_TRY(open_stream(s));
    *out = TESS_GIVE(s);
    return TESS_OK;
}

void tess_text_stream_close(tess_text_stream **out)
{
    tess_text_stream *s = *out;
    if (s == NULL)
        return;
    if (s->packed == GZIP)
        inflateEnd(&s->gzip);
    ZSTD_freeDStream(s->zstd);
    tess_os_close(&s->fd);
    tess_buffer_free(&s->held);
    tess_mem_drop(out);
}

tess_text_kind tess_text_stream_kind(const tess_text_stream *stream)
{
    return stream->kind;
}

uint64_t tess_text_stream_at(const tess_text_stream *stream)
{
    return stream->at;
}

uint64_t tess_text_stream_line(const tess_text_stream *stream)
{
    return stream->line;
}

uint64_t tess_text_stream_read_bytes(const tess_text_stream *stream)
{
    return stream->file_at;
}
