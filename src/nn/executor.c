/* Creates and destroys an executor, and checks and uploads the batch that it works on. */
#include "base/mem/dry_mem.h"
#include "base/mem/scoped.h"
#include "nn/executor_impl.h"

#include <string.h>

#include "base/mem/named.h"

static tess_status check_options(const tess_model *model, const tess_executor_options *o)
{
    const tess_model_config *config = &model->config;
    TESS_CHECK(o->dtype <= TESS_F16, TESS_E_UNSUPPORTED, "executor: dtype %s; supported: float32, bfloat16, float16",
               tess_dtype_name(o->dtype));
    TESS_CHECK(o->max_tokens >= 1 && o->max_tokens <= INT32_MAX, TESS_E_INVALID,
               "executor: batches of %lld tokens; 1 to 2^31-1 are possible", (long long)o->max_tokens);
    int64_t longest = tess_model_config_max_length(config);
    TESS_CHECK(
        o->max_position >= 1 && o->max_position <= longest, TESS_E_INVALID,
        "executor: sequences of %lld tokens, but the model allows 1 to %lld (max_position_embeddings and rope scaling)",
        (long long)o->max_position, (long long)longest);
    TESS_CHECK(o->recompute != TESS_RECOMPUTE_EVERY_N || o->recompute_every >= 1, TESS_E_INVALID,
               "executor: recomputing every %d layers; it must be at least 1", o->recompute_every);
    TESS_CHECK(o->recompute != TESS_RECOMPUTE_SELECTIVE ||
                   (o->recompute_groups & TESS_GROUP_ALL && o->recompute_choices >= 0),
               TESS_E_INVALID, "executor: recomputing selectively needs groups of tensors");
    TESS_CHECK(o->n_slots >= 0 && o->n_slots <= TESS_MAX_SLOTS, TESS_E_INVALID,
               "executor: %d slots; 1 to %d micro-batches may be under way", o->n_slots, TESS_MAX_SLOTS);
    for (int slot = 0; o->slot_units != NULL && slot < o->n_slots; slot++)
        TESS_CHECK(o->slot_units[slot].begin >= 0 && o->slot_units[slot].begin < o->slot_units[slot].end &&
                       o->slot_units[slot].end <= model->n_units,
                   TESS_E_INVALID, "executor: slot %d is for blocks %d to %d; the model has %d", slot,
                   o->slot_units[slot].begin, o->slot_units[slot].end, model->n_units);
    TESS_CHECK(o->first_trainable_unit >= 0 && o->first_trainable_unit < model->n_units, TESS_E_INVALID,
               "executor: the first trainable unit is %d of %d", o->first_trainable_unit, model->n_units);
    const tess_points *points = o->points;
    int rank = points != NULL ? points->rank : 0, degree = points != NULL ? points->degree : 1;
    TESS_CHECK(rank == model->part.tp_rank && degree == model->part.tp_degree, TESS_E_INVALID,
               "executor: its points are those of rank %d of %d, but the model is the part of rank %d of %d", rank,
               degree, model->part.tp_rank, model->part.tp_degree);
    const tess_expert_points *experts = o->expert_points;
    rank = experts != NULL ? experts->rank : 0;
    TESS_CHECK(rank == model->part.ep_rank && (experts != NULL ? experts->degree : 1) == model->part.ep_degree,
               TESS_E_INVALID, "executor: its experts are those of rank %d, but the model has those of rank %d of %d",
               rank, model->part.ep_rank, model->part.ep_degree);
    TESS_CHECK(!o->sequence_parallel || degree > 1, TESS_E_INVALID,
               "executor: sequence_parallel is for ranks that share a model; there is one");
    TESS_CHECK(!o->fp8 || (degree == 1 && config->lora.rank == 0 && o->dtype != TESS_F16), TESS_E_UNSUPPORTED,
               "executor: fp8 goes with float32 or bfloat16, one rank's layers and no adapter");
    TESS_CHECK(o->decode == NULL || degree == 1, TESS_E_UNSUPPORTED, "executor: codes go with one rank's layers");
    const int n_leaves = o->context.n_leaves;
    TESS_CHECK(n_leaves <= 1 || ((n_leaves & (n_leaves - 1)) == 0 && n_leaves % o->context.points.degree == 0),
               TESS_E_INVALID, "executor: %d leaves of a sum over tokens on %d ranks; choose a power of two for each",
               n_leaves, o->context.points.degree);
    TESS_CHECK(o->readers == NULL || o->readers->degree == 1 || (!o->train && degree == 1 && n_leaves <= 1),
               TESS_E_INVALID, "executor: ranks that read texts together have the whole model, and do not train");
    return TESS_OK;
}

/* Bytes for the descriptors of a batch's sequences, each of at least one token, and for four numbers per row that a
 * token loss reads and writes. */
