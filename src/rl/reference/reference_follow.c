/* Float32 weights that follow the policy's. Of each parameter a rank holds the rows that it writes to checkpoints,
 * so that each element is on one rank. */
#include <math.h>
#include <stdio.h>

#include "base/core/flat.h"
#include "base/mem/dry_mem.h"
#include "comm/agree.h"
#include "rl/reference/reference_impl.h"
#include "tessera/comm.h"
#include "base/mem/scoped.h"

/* Returns the policy's shard of parameter i. */
typedef struct own_rows {
    tess_shard shard;
    const float *master; /* the elements of shard.primary */
    int64_t n;
} own_rows;

static tess_status find_rows(const tess_reference *r, int i, own_rows *own)
{
    TESS_TRY(tess_engine_shard(r->engine, i, &own->shard));
    int64_t row = tess_shard_row(&own->shard);
    own->n = own->shard.primary.size[0] * row;
    own->master = own->n > 0 ? own->shard.master + (own->shard.primary.begin[0] - own->shard.box.begin[0]) * row : NULL;
    return TESS_OK;
}

tess_status reference_follow_create(tess_reference *r)
{
    int n = tess_model_n_params(r->model);
    own_rows own;
    TESS_TRY(TESS_PART(r, n, "reference", &r->rows));
    TESS_TRY(TESS_PART(r, n, "reference", &r->names));
    for (int i = 0; i < n; i++) {
        const char *name = tess_model_param(r->model, i)->name;
        const tess_shape shape = tess_shape_atleast_1d(&tess_model_param(r->model, i)->shape);
        snprintf(r->names[i], sizeof(r->names[i]), "reference.%s", name);
        TESS_TRY(find_rows(r, i, &own));
        TESS_TRY(tess_scope_alloc(tess_scope_of(r), TESS_POOL_PARAMS, (size_t)own.n, sizeof(float), "reference model",
                                  (void **)&r->rows[i]));
        if (own.n > 0 && !tess_mem_is_dry(r->engine->mem))
            TESS_TRY_CTX(r->source.fill(r->source.context, name, &shape, &own.shard.primary, r->rows[i]),
                         "parameter '%s'", name);
    }
    return TESS_OK;
}

/* Finds a run of the elements of own->shard.primary (tess_flat_run_at). */
static int64_t run_at(const own_rows *own, int64_t at, int64_t most, int64_t *first)
{
    const tess_shape shape = tess_shape_atleast_1d(&own->shard.shape);
    return tess_flat_run_at(shape.n_dims, shape.dim, &own->shard.primary, at, most, first);
}

static tess_status write_copy(tess_reference *r)
{
    tess_stream *s = r->engine->stream;
    own_rows own;
    for (int i = 0; i < tess_model_n_params(r->model); i++) {
        TESS_TRY(find_rows(r, i, &own));
        for (int64_t at = 0, n, first; at < own.n; at += n) {
            n = run_at(&own, at, own.n, &first);
            TESS_TRY(tess_stream_kernels(s)->convert(s, &(tess_convert_args){.x = r->rows[i] + at,
                                                                             .from = TESS_F32,
                                                                             .y = reference_copy_at(r, i, first),
                                                                             .to = reference_dtype(r, i),
                                                                             .n = n}));
        }
    }
    return TESS_OK;
}

tess_status tess_reference_loaded(tess_reference *r)
{
    return r->rows != NULL ? reference_copy_rewrite(r, write_copy) : TESS_OK;
}

/* ---- Following ---- */
static tess_status take_policy(const tess_reference *r)
{
    own_rows own;
    double keep = r->ema;
    for (int i = 0; i < tess_model_n_params(r->model); i++) {
        TESS_TRY(find_rows(r, i, &own));
        for (int64_t k = 0; k < own.n; k++)
            r->rows[i][k] =
                keep > 0 ? (float)(keep * (double)r->rows[i][k] + (1 - keep) * (double)own.master[k]) : own.master[k];
    }
    return TESS_OK;
}

