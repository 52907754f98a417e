/* Plans the memory of an executor: all activations in one block. The same code counts bytes and sets pointers. The
 * tensors of a unit are those that the tables of its parts describe (nn/layers/block_part.h). */
#include "nn/executor_impl.h"

#include "nn/layers/experts.h"
#include "nn/layers/model_ends.h"
#include "nn/layers/transformer_layer.h"

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

/* The rows of logits that are in memory at the same time, of n_tokens. */
static int64_t logit_rows(const tess_model *model, size_t logit_bytes, int64_t n_tokens)
{
    const int64_t chunk = tess_head_chunk(tess_model_config_outputs(&model->config), logit_bytes);
    return n_tokens < chunk ? n_tokens : chunk;
}

void tess_executor_sizes(const tess_executor *e, int unit, int part, int64_t n_tokens, int64_t sizes[TESS_N_DIMS])
{
    const tess_block *block = &e->model->blocks[unit];
    const tess_placed_part *at = &block->parts[part];
    sizes[TESS_DIM_ONE] = 1;
    sizes[TESS_DIM_T] = n_tokens;
    sizes[TESS_DIM_R] = tess_executor_stream_room(e->model, &e->options);
    sizes[TESS_DIM_C] = block->hidden_size;
    sizes[TESS_DIM_MEAN] = block->layer_norm ? 1 : -1;
    sizes[TESS_DIM_LEAVES] = tess_executor_own_leaves(&e->options);
    sizes[TESS_DIM_CONTEXT_RANKS] = e->options.context.n_leaves > 1 ? e->options.context.points.degree : 0;
    sizes[TESS_DIM_LOGITS] = logit_rows(e->model, e->options.logit_bytes, n_tokens);
    if (at->part->sizes != NULL)
        at->part->sizes(e->model, at->own, sizes);
}

/* Take (T, width) elements of the compute dtype, or a stream tensor (R, C). Sizes are bounded by the config's check,
 * so the product does not overflow. */
static void *elements(const tess_executor *e, cursor *at, size_t width)
{
    return take(at, (size_t)e->options.max_tokens * width, tess_dtype_size(e->options.dtype));
}

static void *stream_of(const tess_executor *e, cursor *at, int64_t C)
{
    const size_t R = (size_t)tess_executor_stream_room(e->model, &e->options);
    return take(at, R * (size_t)C, tess_dtype_size(e->options.dtype));
}

/* ---- The tensors of units ---- */
/* How one unit keeps its tensors on one slot. */
typedef struct unit_plan {
    int unit;
    const tess_block *block;
    bool kept;        /* a backward reads the unit's values */
    bool deferred;    /* a split backward keeps tensors from its input part to its weight part */
    bool partitioned; /* a rank keeps only its own rows of the unit's input */
    bool on_disk;
    unsigned dropped; /* groups that backward computes again */
} unit_plan;

/* The unit below a sink stays in memory, because its backward comes next. In a pipeline it does not come next, so
 * there it is on disk, too. */
static bool lies_on_disk(const tess_executor *e, int unit)
{
    bool next =
        unit + 1 < e->model->n_units && !tess_executor_leaves(e, unit + 1) && tess_executor_slots(&e->options) == 1;
    return e->options.on_disk && tess_executor_passes(e, unit) && !tess_executor_is_frozen(e, unit) && !next;
}

/* A unit that is computed again defers nothing. */
static unit_plan plan_of(const tess_executor *e, int unit)
{
    unit_plan p = {unit, &e->model->blocks[unit], .kept = !tess_executor_is_frozen(e, unit),
                   .on_disk = lies_on_disk(e, unit), .dropped = tess_executor_recomputes(e, unit)};
    p.deferred = e->options.split_backward && tess_executor_passes(e, unit) && p.kept && p.dropped == 0;
    p.partitioned =
        e->options.partition_inputs && e->model->part.tp_degree > 1 && !e->options.sequence_parallel && p.dropped != 0;
    return p;
}

typedef enum home {
    HOME_NONE,
    HOME_KEPT,    /* the unit's own, from its forward to the end of its backward; may be on disk */
    HOME_LEFT,    /* the unit's own, from the input part of a backward to its weight part */
    HOME_DROPPED, /* memory that all units share, for tensors that are computed again */
    HOME_WORK     /* memory that all parts share */
} home;

