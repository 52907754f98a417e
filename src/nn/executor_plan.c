/* Plans the memory of an executor: all activations in one block. The same code counts bytes and sets pointers. */
#include "nn/executor_impl.h"

typedef struct cursor {
    char *base; /* start of the block; NULL: only count bytes */
    size_t used;
} cursor;

static void *take(cursor *at, size_t count, size_t size)
{
    size_t bytes, end;
    if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, 63, &bytes) ||
        __builtin_add_overflow(at->used, bytes & ~(size_t)63, &end)) {
        at->used = SIZE_MAX;
        return NULL;
    }
    void *block = at->base != NULL ? at->base + at->used : NULL;
    at->used = end;
    return block;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The share of the first rank, which is the largest one. */
static size_t first_share(const tess_model *model, tess_cut cut)
{
    int64_t begin, size;
    tess_cut_range(cut, model->part.tp_degree, 0, &begin, &size);
    return (size_t)size;
}

typedef struct plan_sizes {
    size_t T, R, C, Q, K, H, G, F, V, element; /* sizes as in layers.h; R: rows of the stream */
    bool kept, gated, qk_norm, layer_norm;     /* kept: a backward reads the unit's values */
} plan_sizes;

static plan_sizes sizes_of(const tess_executor *e, int unit)
{
    const tess_model_config *c = &e->model->config;
    const tess_block *block = &e->model->blocks[unit];
    return (plan_sizes){
        .T = (size_t)e->options.max_tokens,
        .R = (size_t)tess_executor_stream_room(e->model, &e->options),
        .C = (size_t)c->hidden_size,
        .Q = (size_t)(block->n_heads * block->head_size),
        .K = (size_t)(block->n_kv_heads * block->head_size),
        .H = (size_t)block->n_heads,
        .G = (size_t)block->n_kv_heads,
        .F = (size_t)block->intermediate_size,
        .V = (size_t)tess_model_config_outputs(c),
        .element = tess_dtype_size(e->options.dtype),
        .kept = !tess_executor_is_frozen(e, unit),
        .gated = block->gate.weight >= 0,
        .qk_norm = tess_block_norms_heads(block),
        .layer_norm = block->layer_norm,
    };
}

/* These take (T, width) elements of the compute dtype, or floats. Sizes are bounded by the config's check, so the
 * product does not overflow. */
static void *elements(cursor *at, const plan_sizes *n, size_t width)
{
    return take(at, n->T * width, n->element);
}

/* Takes a stream tensor (R, C). */
static void *stream_of(cursor *at, const plan_sizes *n)
{
    return take(at, n->R * n->C, n->element);
}

static float *floats(cursor *at, const plan_sizes *n, size_t width)
{
    return take(at, n->T * width, sizeof(float));
}

static tess_norm_stats take_stats(cursor *at, const plan_sizes *n)
{
    tess_norm_stats stats = {NULL, NULL};
    if (!n->kept)
        return stats;
    stats.rstd = take(at, n->R, sizeof(float));
    if (n->layer_norm)
        stats.mean = take(at, n->R, sizeof(float));
    return stats;
}

/* If q and k have norms, takes three separate tensors. Otherwise q, k and v are parts of one row. */
static void take_qkv(cursor *at, const plan_sizes *n, void **q, void **k, void **v)
{
    if (n->qk_norm) {
        *q = elements(at, n, n->Q);
        *k = elements(at, n, n->K);
        *v = elements(at, n, n->K);
        return;
    }
    char *row = elements(at, n, n->Q + 2 * n->K);
    *q = row;
    *k = row != NULL ? row + n->Q * n->element : NULL;
    *v = row != NULL ? row + (n->Q + n->K) * n->element : NULL;
}

