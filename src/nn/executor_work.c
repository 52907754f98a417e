/* Finds how much work space kernels request: runs the executor on a device that computes nothing. */
#include "device/dry_device.h"
#include "nn/layers/block_part.h"

/* State of one dry training step. Nothing is computed, so all tensors of the caller share one address. */
typedef struct dry_run {
    tess_mem *mem;
    const tess_model *model;
    tess_executor_options options;
    int64_t n_tokens; /* number of tokens in the batch */
    tess_device *device;
    tess_stream *stream;
    void *any; /* memory as large as the largest parameter in float32, and as the stream */
    const void **w;
    float **dw;
    int32_t *numbers; /* memory for positions, targets and sequence offsets of the batch */
    tess_batch batch;
} dry_run;

static tess_status exchange_nothing(void *self, const tess_exchange *exchange)
{
    (void)self;
    (void)exchange;
    return TESS_OK;
}

/* The two callbacks of a loss whose derivatives are 0. */
static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    (void)self, (void)begin, (void)n, (void)logprob, (void)entropy, (void)dlogprob, (void)dentropy;
    return TESS_OK;
}

static tess_status grade_values(void *self, int64_t n, const float *value, float *dvalue)
{
    (void)self, (void)n, (void)value, (void)dvalue;
    return TESS_OK;
}

static tess_status take_address(dry_run *r)
{
    int64_t largest = r->options.max_tokens * tess_model_width(r->model);
    for (int i = 0; i < tess_model_n_params(r->model); i++) {
        int64_t count = tess_shape_count(&tess_model_param(r->model, i)->slice.whole);
        largest = count > largest ? count : largest;
    }
    return tess_device_alloc(r->device, TESS_POOL_MISC, (size_t)largest * sizeof(float), "dry run", &r->any);
}

static tess_status make_hooks(dry_run *r, tess_hooks *hooks)
{
    size_t n = (size_t)tess_model_n_params(r->model);
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(*r->w), "dry run", (void **)&r->w));
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, n, sizeof(*r->dw), "dry run", (void **)&r->dw));
    for (size_t i = 0; i < n; i++) {
        r->w[i] = r->any;
        const tess_param *param = tess_model_param(r->model, (int)i);
        r->dw[i] = param->frozen || param->copy ? NULL : r->any;
    }
    return tess_static_hooks(r->mem, r->model, r->w, r->dw, hooks);
}

/* Makes a batch of sequences of the greatest length; the last one may be shorter. */
static tess_status make_batch(dry_run *r)
{
    int64_t T = r->n_tokens, L = r->options.max_position, n = (T + L - 1) / L;
    TESS_TRY(tess_mem_alloc_array(r->mem, TESS_POOL_MISC, (size_t)(2 * T + n + 1), sizeof(int32_t), "dry run",
                                  (void **)&r->numbers));
    int32_t *pos = r->numbers, *zeros = pos + T, *cu_seqlens = zeros + T;
    for (int64_t i = 0; i < T; i++)
        pos[i] = (int32_t)(i % L);
    for (int64_t i = 0; i <= n; i++)
        cu_seqlens[i] = (int32_t)(i * L < T ? i * L : T);
    r->batch =
        (tess_batch){.n_tokens = T, .n_seqs = n, .ids = zeros, .pos = pos, .targets = zeros, .cu_seqlens = cu_seqlens};
    return TESS_OK;
}

static tess_status train_slot(const dry_run *r, tess_executor *e, int slot)
{
    const tess_slot_units all = {0, tess_model_n_units(r->model)};
    const tess_slot_units units = r->options.slot_units != NULL ? r->options.slot_units[slot] : all;
    const bool by_itself = r->options.n_tables > 0; /* the embedding's backward runs separately, after each head */
    const tess_range range = {slot, units.begin + (by_itself && units.begin == r->model->table_unit), units.end,
                              &r->batch};
    const tess_model_config *config = tess_model_get_config(r->model);
    const bool has_tokens = config->n_outputs == 0, has_values = config->value_head || !has_tokens;
    const tess_token_loss loss = {
        .inv_temperature = 1, .grade = has_tokens ? grade : NULL, .grade_values = grade_values};
    const tess_block *last = &r->model->blocks[range.end - 1];
    const bool embedding = r->model->blocks[range.begin].parts[0]->source, head = last->parts[last->n_parts - 1]->sink;
    tess_backward back = {.part = r->options.split_backward ? TESS_BACKWARD_INPUT : TESS_BACKWARD_WHOLE,
                          .dout = head ? NULL : r->any,
                          .din = embedding ? NULL : r->any,
                          .loss = has_values ? &loss : NULL,
                          .logprob = r->any};
    TESS_TRY(tess_executor_forward(e, &range, embedding ? NULL : r->any, head ? NULL : r->any));
    TESS_TRY(tess_executor_backward(e, &range, &back));
    if (by_itself && head)
        TESS_TRY(tess_executor_backward_table(e, &r->batch, r->any));
    back = (tess_backward){.part = TESS_BACKWARD_WEIGHTS};
    return r->options.split_backward ? tess_executor_backward(e, &range, &back) : TESS_OK;
}

static tess_status train_all(dry_run *r, const tess_hooks *hooks)
{
    tess_executor *e;
    tess_status status = TESS_OK;
    int n_slots = r->options.n_slots > 1 ? r->options.n_slots : 1;
    TESS_TRY(tess_executor_create(r->stream, r->model, hooks, &r->options, &e));
    for (int slot = 0; status == TESS_OK && slot < n_slots; slot++)
        status = train_slot(r, e, slot);
    tess_executor_destroy(&e);
    return status;
}

static tess_status run_dry(dry_run *r, int n_threads, const char *kernels, size_t *bytes)
{
    tess_hooks hooks;
    TESS_TRY(tess_dry_device_open(r->mem, &r->device));
    TESS_TRY(tess_device_stream(r->device, n_threads, kernels, &r->stream));
    TESS_TRY(take_address(r));
    TESS_TRY(make_batch(r));
    TESS_TRY(make_hooks(r, &hooks));
    tess_status status = train_all(r, &hooks);
    *bytes = tess_stream_work_bytes(r->stream);
    tess_static_hooks_free(r->mem, &hooks);
    return status;
}

static void clean_up(dry_run *r)
{
    tess_mem_free(r->mem, r->w);
    tess_mem_free(r->mem, r->dw);
    tess_mem_free(r->mem, r->numbers);
    if (r->device != NULL)
        tess_device_free(r->device, r->any);
    tess_stream_destroy(&r->stream);
    tess_device_close(&r->device);
}

tess_status tess_executor_work_bytes(const tess_model *model, const tess_executor_options *options, int64_t n_tokens,
                                     int n_threads, const char *kernels, size_t *bytes)
{
    tess_mem *apart; /* a separate tess_mem, so that the dry run does not count as the caller's memory */
    TESS_TRY(tess_mem_create(&apart));
    dry_run r = {.mem = apart, .model = model, .options = *options, .n_tokens = n_tokens};
    const tess_points points = {
        .rank = model->part.tp_rank, .degree = model->part.tp_degree, .exchange = exchange_nothing};
    r.options.points = points.degree > 1 ? &points : NULL;
    r.options.on_disk = false; /* kernels need the same work space wherever activations are */
    tess_status status = run_dry(&r, n_threads, kernels, bytes);
    clean_up(&r);
    tess_mem_destroy(&apart);
    return status;
}
