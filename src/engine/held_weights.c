#include "engine/held_weights.h"

#include <string.h>

#include "base/core/flat.h"
#include "base/core/rng.h"
#include "base/core/round_up.h"
#include "base/mem/dry_mem.h"
#include "base/mem/scoped.h"
#include "comm/agree.h"
#include "device/bf16.h"
#include "device/device.h"
#include "engine/stages/rank_stage.h"
#include "tessera/comm.h"

/* ---- Experts of other ranks ---- */
enum { ALIGNMENT = 64 };

static size_t bytes_of(const tess_held_weights *held, int param)
{
    const tess_engine *e = held->engine;
    return (size_t)tess_shape_count(&tess_model_param(e->model, param)->shape) *
           tess_dtype_size(tess_fsdp_param_dtype(e->fsdp));
}

/* How many ranks' experts a rank has while it draws. */
static int parts_of(const tess_engine *e)
{
    return e->at.n_experts / e->at.degree[TESS_AXIS_TP];
}

/* Creates the model of which this rank has all experts, or those of one of the tensor-parallel ranks. */
static tess_status create_model(tess_held_weights *held)
{
    tess_engine *e = held->engine;
    const int tp = e->at.degree[TESS_AXIS_TP];
    tess_model_part part = e->stage_plan->part;
    tess_stage_part_share(&e->at, &part);
    part.ep_degree = tp;
    part.ep_rank = part.tp_rank;
    TESS_TRY(tess_model_create_part(e->mem, tess_model_get_config(e->whole), &part, &held->own_model));
    held->model = held->own_model;
    return tp == 1 ? TESS_OK : tess_expert_team_create(tess_mesh_team(e->mesh, "tp"), tp, &held->team);
}

static tess_status alloc_experts(tess_held_weights *held)
{
    const tess_engine *e = held->engine;
    size_t bytes = 0;
    for (int i = 0; i < tess_model_n_params(e->model); i++)
        if (tess_model_param(e->model, i)->expert)
            bytes += (size_t)parts_of(e) * tess_round_up(bytes_of(held, i), ALIGNMENT);
    return e->compute.resident
               ? tess_device_alloc(e->compute.device, TESS_POOL_PARAMS, bytes, "experts", &held->experts)
               : tess_mem_alloc(e->mem, TESS_POOL_PARAMS, bytes, "experts", &held->experts);
}

static void free_experts(tess_held_weights *held)
{
    if (held->experts != NULL && held->engine->compute.resident)
        tess_device_free(held->engine->compute.device, held->experts);
    else if (held->experts != NULL)
        tess_mem_free(held->engine->mem, held->experts);
    tess_expert_team_destroy(&held->team);
    tess_model_destroy(&held->own_model);
}

/* Gathers a parameter of every rank whose experts this rank has while it draws, `pitch` bytes apart. */
static tess_status gather_param(tess_engine *e, const void *mine, size_t bytes, size_t pitch, char *to)
{
    const int n = parts_of(e), place = e->at.place[TESS_AXIS_TP], tp = e->at.degree[TESS_AXIS_TP];
    const tess_expert_points points = tess_engine_expert_points(e);
    size_t in[TESS_MAX_EXPERTS] = {0}, in_at[TESS_MAX_EXPERTS] = {0}, out[TESS_MAX_EXPERTS] = {0},
           out_at[TESS_MAX_EXPERTS] = {0};
    for (int r = 0; r < points.degree; r++) {
        in[r] = points.rank / n == r % tp ? bytes : 0;
        out[r] = r / n == place ? bytes : 0;
        out_at[r] = (size_t)(r % n) * pitch;
    }
    const tess_row_exchange x = {.what = "experts",
                                 .row_bytes = 1,
                                 .in = mine,
                                 .out = to,
                                 .in_rows = in,
                                 .in_at = in_at,
                                 .out_rows = out,
                                 .out_at = out_at};
    return tess_mem_is_dry(e->mem) ? TESS_OK : points.rows(points.self, &x);
}

/* Gathers the experts of a block, and lets its unit of experts go. */
static tess_status gather_experts(tess_held_weights *held, int unit, char **to)
{
    tess_engine *e = held->engine;
    const tess_block_unit *b = &e->units[unit];
    const int n = parts_of(e), n_own = b->end - b->begin;
    int first, first_held, n_params;
    tess_model_unit_params(e->model, unit, &first, &n_params);
    tess_model_unit_params(held->model, unit, &first_held, &n_params);
    for (int i = b->begin; i < b->end; i++) {
        const size_t bytes = bytes_of(held, first + i), pitch = tess_round_up(bytes, ALIGNMENT);
        if (tess_model_param(e->model, first + i)->stacked) { /* the experts of all ranks are one tensor */
            TESS_TRY(gather_param(e, tess_block_unit_param(b, i), bytes, bytes, *to));
            held->w[first_held + i] = *to;
            *to += tess_round_up((size_t)n * bytes, ALIGNMENT);
            continue;
        }
        TESS_TRY(gather_param(e, tess_block_unit_param(b, i), bytes, pitch, *to));
        for (int r = 0; r < n; r++, *to += pitch)
            held->w[first_held + r * n_own + i] = *to;
    }
    return tess_unit_post_forward(b->experts);
}

