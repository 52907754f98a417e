/* Opens a file of token ids: recognises its kind, and selects the part of it that is used. */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "data/shards/token_shard_impl.h"

enum { HEAD = 16 };

/* ---- The kind of a file ---- */
static tess_status read_head(const char *path, uint8_t head[HEAD], size_t *size)
{
    TESS_AUTO(tess_os_close) int fd = -1;
    uint64_t bytes;
    TESS_TRY(tess_os_open_read(path, &fd, &bytes));
    *size = bytes < HEAD ? (size_t)bytes : HEAD;
    return tess_os_read_at(fd, 0, head, *size, path);
}

/* Makes the path that ends in `to` where `path` ends in `from`. False: `path` does not end in `from`, or the result is
 * too long. */
static bool sibling(const char *path, const char *from, const char *to, char *out, size_t size)
{
    size_t length = strlen(path) - strlen(from);
    return tess_text_ends_with(path, from) && (size_t)snprintf(out, size, "%.*s%s", (int)length, path, to) < size;
}

static bool has_index(const char *path)
{
    char other[TESS_SHARD_PATH];
    uint8_t head[HEAD];
    size_t size = 0;
    if (!sibling(path, ".bin", ".idx", other, sizeof(other)) || !tess_os_is_file(other))
        return false;
    bool is = read_head(other, head, &size) == TESS_OK && tess_token_shard_is_index(head, size);
    tess_error_clear();
    return is;
}

static tess_status map_indexed(tess_token_shard *shard, const char *path)
{
    char bin[TESS_SHARD_PATH], idx[TESS_SHARD_PATH];
    bool by_index = !tess_text_ends_with(path, ".bin");
    TESS_CHECK(
        by_index
            ? sibling(path, ".idx", ".bin", bin, sizeof(bin)) && tess_os_join(idx, sizeof(idx), "", path) == TESS_OK
            : sibling(path, ".bin", ".idx", idx, sizeof(idx)) && tess_os_join(bin, sizeof(bin), "", path) == TESS_OK,
        TESS_E_INVALID, "%s: an index of Megatron's, whose name has to end in .idx", path);
    TESS_TRY_CTX(tess_os_map(idx, &shard->index), "%s", path);
    TESS_TRY_CTX(tess_os_map(bin, &shard->file), "%s", path);
    return tess_token_shard_open_indexed(shard);
}

typedef enum file_kind { TEXT, OWN, LLMC, INDEXED, RAW } file_kind;

/* Recognises the kind by the content. A .bin file that does not state its content has the content that `format`
 * says. */
static tess_status kind_of(const char *path, tess_data_format format, file_kind *kind)
{
    uint8_t head[HEAD];
    size_t size = 0;
    bool is_bin = tess_text_ends_with(path, ".bin");
    TESS_CHECK(!tess_os_is_dir(path), TESS_E_INVALID, "%s: a folder, not a file of text", path);
    TESS_TRY(read_head(path, head, &size));
    *kind = tess_token_shard_is_own(head, size)                        ? OWN
            : tess_token_shard_is_llmc(head, size)                     ? LLMC
            : tess_token_shard_is_index(head, size) || has_index(path) ? INDEXED
            : is_bin && format != TESS_DATA_TEXT                       ? RAW
                                                                       : TEXT;
    TESS_CHECK(
        *kind != RAW || format != TESS_DATA_AUTO, TESS_E_INVALID,
        "%s: does not say what it holds: set data.format to uint16 (token ids as nanoGPT writes them) or uint32, "
        "or to text",
        path);
    return TESS_OK;
}

tess_status tess_token_shard_is_at(const char *path, tess_data_format format, bool *is)
{
    file_kind kind = TEXT;
    TESS_TRY(kind_of(path, format, &kind));
    *is = kind != TEXT;
    return TESS_OK;
}