/* Takes the tensors of these groups. All groups together are a layer's saved tensors except its input. */
static void take_groups(cursor *at, const plan_sizes *n, unsigned groups, tess_layer_saved *saved)
{
    if (groups & TESS_GROUP_ATTENTION_INPUTS) {
        saved->input_stats = take_stats(at, n);
        take_qkv(at, n, &saved->q_raw, &saved->k_raw, &saved->v);
        saved->q = saved->q_raw;
        saved->k = saved->k_raw;
    }
    if ((groups & TESS_GROUP_ATTENTION_INPUTS) && n->kept && n->qk_norm) {
        saved->q_rstd = floats(at, n, n->H);
        saved->k_rstd = floats(at, n, n->G);
    }
    if (groups & TESS_GROUP_ATTENTION)
        saved->out = elements(at, n, n->Q);
    if ((groups & TESS_GROUP_ATTENTION) && n->kept)
        saved->lse = floats(at, n, n->H);
    if (groups & TESS_GROUP_RESIDUAL) {
        saved->h2 = stream_of(at, n);
        saved->mlp_stats = take_stats(at, n);
    }
    if ((groups & TESS_GROUP_FEED_FORWARD) && n->gated)
        saved->gate = elements(at, n, n->F);
    if (groups & TESS_GROUP_FEED_FORWARD)
        saved->up = elements(at, n, n->F);
}

/* Takes the work space of a layer's two phases, attention and feed-forward, which share the same memory. If no
 * backward reads the layer, its saved tensors belong to the work space of their phase. */
static size_t take_phases(cursor *at, const plan_sizes *n, tess_unit_memory *m)
{
    size_t start = at->used, attention;
    if (!n->kept)
        take_groups(at, n, TESS_GROUP_ATTENTION_INPUTS | TESS_GROUP_ATTENTION, &m->saved);
    if (n->qk_norm) {
        m->saved.q = elements(at, n, n->Q);
        m->saved.k = elements(at, n, n->K);
    }
    if (n->kept)
        m->work.dout = elements(at, n, n->Q);
    if (n->kept && !m->work.deferred)
        take_qkv(at, n, &m->work.dq, &m->work.dk, &m->work.dv);
    attention = at->used;

    at->used = start;
    if (!n->kept)
        take_groups(at, n, TESS_GROUP_FEED_FORWARD, &m->saved);
    if (!m->work.deferred)
        m->work.act = elements(at, n, n->F);
    return larger(attention, at->used);
}

/* Takes the head's memory: a chunk of logits, and the values that a loss needs for each row. */
static size_t take_logits(tess_executor *e, cursor *at, const tess_block *block, const plan_sizes *n)
{
    size_t chunk = (size_t)tess_head_chunk((int64_t)n->V), row = (size_t)tess_head_row((int64_t)n->V);
    size_t rows = n->T < chunk ? n->T : chunk;
    e->head.logits = take(at, rows * row, sizeof(float));
    if (e->model->part.tp_degree > 1) {
        int64_t begin, own;
        tess_shard_rows((int64_t)n->V, e->model->part.tp_degree, e->model->part.tp_rank, &begin, &own);
        e->head.own_weight = take(at, (size_t)own * n->C, n->element);
        e->head.own_logits = take(at, rows * (size_t)own, sizeof(float));
    }
    if (!n->kept)
        return at->used;
    e->head.entropy = floats(at, n, 1);
    e->head.dlogprob = floats(at, n, 1);
    e->head.dentropy = floats(at, n, 1);
    if (block->value.weight >= 0)
        e->head.dvalue = elements(at, n, 1);
    if (e->model->config.value_head && e->model->config.n_outputs == 0)
        e->head.value = floats(at, n, 1);
    return at->used;
}

/* Takes the tensors of a layer that a split backward keeps from its input part to its weight part. A checkpointed
 * layer computes them again instead. */
static void take_deferred(cursor *at, const plan_sizes *n, tess_layer_work *w)
{
    w->dh2 = stream_of(at, n);
    w->dy_mlp = stream_of(at, n);
    w->dy_input = stream_of(at, n);
    w->act = elements(at, n, n->F);
    take_qkv(at, n, &w->dq, &w->dk, &w->dv);
}

static bool defers(const tess_executor *e, int unit)
{
    return e->options.split_backward && e->model->blocks[unit].kind == TESS_BLOCK_LAYER &&
           !tess_executor_is_frozen(e, unit) && tess_executor_recomputes(e, unit) == 0;
}

/* Returns the unit's descriptor, or `counted` if the plan only counts. */
static tess_unit_memory *unit_at(const tess_executor *e, int slot, int unit, tess_unit_memory *counted)
{
    *counted = (tess_unit_memory){.work = {.deferred = defers(e, unit)}};
    return e->units != NULL ? tess_executor_memory(e, slot, unit) : counted;
}

/* The layer below the head stays in memory, because its backward comes next. In a pipeline it does not come next, so
 * there it is on disk, too. */