static home home_of(const unit_plan *p, const tess_tensor_row *row)
{
    const unsigned uses = row->uses;
    if (uses & TESS_TENSOR_SAVED && p->kept)
        return row->group & p->dropped ? HOME_DROPPED : HOME_KEPT;
    if (uses & TESS_TENSOR_WEIGHTS && p->deferred)
        return HOME_LEFT;
    return uses & TESS_TENSOR_FORWARD || (uses & TESS_TENSOR_BACKWARD && p->kept) ? HOME_WORK : HOME_NONE;
}

/* Takes one tensor. Returns NULL if the block does not have it. */
static void *take_tensor(const tess_executor *e, cursor *at, const tess_tensor_row *row, const int64_t *sizes)
{
    const int64_t rows = sizes[row->rows], columns = sizes[row->columns];
    if (rows < 0 || columns < 0)
        return NULL;
    return take(at, (size_t)(rows * columns), row->is_float ? sizeof(float) : tess_dtype_size(e->options.dtype));
}

/* Whether part i reads the slot's stream, which one micro-batch uses from unit to unit. */
static bool reads_passing(const unit_plan *p, int i)
{
    return !p->kept || (p->partitioned && i == 0);
}

/* Takes the stream around a part. */
static void take_stream(const tess_executor *e, cursor *at, const unit_plan *p, int i, home wanted, tess_tensors *t)
{
    const tess_part *part = p->block->parts[i].part;
    const home input = part->group & p->dropped ? HOME_DROPPED : HOME_KEPT;
    if (input == wanted && !part->source && !p->block->parts[i].parallel && !reads_passing(p, i))
        t->in = stream_of(e, at, p->block->hidden_size);
    if (wanted == HOME_LEFT && p->deferred)
        t->dy = stream_of(e, at, p->block->hidden_size);
    if (wanted == HOME_LEFT && p->deferred && i > 0)
        t->din = stream_of(e, at, p->block->hidden_size);
}

static void take_part(const tess_executor *e, cursor *at, const unit_plan *p, int i, home wanted, tess_unit_memory *m)
{
    const tess_placed_part *placed = &p->block->parts[i];
    int64_t sizes[TESS_N_DIMS];
    tess_tensors counted;
    tess_executor_sizes(e, p->unit, i, e->options.max_tokens, sizes);
    take_stream(e, at, p, i, wanted, m != NULL ? &m->parts[i].tensors : &counted);
    for (int j = 0; j < placed->part->n_tensors; j++) {
        const tess_tensor_row *row = &placed->part->tensors[j];
        void *tensor = home_of(p, row) == wanted ? take_tensor(e, at, row, sizes) : NULL;
        if (m == NULL || tensor == NULL)
            continue;
        tess_tensor_set(m->parts[i].tensors.own, row->at, tensor);
        tess_tensor_set(m->parts[i].own_again, row->at, tensor);
    }
    if (m == NULL || placed->part->place_views == NULL)
        return;
    placed->part->place_views(placed->own, tess_dtype_size(e->options.dtype), m->parts[i].tensors.own);
    placed->part->place_views(placed->own, tess_dtype_size(e->options.dtype), m->parts[i].own_again);
}

static void take_parts(const tess_executor *e, cursor *at, const unit_plan *p, home wanted, tess_unit_memory *m)
{
    for (int i = 0; i < p->block->n_parts; i++)
        take_part(e, at, p, i, wanted, m);
}

/* Returns the unit's descriptor, or NULL if the plan only counts. */
static tess_unit_memory *unit_at(const tess_executor *e, int slot, int unit)
{
    return e->units != NULL ? tess_executor_memory(e, slot, unit) : NULL;
}

/* The parts of a unit run one after the other, so their work spaces share the same memory. */
static size_t share_work(const tess_executor *e, cursor *at, const unit_plan *p, tess_unit_memory *m)
{
    size_t start = at->used, most = start;
    for (int i = 0; i < p->block->n_parts; i++) {
        at->used = start;
        take_part(e, at, p, i, HOME_WORK, m);
        most = larger(most, at->used);
    }
    return most;
}

