/* Gets this rank's micro-batches of a step, and adds up the losses that this rank counts. */
#include "engine/engine.h"

tess_status tess_engine_next_batch(tess_engine *e, const tess_batch_source *source, int64_t s, tess_batch *batch)
{
    static const int32_t nothing[1] = {0};
    int64_t i = tess_coordinates_micro(&e->at, s);
    tess_runtime_phase(e->runtime, "data", e->step + 1, source->first + i);
    *batch = (tess_batch){.ids = nothing, .pos = nothing, .targets = nothing, .cu_seqlens = nothing};
    if (i < source->n_micro)
        TESS_TRY_CTX(source->next(source->self, source->first + i, batch), "training data");
    if (e->config->training.loss_scale != 1 && i < source->n_micro) {
        TESS_CHECK(
            batch->loss == NULL || e->stage == NULL, TESS_E_UNSUPPORTED,
            "training.loss_scale: in a pipeline, which has several micro-batches under way, only the loss of text is "
            "scaled; set it to 1");
        batch->loss = tess_loss_scaled(&e->scaled, batch->loss);
    }
    return e->stage != NULL ? tess_pieces_take(&e->pieces, tess_pieces_set(&e->pieces, s), batch) : TESS_OK;
}

bool tess_engine_counts(const tess_engine *e)
{
    return tess_coordinates_counts(&e->at) && tess_model_get_part(e->model)->head;
}

tess_status tess_engine_add_loss(tess_engine *e, const int32_t *targets, int64_t n, tess_loss_sum *sum)
{
    return tess_engine_counts(e) ? tess_loss_add(&e->meter, sum, e->meter.logprobs, targets, n) : TESS_OK;
}