static bool lies_on_disk(const tess_executor *e, int unit)
{
    bool next = unit + 1 < e->model->n_units && e->model->blocks[unit + 1].kind == TESS_BLOCK_HEAD &&
                tess_executor_slots(&e->options) == 1;
    return e->options.on_disk && e->model->blocks[unit].kind == TESS_BLOCK_LAYER && !tess_executor_is_frozen(e, unit) &&
           !next;
}

static void take_copies(cursor *at, const plan_sizes *n, unsigned dropped, tess_unit_memory *m)
{
    tess_layer_saved copies = {0};
    take_groups(at, n, TESS_GROUP_FEED_FORWARD & ~dropped, &copies);
    m->gate = copies.gate;
    m->up = copies.up;
}

/* Blocks run one at a time, so they share memory for tensors that they do not keep: all of them start at the same
 * address. */
typedef enum plan_share { SHARE_SAVED, SHARE_PHASES } plan_share;

static size_t plan_shared_unit(tess_executor *e, cursor *at, plan_share what, int slot, int unit)
{
    tess_unit_memory counted, *m = unit_at(e, slot, unit, &counted);
    const tess_block *block = &e->model->blocks[unit];
    plan_sizes n = sizes_of(e, unit);
    if (what == SHARE_PHASES && block->kind == TESS_BLOCK_HEAD)
        return take_logits(e, at, block, &n);
    if (what == SHARE_PHASES && block->kind == TESS_BLOCK_LAYER)
        return take_phases(at, &n, m);
    if (what == SHARE_SAVED) {
        take_groups(at, &n, tess_executor_recomputes(e, unit), &m->saved);
        if (lies_on_disk(e, unit) && !defers(e, unit))
            take_copies(at, &n, tess_executor_recomputes(e, unit), m);
    }
    return at->used;
}

static void plan_shared(tess_executor *e, cursor *at, plan_share what)
{
    size_t start = at->used, most = start;
    for (int slot = 0; slot < tess_executor_slots(&e->options); slot++) {
        tess_slot_units units = tess_executor_units_of(e, slot);
        for (int unit = units.begin; unit < units.end; unit++) {
            at->used = start;
            most = larger(most, plan_shared_unit(e, at, what, slot, unit));
        }
    }
    at->used = most;
}

/* Whether a rank keeps only its own rows of the unit's input. */
static bool partitions(const tess_executor *e, int unit)
{
    return e->options.partition_inputs && e->model->part.tp_degree > 1 && !e->options.sequence_parallel &&
           tess_executor_recomputes(e, unit) != 0;
}

/* Each unit fills whole pages, because the pager moves units one by one. */
enum { PAGES = 1 << 16 };

/* Plans the tensors that a layer keeps from its forward to the end of its backward. */
static void plan_layer(tess_executor *e, cursor *at, int unit, tess_unit_memory *m, void *passing)
{
    plan_sizes n = sizes_of(e, unit);
    m->saved.h = partitions(e, unit) ? passing : stream_of(at, &n);
    if (partitions(e, unit))
        m->own_rows = take(at, first_share(e->model, (tess_cut){(int64_t)n.T, 1}) * n.C, n.element);
    m->saved.dropped = tess_executor_recomputes(e, unit);
    take_groups(at, &n, TESS_GROUP_ALL & ~m->saved.dropped, &m->saved);
}

static void plan_layer_on_disk(tess_executor *e, cursor *disk, int unit, tess_unit_memory *m, void *passing)
{
    size_t begin = disk->used;
    plan_layer(e, disk, unit, m, passing);
    (void)take(disk, (PAGES - disk->used % PAGES) % PAGES, 1);
    m->on_disk = disk->base != NULL ? disk->base + begin : NULL;
    m->disk_bytes = disk->used - begin;
    e->largest_on_disk = larger(e->largest_on_disk, m->disk_bytes);
}

