#include "data/loader/blocks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"

enum { CHUNK = 64 << 10 };

/* Reads up to n bytes at `offset`; fewer only at the end of the file. */
static tess_status read_at(FILE *stream, const char *path, uint64_t offset, char *out, size_t n, size_t *got)
{
    *got = 0;
    if (fseeko(stream, (off_t)offset, SEEK_SET) != 0)
        return tess_os_error("seek in", path);
    errno = EIO;
    *got = fread(out, 1, n, stream);
    return *got < n && ferror(stream) ? tess_os_error("read", path) : TESS_OK;
}

static tess_status size_of(FILE *stream, const char *path, uint64_t *size)
{
    off_t end = fseeko(stream, 0, SEEK_END) == 0 ? ftello(stream) : -1;
    if (end < 0)
        return tess_os_error("measure", path);
    *size = (uint64_t)end;
    return TESS_OK;
}

/* The first line end at or behind byte x. Plain text without one before the end of the next block is cut at the next
 * character, so that a file without line ends still comes in blocks; a document of jsonl is never cut. */
static tess_status boundary(FILE *stream, const tess_block_file *file, uint64_t x, char *chunk, uint64_t *at)
{
    *at = x;
    if (x == 0 || x >= file->size) {
        *at = x == 0 ? 0 : file->size;
        return TESS_OK;
    }
    uint64_t limit = x - 1 + (file->jsonl ? TESS_LINE_BYTES : TESS_BLOCK_BYTES);
    for (uint64_t from = x - 1; from < limit;) {
        size_t got = 0, wanted = limit - from < CHUNK ? (size_t)(limit - from) : CHUNK;
        TESS_TRY(read_at(stream, file->path, from, chunk, wanted, &got));
        const char *end = memchr(chunk, '\n', got);
        if (end != NULL) {
            *at = from + (uint64_t)(end - chunk) + 1;
            return TESS_OK;
        }
        from += got;
        if (got < wanted) {
            *at = file->size;
            return TESS_OK;
        }
    }
    TESS_CHECK(!file->jsonl, TESS_E_FORMAT, "%s: line %llu has more than the %d MiB that are read: split the document",
               file->path, (unsigned long long)tess_blocks_line(file, x - 1), TESS_LINE_BYTES >> 20);
    size_t got = 0, skip = 0;
    TESS_TRY(read_at(stream, file->path, x, chunk, 4, &got));
    while (skip < got && skip < 3 && ((unsigned char)chunk[skip] & 0xc0) == 0x80)
        skip++;
    *at = x + skip;
    return TESS_OK;
}

static tess_status open_part(tess_block_file *file, double begin, double end, FILE *stream)
{
    char chunk[CHUNK];
    TESS_TRY(size_of(stream, file->path, &file->size));
    TESS_CHECK(file->size > 0, TESS_E_INVALID, "%s: the file is empty; training and validation data need text",
               file->path);
    TESS_CHECK(file->size > 1, TESS_E_INVALID, "%s: a file of one byte holds no pair of tokens", file->path);
    TESS_TRY(boundary(stream, file, (uint64_t)(begin * (double)file->size), chunk, &file->begin));
    TESS_TRY(boundary(stream, file, end >= 1 ? file->size : (uint64_t)(end * (double)file->size), chunk, &file->end));
    file->n_blocks = (file->end - file->begin + TESS_BLOCK_BYTES - 1) / TESS_BLOCK_BYTES;
    return TESS_OK;
}

static tess_status open_stream(const char *path, FILE **stream)
{
    TESS_CHECK(!tess_os_is_dir(path), TESS_E_INVALID, "%s: a folder, not a file of text", path);
    *stream = fopen(path, "rb");
    if (*stream == NULL)
        return tess_os_error("open", path);
    setvbuf(*stream, NULL, _IONBF, 0);
    return TESS_OK;
}

static tess_status open_text(tess_block_file *file, const tess_loader_options *options)
{
    FILE *stream = NULL;
    TESS_TRY(open_stream(file->path, &stream));
    tess_status status = open_part(file, options->begin, options->end, stream);
    fclose(stream);
    return status;
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
    *file = (tess_block_file){.path = copy, .jsonl = length >= 6 && strcmp(path + length - 6, ".jsonl") == 0};
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
        tess_mem_free(blocks->mem, blocks->files[i].path);
    }
    tess_mem_free(blocks->mem, blocks->files);
    *blocks = (tess_blocks){.mem = blocks->mem};
}

static tess_status read_block(FILE *stream, const tess_block_file *file, uint64_t index, tess_buffer *text,
                              uint64_t *offset)
{
    char chunk[CHUNK];
    uint64_t size = 0, ends[2];
    TESS_TRY(size_of(stream, file->path, &size));
    TESS_CHECK(size == file->size, TESS_E_IO, "%s: the file changed while in use: %llu bytes, it had %llu", file->path,
               (unsigned long long)size, (unsigned long long)file->size);
    for (int side = 0; side < 2; side++) {
        uint64_t nominal = file->begin + (index + (uint64_t)side) * TESS_BLOCK_BYTES;
        ends[side] = nominal;
        if (nominal > file->begin && nominal < file->end)
            TESS_TRY(boundary(stream, file, nominal, chunk, &ends[side]));
        if (ends[side] > file->end)
            ends[side] = file->end;
    }
    *offset = ends[0];
    for (uint64_t at = ends[0]; at < ends[1];) {
        size_t got, wanted = ends[1] - at < CHUNK ? (size_t)(ends[1] - at) : CHUNK;
        TESS_TRY(read_at(stream, file->path, at, chunk, wanted, &got));
        TESS_CHECK(got == wanted, TESS_E_IO, "%s: the file became shorter while in use", file->path);
        TESS_TRY(tess_buffer_append(text, chunk, got));
        at += got;
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
    text->size = 0;
    FILE *stream = NULL;
    TESS_TRY(open_stream(file->path, &stream));
    tess_status status = read_block(stream, file, index, text, offset);
    fclose(stream);
    return status;
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