static size_t host_bytes(const tess_executor_options *o)
{
    return (size_t)o->max_tokens *
           ((size_t)tess_executor_context_ranks(o) * sizeof(tess_attention_seq) + (o->train ? 4 * sizeof(float) : 0));
}

static size_t device_bytes(const tess_model *model, const tess_executor_options *options)
{
    tess_executor counted = {.model = model, .options = *options};
    return tess_executor_plan(&counted, NULL, NULL);
}

/* The pager should hold three layers in memory: the layer that is computed, the previous one, which is being written
 * out, and the next one, which is being fetched. */
size_t tess_executor_disk_bytes(const tess_model *model, const tess_executor_options *options, size_t *resident)
{
    tess_executor counted = {.model = model, .options = *options};
    (void)tess_executor_plan(&counted, NULL, NULL);
    *resident = counted.disk_bytes / 3 < counted.largest_on_disk ? counted.disk_bytes : 3 * counted.largest_on_disk;
    return counted.disk_bytes;
}

size_t tess_executor_bytes(const tess_model *model, const tess_executor_options *options)
{
    size_t bytes;
    return __builtin_add_overflow(device_bytes(model, options), host_bytes(options), &bytes) ? SIZE_MAX : bytes;
}

static tess_status fill_rope_tables(tess_executor *e, tess_rope_table table)
{
    tess_mem *mem = tess_stream_mem(e->stream);
    size_t count = tess_executor_rope_count(e, table);
    TESS_AUTO(tess_mem_drop) void *block = NULL;
    if (count == 0)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, count, 2 * sizeof(float), "angles", &block));
    float *cos_table = block, *sin_table = cos_table + count;
    if (!tess_mem_is_dry(mem)) /* a dry rank computes nothing with them */
        tess_rope_tables(&e->model->config, table, e->options.max_position, cos_table, sin_table);
    TESS_TRY(tess_upload(e->stream, e->ropes[table].cos_table, cos_table, count * sizeof(float)));
    return tess_upload(e->stream, e->ropes[table].sin_table, sin_table, count * sizeof(float));
}

static tess_status alloc_on_disk(tess_executor *e)
{
    tess_mem *mem = tess_stream_mem(e->stream);
    const tess_device *device = tess_stream_device(e->stream);
    size_t resident, bytes = tess_executor_disk_bytes(e->model, &e->options, &resident);
    TESS_CHECK(tess_device_get_properties(device)->host_memory, TESS_E_UNSUPPORTED,
               "activations on disk: kernels read the host's memory there, and device %s has its own",
               tess_device_get_properties(device)->name);
    TESS_CHECK(tess_mem_on_disk(mem, TESS_POOL_ACTIVATIONS), TESS_E_INVALID,
               "activations on disk: there is no disk for them");
    e->pager = tess_mem_pager(mem);
    return tess_mem_alloc_private(mem, TESS_POOL_ACTIVATIONS, "activations", bytes, &e->disk);
}

static void free_activations(tess_executor *e)
{
    tess_device_free(tess_stream_device(e->stream), e->memory);
    tess_mem_free_private(tess_stream_mem(e->stream), TESS_POOL_ACTIVATIONS, e->disk_bytes, e->disk);
    e->memory = e->disk = NULL;
}

static tess_status alloc_activations(tess_executor *e)
{
    if (e->options.on_disk)
        TESS_TRY(alloc_on_disk(e));
    TESS_TRY(tess_device_alloc(tess_stream_device(e->stream), TESS_POOL_ACTIVATIONS,
                               device_bytes(e->model, &e->options), "activations", &e->memory));
    tess_executor_plan(e, e->memory, e->disk);
    for (tess_rope_table table = TESS_ROPE_MAIN; table < TESS_N_ROPES; table++)
        TESS_TRY(fill_rope_tables(e, table));
    return TESS_OK;
}

static tess_status alloc_memory(tess_executor *e)
{
    const size_t n_slots = (size_t)tess_executor_slots(&e->options);
    TESS_TRY(TESS_PART(e, n_slots * (size_t)e->model->n_units, "executor's units", &e->units));
    TESS_TRY(TESS_PART(e, n_slots * (size_t)e->model->n_parts, "executor's parts", &e->parts));
    TESS_TRY(TESS_PART(e, n_slots * 2 * e->model->work_bytes, "parts' tensors", &e->works));
    const size_t leaves = (size_t)tess_executor_own_leaves(&e->options);
    TESS_TRY(TESS_PART(e, n_slots * leaves * e->model->host_bytes, "parts' tensors", &e->hosts));
    TESS_TRY(TESS_PART(e, e->model->n_params, "no gradients", &e->none));
    if (e->options.slot_units != NULL) {
        TESS_TRY(TESS_PART(e, e->options.n_slots, "slots", &e->slots));
        memcpy(e->slots, e->options.slot_units, (size_t)e->options.n_slots * sizeof(*e->slots));
        e->options.slot_units = e->slots;
    }
    TESS_TRY(tess_scope_alloc(tess_scope_of(e), TESS_POOL_ACTIVATIONS, host_bytes(&e->options), 1, "sequences",
                              &e->host_memory));
    e->seqs = e->host_memory;
    e->graded =
        e->options.train ? (void *)(e->seqs + e->options.max_tokens * tess_executor_context_ranks(&e->options)) : NULL;
    return alloc_activations(e);
}