/* Plans the tensors that a unit keeps for one micro-batch from its forward to the end of its backward. */
static void plan_unit(tess_executor *e, cursor *at, cursor *disk, int slot, int unit, void *passing)
{
    tess_unit_memory counted, *m = unit_at(e, slot, unit, &counted);
    const tess_block *block = &e->model->blocks[unit];
    plan_sizes n = sizes_of(e, unit);
    m->work = e->work;
    m->work.deferred = defers(e, unit);
    if (!n.kept) {
        m->saved.h = m->saved.h2 = passing;
        return;
    }
    if (unit > tess_executor_units_of(e, slot).begin && e->units != NULL)
        m->work.dh = tess_executor_memory(e, slot, unit - 1)->work.dh3;
    if (e->options.split_backward && block->kind != TESS_BLOCK_HEAD && unit < tess_executor_units_of(e, slot).end - 1)
        m->work.dh3 = stream_of(at, &n);
    if (m->work.deferred)
        take_deferred(at, &n, &m->work);
    if (block->kind == TESS_BLOCK_EMBEDDING)
        return;
    if (block->kind == TESS_BLOCK_HEAD) {
        m->saved.h = stream_of(at, &n);
        m->saved.input_stats = take_stats(at, &n);
    } else if (lies_on_disk(e, unit)) {
        plan_layer_on_disk(e, disk, unit, m, passing);
    } else {
        plan_layer(e, at, unit, m, passing);
    }
}

/* Plans the tensor for a stream that units do not keep: one micro-batch uses it from unit to unit. */
static void *plan_passing(tess_executor *e, cursor *at, tess_slot_units units)
{
    bool passes = false;
    for (int unit = units.begin; unit < units.end; unit++)
        passes |= tess_executor_is_frozen(e, unit) || partitions(e, unit);
    plan_sizes n = sizes_of(e, units.begin);
    return passes ? stream_of(at, &n) : NULL;
}

/* If there is no backward, micro-batches run one after the other and share one stream tensor. Otherwise each slot
 * has its own. */
static void plan_slots(tess_executor *e, cursor *at, cursor *disk)
{
    void *passing = NULL;
    for (int slot = 0; slot < tess_executor_slots(&e->options); slot++) {
        tess_slot_units units = tess_executor_units_of(e, slot);
        if (slot == 0 || e->options.train)
            passing = plan_passing(e, at, units);
        for (int unit = units.begin; unit < units.end; unit++)
            plan_unit(e, at, disk, slot, unit, passing);
    }
}

/* Looks at the first layer only: all layers have the same feed-forward size. */
static bool exchanges_sums(const tess_model *model)
{
    for (int unit = 0; unit < model->n_units; unit++)
        if (model->blocks[unit].kind == TESS_BLOCK_LAYER)
            return tess_exchanges_sums(model->blocks[unit].down.in, model->blocks[unit].down.in_leaf,
                                       model->part.tp_degree);
    return false;
}

/* Whether split products are cut by rows of the stream, which needs sequence parallelism. By rows a rank receives
 * (C, K) of weights; by columns it receives (T, K) of operands. The smaller one wins. */
static bool cuts_products_by_rows(const tess_executor *e)
{
    return e->options.sequence_parallel && e->options.max_tokens >= e->model->config.hidden_size;
}

/* Takes the memory into which products and sums gather, for the widest layer.
 *   Head norms gather q before the norm and its gradient from attention, and compute the gradient for the
 *     projection.
 *   Attention with shared key heads gathers all heads and their gradients.
 *   Norms gather two slices, and two statistics per row. */
static void plan_split(tess_executor *e, cursor *at)
{
    const tess_model *model = e->model;
    size_t T = (size_t)e->options.max_tokens, element = tess_dtype_size(e->options.dtype), heads = 2;
    int64_t C = model->config.hidden_size, begin, slice;
    tess_shard_rows(C, model->part.tp_degree, model->part.tp_rank, &begin, &slice);
    e->split.by_rows = cuts_products_by_rows(e);
    size_t rows = T, columns = (size_t)slice, operands = T * 2 * (size_t)slice, weights = 0;
    if (e->split.by_rows) {
        rows = (size_t)tess_executor_stream_room(model, &e->options);
        columns = (size_t)C;
    }
    for (int unit = 0; unit < model->n_units; unit++) {
        const tess_block *block = &model->blocks[unit];
        if (block->kind != TESS_BLOCK_LAYER)
            continue;
        size_t q = (size_t)block->o.in.size, width = larger(3 * q, 2 * (size_t)block->down.in.size);
        weights = larger(weights, width * columns);
        const size_t kv = (size_t)block->k.out.size;
        operands = larger(operands, larger(width * rows, tess_block_norms_heads(block) ? T * 3 * q : 0));
        operands = larger(operands, tess_block_shares_key_heads(block) ? T * 4 * (q + kv) : 0);
        heads = larger(heads, q / (size_t)block->head_size);
    }
    e->split.operands = take(at, operands, element);
    e->split.weights = take(at, weights, element);
    e->split.slice = take(at, T * (size_t)slice, element);
    e->split.rstd = take(at, T * heads, sizeof(float));
    if (exchanges_sums(model)) {
        size_t degree = (size_t)model->part.tp_degree, share = (T + degree - 1) / degree;
        e->split.partial = take(at, (T + degree * share) * (size_t)C, sizeof(float));
    }
    if (e->options.sequence_parallel)
        e->split.stream = take(at, T * (size_t)C, element);
}

