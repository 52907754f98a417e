/* Applies training.max_value between a step's gradients and its update, also if another process completes the
 * update. */
#include "optim/clip.h"
#include "engine/engine.h"

tess_status tess_engine_clip_values(tess_engine *e, float scale)
{
    double most = e->config->training.max_value;
    if (most > 0)
        TESS_TRY(tess_fsdp_see_gradients(e->fsdp));
    for (int i = 0; most > 0 && i < tess_fsdp_shards(e->fsdp); i++) {
        tess_shard shard;
        TESS_TRY(tess_fsdp_shard(e->fsdp, i, &shard));
        if (shard.grad != NULL)
            tess_clip_values(tess_stream_threads(e->stream), shard.grad, tess_shard_count(&shard),
                             (float)(most / (double)scale));
    }
    return most > 0 ? tess_fsdp_upload_gradients(e->fsdp) : TESS_OK;
}