tess_status tess_executor_create(tess_stream *stream, const tess_model *model, const tess_hooks *hooks,
                                 const tess_executor_options *options, tess_executor **out)
{
    *out = NULL;
    TESS_TRY(check_options(model, options));
    TESS_AUTO(tess_executor_destroy) tess_executor *e = NULL;
    TESS_TRY(TESS_NEW(tess_stream_mem(stream), 1, "executor", &e));
    e->stream = stream;
    e->model = model;
    e->hooks = *hooks;
    e->options = *options;
    e->points = options->points != NULL ? *options->points : (tess_points){.degree = 1};
    e->options.points = &e->points;
    e->expert_points = options->expert_points != NULL ? *options->expert_points : (tess_expert_points){.degree = 1};
    e->options.expert_points = &e->expert_points;
    e->readers = options->readers != NULL ? *options->readers : (tess_points){.degree = 1};
    e->options.readers = &e->readers;
    if (options->context.n_leaves == 0)
        e->options.context = (tess_context){.points.degree = 1, .n_leaves = 1};
    TESS_TRY(alloc_memory(e));
    *out = TESS_GIVE(e);
    return TESS_OK;
}

void tess_executor_destroy(tess_executor **executor)
{
    if (*executor == NULL)
        return;
    free_activations(*executor);
    tess_mem_drop(executor);
}

void tess_executor_sleep(tess_executor *e)
{
    free_activations(e);
}

tess_status tess_executor_wake(tess_executor *e)
{
    if (e->memory != NULL)
        return TESS_OK;
    tess_status status = alloc_activations(e);
    if (status != TESS_OK)
        free_activations(e);
    return status;
}

const tess_executor_options *tess_executor_get_options(const tess_executor *e)
{
    return &e->options;
}

static tess_status fetch_and_show(tess_executor *e, int unit, const char *what, void *data, tess_dtype dtype,
                                  int64_t first, int64_t n_rows, int64_t row)
{
    tess_mem *mem = tess_stream_mem(e->stream);
    size_t bytes = (size_t)(n_rows * row) * tess_dtype_size(dtype);
    TESS_AUTO(tess_mem_drop) void *fetched = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, bytes, "a fetched tensor", &fetched));
    TESS_TRY(tess_fetch(e->stream, fetched, data, bytes));
    e->watch.see(e->watch.self, unit, what, fetched, dtype, first, n_rows, row);
    return tess_upload(e->stream, data, fetched, bytes); /* the watch may have changed it */
}

static void show_fetched(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first,
                         int64_t n_rows, int64_t row)
{
    tess_executor *e = self;
    if (e->seen == TESS_OK)
        e->seen = fetch_and_show(e, unit, what, data, dtype, first, n_rows, row);
}

void tess_executor_set_watch(tess_executor *e, const tess_watch *watch)
{
    const tess_device *device = tess_stream_device(e->stream);
    e->watch = watch != NULL ? *watch : (tess_watch){NULL, NULL};
    e->shown = e->watch;
    if (watch != NULL && !tess_device_get_properties(device)->host_memory)
        e->shown = (tess_watch){e, show_fetched};
}