/* The widest input or output of a layer's maps with adapters. The list has qkv, for layers that store q, k and v as
 * one matrix. */
static size_t widest_adapted(const tess_block *block, bool train)
{
    const tess_linear *const maps[] = {&block->q, &block->k,    &block->v,  &block->qkv,
                                       &block->o, &block->gate, &block->up, &block->down};
    size_t widest = 0;
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        if (maps[i]->adapter.rank > 0) {
            widest = larger(widest, (size_t)maps[i]->n_out);
            widest = larger(widest, train ? (size_t)maps[i]->n_in : 0);
        }
    return widest;
}

/* The widest inputs or outputs that are cut over ranks, of a map with an adapter. */
static size_t widest_shared(const tess_block *block)
{
    const tess_linear *const maps[] = {&block->q,    &block->k,  &block->v,   &block->o,
                                       &block->gate, &block->up, &block->down};
    size_t widest = 0;
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        if (maps[i]->adapter.rank > 0) {
            widest = larger(widest, maps[i]->in.unit > 0 ? (size_t)maps[i]->in.size : 0);
            widest = larger(widest, maps[i]->out.unit > 0 ? (size_t)maps[i]->out.size : 0);
        }
    return widest;
}

/* If activations are float32, sums need no separate buffer, except for the gradient of an activation. */
static void plan_low_rank(tess_executor *e, cursor *at)
{
    plan_sizes n = sizes_of(e, 0);
    size_t widest = 0, shared = 0;
    bool narrow = e->options.dtype != TESS_F32, sums = narrow;
    for (int unit = 0; unit < e->model->n_units; unit++) {
        shared = larger(shared, widest_shared(&e->model->blocks[unit]));
        widest = larger(widest, widest_adapted(&e->model->blocks[unit], e->options.train));
        sums |= e->options.train && e->model->blocks[unit].down.adapter.rank > 0;
    }
    e->low_rank.low = elements(at, &n, (size_t)e->model->config.lora.rank);
    if (sums)
        e->low_rank.sum = floats(at, &n, widest);
    if (narrow)
        e->low_rank.wide = elements(at, &n, widest);
    if (e->model->part.tp_degree == 1)
        return;
    e->low_rank.factor = take(at, (size_t)e->model->config.lora.rank * shared, n.element);
    if (e->options.train)
        e->low_rank.all = elements(at, &n, shared);
}

/* Every product of a layer reads two of the matrices (T, C), (T, W) and (C, W). W is the width of gate and up
 * together, since their input gradient is one sum of products, or that of q, k and v. */
static size_t rounded_elements(const tess_executor *e, int unit)
{
    plan_sizes n = sizes_of(e, unit);
    size_t W = larger(n.gated ? 2 * n.F : n.F, n.Q + 2 * n.K), inner = n.T * n.C, outer = n.T * W, weight = n.C * W;
    return larger(larger(inner + outer, inner + weight), outer + weight);
}

static void plan_rounded(tess_executor *e, cursor *at)
{
    size_t most = 0;
    for (int unit = 0; unit < e->model->n_units; unit++)
        if (e->model->blocks[unit].kind == TESS_BLOCK_LAYER)
            most = larger(most, rounded_elements(e, unit));
    e->rounded = take(at, most, tess_dtype_size(e->options.dtype));
}

