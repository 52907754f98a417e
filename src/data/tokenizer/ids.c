/* A growing list of token ids. */
#include "base/mem/make_room.h"
#include "data/tokenizer/tokenizer.h"

tess_status tess_ids_reserve(tess_ids *ids, size_t n)
{
    return tess_mem_reserve(ids->mem, TESS_POOL_MISC, ids->size + n, sizeof(int32_t), "token ids", &ids->capacity,
                            &ids->data);
}

tess_status tess_ids_append(tess_ids *ids, int32_t id)
{
    if (ids->size == ids->capacity)
        TESS_TRY(tess_ids_reserve(ids, 1));
    ids->data[ids->size++] = id;
    return TESS_OK;
}

void tess_ids_free(tess_ids *ids)
{
    tess_mem_free(ids->mem, ids->data);
    *ids = (tess_ids){.mem = ids->mem};
}