static tess_status check_sequences(const tess_executor *e, const tess_batch *batch)
{
    const int64_t T = batch->n_tokens * tess_executor_context_ranks(&e->options),
                  unit = TESS_LEAF_UNIT * tess_executor_own_leaves(&e->options);
    TESS_CHECK(unit == TESS_LEAF_UNIT || batch->n_tokens % unit == 0, TESS_E_INVALID,
               "batch: %lld tokens; the sums' leaves need a multiple of %lld", (long long)batch->n_tokens,
               (long long)unit);
    TESS_CHECK(
        batch->n_seqs >= 0 && batch->n_seqs <= T && batch->cu_seqlens[0] == 0 && batch->cu_seqlens[batch->n_seqs] == T,
        TESS_E_INVALID, "batch: %lld sequences must cover %lld tokens exactly", (long long)batch->n_seqs, (long long)T);
    for (int64_t i = 0; i < batch->n_seqs; i++) {
        int32_t begin = batch->cu_seqlens[i], end = batch->cu_seqlens[i + 1];
        TESS_CHECK(begin < end && end <= T, TESS_E_INVALID, "batch: sequence %lld spans tokens %d to %d of %lld",
                   (long long)i, begin, end, (long long)T);
        if (batch->cache == NULL)
            continue;
        for (int32_t j = 0; j <= (batch->pos[begin] + (end - begin) - 1) / TESS_ATTENTION_BLOCK; j++)
            TESS_CHECK(batch->pages[i][j] >= 0 && batch->pages[i][j] < batch->cache->n_pages, TESS_E_INVALID,
                       "batch: block %d of sequence %lld lies in page %d; the cache has %lld", j, (long long)i,
                       batch->pages[i][j], (long long)batch->cache->n_pages);
        for (int32_t t = begin + 1; t < end; t++)
            TESS_CHECK(batch->pos[t] == batch->pos[t - 1] + 1, TESS_E_INVALID,
                       "batch: token %d is at position %d after %d; cached sequences run on", t, batch->pos[t],
                       batch->pos[t - 1]);
    }
    TESS_CHECK(
        !batch->is_shared || (batch->cache != NULL && batch->n_seqs == 1 &&
                              batch->n_tokens * e->readers.degree <= e->options.max_tokens),
        TESS_E_INVALID, "batch: %d ranks read %lld tokens each of %lld texts; the executor was made for one, of %lld",
        e->readers.degree, (long long)batch->n_tokens, (long long)batch->n_seqs, (long long)e->options.max_tokens);
    if (batch->cache != NULL)
        TESS_CHECK(batch->cache->dtype == e->options.dtype, TESS_E_INVALID, "batch: the cache is %s, the executor %s",
                   tess_dtype_name(batch->cache->dtype), tess_dtype_name(e->options.dtype));
    return TESS_OK;
}

/* The place of an input in a batch, and the values that it may have. */
typedef struct input_row {
    size_t at;           /* offset of the pointer in tess_batch; the pointer may be NULL */
    int32_t least;       /* the smallest value */
    bool is_position;    /* true: values are below max_position; false: below vocab_size */
    const char *refusal; /* message with the token, its value and the limit */
} input_row;

static const input_row input_rows[TESS_N_INPUTS] = {
    [TESS_INPUT_IDS] = {offsetof(tess_batch, ids), 0, false,
                        "batch: token %lld is id %d, but vocab_size is %lld; the tokenizer does not fit the model"},
    [TESS_INPUT_POSITIONS] = {offsetof(tess_batch, pos), 0, true,
                              "batch: token %lld is at position %d; the executor was made for sequences of %lld"},
    [TESS_INPUT_TARGETS] = {offsetof(tess_batch, targets), -1, false,
                            "batch: the target of token %lld is id %d, but vocab_size is %lld"},
};

static const int32_t *input_of(const tess_batch *batch, int i)
{
    const int32_t *input;
    memcpy(&input, (const char *)batch + input_rows[i].at, sizeof(input));
    return input;
}

static tess_status check_token(const tess_executor *e, const tess_batch *batch, int64_t t)
{
    for (int i = 0; i < TESS_N_INPUTS; i++) {
        const input_row *row = &input_rows[i];
        const int32_t *input = input_of(batch, i);
        const int64_t limit = row->is_position ? e->options.max_position : e->model->config.vocab_size;
        TESS_CHECK(input == NULL || (input[t] >= row->least && input[t] < limit), TESS_E_INVALID, row->refusal,
                   (long long)t, input[t], (long long)limit);
    }
    return TESS_OK;
}

tess_status tess_executor_take_batch(tess_executor *e, const tess_batch *batch)
{
    TESS_CHECK(e->memory != NULL, TESS_E_INVALID, "executor: it sleeps (tess_executor_wake)");
    TESS_CHECK(batch->n_tokens >= 0 && batch->n_tokens <= e->options.max_tokens, TESS_E_INVALID,
               "batch: %lld tokens; the executor was made for %lld", (long long)batch->n_tokens,
               (long long)e->options.max_tokens);
    const bool reads = !tess_mem_is_dry(tess_stream_mem(e->stream)); /* the batches of a dry rank are its own */
    for (int64_t t = 0; reads && t < batch->n_tokens; t++)
        TESS_TRY(check_token(e, batch, t));
    TESS_TRY(check_sequences(e, batch));
    e->seen = TESS_OK;
    for (int i = 0; i < TESS_N_INPUTS; i++)
        if (input_of(batch, i) != NULL)
            TESS_TRY(
                tess_upload(e->stream, e->inputs[i], input_of(batch, i), (size_t)batch->n_tokens * sizeof(int32_t)));
    return TESS_OK;
}
