#include "engine/drawing.h"

#include "engine/batch/context_pieces.h"
#include "engine/stages/rank_stage.h"
#include "infer/kv_pages.h"
#include "tessera/comm.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

tess_generator_options tess_drawing_options(const tess_config *c, int64_t n_samples)
{
    const tess_context context = tess_context_of(c);
    const int64_t most = tess_context_tokens(&context, tess_config_pass_rows(c) * c->training.seq_len);
    tess_generator_options o = {.dtype = tess_precision_dtype(c->training.mixed_precision_param),
                                .max_length = c->training.seq_len,
                                .max_sequences = least(n_samples, c->rollout.max_sequences),
                                .cache_bytes = (size_t)c->rollout.cache_bytes,
                                .pass_tokens = c->rollout.pass_tokens};
    if (tess_config_model_ranks(c) == 1)
        return o;
    o.max_sequences = least(o.max_sequences, most);
    o.pass_tokens = least(o.pass_tokens > 0 ? o.pass_tokens : TESS_PASS_TOKENS, most);
    return o;
}

static tess_status forward(void *self, tess_executor *executor, const tess_batch *batch, const tess_head_task *task)
{
    return tess_engine_evaluate(self, executor, batch, task);
}

static tess_status share(void *self, tess_status status, void *data, size_t bytes)
{
    return tess_stage_share(((tess_engine *)self)->stage, status, data, bytes);
}

tess_status tess_drawing_share(tess_held_weights *held, tess_generator_options *o)
{
    tess_engine *e = held->engine;
    int64_t page = (int64_t)tess_kv_page_bytes(e->model, o->dtype);
    if (e->at.n_parts == 1)
        return TESS_OK;
    TESS_TRY(tess_all_reduce(e->team, &page, &page, 1, TESS_I64, TESS_MAX, NULL));
    o->page_bytes = (size_t)page;
    o->points = tess_engine_points(e);
    if (held->team != NULL)
        o->expert_points = tess_expert_team_points(held->team);
    o->sequence_parallel = tess_executor_get_options(e->executor)->sequence_parallel;
    if (e->stage != NULL)
        o->stages = (tess_generator_stages){e, forward, share};
    return TESS_OK;
}
