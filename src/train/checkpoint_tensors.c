/* What of a run a checkpoint holds as tensors. */
#include "train/trainer_impl.h"

tess_status tess_trainer_list_tensors(tess_trainer *t, tess_ckpt_tensor **out, int *n_out)
{
    int n_shards = tess_fsdp_shards(t->engine->fsdp), n = 0;
    tess_ckpt_tensor *tensors;
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, 3 * (size_t)n_shards, sizeof(*tensors), "checkpoint",
                                  (void **)&tensors));
    tess_status status = TESS_OK;
    for (int i = 0; i < n_shards && status == TESS_OK; i++) {
        tess_shard shard;
        float *moments[2];
        status = tess_fsdp_shard(t->engine->fsdp, i, &shard);
        if (status != TESS_OK)
            break;
        tess_ckpt_tensor tensor = {.name = shard.name,
                                   .kind = TESS_CKPT_WEIGHT,
                                   .stored = tess_precision_dtype(t->config.checkpoint.weights_dtype),
                                   .shape = shard.shape,
                                   .row_begin = shard.row_begin,
                                   .n_rows = shard.n_rows,
                                   .primary_begin = shard.primary_begin,
                                   .primary_rows = shard.primary_rows,
                                   .data = shard.master};
        tensors[n++] = tensor;
        if (!shard.trainable)
            continue;
        tess_adamw_moments(t->engine->adamw, i, &moments[0], &moments[1]);
        for (int k = 0; k < 2; k++) {
            tensor.stored = TESS_F32;
            tensor.kind = k == 0 ? TESS_CKPT_EXP_AVG : TESS_CKPT_EXP_AVG_SQ;
            tensor.data = moments[k];
            tensors[n++] = tensor;
        }
    }
    if (status != TESS_OK) {
        tess_mem_free(t->mem, tensors);
        return status;
    }
    *out = tensors;
    *n_out = n;
    return TESS_OK;
}
