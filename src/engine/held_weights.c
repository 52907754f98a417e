#include "engine/held_weights.h"

#include <string.h>

#include "base/core/flat.h"
#include "base/core/rng.h"
#include "device/bf16.h"
#include "tessera/comm.h"
#include "base/mem/scoped.h"

/* ---- Holding ---- */
static tess_status hold_units(tess_held_weights *held)
{
    tess_engine *e = held->engine;
    for (int unit = 0; unit < tess_model_n_units(e->model); unit++) {
        int first, n;
        TESS_TRY(tess_block_pre_forward(&e->units[unit]));
        tess_model_unit_params(e->model, unit, &first, &n);
        for (int i = 0; i < n; i++)
            held->w[first + i] = tess_block_unit_param(&e->units[unit], i);
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

static tess_status let_units_go(const tess_held_weights *held)
{
    tess_engine *e = held->engine;
    for (int unit = tess_model_n_units(e->model) - 1; unit >= 0; unit--) {
        int first, n;
        tess_model_unit_params(e->model, unit, &first, &n);
        if (n == 0 || held->w[first] != NULL) /* only units that are held: an error may have ended the gathers early */
            TESS_TRY(tess_block_post_forward(&e->units[unit]));
    }
    return tess_fsdp_trim(e->fsdp);
}

tess_status tess_weights_let_go(tess_held_weights *held)
{
    if (held->w == NULL)
        return TESS_OK;
    tess_mem *mem = tess_stream_mem(held->compute.stream);
    tess_staging_destroy(&held->compute.staging);
    if (held->of_host.self != NULL)
        tess_static_hooks_free(&held->of_host);
    tess_status status = held->engine != NULL ? let_units_go(held) : TESS_OK;
    tess_mem_free(mem, held->w);
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
