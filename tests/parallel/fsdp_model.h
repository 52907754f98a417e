/* A synthetic model for tests of fsdp: awkward parameters, gradients that are a pure function of (micro-batch,
 * element), and a reference in plain loops of one process: the canonical sum, the norm, the update. */
#ifndef TESS_TESTS_PARALLEL_FSDP_MODEL_H
#define TESS_TESTS_PARALLEL_FSDP_MODEL_H

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/core/exact_sum.h"
#include "base/core/flat.h"
#include "base/core/rng.h"
#include "device/stream.h"
#include "parallel/fsdp/fsdp_impl.h"
#include "parallel/fsdp/fsdp_parts.h"
#include "support/test.h"
#include "tessera/fsdp.h"

enum { MODEL_PARAMS = 12, MODEL_UNITS = 6, MODEL_LARGEST = 37 * 5 };

typedef struct model_param {
    int unit;
    tess_param_desc desc;
} model_param;

/* Rows that no world size divides, fewer rows than ranks, a scalar, three dimensions, frozen parameters, a frozen unit,
 * units of equal and different sizes. */
static const model_param model_params[MODEL_PARAMS] = {
    {0, {"embed.weight", {2, {37, 5}}, true, true}},    {1, {"layers.0.weight", {2, {13, 7}}, true, true}},
    {1, {"layers.0.bias", {1, {13}}, true, false}},     {1, {"layers.0.norm", {1, {3}}, true, false}},
    {2, {"layers.1.weight", {2, {16, 5}}, true, true}}, {2, {"layers.1.lora_base", {2, {6, 2}}, false, true}},
    {2, {"layers.1.one", {1, {1}}, true, false}},       {3, {"frozen.weight", {2, {9, 3}}, false, true}},
    {4, {"layers.2.weight", {2, {11, 8}}, true, true}}, {5, {"head.conv", {3, {2, 3, 4}}, true, true}},
    {5, {"head.weight", {2, {5, 11}}, true, true}},     {5, {"head.scale", {0, {0}}, true, false}},
};
static const char *const model_units[MODEL_UNITS] = {"embed", "layers.0", "layers.1", "frozen", "layers.2", "head"};

/* The dimensions that the axis "tp" cuts, if the mesh has it: rows, columns, whole heads of 4 columns (with more than
 * two ranks, some have none), a dimension in the middle, a frozen one; the rest not. */
static const tess_param_cut model_tp[MODEL_PARAMS] = {
    [0] = {TESS_SHARD, 0, 0}, [1] = {TESS_SHARD, 1, 0}, [2] = {TESS_SHARD, 0, 0}, [5] = {TESS_SHARD, 1, 0},
    [7] = {TESS_SHARD, 0, 0}, [8] = {TESS_SHARD, 1, 4}, [9] = {TESS_SHARD, 1, 0}, [10] = {TESS_SHARD, 1, 0},
};

static inline int64_t model_count(int param)
{
    return tess_shape_count(&model_params[param].desc.shape);
}

/* The number in the whole parameter of element `index` of a box. */
static inline int64_t model_element(int param, const tess_box *box, int64_t index)
{
    const tess_shape shape = tess_shape_atleast_1d(&model_params[param].desc.shape);
    const tess_box whole = tess_box_whole(&shape);
    tess_box slice;
    tess_flat_slice(shape.n_dims, box, index, 1, &slice);
    return tess_flat_offset(shape.n_dims, &whole, &slice);
}

static inline int64_t model_box_count(int param, const tess_box *box)
{
    return tess_box_count(tess_shape_atleast_1d(&model_params[param].desc.shape).n_dims, box);
}

/* Values over twenty binades, so that another order of summation changes the bits. */
static inline float model_value(uint64_t stream, uint64_t index)
{
    uint64_t bits = tess_rng_u64(7, TESS_RNG_TEST, stream, index);
    float mantissa = (float)(int32_t)(bits & 0xffffff) / 0x1p24f - 0.5f;
    return ldexpf(mantissa, (int)(bits >> 40) % 20 - 14);
}

/* Passes of every micro-batch. */
static int model_passes = 1;

/* (MODEL_UNITS) ascending: the fsdp's unit that each unit of the model is a block of; NULL: each is its own. */
static const int *model_unit_of;

/* The ranks that have parts of the same micro-batches; NULL: each rank has whole ones. */
static tess_team *model_parts_team;

static inline int model_parts(void)
{
    return model_parts_team != NULL ? tess_team_size(model_parts_team) : 1;
}