/* Plans the work space that all blocks share. */
static void plan_common(tess_executor *e, cursor *at)
{
    plan_sizes n = sizes_of(e, 0);
    tess_layer_work *w = &e->work;
    w->branch = stream_of(at, &n);
    w->y = elements(at, &n, n.C);
    if (e->options.train) {
        int64_t T = (int64_t)n.T;
        size_t fusing = tess_gemm_fused_work(T, (int64_t)n.C, true, TESS_THEN_NOTHING, e->options.dtype);
        for (int unit = 0; unit < e->model->n_units; unit++)
            fusing = larger(fusing, tess_gemm_fused_work(T, e->model->blocks[unit].intermediate_size, false,
                                                         TESS_THEN_ACT_BACKWARD, e->options.dtype));
        w->dh3 = w->dh2 = w->dh = stream_of(at, &n);
        w->dy_mlp = w->dy_input = w->branch;
        w->fusing = take(at, fusing, 1);
    }
    if (e->model->part.tp_degree > 1)
        plan_split(e, at);
    if (e->model->config.lora.rank > 0)
        plan_low_rank(e, at);
    if (e->options.fp8)
        plan_rounded(e, at);
    e->ids = take(at, n.T, sizeof(int32_t));
    e->pos = take(at, n.T, sizeof(int32_t));
    e->targets = take(at, n.T, sizeof(int32_t));
}

static void plan_tables(tess_executor *e, cursor *at)
{
    const size_t n_tables = e->options.train && tess_executor_trains_table(e) ? (size_t)e->options.n_tables : 0;
    e->tables.count = e->model->config.vocab_size * e->model->blocks[0].width;
    e->tables.room = take(at, n_tables * (size_t)e->tables.count, sizeof(float));
}

bool tess_executor_rotates(const tess_executor *e)
{
    for (int unit = 0; unit < e->model->n_units; unit++)
        if (e->model->blocks[unit].rope)
            return true;
    return false;
}

size_t tess_executor_plan(tess_executor *e, char *base, char *on_disk)
{
    cursor at = {base, 0}, disk = {on_disk, 0};
    plan_common(e, &at);
    if (tess_executor_rotates(e)) {
        size_t count = (size_t)e->options.max_position * (size_t)(e->model->config.head_size / 2);
        e->cos_table = take(&at, count, sizeof(float));
        e->sin_table = take(&at, count, sizeof(float));
    }
    plan_tables(e, &at);
    plan_slots(e, &at, &disk);
    e->disk_bytes = disk.used;
    plan_shared(e, &at, SHARE_SAVED);
    plan_shared(e, &at, SHARE_PHASES);
    return at.used;
}

/* ---- Exchanges ---- */
int64_t tess_executor_stream_rows(const tess_model *model, const tess_executor_options *options, int64_t n_tokens)
{
    int64_t begin, R;
    tess_cut_range(tess_executor_rows(options, n_tokens), model->part.tp_degree, model->part.tp_rank, &begin, &R);
    return R;
}

int64_t tess_executor_stream_room(const tess_model *model, const tess_executor_options *options)
{
    return (int64_t)first_share(model, tess_executor_rows(options, options->max_tokens));
}

size_t tess_executor_exchange_bytes(const tess_model *model, const tess_executor_options *options)
{
    size_t T = (size_t)options->max_tokens, element = tess_dtype_size(options->dtype);
    size_t C = (size_t)model->config.hidden_size, V = (size_t)tess_model_config_outputs(&model->config), most = 0;
    size_t stream = first_share(model, (tess_cut){(int64_t)C, 1}),
           rows = options->sequence_parallel ? first_share(model, tess_executor_rows(options, options->max_tokens)) : 0,
           logits = first_share(model, (tess_cut){(int64_t)V, 1});
    size_t chunk = (size_t)tess_head_chunk((int64_t)V), lines = T < chunk ? T : chunk;
    size_t own_lines = first_share(model, (tess_cut){(int64_t)lines, 1});
    for (int unit = 0; unit < model->n_units; unit++) {
        const tess_block *block = &model->blocks[unit];
        size_t q = first_share(model, block->o.in), mlp = first_share(model, block->down.in), widest = larger(q, mlp);
        size_t layer = larger(larger(larger(T, C), (size_t)model->config.lora.rank) * widest * element,
                              block->q.stored_whole ? C * q * sizeof(float) : 0);
        size_t head = larger(V * stream * element, larger(lines * logits * sizeof(float), own_lines * V * element));
        most = larger(most, larger(T * stream, rows * C) * element);
        if (options->partition_inputs)
            most = larger(most, first_share(model, (tess_cut){options->max_tokens, 1}) * C * element);
        most = larger(most, exchanges_sums(model) ? T * C * sizeof(float) : 0);
        most = larger(most, block->kind == TESS_BLOCK_LAYER ? layer : block->kind == TESS_BLOCK_HEAD ? head : 0);
    }
    return most;
}
