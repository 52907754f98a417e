/* Divides files without blocks into blocks: each has about the same number of tokens, and begins where a document
 * begins. */
#include "data/shards/token_shard_impl.h"

tess_status tess_token_shard_append(const tess_token_shard *shard, const uint8_t *from, uint64_t first, uint64_t n,
                                    tess_ids *ids)
{
    TESS_TRY(tess_ids_reserve(ids, n));
    for (uint64_t i = 0; i < n; i++) {
        uint32_t id = shard_id(from, shard->width, i);
        TESS_CHECK(
            id < (uint64_t)shard->vocab_size, TESS_E_FORMAT,
            "%s: token %llu is %lld, but the tokenizer has %lld: it was written with another tokenizer, or holds "
            "no tokens of %d bytes (data.format)",
            shard->path, (unsigned long long)(first + i), (long long)id, (long long)shard->vocab_size, shard->width);
        ids->data[ids->size++] = (int32_t)id;
    }
    return TESS_OK;
}

void tess_spans_divide(tess_token_shard *shard)
{
    shard->n_blocks = (shard->end - shard->begin + TESS_SHARD_SPAN - 1) / TESS_SHARD_SPAN;
}

tess_status tess_spans_of(const tess_token_shard *shard, uint64_t index, uint64_t *from, uint64_t *to)
{
    uint64_t *ends[] = {from, to};
    for (uint64_t side = 0; side < 2; side++) {
        uint64_t nominal = shard->begin + (index + side) * TESS_SHARD_SPAN, *at = ends[side];
        *at = nominal;
        if (nominal > shard->begin && nominal < shard->end)
            TESS_TRY(shard->kind->cut(shard, nominal, at));
        if (*at > shard->end)
            *at = shard->end;
    }
    return TESS_OK;
}

tess_status tess_spans_document(const tess_token_shard *shard, uint64_t from, uint64_t to, tess_token_block *out)
{
    size_t start = out->ids.size;
    const uint64_t width = (uint64_t)shard->width;
    if (from < to && shard->begin_id >= 0 && shard_id(shard->tokens, shard->width, from) == (uint32_t)shard->begin_id)
        from++;
    TESS_TRY(tess_token_shard_append(shard, shard->tokens + from * width, from, to - from, &out->ids));
    return tess_token_block_end(out, start, TESS_DOCUMENT_TEXT);
}