/* The element whose last part is not a number, in every parameter; -1: none. */
static int64_t model_bad_element = -1;

/* Some elements are -0 in every part. */
static inline float model_part_gradient(int step, int64_t micro, int pass, int part, int param, int64_t element)
{
    if (model_parts() > 1 && element % 7 == 2)
        return -0.0f;
    if (part == model_parts() - 1 && element == model_bad_element)
        return NAN;
    return model_value((uint64_t)(1000 + part * 100000000 + pass * 10000000 + step * 100000 + micro * 100 + param),
                       (uint64_t)element);
}

static inline float reference_tree(const float *x, int n);

static inline float model_pass_gradient(int step, int64_t micro, int pass, int param, int64_t element)
{
    float parts[64];
    for (int part = 0; part < model_parts(); part++)
        parts[part] = model_part_gradient(step, micro, pass, part, param, element);
    return reference_tree(parts, model_parts());
}

static inline float model_gradient(int step, int64_t micro, int param, int64_t element)
{
    float sum = model_pass_gradient(step, micro, 0, param, element);
    for (int pass = 1; pass < model_passes; pass++)
        sum += model_pass_gradient(step, micro, pass, param, element);
    return sum;
}

static inline float model_round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&x, &bits, 4);
    return x;
}

static inline tess_status model_fill(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                     float *dst)
{
    int64_t *n_filled = context;
    for (int p = 0; p < MODEL_PARAMS; p++) {
        if (strcmp(name, model_params[p].desc.name) != 0)
            continue;
        const tess_shape whole = tess_shape_atleast_1d(&model_params[p].desc.shape);
        EXPECT(shape->n_dims == whole.n_dims && memcmp(shape->dim, whole.dim, (size_t)whole.n_dims * 8) == 0);
        int64_t n = model_box_count(p, box);
        for (int64_t i = 0; i < n; i++)
            dst[i] = model_value((uint64_t)p, (uint64_t)model_element(p, box, i));
        *n_filled += n;
        return TESS_OK;
    }
    return TESS_FAIL(TESS_E_NOT_FOUND, "no parameter '%s'", name);
}

/* ---- The reference in one process ---- */
typedef struct model_reference {
    float weight[MODEL_PARAMS][MODEL_LARGEST], grad[MODEL_PARAMS][MODEL_LARGEST];
    float m[MODEL_PARAMS][MODEL_LARGEST], v[MODEL_PARAMS][MODEL_LARGEST];
    double norm;
} model_reference;

static inline void reference_init(model_reference *ref)
{
    memset(ref, 0, sizeof(*ref));
    for (int p = 0; p < MODEL_PARAMS; p++)
        for (int64_t i = 0; i < model_count(p); i++)
            ref->weight[p][i] = model_value((uint64_t)p, (uint64_t)i);
}

/* Adds neighbours; the last of an odd number moves up a level. */
static inline float reference_tree(const float *x, int n)
{
    float level[64];
    memcpy(level, x, sizeof(float) * (size_t)n);
    while (n > 1) {
        int k = 0;
        for (int i = 0; i < n; i += 2)
            level[k++] = i + 1 < n ? level[i] + level[i + 1] : level[i];
        n = k;
    }
    return level[0];
}

static inline double reference_row_sumsq(const float *x, int64_t n)
{
    double sums[16] = {0};
    for (int64_t i = 0; i < n; i++)
        sums[i % 16] += (double)x[i] * (double)x[i];
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            sums[i] += sums[i + width];
    return sums[0];
}

static inline void reference_gradients(model_reference *ref, int step, int n_micro, tess_dtype reduce_dtype)
{
    tess_exact_sum squares;
    tess_exact_clear(&squares);
    for (int p = 0; p < MODEL_PARAMS; p++) {
        if (!model_params[p].desc.trainable)
            continue;
        for (int64_t e = 0; e < model_count(p); e++) {
            float leaves[64];
            for (int i = 0; i < n_micro; i++) {
                leaves[i] = model_gradient(step, i, p, e);
                if (reduce_dtype == TESS_BF16)
                    leaves[i] = model_round_bf16(leaves[i]);
            }
            ref->grad[p][e] = reference_tree(leaves, n_micro);
        }
        int64_t row = tess_shape_row_count(&model_params[p].desc.shape);
        for (int64_t r = 0; r < tess_shape_rows(&model_params[p].desc.shape); r++)
            tess_exact_add(&squares, reference_row_sumsq(ref->grad[p] + r * row, row));
    }
    tess_exact_normalize(&squares);
    ref->norm = sqrt(tess_exact_value(&squares));
}

