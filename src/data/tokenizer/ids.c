/* A growing list of token ids. */
#include "data/grow.h"
#include "data/tokenizer/tokenizer.h"

tess_status tess_ids_append(tess_ids *ids, int32_t id)
{
    if (ids->size == ids->capacity) {
        void *data = ids->data;
        TESS_TRY(tess_grow(ids->mem, &data, &ids->capacity, ids->size + 1, sizeof(int32_t), "token ids"));
        ids->data = data;
    }
    ids->data[ids->size++] = id;
    return TESS_OK;
}

void tess_ids_free(tess_ids *ids)
{
    tess_mem_free(ids->mem, ids->data);
    *ids = (tess_ids){.mem = ids->mem};
}
