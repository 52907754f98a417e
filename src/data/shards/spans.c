/* Blocks of files that have none: about as many tokens each, cut where documents begin. */
#include "data/shards/token_shard_impl.h"

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