static const tess_optimizer_options model_adamw = {.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f};
static const float model_lr = 3e-3f, model_scale = 1.0f / 24;

static inline void reference_update(model_reference *ref, int step, tess_stream *stream)
{
    const tess_optimizer_options *o = &model_adamw;
    for (int p = 0; p < MODEL_PARAMS; p++) {
        tess_adamw_update u = {.n = model_count(p),
                               .p = ref->weight[p],
                               .m = ref->m[p],
                               .v = ref->v[p],
                               .g = ref->grad[p],
                               .lr = model_lr,
                               .beta1 = o->beta1,
                               .beta2 = o->beta2,
                               .eps = o->eps,
                               .weight_decay = model_params[p].desc.decay ? o->weight_decay : 0,
                               .grad_scale = model_scale,
                               .bias1 = (float)(1 - pow((double)o->beta1, step)),
                               .bias2 = (float)(1 - pow((double)o->beta2, step))};
        if (model_params[p].desc.trainable)
            EXPECT_OK(tess_stream_kernels(stream)->adamw(stream, &u));
    }
}

/* ---- The same through fsdp ---- */
/* Ranks that count as a host, wherever they really are; 0: those of the runtime. */
static int model_ranks_a_host;

/* Micro-batches of a step that an fsdp expects; 0: one. */
static int model_step_size;

/* Shards of a second family, which has every second unit; 0: all units belong to one. */
static int model_second_family;

typedef struct model {
    tess_fsdp *fsdp;
    tess_unit *units[MODEL_UNITS]; /* units of the fsdp: blocks of one unit have the same */
    int first[MODEL_UNITS];        /* index of a block's first parameter in it */
    tess_fsdp_policy policy;
    int rank, world;  /* canonical data rank */
    int tp, n_tp;     /* place on the axis "tp"; 0 and 1 without one */
    int part;         /* this rank's part of its micro-batches */
    int64_t n_filled; /* elements that this rank was asked to fill */
} model;

static inline tess_fsdp_policy policy_of(tess_strategy strategy, tess_dtype param, tess_dtype reduce, int reshard,
                                         int prefetch)
{
    return (tess_fsdp_policy){.strategy = strategy,
                              .param_dtype = param,
                              .reduce_dtype = reduce,
                              .reshard_after_forward = reshard,
                              .prefetch = prefetch};
}

static inline void model_create(model *m, tess_mesh *mesh, tess_fsdp_policy policy)
{
    *m = (model){.policy = policy};
    int shard = tess_mesh_axis(mesh, "dp_shard"), replicate = tess_mesh_axis(mesh, "dp_replicate");
    m->rank = tess_mesh_coordinate(mesh, shard);
    m->world = tess_mesh_axis_size(mesh, shard);
    if (replicate >= 0) {
        m->rank += tess_mesh_coordinate(mesh, replicate) * m->world;
        m->world *= tess_mesh_axis_size(mesh, replicate);
    }
    int tp = tess_mesh_axis(mesh, "tp");
    m->tp = tp >= 0 ? tess_mesh_coordinate(mesh, tp) : 0;
    m->n_tp = tp >= 0 ? tess_mesh_axis_size(mesh, tp) : 1;
    m->part = m->rank % model_parts(); /* ranks with the same micro-batches count as one */
    m->rank /= model_parts();
    m->world /= model_parts();
    tess_fsdp_family *second = NULL;
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &m->fsdp));
    if (model_parts_team != NULL)
        EXPECT_OK(tess_fsdp_set_parts(m->fsdp, model_parts_team));
    m->fsdp->topology.ranks_a_host = model_ranks_a_host;
    if (model_step_size > 0)
        EXPECT_OK(tess_fsdp_set_step_size(m->fsdp, model_step_size));
    if (model_second_family > 0)
        EXPECT_OK(tess_fsdp_add_family(m->fsdp, "second", model_second_family, 0, &second));
    EXPECT_OK(tess_fsdp_set_passes(m->fsdp, model_passes));
    for (int u = 0, end; u < MODEL_UNITS; u = end) {
        tess_param_desc descs[MODEL_PARAMS];
        int n = 0;
        for (end = u;
             end < MODEL_UNITS && (end == u || (model_unit_of != NULL && model_unit_of[end] == model_unit_of[u]));
             end++) {
            m->first[end] = n;
            for (int p = 0; p < MODEL_PARAMS; p++)
                if (model_params[p].unit == end) {
                    descs[n] = model_params[p].desc;
                    descs[n++].tp = model_tp[p];
                }
        }
        if (second != NULL && u % 2 == 1)
            EXPECT_OK(tess_fsdp_add_unit_to(second, model_units[u], descs, n, &m->units[u]));
        else
            EXPECT_OK(tess_fsdp_add_unit(m->fsdp, model_units[u], descs, n, &m->units[u]));
        EXPECT_OK(tess_unit_set_blocks(m->units[u], end - u));
        for (int block = u + 1; block < end; block++)
            m->units[block] = m->units[u];
    }
    EXPECT_OK(tess_fsdp_materialize(m->fsdp, model_fill, &m->n_filled));
}