/* Takes copies of the tensors that backward overwrites, of a unit on disk. */
static void take_copies(const tess_executor *e, cursor *at, const unit_plan *p, tess_unit_memory *m)
{
    for (int i = 0; i < p->block->n_parts; i++) {
        const tess_part *part = p->block->parts[i].part;
        int64_t sizes[TESS_N_DIMS];
        tess_executor_sizes(e, p->unit, i, e->options.max_tokens, sizes);
        for (int j = 0; j < part->n_tensors; j++) {
            const tess_tensor_row *row = &part->tensors[j];
            const bool copied = row->uses & TESS_TENSOR_OVERWRITTEN && home_of(p, row) == HOME_KEPT;
            void *copy = copied ? take_tensor(e, at, row, sizes) : NULL;
            if (copy != NULL && m != NULL)
                tess_tensor_set(m->parts[i].own_again, row->at, copy);
        }
    }
}

static size_t share_dropped(const tess_executor *e, cursor *at, const unit_plan *p, tess_unit_memory *m)
{
    take_parts(e, at, p, HOME_DROPPED, m);
    if (p->on_disk && !p->deferred)
        take_copies(e, at, p, m);
    return at->used;
}

/* Units run one at a time, so they share memory for tensors that they do not keep: all of them start at the same
 * address. */
static void plan_shared(tess_executor *e, cursor *at,
                        size_t (*share)(const tess_executor *, cursor *, const unit_plan *, tess_unit_memory *))
{
    size_t start = at->used, most = start;
    for (int slot = 0; slot < tess_executor_slots(&e->options); slot++) {
        tess_slot_units units = tess_executor_units_of(e, slot);
        for (int unit = units.begin; unit < units.end; unit++) {
            const unit_plan p = plan_of(e, unit);
            at->used = start;
            most = larger(most, share(e, at, &p, unit_at(e, slot, unit)));
        }
    }
    at->used = most;
}

/* Each unit fills whole pages, because the pager moves units one by one. */
enum { PAGES = 1 << 16 };

static void take_kept(const tess_executor *e, cursor *at, const unit_plan *p, tess_unit_memory *m)
{
    const size_t C = (size_t)p->block->hidden_size, rows = first_share(e->model, (tess_cut){e->options.max_tokens, 1});
    void *own_rows = p->partitioned ? take(at, rows * C, tess_dtype_size(e->options.dtype)) : NULL;
    if (m != NULL)
        m->own_rows = own_rows;
    take_parts(e, at, p, HOME_KEPT, m);
}

static void take_kept_on_disk(tess_executor *e, cursor *disk, const unit_plan *p, tess_unit_memory *m)
{
    size_t begin = disk->used, bytes;
    take_kept(e, disk, p, m);
    (void)take(disk, (PAGES - disk->used % PAGES) % PAGES, 1);
    bytes = disk->used - begin;
    e->largest_on_disk = larger(e->largest_on_disk, bytes);
    if (m == NULL)
        return;
    m->on_disk = disk->base != NULL ? disk->base + begin : NULL;
    m->disk_bytes = bytes;
}

/* Points the stream and its gradient around a unit's parts to work space, before memory of their own is planned. */
static void place_shared(const tess_executor *e, const unit_plan *p, int slot, bool first, void *passing,
                         tess_unit_memory *m)
{
    const size_t bytes = e->model->work_bytes;
    m->parts = first ? e->parts + slot * e->model->n_parts : m[-1].parts + p->block[-1].n_parts;
    m->dout = e->dstream;
    for (int i = 0; i < p->block->n_parts; i++) {
        char *own = e->works + (size_t)slot * 2 * bytes + p->block->parts[i].work;
        tess_tensors t = {.own = own, .din = e->dstream, .dy = e->branch, .y = e->y, .branch = e->branch};
        t.host = e->hosts + ((size_t)slot * e->model->host_bytes + p->block->parts[i].host) *
                                (size_t)tess_executor_own_leaves(&e->options);
        t.deferred = p->deferred, t.dropped = p->dropped, t.adds = p->block->parts[i].parallel;
        if (t.adds)
            t.din = e->daside;
        t.in = !p->block->parts[i].part->source && reads_passing(p, i) ? passing : NULL;
        if (i == 0 && p->kept && !first)
            t.din = m[-1].dout;
        m->parts[i] = (tess_part_memory){t, own + bytes};
    }
}

