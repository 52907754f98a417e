#include "train/numbers/replay_batches.h"

#include <string.h>

static tess_status make_room(tess_replay_batches *kept)
{
    if (kept->n == kept->capacity) {
        int64_t capacity = kept->capacity == 0 ? 4 : 2 * kept->capacity;
        TESS_TRY(tess_mem_grow(kept->mem, TESS_POOL_MISC, (size_t)capacity * sizeof(*kept->batches),
                               "kept micro-batches", (void **)&kept->batches));
        kept->capacity = capacity;
    }
    if (kept->batches[kept->n].ids != NULL)
        return TESS_OK;
    /* ids, positions, targets, and the ends of as many sequences as there can be */
    return tess_mem_alloc_array(kept->mem, TESS_POOL_MISC, (size_t)(4 * kept->max_tokens + 1), sizeof(int32_t),
                                "kept micro-batches", (void **)&kept->batches[kept->n].ids);
}

static const int32_t *put(int32_t **to, const int32_t *from, int64_t n)
{
    int32_t *copy = *to;
    memcpy(copy, from, (size_t)n * sizeof(*from));
    *to += n;
    return copy;
}

static tess_status keep(tess_replay_batches *kept, const tess_batch *batch)
{
    TESS_TRY(make_room(kept));
    tess_batch *copy = &kept->batches[kept->n++];
    int32_t *block = (int32_t *)copy->ids;
    *copy = *batch;
    copy->ids = put(&block, batch->ids, batch->n_tokens);
    copy->pos = put(&block, batch->pos, batch->n_tokens);
    copy->targets = put(&block, batch->targets, batch->n_tokens);
    copy->cu_seqlens = put(&block, batch->cu_seqlens, batch->n_seqs + 1);
    return TESS_OK;
}

static tess_status record(void *self, int64_t index, tess_batch *batch)
{
    tess_replay_batches *kept = self;
    TESS_TRY(kept->from->next(kept->from->self, index, batch));
    return keep(kept, batch);
}

tess_batch_source tess_replay_batches_record(tess_replay_batches *kept, const tess_batch_source *from)
{
    kept->from = from;
    kept->n = 0;
    return (tess_batch_source){kept, record};
}

static tess_status again(void *self, int64_t index, tess_batch *batch)
{
    tess_replay_batches *kept = self;
    TESS_CHECK(kept->next < kept->n, TESS_E_INTERNAL, "micro-batch %lld was not kept", (long long)index);
    *batch = kept->batches[kept->next++];
    return TESS_OK;
}

tess_batch_source tess_replay_batches_again(tess_replay_batches *kept)
{
    kept->next = 0;
    return (tess_batch_source){kept, again};
}

void tess_replay_batches_free(tess_replay_batches *kept)
{
    for (int64_t i = 0; i < kept->capacity; i++)
        tess_mem_free(kept->mem, (void *)kept->batches[i].ids);
    tess_mem_free(kept->mem, kept->batches);
    kept->batches = NULL;
    kept->n = kept->capacity = 0;
}