/* Ranks drift apart, so that a write that comes too early is seen. */
static inline void model_jitter(const model *m, uint64_t salt)
{
    uint64_t bits = tess_rng_u64(11, TESS_RNG_TEST, (uint64_t)m->rank, salt);
    if (m->world > 1 && bits % 5 == 0)
        usleep((useconds_t)(bits >> 32) % 400);
}

/* The part of a parameter that this rank gathers. */
static inline tess_box model_part(const model *m, int param)
{
    const tess_param_cut *tp = &model_tp[param];
    const tess_shape shape = tess_shape_atleast_1d(&model_params[param].desc.shape);
    int64_t unit = tp->unit > 0 ? tp->unit : 1;
    tess_box box = tess_box_whole(&shape);
    if (tp->kind == TESS_SHARD) {
        tess_shard_rows(shape.dim[tp->dim] / unit, m->n_tp, m->tp, &box.begin[tp->dim], &box.size[tp->dim]);
        box.begin[tp->dim] *= unit;
        box.size[tp->dim] *= unit;
    }
    return box;
}

static inline void model_check_params(const model *m, const model_reference *ref, int unit)
{
    for (int p = 0, index = m->first[unit]; p < MODEL_PARAMS; p++) {
        if (model_params[p].unit != unit)
            continue;
        const void *got = tess_unit_param(m->units[unit], index++);
        EXPECT(got != NULL);
        const tess_box part = model_part(m, p);
        for (int64_t i = 0; i < model_box_count(p, &part); i++) {
            float want = ref->weight[p][model_element(p, &part, i)], value;
            if (m->policy.param_dtype == TESS_BF16) {
                uint32_t bits = (uint32_t)((const uint16_t *)got)[i] << 16;
                memcpy(&value, &bits, 4);
                want = model_round_bf16(want);
            } else {
                value = ((const float *)got)[i];
            }
            if (memcmp(&value, &want, 4) != 0)
                test_fail(__FILE__, __LINE__, "gathered %s[%lld] is %a, expected %a (rank %d of %d)",
                          model_params[p].desc.name, (long long)i, (double)value, (double)want, m->rank, m->world);
        }
    }
}

static inline void model_write_grads(const model *m, int unit, int step, int64_t micro, int pass)
{
    for (int p = 0, index = m->first[unit]; p < MODEL_PARAMS; p++) {
        if (model_params[p].unit != unit)
            continue;
        float *grad = tess_unit_grad(m->units[unit], index++);
        EXPECT((grad != NULL) == model_params[p].desc.trainable);
        const tess_box part = model_part(m, p);
        for (int64_t i = 0; grad != NULL && i < model_box_count(p, &part); i++)
            grad[i] = micro >= 0 ? model_part_gradient(step, micro, pass, m->part, p, model_element(p, &part, i)) : NAN;
    }
}

static inline void model_forward(const model *m, const model_reference *ref, uint64_t salt)
{
    for (int u = 0; u < MODEL_UNITS; u++) {
        EXPECT_OK(tess_unit_pre_forward(m->units[u]));
        model_jitter(m, salt + (uint64_t)u);
        model_check_params(m, ref, u);
        EXPECT_OK(tess_unit_post_forward(m->units[u]));
    }
}

/* One pass of an engine with tied embeddings: the embedding is gathered again for the logits, and stays open in
 * backward until its second use. */
