/* Reads files that contain only ids, after llm.c's header or without a header (nanoGPT). Documents end after end_id, or
 * begin with begin_id. */
#include "data/shards/token_shard_impl.h"

/* The header of github.com/karpathy/llm.c, dev/data/data_common.py: 256 int32, three of which are used. */
enum { LLMC_HEADER = 1024, LLMC_GPT2 = 20240520, LLMC_LLAMA3 = 20240801 };

bool tess_token_shard_is_llmc(const uint8_t *head, size_t size)
{
    return size >= 8 && (shard_u32(head) == LLMC_GPT2 || shard_u32(head) == LLMC_LLAMA3);
}

/* Whether a document begins at token i; i > 0. */
static bool begins_at(const tess_token_shard *shard, uint64_t i)
{
    const uint8_t *tokens = shard->tokens;
    return (shard->end_id >= 0 && shard_id(tokens, shard->width, i - 1) == (uint32_t)shard->end_id) ||
           (shard->begin_id >= 0 && shard_id(tokens, shard->width, i) == (uint32_t)shard->begin_id);
}

/* Finds where documents may be cut at or after token x. A text without documents may be cut anywhere. */
static tess_status cut(const tess_token_shard *shard, uint64_t x, uint64_t *at)
{
    for (*at = x; *at < shard->n_tokens && *at - x < TESS_SHARD_SPAN; ++*at)
        if (begins_at(shard, *at))
            return TESS_OK;
    *at = *at < shard->n_tokens ? x : shard->n_tokens;
    return TESS_OK;
}

static tess_status read(const tess_token_shard *shard, uint64_t index, tess_token_block *out)
{
    uint64_t from, to;
    TESS_TRY(tess_spans_of(shard, index, &from, &to));
    for (uint64_t at = from; at < to;) {
        uint64_t end = at + 1;
        while (end < to && !begins_at(shard, end))
            end++;
        TESS_TRY(tess_spans_document(shard, at, end, out));
        at = end;
    }
    return TESS_OK;
}

static tess_status read_llmc(tess_token_shard *shard)
{
    const tess_mapping *file = &shard->file;
    TESS_CHECK(file->size >= LLMC_HEADER, TESS_E_FORMAT, "%s: half-written: %zu bytes, but llm.c's header has %d",
               shard->path, file->size, LLMC_HEADER);
    bool gpt2 = shard_u32(file->data) == LLMC_GPT2;
    uint32_t version = shard_u32(file->data + 4), expected = gpt2 ? 1 : 7;
    TESS_CHECK(version == expected, TESS_E_UNSUPPORTED, "%s: version %u of llm.c's data; %u is read", shard->path,
               version, expected);
    shard->width = gpt2 ? 2 : 4;
    shard->n_tokens = shard_u32(file->data + 8);
    shard->tokens = file->data + LLMC_HEADER;
    uint64_t bytes = LLMC_HEADER + shard->n_tokens * (uint64_t)shard->width;
    TESS_CHECK(bytes == file->size, TESS_E_FORMAT,
               "%s: %s: its header says %llu tokens of %d bytes, which are %llu bytes with it, but it has %zu",
               shard->path, file->size < bytes ? "half-written" : "longer than it says",
               (unsigned long long)shard->n_tokens, shard->width, (unsigned long long)bytes, file->size);
    return TESS_OK;
}

tess_status tess_token_shard_open_raw(tess_token_shard *shard, tess_data_format format)
{
    static const tess_token_shard_kind kind = {tess_spans_divide, cut, read};
    const tess_mapping *file = &shard->file;
    shard->kind = &kind;
    if (format == TESS_DATA_AUTO)
        return read_llmc(shard);
    shard->width = format == TESS_DATA_UINT16 ? 2 : 4;
    shard->n_tokens = file->size / (uint64_t)shard->width;
    shard->tokens = file->data;
    TESS_CHECK(file->size % (size_t)shard->width == 0, TESS_E_FORMAT,
               "%s: %zu bytes are no whole number of ids of %d bytes: half-written, or of another data.format",
               shard->path, file->size, shard->width);
    return TESS_OK;
}
