#include "data/loader/blocks.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "data/files/text_kind.h"

enum { CHUNK = 64 << 10 };

/* Finds the first line end at or after byte x. If plain text has none before the end of the next block, it is cut at
 * the next character, so that a file without line ends is still read in blocks. A line of JSON is never cut. */
static tess_status line_boundary(const tess_block_file *file, int fd, uint64_t x, uint64_t *at)
{
    char chunk[CHUNK];
    bool plain = file->kind == TESS_TEXT_PLAIN;
    uint64_t limit = x - 1 + (plain ? TESS_BLOCK_BYTES : TESS_LINE_BYTES), last = file->size;
    for (uint64_t from = x - 1; from < limit;) {
        uint64_t left = (limit < last ? limit : last) - from;
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        TESS_TRY(tess_os_read_at(fd, from, chunk, n, file->path));
        const char *end = memchr(chunk, '\n', n);
        *at = end != NULL ? from + (uint64_t)(end - chunk) + 1 : last;
        from += n;
        if (end != NULL || from == last)
            return TESS_OK;
    }
    TESS_CHECK(plain, TESS_E_FORMAT, "%s: line %llu has more than the %d MiB that are read: split the document",
               file->path, (unsigned long long)tess_blocks_line(file, x - 1), TESS_LINE_BYTES >> 20);
    size_t skip = 0, n = last - x < 4 ? (size_t)(last - x) : 4;
    TESS_TRY(tess_os_read_at(fd, x, chunk, n, file->path));
    while (skip < n && skip < 3 && ((unsigned char)chunk[skip] & 0xc0) == 0x80)
        skip++;
    *at = x + skip;
    return TESS_OK;
}

/* Finds the first position at or after byte x where a block may begin. */
static tess_status boundary(const tess_block_file *file, int fd, uint64_t x, uint64_t *at)
{
    *at = x == 0 ? 0 : file->size;
    if (x == 0 || x >= file->size)
        return TESS_OK;
    if (file->kind == TESS_TEXT_ARRAY)
        return tess_array_index_find(&file->array, fd, file->path, file->size, x, at);
    return line_boundary(file, fd, x, at);
}

static tess_status index_array(tess_block_file *file, int fd)
{
    uint64_t at;
    tess_status status = tess_array_index_make(&file->array, fd, file->path, file->size, &at);
    return status == TESS_OK
               ? TESS_OK
               : tess_fail_context(status, "%s: line %llu", file->path, (unsigned long long)tess_blocks_line(file, at));
}

static tess_status open_part(tess_block_file *file, double begin, double end, int fd)
{
    TESS_CHECK(file->size > 0, TESS_E_INVALID, "%s: the file is empty; training and validation data need text",
               file->path);
    TESS_CHECK(file->size > 1, TESS_E_INVALID, "%s: a file of one byte holds no pair of tokens", file->path);
    if (file->kind == TESS_TEXT_ARRAY)
        TESS_TRY(index_array(file, fd));
    TESS_TRY(boundary(file, fd, (uint64_t)(begin * (double)file->size), &file->begin));
    TESS_TRY(boundary(file, fd, end >= 1 ? file->size : (uint64_t)(end * (double)file->size), &file->end));
    file->n_blocks = (file->end - file->begin + TESS_BLOCK_BYTES - 1) / TESS_BLOCK_BYTES;
    return TESS_OK;
}

static tess_status open_text(tess_block_file *file, const tess_loader_options *options)
{
    TESS_AUTO(tess_os_close) int fd = -1;
    TESS_TRY(tess_text_kind_at(file->path, options->format == TESS_DATA_TEXT, &file->kind));
    TESS_TRY(tess_os_open_read(file->path, &fd, &file->size));
    return open_part(file, options->begin, options->end, fd);
}

