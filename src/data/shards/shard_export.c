#include "data/shards/shard_export.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "data/shards/token_shard_impl.h"

enum { BUFFER_BYTES = 1 << 20, LLMC_WORDS = 256, NARROW = 1 << 16, MEGATRON_NARROW = 65500 };

/* ---- A file that grows ---- */
typedef struct export_file {
    char path[TESS_SHARD_PATH], partial[TESS_SHARD_PATH + 8];
    int fd;
    uint64_t at;
    tess_buffer bytes; /* bytes that are not written yet; they begin at `at` */
} export_file;

static tess_status open_file(export_file *f, tess_mem *mem, const char *path)
{
    f->fd = -1;
    f->bytes.mem = mem;
    TESS_TRY(tess_os_join(f->path, sizeof(f->path), "", path));
    snprintf(f->partial, sizeof(f->partial), "%s.partial", f->path);
    TESS_TRY(tess_os_create(f->partial, 0));
    return tess_os_open(f->partial, &f->fd);
}

static tess_status flush(export_file *f)
{
    TESS_TRY(tess_os_write_at(f->fd, f->at, f->bytes.data, f->bytes.size, f->partial));
    f->at += f->bytes.size;
    f->bytes.size = 0;
    return TESS_OK;
}

static tess_status put(export_file *f, const void *data, size_t size)
{
    TESS_TRY(tess_buffer_append(&f->bytes, data, size));
    return f->bytes.size >= BUFFER_BYTES ? flush(f) : TESS_OK;
}

/* Completes a file: writes the rest, syncs, and gives the file its name. */
static tess_status finish_file(export_file *f)
{
    TESS_TRY(flush(f));
    TESS_TRY(tess_os_sync(f->fd, f->partial));
    return tess_os_rename(f->partial, f->path);
}

static void close_file(export_file *f)
{
    if (f->bytes.mem == NULL)
        return;
    tess_os_close(&f->fd);
    tess_buffer_free(&f->bytes);
    tess_os_remove(f->partial);
}

/* ---- Documents ---- */
typedef struct export
{
    tess_mem *mem;
    tess_shard_format format;
    int32_t end_id;
    uint32_t width;
    const tess_token_shard *shard;
    export_file tokens, index;
    uint64_t n_tokens;
    bool open;       /* a document has not ended yet */
    uint32_t source; /* number of the text that may continue in the next block */
    /* Megatron only: int32 tokens of each sequence; int64 number of sequences up to each document's end */
    tess_buffer sizes, ends;
}
export;

static tess_status put_id(export *e, int32_t id)
{
    uint32_t wide = (uint32_t)id;
    uint16_t narrow = (uint16_t)id;
    e->n_tokens++;
    return e->width == 2 ? put(&e->tokens, &narrow, 2) : put(&e->tokens, &wide, 4);
}

static int64_t n_sequences(const export *e)
{
    return (int64_t)(e->sizes.size / sizeof(int32_t));
}

/* Ends the open document. Megatron's end token is part of the document's last sequence. */
static tess_status end_document(export *e)
{
    if (!e->open)
        return TESS_OK;
    e->open = false;
    if (e->format == TESS_SHARD_LLMC)
        return TESS_OK;
    TESS_TRY(put_id(e, e->end_id));
    if (e->format != TESS_SHARD_MEGATRON)
        return TESS_OK;
    int32_t last;
    int64_t end = n_sequences(e);
    char *at = e->sizes.data + e->sizes.size - sizeof(last);
    memcpy(&last, at, sizeof(last));
    last++;
    memcpy(at, &last, sizeof(last));
    return tess_buffer_append(&e->ends, &end, sizeof(end));
}

static tess_status begin_document(export *e)
{
    TESS_TRY(end_document(e));
    e->open = true;
    return e->format == TESS_SHARD_LLMC ? put_id(e, e->end_id) : TESS_OK;
}

static tess_status put_sequence(export *e, const int32_t *ids, uint32_t n)
{
    int32_t size = (int32_t)n;
    for (uint32_t i = 0; i < n; i++)
        TESS_TRY(put_id(e, ids[i]));
    return e->format == TESS_SHARD_MEGATRON ? tess_buffer_append(&e->sizes, &size, sizeof(size)) : TESS_OK;
}

static tess_status put_block(export *e, const tess_token_block *block, uint32_t source)
{
    const int32_t *ids = block->ids.data;
    TESS_CHECK(block->loss.size == 0, TESS_E_UNSUPPORTED,
               "%s: prompts and conversations say which tokens are trained on; only tessera's own format does",
               e->shard->path);
    for (size_t d = 0; d < block->n_documents; d++) {
        const tess_token_document *it = &block->documents[d];
        bool goes_on = it->kind == TESS_DOCUMENT_TEXT && e->open && source == e->source;
        if (it->n_tokens == 0)
            continue;
        if (!goes_on)
            TESS_TRY(begin_document(e));
        TESS_TRY(put_sequence(e, ids, it->n_tokens));
        if (it->kind != TESS_DOCUMENT_TEXT)
            TESS_TRY(end_document(e));
        e->source = source;
        ids += it->n_tokens;
    }
    return TESS_OK;
}

static tess_status put_blocks(export *e)
{
    tess_token_block block = tess_token_block_of(e->mem);
    tess_status status = TESS_OK;
    for (uint64_t i = 0; i < tess_token_shard_blocks(e->shard) && status == TESS_OK; i++) {
        const shard_block *head = (const void *)(e->shard->file.data + e->shard->blocks[i].at);
        tess_token_block_clear(&block);
        status = tess_token_shard_read(e->shard, i, &block);
        if (status == TESS_OK)
            status = put_block(e, &block, head->source);
    }
    tess_token_block_free(&block);
    return status == TESS_OK ? end_document(e) : status;
}