tess_status tess_reference_after_step(tess_reference *r, int64_t step)
{
    if (r->rows == NULL || step % r->update_interval != 0)
        return TESS_OK;
    TESS_TRY_CTX(tess_team_agree(r->engine->team, take_policy(r)), "reference");
    return tess_reference_loaded(r);
}

/* ---- Drift ---- */
typedef struct drift_work {
    float policy[REFERENCE_CHUNK], reference[REFERENCE_CHUNK];
    uint16_t rounded[REFERENCE_CHUNK];
} drift_work;

/* Adds |policy - reference| over n elements. */
static tess_status add_run(tess_reference *r, const float *master, const void *reference, tess_dtype dtype, int64_t n,
                           drift_work *work, tess_exact_sum *sum)
{
    tess_stream *s = r->engine->stream;
    const tess_kernels *k = tess_stream_kernels(s);
    const void *policy = master;
    if (dtype != TESS_F32) {
        TESS_TRY(k->convert(
            s, &(tess_convert_args){.x = master, .from = TESS_F32, .y = work->rounded, .to = dtype, .n = n}));
        policy = work->rounded;
    }
    TESS_TRY(
        k->convert(s, &(tess_convert_args){.x = policy, .from = dtype, .y = work->policy, .to = TESS_F32, .n = n}));
    TESS_TRY(k->convert(
        s, &(tess_convert_args){.x = reference, .from = dtype, .y = work->reference, .to = TESS_F32, .n = n}));
    for (int64_t i = 0; i < n; i++)
        work->policy[i] = fabsf(work->policy[i] - work->reference[i]);
    return k->exact_sum(s, &(tess_exact_sum_args){.x = work->policy, .n = n, .sum = sum});
}

static tess_status add_all(tess_reference *r, drift_work *work, tess_exact_sum *sum)
{
    own_rows own;
    for (int i = 0; i < tess_model_n_params(r->model); i++) {
        TESS_TRY(find_rows(r, i, &own));
        for (int64_t at = 0, n, first; at < own.n; at += n) {
            n = run_at(&own, at, REFERENCE_CHUNK, &first);
            const tess_dtype dtype = reference_dtype(r, i);
            const char *reference = (const char *)r->copy.w[i] + (size_t)first * tess_dtype_size(dtype);
            TESS_TRY(add_run(r, own.master + at, reference, dtype, n, work, sum));
        }
    }
    return TESS_OK;
}

tess_status tess_reference_drift(tess_reference *r, double *drift)
{
    TESS_AUTO(tess_mem_drop) drift_work *work = NULL;
    tess_exact_sum sum;
    tess_engine *e = r->engine;
    *drift = NAN;
    if (!r->is_alike)
        return TESS_OK;
    tess_exact_clear(&sum);
    TESS_TRY(TESS_NEW(e->mem, 1, "drift", &work));
    TESS_TRY(tess_team_agree(e->team, add_all(r, work, &sum)));
    tess_exact_normalize(&sum);
    TESS_TRY(tess_all_reduce(e->team, sum.limb, sum.limb, TESS_EXACT_LIMBS, TESS_I64, TESS_SUM, NULL));
    tess_exact_normalize(&sum);
    *drift = tess_exact_value(&sum) / (double)tess_model_count(r->model);
    return TESS_OK;
}

/* ---- Checkpoints ---- */
int tess_reference_n_tensors(const tess_reference *r)
{
    return r->rows != NULL ? tess_model_n_params(r->model) : 0;
}

tess_status tess_reference_tensors(tess_reference *r, tess_ckpt_tensor *tensors)
{
    own_rows own;
    for (int i = 0; i < tess_reference_n_tensors(r); i++) {
        TESS_TRY(find_rows(r, i, &own));
        tensors[i] = (tess_ckpt_tensor){.name = r->names[i],
                                        .shape = own.shard.shape,
                                        .box = own.shard.primary,
                                        .primary = own.shard.primary,
                                        .data = r->rows[i]};
    }
    return TESS_OK;
}