/* ---- Holding ---- */
static tess_status hold_units(tess_held_weights *held)
{
    tess_engine *e = held->engine;
    char *to = held->experts;
    for (int unit = 0; unit < tess_model_n_units(e->model); unit++) {
        const tess_block_unit *b = &e->units[unit];
        int own, first, n;
        TESS_TRY(tess_block_pre_forward(b));
        held->n_units++;
        tess_model_unit_params(e->model, unit, &first, &own);
        tess_model_unit_params(held->model, unit, &first, &n);
        for (int i = 0; i < own; i++)
            if (b->experts == NULL || i < b->begin || i >= b->end)
                held->w[first + i + (i < b->end ? 0 : n - own)] = tess_block_unit_param(b, i);
        if (b->experts != NULL)
            TESS_TRY(gather_experts(held, unit, &to));
    }
    return TESS_OK;
}

static tess_status alloc_pointers(tess_held_weights *held)
{
    return TESS_NEW(tess_stream_mem(held->compute.stream), tess_model_n_params(held->model), "held weights", &held->w);
}

static tess_status make_hooks(tess_held_weights *held, tess_dtype dtype)
{
    const tess_staging_options staging = {.dtype = dtype, .constant = true};
    TESS_TRY(tess_static_hooks(tess_stream_mem(held->compute.stream), held->model, held->w, NULL, &held->of_host));
    return tess_compute_hooks(&held->compute, held->model, &held->of_host, &staging);
}

static tess_compute beside(const tess_compute *owner)
{
    return (tess_compute){
        .device = owner->device, .stream = owner->stream, .apart = owner->apart, .resident = owner->resident};
}

tess_status tess_weights_hold(tess_engine *e, tess_held_weights *held)
{
    *held = (tess_held_weights){.engine = e, .model = e->model, .compute = beside(&e->compute)};
    if (e->at.n_experts > 1) {
        TESS_TRY(create_model(held));
        TESS_TRY(tess_team_agree(e->team, alloc_experts(held)));
    }
    TESS_TRY(alloc_pointers(held));
    TESS_TRY_CTX(hold_units(held), "gather all units");
    return make_hooks(held, tess_engine_activations(e->config).dtype);
}

tess_status tess_weights_hold_copy(const tess_compute *compute, const tess_model *model, const void *const *w,
                                   tess_dtype dtype, tess_held_weights *held)
{
    *held = (tess_held_weights){.model = model, .compute = beside(compute)};
    TESS_TRY(alloc_pointers(held));
    memcpy(held->w, w, (size_t)tess_model_n_params(model) * sizeof(*w));
    return make_hooks(held, dtype);
}

/* An error may have ended the gathers early. */
static tess_status let_units_go(const tess_held_weights *held)
{
    tess_engine *e = held->engine;
    for (int unit = held->n_units - 1; unit >= 0; unit--)
        TESS_TRY(tess_unit_post_forward(e->units[unit].unit));
    return tess_fsdp_trim(e->fsdp);
}

tess_status tess_weights_let_go(tess_held_weights *held)
{
    if (held->compute.stream == NULL) /* nothing was held */
        return TESS_OK;
    tess_mem *mem = tess_stream_mem(held->compute.stream);
    tess_staging_destroy(&held->compute.staging);
    if (held->of_host.self != NULL)
        tess_static_hooks_free(&held->of_host);
    tess_status status = held->n_units > 0 ? let_units_go(held) : TESS_OK;
    if (held->w != NULL)
        tess_mem_free(mem, held->w);
    free_experts(held);
    *held = (tess_held_weights){.engine = NULL};
    return status;
}

/* ---- The digest of the weights ---- */
/* The finaliser of MurmurHash3 (fmix64): every bit of x affects every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

/* Digest of the elements for which this rank is primary. Each is hashed with its index in the whole tensor, and sums
 * wrap around, so the digests of shards add up. Weights are hashed as float32. narrow: the weights, if they have no
 * masters; else NULL. */
static uint64_t digest_shard(const tess_shard *shard, const void *narrow, tess_dtype dtype)
{
    const uint64_t name = tess_hash_text(shard->name);
    const tess_shape shape = tess_shape_atleast_1d(&shard->shape);
    const int64_t row = tess_shard_row(shard), n = shard->primary.size[0] * row;
    const void *weights = narrow != NULL ? narrow : shard->master;
    const int64_t begin = (shard->primary.begin[0] - shard->box.begin[0]) * row;
    uint64_t sum = 0;
    for (int64_t i = 0, run, first; i < n; i += run) {
        run = tess_flat_run_at(shape.n_dims, shape.dim, &shard->primary, i, n - i, &first);
        for (int64_t k = 0; k < run; k++) {
            const size_t at = (size_t)(begin + i + k);
            uint32_t bits = tess_float_bits(tess_get_float(weights, narrow != NULL ? dtype : TESS_F32, at));
            sum += mix(name + mix((uint64_t)(first + k) << 32 ^ bits));
        }
    }
    return sum;
}

tess_status tess_weights_digest(const tess_engine *e, uint64_t *digest)
{
    uint64_t sum = 0;
    for (int i = 0; i < tess_model_n_params(e->whole); i++) {
        tess_shard shard;
        TESS_TRY(tess_engine_shard(e, i, &shard));
        int own = tess_engine_own_param(e, i);
        sum += digest_shard(&shard, own >= 0 ? tess_fsdp_narrow(e->fsdp, own) : NULL, tess_fsdp_param_dtype(e->fsdp));
    }
    TESS_TRY(tess_all_reduce(e->team, &sum, &sum, 1, TESS_I64, TESS_SUM, NULL));
    *digest = sum;
    return TESS_OK;
}
