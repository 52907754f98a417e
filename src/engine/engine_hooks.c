/* The engine's hooks: they call fsdp's units, and tell the clock and the job's board which phase the rank is in. */
#include "engine/numbers/numbers.h"

static void enter(tess_engine *e, tess_phase phase, const char *name, int unit)
{
    tess_runtime_phase(e->runtime, name, e->step + 1, tess_model_unit_layer(e->model, unit));
    tess_phase_switch(&e->clock, phase);
}

static tess_status pre_forward(void *self, int unit, const void *const **w)
{
    tess_engine *e = self;
    int first;
    enter(e, TESS_PHASE_FORWARD, "forward", unit);
    TESS_TRY(tess_block_pre_forward(&e->units[unit]));
    tess_block_params_open(&e->gathered, e->model, unit, &e->units[unit], false, &first);
    *w = e->gathered.w + first;
    return tess_numbers_see_params(e->numbers, unit);
}

static tess_status post_forward(void *self, int unit)
{
    return tess_block_post_forward(&((tess_engine *)self)->units[unit]);
}

static tess_status pre_backward(void *self, int unit, const void *const **w, float *const **dw)
{
    tess_engine *e = self;
    int first;
    enter(e, TESS_PHASE_BACKWARD, "backward", unit);
    TESS_TRY(tess_block_pre_backward(&e->units[unit]));
    tess_block_params_open(&e->gathered, e->model, unit, &e->units[unit], true, &first);
    *w = e->gathered.w + first;
    *dw = e->gathered.dw + first;
    return tess_numbers_see_params(e->numbers, unit);
}

static tess_status post_backward(void *self, int unit)
{
    tess_engine *e = self;
    TESS_TRY(tess_numbers_see_gradients(e->numbers, unit));
    return tess_block_post_backward(&e->units[unit]);
}

/* Exchanges between ranks that share a layer or its tokens, and counts the time as waiting. */
static tess_status exchange_over(tess_engine *e, tess_tensor *ranks, const tess_exchange *exchange)
{
    tess_phase phase = tess_phase_switch(&e->clock, TESS_PHASE_WAIT);
    tess_points points = tess_tensor_points(ranks);
    TESS_TRY(points.exchange(points.self, exchange));
    tess_phase_switch(&e->clock, phase);
    return TESS_OK;
}

static tess_status exchange(void *self, const tess_exchange *exchange)
{
    tess_engine *e = self;
    return exchange_over(e, e->tensor, exchange);
}

static tess_status exchange_tokens(void *self, const tess_exchange *exchange)
{
    tess_engine *e = self;
    return exchange_over(e, e->context, exchange);
}

tess_points tess_engine_context_points(tess_engine *e)
{
    return (tess_points){e, e->at.place[TESS_AXIS_CP], e->at.degree[TESS_AXIS_CP], exchange_tokens};
}

static tess_status begin_hop(void *self, int turn, bool sends, const tess_hop *hop)
{
    tess_ring_points ring = tess_ring_get_points(((tess_engine *)self)->ring);
    return ring.begin(ring.self, turn, sends, hop);
}

static tess_status end_hop(void *self, int turn, bool sends)
{
    tess_engine *e = self;
    tess_phase phase = tess_phase_switch(&e->clock, TESS_PHASE_WAIT);
    tess_ring_points ring = tess_ring_get_points(e->ring);
    TESS_TRY(ring.end(ring.self, turn, sends));
    tess_phase_switch(&e->clock, phase);
    return TESS_OK;
}

tess_ring_points tess_engine_ring_points(tess_engine *e)
{
    tess_ring_points ring = tess_ring_get_points(e->ring);
    return (tess_ring_points){e, {ring.buffers[0], ring.buffers[1]}, begin_hop, end_hop};
}

tess_points tess_engine_points(tess_engine *e)
{
    return (tess_points){e, e->at.place[TESS_AXIS_TP], e->at.degree[TESS_AXIS_TP], exchange};
}

static tess_status exchange_counts(void *self, const int32_t *mine, int32_t *theirs, int64_t n)
{
    tess_engine *e = self;
    tess_phase phase = tess_phase_switch(&e->clock, TESS_PHASE_WAIT);
    tess_expert_points points = tess_expert_team_points(e->experts);
    TESS_TRY(points.counts(points.self, mine, theirs, n));
    tess_phase_switch(&e->clock, phase);
    return TESS_OK;
}

static tess_status exchange_rows(void *self, const tess_row_exchange *rows)
{
    tess_engine *e = self;
    tess_phase phase = tess_phase_switch(&e->clock, TESS_PHASE_WAIT);
    tess_expert_points points = tess_expert_team_points(e->experts);
    TESS_TRY(points.rows(points.self, rows));
    tess_phase_switch(&e->clock, phase);
    return TESS_OK;
}

tess_expert_points tess_engine_expert_points(tess_engine *e)
{
    return (tess_expert_points){e, e->at.expert, e->at.n_experts, exchange_counts, exchange_rows};
}

tess_hooks tess_engine_hooks(tess_engine *e)
{
    return (tess_hooks){e, pre_forward, post_forward, pre_backward, post_backward};
}