static tess_status open_kind(tess_token_shard *shard, const tess_token_shard_options *options, file_kind kind)
{
    if (kind == INDEXED)
        return map_indexed(shard, shard->path);
    TESS_TRY(tess_os_map(shard->path, &shard->file));
    if (kind == OWN)
        return tess_token_shard_open_own(shard, options->tokenizer);
    return tess_token_shard_open_raw(shard, kind == LLMC ? TESS_DATA_AUTO : options->format);
}

/* ---- The part in use ---- */
static tess_status cut_at(const tess_token_shard *shard, double share, uint64_t *at)
{
    uint64_t x = share >= 1 ? shard->n_tokens : (uint64_t)(share * (double)shard->n_tokens);
    *at = x;
    if (x > 0 && x < shard->n_tokens)
        TESS_TRY(shard->kind->cut(shard, x, at));
    *at = *at < shard->n_tokens ? *at : shard->n_tokens;
    return TESS_OK;
}

static tess_status set_part(tess_token_shard *shard, double begin, double end)
{
    TESS_CHECK(shard->n_tokens > 1, TESS_E_INVALID, "%s: a shard of %llu tokens holds no pair of them", shard->path,
               (unsigned long long)shard->n_tokens);
    TESS_TRY(cut_at(shard, begin, &shard->begin));
    TESS_TRY(cut_at(shard, end, &shard->end));
    TESS_CHECK(shard->begin <= shard->end, TESS_E_FORMAT, "%s: its documents are not in order", shard->path);
    shard->kind->divide(shard);
    return TESS_OK;
}

tess_status tess_token_shard_open(tess_mem *mem, const char *path, const tess_token_shard_options *options,
                                  tess_token_shard **out)
{
    size_t length = strlen(path);
    file_kind kind = TEXT;
    void *block;
    *out = NULL;
    TESS_TRY(kind_of(path, options->format, &kind));
    if (kind == TEXT)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(tess_token_shard) + length + 1, "shard", &block));
    TESS_AUTO(tess_token_shard_close) tess_token_shard *shard = block;
    tess_prefix bos = tess_tokenizer_prefix(options->tokenizer);
    *shard = (tess_token_shard){.mem = mem,
                                .path = (char *)(shard + 1),
                                .vocab_size = tess_tokenizer_vocab_size(options->tokenizer),
                                .begin_id = bos.n == 1 && bos.id[0] != options->end_id ? bos.id[0] : -1,
                                .end_id = options->end_id};
    memcpy(shard->path, path, length + 1);
    TESS_TRY(open_kind(shard, options, kind));
    TESS_TRY(set_part(shard, options->begin, options->end));
    *out = TESS_GIVE(shard);
    return TESS_OK;
}

void tess_token_shard_close(tess_token_shard **out)
{
    tess_token_shard *shard = *out;
    if (shard == NULL)
        return;
    tess_os_unmap(&shard->file);
    tess_os_unmap(&shard->index);
    tess_mem_drop(out);
}

/* ---- Reading ---- */
uint64_t tess_token_shard_blocks(const tess_token_shard *shard)
{
    return shard->n_blocks;
}

/* Checks that the file has not shrunk: reading a mapped page beyond its end would kill the process. */
static tess_status check_size(const tess_token_shard *shard)
{
    uint64_t size = 0;
    char bin[TESS_SHARD_PATH];
    bool by_index = sibling(shard->path, ".idx", ".bin", bin, sizeof(bin));
    TESS_TRY(tess_os_file_size(by_index && shard->index.size > 0 ? bin : shard->path, &size));
    TESS_CHECK(size == shard->file.size, TESS_E_IO, "%s: the file changed while in use: %llu bytes, it had %llu",
               shard->path, (unsigned long long)size, (unsigned long long)shard->file.size);
    return TESS_OK;
}

tess_status tess_token_shard_read(const tess_token_shard *shard, uint64_t index, tess_token_block *out)
{
    tess_token_block_clear(out);
    TESS_TRY(check_size(shard));
    return shard->kind->read(shard, index, out);
}