static inline void model_run_pass(const model *m, const model_reference *ref, int step, int64_t micro, int pass,
                                  uint64_t salt)
{
    model_forward(m, ref, salt);
    EXPECT_OK(tess_unit_pre_forward(m->units[0]));
    model_check_params(m, ref, 0);
    EXPECT_OK(tess_unit_pre_backward(m->units[0]));
    EXPECT_OK(tess_unit_post_forward(m->units[0]));
    for (int u = MODEL_UNITS - 1; u > 0; u--) {
        EXPECT_OK(tess_unit_pre_backward(m->units[u]));
        model_jitter(m, salt + 10 + (uint64_t)u);
        model_check_params(m, ref, u);
        model_write_grads(m, u, step, micro, pass);
        EXPECT_OK(tess_unit_post_backward(m->units[u]));
    }
    model_check_params(m, ref, 0);
    model_write_grads(m, 0, step, micro, pass);
    EXPECT_OK(tess_unit_post_backward(m->units[0]));
}

/* All micro-batches under way, as in a pipeline whose rank has the upper units in one chunk and the lower ones in
 * another: backwards of a chunk are a micro-batch behind those of the chunk above, forwards two ahead. */
static inline void model_run_all(const model *m, const model_reference *ref, int step, int n_local, int n_micro)
{
    enum { AHEAD = 2, CHUNK = MODEL_UNITS / 2 };
    EXPECT_OK(tess_fsdp_micro_begin_all(m->fsdp));
    for (int t = 0; t < n_local + AHEAD; t++) {
        if (t < n_local)
            model_forward(m, ref, (uint64_t)(step * 1000 + t * 30));
        for (int u = MODEL_UNITS - 1; u >= 0; u--) {
            int s = t - AHEAD + (u >= CHUNK);
            if (s < 0 || s >= n_local)
                continue;
            int64_t micro = (int64_t)s * m->world + m->rank;
            EXPECT_OK(tess_unit_pre_backward(m->units[u]));
            model_jitter(m, (uint64_t)(step * 1000 + t * 30 + 10 + u));
            model_check_params(m, ref, u);
            model_write_grads(m, u, step, micro < n_micro ? micro : -1, 0);
            EXPECT_OK(tess_unit_post_backward(m->units[u]));
        }
    }
}

static bool model_all_open; /* steps run so */

/* One step. Micro-batches that are empty, because the ranks do not share n_micro evenly, leave NaN
 * in their gradients. */
static inline void model_step(const model *m, const model_reference *ref, int step, int n_micro)
{
    int n_local = n_micro / m->world;
    if (n_micro % m->world == 0)
        EXPECT_OK(tess_fsdp_step_begin(m->fsdp, n_local));
    else
        EXPECT_OK(tess_fsdp_step_begin_shared(m->fsdp, n_micro * model_parts(), &n_local));
    EXPECT_INT(n_local, (n_micro + m->world - 1) / m->world);
    if (model_all_open)
        model_run_all(m, ref, step, n_local, n_micro);
    for (int s = 0; s < n_local && !model_all_open; s++) {
        int64_t micro = (int64_t)s * m->world + m->rank;
        micro = micro < n_micro ? micro : -1;
        uint64_t salt = (uint64_t)(step * 1000 + s * 30);
        EXPECT_OK(tess_fsdp_micro_begin(m->fsdp, s));
        for (int pass = 0; pass < model_passes; pass++) {
            if (pass > 0)
                EXPECT_OK(tess_fsdp_pass_begin(m->fsdp, pass));
            model_run_pass(m, ref, step, micro, pass, salt);
        }
    }
    EXPECT_OK(tess_fsdp_step_end(m->fsdp));
}

/* Compares every held element of weights, and of gradients if they are ready, with the reference, bit for bit. */
static inline void model_check_shards(const model *m, const model_reference *ref)
{
    for (int p = 0; p < MODEL_PARAMS; p++) {
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(m->fsdp, p, &shard));
        EXPECT_TEXT(shard.name, model_params[p].desc.name);
        EXPECT(shard.grad != NULL || !shard.trainable);
        const tess_shape shape = tess_shape_atleast_1d(&shard.shape);
        const tess_box whole = tess_box_whole(&shape);
        float want[MODEL_LARGEST];
        tess_box_copy(shape.n_dims, sizeof(float), &shard.box, &whole, ref->weight[p], &shard.box, want);
        EXPECT_SAME(shard.master, want, (size_t)model_box_count(p, &shard.box));
        tess_box_copy(shape.n_dims, sizeof(float), &shard.box, &whole, ref->grad[p], &shard.box, want);
        if (shard.grad != NULL)
            EXPECT_SAME(shard.grad, want, (size_t)model_box_count(p, &shard.box));
    }
}

#endif