/* ---- The files ---- */
/* Writes llm.c's header. It is written last, because it contains the number of tokens, with 32 bits. */
static tess_status put_header(export *e)
{
    const bool narrow = e->width == 2;
    const int32_t header[LLMC_WORDS] = {narrow ? 20240520 : 20240801, narrow ? 1 : 7, (int32_t)e->n_tokens};
    TESS_CHECK(e->n_tokens <= INT32_MAX, TESS_E_UNSUPPORTED,
               "llm.c's header counts to %d tokens, and %s has %llu: make several of the text files, or train on this "
               "one",
               INT32_MAX, e->shard->path, (unsigned long long)e->n_tokens);
    return tess_os_write_at(e->tokens.fd, 0, header, sizeof(header), e->tokens.partial);
}

static tess_status put_index(export *e)
{
    const uint8_t code = e->width == 2 ? 8 : 4;
    const uint64_t version = 1, n = (uint64_t)n_sequences(e), n_ends = e->ends.size / sizeof(int64_t) + 1;
    const int64_t first = 0;
    TESS_TRY(put(&e->index, "MMIDIDX\0\0", 9));
    TESS_TRY(put(&e->index, &version, 8));
    TESS_TRY(put(&e->index, &code, 1));
    TESS_TRY(put(&e->index, &n, 8));
    TESS_TRY(put(&e->index, &n_ends, 8));
    TESS_TRY(put(&e->index, e->sizes.data, e->sizes.size));
    int64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        int32_t size;
        memcpy(&size, e->sizes.data + i * sizeof(size), sizeof(size));
        TESS_TRY(put(&e->index, &at, sizeof(at)));
        at += (int64_t)size * e->width;
    }
    TESS_TRY(put(&e->index, &first, sizeof(first)));
    return put(&e->index, e->ends.data, e->ends.size);
}

/* Returns the path NAME.idx for NAME.bin. */
static tess_status index_path(const char *path, char *index, size_t size)
{
    size_t n = strlen(path);
    TESS_CHECK(n > 4 && strcmp(path + n - 4, ".bin") == 0, TESS_E_INVALID,
               "%s: Megatron's files are NAME.bin and NAME.idx: give NAME.bin", path);
    TESS_CHECK(n < size, TESS_E_INVALID, "%s: the path is too long", path);
    snprintf(index, size, "%.*s.idx", (int)(n - 4), path);
    return TESS_OK;
}

tess_status tess_shard_export_check(const char *path, const tess_tokenizer *tokenizer, tess_shard_format format)
{
    char index[TESS_SHARD_PATH];
    const char *last = path;
    long long n = (long long)tess_tokenizer_vocab_size(tokenizer);
    TESS_CHECK(format != TESS_SHARD_NANOGPT || n <= NARROW, TESS_E_UNSUPPORTED,
               "nanoGPT's ids have 2 bytes, for 65536 tokens; the tokenizer has %lld: llmc has room for them", n);
    if (format == TESS_SHARD_MEGATRON) {
        TESS_TRY(index_path(path, index, sizeof(index)));
        last = index; /* .idx gets its name last, and without it the .bin is not yet a data set */
    }
    TESS_CHECK(!tess_os_is_file(last) && !tess_os_is_dir(path), TESS_E_INVALID,
               "%s: it is there already: remove it, or name another file", last);
    return TESS_OK;
}

static tess_status write_files(export *e, const char *path)
{
    char index[TESS_SHARD_PATH];
    TESS_TRY(open_file(&e->tokens, e->mem, path));
    e->tokens.at = e->format == TESS_SHARD_LLMC ? LLMC_WORDS * sizeof(int32_t) : 0;
    TESS_TRY(put_blocks(e));
    if (e->format == TESS_SHARD_LLMC)
        TESS_TRY(put_header(e));
    if (e->format == TESS_SHARD_MEGATRON) {
        TESS_TRY(index_path(path, index, sizeof(index)));
        TESS_TRY(open_file(&e->index, e->mem, index));
        TESS_TRY(put_index(e));
    }
    TESS_TRY(finish_file(&e->tokens));
    return e->format == TESS_SHARD_MEGATRON ? finish_file(&e->index) : TESS_OK;
}

tess_status tess_shard_export(tess_mem *mem, const char *from, const tess_tokenizer *tokenizer,
                              tess_shard_format format, int32_t end_id, const char *path)
{
    const tess_token_shard_options whole = {.tokenizer = tokenizer, .end_id = -1, .end = 1};
    const int64_t narrow = format == TESS_SHARD_MEGATRON ? MEGATRON_NARROW - 1 : NARROW;
    tess_token_shard *shard;
    TESS_TRY(tess_shard_export_check(path, tokenizer, format));
    TESS_TRY(tess_token_shard_open(mem, from, &whole, &shard));
    TESS_CHECK(shard != NULL, TESS_E_INVALID, "%s: no shard", from);
    export e = {.mem = mem,
                .format = format,
                .end_id = end_id,
                .width = tess_tokenizer_vocab_size(tokenizer) <= narrow ? 2 : 4,
                .shard = shard,
                .sizes = {.mem = mem},
                .ends = {.mem = mem}};
    tess_status status = write_files(&e, path);
    close_file(&e.index);
    close_file(&e.tokens);
    tess_buffer_free(&e.sizes);
    tess_buffer_free(&e.ends);
    tess_token_shard_close(&shard);
    return status;
}
