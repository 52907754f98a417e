#include "data/shards/token_block.h"

#include <string.h>

#include "base/mem/make_room.h"

tess_token_block tess_token_block_of(tess_mem *mem)
{
    return (tess_token_block){.ids = {.mem = mem}, .loss = {.mem = mem}};
}

void tess_token_block_clear(tess_token_block *block)
{
    block->ids.size = block->loss.size = block->n_documents = 0;
    block->mask[0] = '\0';
    block->by_turns = false;
}

void tess_token_block_free(tess_token_block *block)
{
    tess_mem_free(block->ids.mem, block->documents);
    tess_ids_free(&block->ids);
    tess_buffer_free(&block->loss);
    *block = tess_token_block_of(block->ids.mem);
}

tess_status tess_token_block_end(tess_token_block *block, size_t start, tess_document_kind kind)
{
    size_t n = block->ids.size - start;
    TESS_CHECK(n < 1u << 30, TESS_E_UNSUPPORTED, "a document of %zu tokens is too long", n);
    TESS_TRY(tess_mem_reserve(block->ids.mem, TESS_POOL_MISC, block->n_documents + 1, sizeof(tess_token_document),
                              "documents", &block->capacity, &block->documents));
    block->documents[block->n_documents++] =
        (tess_token_document){.n_tokens = (uint32_t)n & ((1u << 30) - 1), .kind = kind & 3u};
    return TESS_OK;
}

tess_status tess_token_block_mark(tess_token_block *block, bool counts)
{
    char marks[1024];
    memset(marks, counts, sizeof(marks));
    for (size_t left; (left = block->ids.size - block->loss.size) > 0;)
        TESS_TRY(tess_buffer_append(&block->loss, marks, left < sizeof(marks) ? left : sizeof(marks)));
    return TESS_OK;
}