static tess_status open_file(tess_blocks *blocks, const char *path, const tess_tokenizer *tokenizer,
                             const tess_loader_options *options)
{
    const tess_token_shard_options of_shard = {.tokenizer = tokenizer,
                                               .format = options->format,
                                               .end_id = options->end_id,
                                               .begin = options->begin,
                                               .end = options->end};
    tess_block_file *file = &blocks->files[blocks->n_files];
    size_t length = strlen(path);
    void *copy;
    TESS_TRY(tess_mem_alloc(blocks->mem, TESS_POOL_MISC, length + 1, "data files", &copy));
    memcpy(copy, path, length + 1);
    *file = (tess_block_file){.path = copy, .array.mem = blocks->mem};
    blocks->n_files++;
    TESS_TRY(tess_token_shard_open(blocks->mem, path, &of_shard, &file->shard));
    if (file->shard != NULL)
        file->n_blocks = tess_token_shard_blocks(file->shard);
    else
        TESS_TRY(open_text(file, options));
    blocks->n_blocks += file->n_blocks;
    return TESS_OK;
}

tess_status tess_blocks_open(tess_blocks *blocks, const tess_tokenizer *tokenizer, const tess_loader_options *options)
{
    TESS_CHECK(options->n_files > 0, TESS_E_INVALID, "no data files");
    TESS_CHECK(options->begin >= 0 && options->begin < options->end && options->end <= 1, TESS_E_INVALID,
               "the part %g..%g of the data is not inside 0..1", options->begin, options->end);
    void *files;
    TESS_TRY(tess_mem_alloc_array(blocks->mem, TESS_POOL_MISC, (size_t)options->n_files, sizeof(tess_block_file),
                                  "data files", &files));
    blocks->files = files;
    for (int i = 0; i < options->n_files; i++)
        TESS_TRY(open_file(blocks, options->files[i], tokenizer, options));
    TESS_CHECK(blocks->n_blocks > 0, TESS_E_INVALID,
               "%s: the part %g..%g holds no whole line; use more text or another share for validation",
               options->files[0], options->begin, options->end);
    return TESS_OK;
}

void tess_blocks_close(tess_blocks *blocks)
{
    for (int i = 0; i < blocks->n_files; i++) {
        tess_token_shard_close(&blocks->files[i].shard);
        tess_array_index_free(&blocks->files[i].array);
        tess_mem_free(blocks->mem, blocks->files[i].path);
    }
    tess_mem_free(blocks->mem, blocks->files);
    *blocks = (tess_blocks){.mem = blocks->mem};
}

static tess_status read_block(const tess_block_file *file, int fd, uint64_t index, tess_buffer *text, uint64_t *offset)
{
    char chunk[CHUNK];
    uint64_t ends[2];
    for (int side = 0; side < 2; side++) {
        uint64_t nominal = file->begin + (index + (uint64_t)side) * TESS_BLOCK_BYTES;
        ends[side] = nominal;
        if (nominal > file->begin && nominal < file->end)
            TESS_TRY(boundary(file, fd, nominal, &ends[side]));
        if (ends[side] > file->end)
            ends[side] = file->end;
    }
    *offset = ends[0];
    for (uint64_t at = ends[0]; at < ends[1];) {
        size_t n = ends[1] - at < CHUNK ? (size_t)(ends[1] - at) : CHUNK;
        TESS_TRY(tess_os_read_at(fd, at, chunk, n, file->path));
        TESS_TRY(tess_buffer_append(text, chunk, n));
        at += n;
    }
    return TESS_OK;
}

tess_block_file *tess_blocks_find(const tess_blocks *blocks, uint64_t *index)
{
    tess_block_file *file = blocks->files;
    while (*index >= file->n_blocks)
        *index -= (file++)->n_blocks;
    return file;
}

tess_status tess_blocks_read(const tess_block_file *file, uint64_t index, tess_buffer *text, uint64_t *offset)
{
    uint64_t size;
    TESS_AUTO(tess_os_close) int fd = -1;
    text->size = 0;
    TESS_TRY(tess_os_open_read(file->path, &fd, &size));
    return size == file->size ? read_block(file, fd, index, text, offset)
                              : TESS_FAIL(TESS_E_IO, "%s: the file changed while in use: %llu bytes, it had %llu",
                                          file->path, (unsigned long long)size, (unsigned long long)file->size);
}

uint64_t tess_blocks_line(const tess_block_file *file, uint64_t offset)
{
    FILE *stream = fopen(file->path, "rb");
    if (stream == NULL)
        return 0;
    uint64_t line = 1;
    for (int c; offset > 0 && (c = getc(stream)) != EOF; offset--)
        line += c == '\n';
    fclose(stream);
    return line;
}