/* Plans the tensors that a unit keeps for one micro-batch from its forward to the end of its backward. */
static void plan_unit(tess_executor *e, cursor *at, cursor *disk, int slot, int unit, void *passing)
{
    tess_unit_memory *m = unit_at(e, slot, unit);
    const tess_slot_units units = tess_executor_units_of(e, slot);
    const unit_plan p = plan_of(e, unit);
    if (m != NULL)
        place_shared(e, &p, slot, unit == units.begin, passing, m);
    if (!p.kept)
        return;
    if (e->options.split_backward && tess_executor_leaves(e, unit) && unit < units.end - 1) {
        void *dout = stream_of(e, at, p.block->hidden_size);
        if (m != NULL)
            m->dout = dout;
    }
    take_parts(e, at, &p, HOME_LEFT, m);
    if (p.on_disk)
        take_kept_on_disk(e, disk, &p, m);
    else
        take_kept(e, at, &p, m);
}

/* Plans the tensor for a stream that units do not keep: one micro-batch uses it from unit to unit. */
static void *plan_passing(const tess_executor *e, cursor *at, tess_slot_units units)
{
    bool passes = false;
    for (int unit = units.begin; unit < units.end; unit++)
        passes |= tess_executor_is_frozen(e, unit) || plan_of(e, unit).partitioned;
    return passes ? stream_of(e, at, tess_model_width(e->model)) : NULL;
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

/* Points the inputs of parallel parts to those of the parts before them. */
static void link_parallel_parts(const tess_executor *e)
{
    for (int slot = 0; slot < tess_executor_slots(&e->options); slot++) {
        const tess_slot_units units = tess_executor_units_of(e, slot);
        for (int unit = units.begin; unit < units.end; unit++) {
            tess_part_memory *parts = tess_executor_memory(e, slot, unit)->parts;
            for (int i = 1; i < e->model->blocks[unit].n_parts; i++)
                if (e->model->blocks[unit].parts[i].parallel)
                    parts[i].tensors.in = parts[i - 1].tensors.in;
        }
    }
}

/* ---- Work space of all units ---- */
static bool has_parallel_parts(const tess_model *model)
{
    for (int unit = 0; unit < model->n_units; unit++)
        for (int i = 0; i < model->blocks[unit].n_parts; i++)
            if (model->blocks[unit].parts[i].parallel)
                return true;
    return false;
}

/* Returns what the parts of all units need. */
static tess_part_room room_of(const tess_executor *e)
{
    tess_part_room room = {.rstd = 2};
    for (int unit = 0; unit < e->model->n_units; unit++) {
        const tess_block *block = &e->model->blocks[unit];
        for (int i = 0; i < block->n_parts; i++)
            if (block->parts[i].part->room != NULL)
                block->parts[i].part->room(block->parts[i].own, &room);
    }
    return room;
}

static bool exchanges_sums(const tess_model *model)
{
    const tess_linear *map;
    for (int unit = 0; unit < model->n_units; unit++)
        for (int i = 0; (map = tess_block_map(&model->blocks[unit], i)) != NULL; i++)
            if (map->in.unit > 0 && tess_exchanges_sums(map->in, map->in_leaf, model->part.tp_degree))
                return true;
    return false;
}

/* Whether split products are cut by rows of the stream, which needs sequence parallelism. By rows a rank receives
 * (C, K) of weights; by columns it receives (T, K) of operands. The smaller one wins. */
static bool cuts_products_by_rows(const tess_executor *e)
{
    return e->options.sequence_parallel && e->options.max_tokens >= tess_model_width(e->model);
}

/* Takes the memory into which products and sums gather, for the widest part. Norms gather two slices, and two
 * statistics per row. */
static void plan_split(tess_executor *e, cursor *at, const tess_part_room *room)
{
    const tess_model *model = e->model;
    size_t T = (size_t)e->options.max_tokens, element = tess_dtype_size(e->options.dtype);
    int64_t C = tess_model_width(model), begin, slice;
    tess_shard_rows(C, model->part.tp_degree, model->part.tp_rank, &begin, &slice);
    e->split.by_rows = cuts_products_by_rows(e);
    size_t rows = T, columns = (size_t)slice, operands = T * larger(2 * columns, (size_t)room->operands);
    if (e->split.by_rows) {
        rows = (size_t)tess_executor_stream_room(model, &e->options);
        columns = (size_t)C;
    }
    e->split.operands = take(at, larger(operands, (size_t)room->shared * rows), element);
    e->split.weights = take(at, (size_t)room->shared * columns, element);
    e->split.slice = take(at, T * (size_t)slice, element);
    e->split.rstd = take(at, T * (size_t)room->rstd, sizeof(float));
    if (exchanges_sums(model)) {
        size_t degree = (size_t)model->part.tp_degree, share = (T + degree - 1) / degree;
        e->split.partial = take(at, (T + degree * share) * (size_t)C, sizeof(float));
    }
    if (e->options.sequence_parallel)
        e->split.stream = take(at, T * (size_t)C, element);
}

/* Sizes of the maps with adapters: the widest input or output, the widest one that is cut over ranks, and the widest
 * input of a view of a fused matrix. */
static void find_widest(const tess_block *block, bool train, size_t *widest, size_t *shared, size_t *viewed)
{
    const tess_linear *map;
    for (int i = 0; (map = tess_block_map(block, i)) != NULL; i++) {
        if (map->adapter.rank == 0)
            continue;
        *widest = larger(*widest, (size_t)(train && map->n_in > map->n_out ? map->n_in : map->n_out));
        *shared = larger(*shared, map->in.unit > 0 ? (size_t)map->in.size : 0);
        *shared = larger(*shared, map->out.unit > 0 || map->joined ? (size_t)map->out.size : 0);
        *viewed = larger(*viewed, map->stored_whole ? (size_t)map->n_in : 0);
    }
}

/* If activations are float32, sums need no separate buffer, except for the gradient of an activation. */
static void plan_low_rank(tess_executor *e, cursor *at, const tess_part_room *room)
{
    const size_t rank = (size_t)e->model->config.lora.rank;
    const int own = tess_executor_own_leaves(&e->options);
    size_t widest = 0, shared = 0, viewed = 0;
    const bool narrow = e->options.dtype != TESS_F32;
    for (int unit = 0; unit < e->model->n_units; unit++)
        find_widest(&e->model->blocks[unit], e->options.train, &widest, &shared, &viewed);
    e->low_rank.low = elements(e, at, rank);
    if (narrow || (e->options.train && room->sums))
        e->low_rank.sum = take(at, (size_t)e->options.max_tokens * widest, sizeof(float));
    if (narrow)
        e->low_rank.wide = elements(e, at, widest);
    if (e->options.train && own > 1 && viewed > 0)
        e->low_rank.leaves = take(at, (size_t)(own + __builtin_ctz((unsigned)own)) * rank * viewed, sizeof(float));
    if (e->model->part.tp_degree == 1)
        return;
    e->low_rank.factor = take(at, rank * shared, tess_dtype_size(e->options.dtype));
    if (e->options.train)
        e->low_rank.all = elements(e, at, shared);
}

/* Takes the work space of attention over the tokens of all ranks, and the memory of leaves: for the largest sum that is
 * no product of a layer, and for a tied table, whose leaves wait for the embedding's part. */
static void plan_context(tess_executor *e, cursor *at)
{
    const int own = tess_executor_own_leaves(&e->options);
    const tess_model *model = e->model;
    size_t attention = 0, sum = 0;
    if (e->options.context.n_leaves <= 1)
        return;
    for (int unit = 0; unit < model->n_units; unit++) {
        const tess_attention_params *p = tess_block_find(&model->blocks[unit], &tess_attention_part);
        if (p != NULL)
            attention = larger(attention, tess_context_attention_bytes(p, &e->options.context, e->options.max_tokens,
                                                                       e->options.dtype));
    }
    e->context_work = take(at, attention, 1);
    if (own == 1 || !e->options.train)
        return;
    for (int i = 0; i < model->n_params; i++) {
        const tess_param *p = &model->params[i];
        const bool product = p->shape.n_dims > 1 && model->blocks[p->unit].layer >= 0;
        const bool apart =
            p->unit == model->table_unit && i == model->blocks[p->unit].first + model->blocks[p->unit].table;
        if (!product && !apart && !p->frozen) /* a norm has two sums */
            sum = larger(sum, (size_t)tess_shape_count(&p->shape) * (p->shape.n_dims > 1 ? 1 : 2));
    }
    e->leaf_room = take(at, (size_t)__builtin_ctz((unsigned)own) * sum, sizeof(float));
    if (tess_executor_trains_table(e) && e->options.n_tables == 0)
        e->leaf_tables =
            take(at, (size_t)(own - 1) * (size_t)(model->config.vocab_size * model->blocks[model->table_unit].width),
                 sizeof(float));
}

/* Elements of a row of the widest layer's keys. */
static size_t cached_row(const tess_model *model)
{
    size_t most = 0;
    for (int unit = 0; unit < model->n_units; unit++) {
        const tess_attention_params *p = tess_block_find(&model->blocks[unit], &tess_attention_part);
        if (p != NULL)
            most = larger(most, (size_t)tess_cached_row(p));
    }
    return most;
}

size_t tess_executor_reader_bytes(const tess_model *model, const tess_executor_options *options, int n_readers)
{
    const size_t tokens = (size_t)options->max_tokens / (size_t)n_readers;
    return tokens * cached_row(model) * tess_dtype_size(options->dtype);
}

size_t tess_executor_context_bytes(const tess_model *model, const tess_executor_options *options)
{
    size_t most = 0;
    for (int unit = 0; unit < model->n_units; unit++) {
        const tess_attention_params *p = tess_block_find(&model->blocks[unit], &tess_attention_part);
        const tess_experts_params *experts = tess_block_find(&model->blocks[unit], &tess_experts_part);
        if (p != NULL)
            most = larger(most, tess_context_exchange_bytes(p, &options->context, options->max_tokens, options->dtype));
        if (experts != NULL) /* rows of each expert, and targets */
            most = larger(most, (size_t)(experts->n_experts + 1) * sizeof(int32_t));
    }
    return most;
}

size_t tess_executor_ring_bytes(const tess_model *model, const tess_executor_options *options)
{
    size_t most = 0;
    for (int unit = 0; unit < model->n_units; unit++) {
        const tess_attention_params *p = tess_block_find(&model->blocks[unit], &tess_attention_part);
        if (p != NULL)
            most = larger(most, tess_ring_buffer_bytes(p, &options->context, options->max_tokens, options->dtype));
    }
    return most;
}

/* Every product of a layer reads two of the matrices (T, C), (T, W) and (C, W). W is the width of all terms together,
 * such as q, k and v. */
static void plan_rounded(tess_executor *e, cursor *at, const tess_part_room *room)
{
    const size_t T = (size_t)e->options.max_tokens, C = (size_t)tess_model_width(e->model), W = (size_t)room->width,
                 inner = T * C, outer = T * W, weight = C * W;
    e->rounded =
        take(at, larger(larger(inner + outer, inner + weight), outer + weight), tess_dtype_size(e->options.dtype));
}

/* Plans the work space that all blocks share. */
static void plan_common(tess_executor *e, cursor *at)
{
    const int64_t T = e->options.max_tokens, C = tess_model_width(e->model);
    const tess_part_room room = room_of(e);
    e->branch = stream_of(e, at, C);
    e->y = elements(e, at, (size_t)C);
    if (e->options.train) {
        const tess_dtype dtype = e->options.dtype;
        e->dstream = stream_of(e, at, C);
        e->daside = has_parallel_parts(e->model) ? stream_of(e, at, C) : NULL;
        const int64_t rows = room.grouped > 0 ? T * room.grouped : T;
        e->fusing = take(at,
                         larger(tess_gemm_fused_work(rows, C, true, TESS_THEN_NOTHING, dtype),
                                tess_gemm_fused_work(rows, room.activated, false, TESS_THEN_ACT_BACKWARD, dtype)),
                         1);
    }
    if (e->model->part.tp_degree > 1)
        plan_split(e, at, &room);
    if (e->model->config.lora.rank > 0)
        plan_low_rank(e, at, &room);
    if (e->options.fp8 || e->options.decode != NULL)
        plan_rounded(e, at, &room);
    plan_context(e, at);
    if (e->options.readers != NULL && e->options.readers->degree > 1)
        e->read_rows = elements(e, at, 2 * cached_row(e->model));
    for (int i = 0; i < TESS_N_INPUTS; i++)
        e->inputs[i] = take(at, (size_t)T, sizeof(int32_t));
}

static void plan_tables(tess_executor *e, cursor *at)
{
    if (!e->options.train || !tess_executor_trains_table(e))
        return;
    e->tables.count = e->model->config.vocab_size * e->model->blocks[e->model->table_unit].width;
    const size_t places = (size_t)e->options.n_tables * (size_t)tess_executor_own_leaves(&e->options);
    e->tables.room = take(at, places * (size_t)e->tables.count, sizeof(float));
}

size_t tess_executor_rope_count(const tess_executor *e, tess_rope_table table)
{
    for (int unit = 0; unit < e->model->n_units; unit++) {
        const tess_attention_params *p = tess_block_find(&e->model->blocks[unit], &tess_attention_part);
        if (p != NULL && (p->q_rope == table || p->k_rope == table))
            return (size_t)e->options.max_position * (size_t)(p->rotary / 2);
    }
    return 0;
}

size_t tess_executor_plan(tess_executor *e, char *base, char *on_disk)
{
    cursor at = {base, 0}, disk = {on_disk, 0};
    plan_common(e, &at);
    for (tess_rope_table table = TESS_ROPE_MAIN; table < TESS_N_ROPES; table++) {
        size_t count = tess_executor_rope_count(e, table);
        e->ropes[table].cos_table = take(&at, count, sizeof(float));
        e->ropes[table].sin_table = take(&at, count, sizeof(float));
    }
    plan_tables(e, &at);
    plan_slots(e, &at, &disk);
    e->disk_bytes = disk.used;
    plan_shared(e, &at, share_dropped);
    plan_shared(e, &at, share_work);
    if (e->units != NULL)
        link_parallel_parts(e);
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
    size_t C = (size_t)tess_model_width(model), V = (size_t)tess_model_config_outputs(&model->config), most = 0;
    size_t stream = first_share(model, (tess_cut){(int64_t)C, 1}),
           rows = options->sequence_parallel ? first_share(model, tess_executor_rows(options, options->max_tokens)) : 0,
           logits = first_share(model, (tess_cut){(int64_t)V, 1});
    size_t lines = (size_t)logit_rows(model, 0, options->max_tokens); /* the head exchanges its rows in pieces */
    size_t own_lines = first_share(model, (tess_cut){(int64_t)lines, 1});
    for (int unit = 0; unit < model->n_units; unit++) {
        const tess_block *block = &model->blocks[unit];
        const tess_linear *map;
        size_t widest = 0, whole = 0;
        for (int i = 0; (map = tess_block_map(block, i)) != NULL; i++) {
            widest = larger(widest, map->in.unit > 0 ? first_share(model, map->in) : 0);
            widest = larger(widest, map->out.unit > 0 ? first_share(model, map->out) : 0);
            whole = larger(whole, map->stored_whole ? larger(C, (size_t)model->config.lora.rank) *
                                                          first_share(model, map->out) * sizeof(float)
                                                    : 0);
        }
        size_t maps_most = larger(larger(larger(T, C), (size_t)model->config.lora.rank) * widest * element, whole);
        size_t head = larger(V * stream * element, larger(lines * logits * sizeof(float), own_lines * V * element));
        most = larger(most, larger(T * stream, rows * C) * element);
        if (options->partition_inputs)
            most = larger(most, first_share(model, (tess_cut){options->max_tokens, 1}) * C * element);
        most = larger(most, exchanges_sums(model) ? T * C * sizeof(float) : 0);
        most = larger(most, block->parts[0].part->sink ? head : maps_most);
    }
    return most;
}
