#include "train/train_stage.h"

#include "job/job_memory.h"
#include "parallel/pipeline/pipeline.h"
#include "parallel/pipeline/pipeline_stages.h"
#include "tessera/comm.h"
#include "train/numbers/numbers.h"

enum { FORWARD_TAG = 1, BACKWARD_TAG = 2 };

/* What a micro-batch holds while it is under way. `below` carries the stream in and its gradient out, `above` the
 * stream out and its gradient in: one is no longer needed when the other comes. */
typedef struct stage_slot {
    tess_batch batch;
    int micro;
    char *below, *above;                /* (T, C); NULL at the pipeline's ends */
    tess_work *sent_below, *sent_above; /* messages that still read them */
} stage_slot;

struct tess_stage {
    tess_engine *e;
    tess_team *team; /* of the stages that share this rank's micro-batches */
    int index, n;
    tess_pipeline_schedule schedule; /* of the newest step's number of micro-batches */
    stage_slot *slots;
    int n_slots;
    void *in, *out; /* (T, C) on a device apart from the host, else NULL */
};

/* ---- Cutting ---- */
tess_status tess_stage_part(const tess_config *config, const tess_model_config *model, int stage, tess_model_part *part)
{
    int n = (int)config->parallelism.pipeline_parallel_degree, L = (int)model->n_layers, first[JOB_MAX_RANKS + 1];
    int64_t each = config->parallelism.pipeline_parallel_layers_per_stage;
    TESS_CHECK(
        n == 1 || !model->tied, TESS_E_UNSUPPORTED,
        "parallelism.pipeline_parallel_degree: %d stages, but tie_word_embeddings ties the head of the last stage to "
        "the table of the first: untie them in config.json, or use one stage",
        n);
    if (each > 0) {
        TESS_CHECK(
            (n - 1) * each < L, TESS_E_INVALID,
            "parallelism.pipeline_parallel_layers_per_stage: %d stages of %lld layers leave none of %d for the last: "
            "give at most %d",
            n, (long long)each, L, (L - 1) / (n > 1 ? n - 1 : 1));
        for (int s = 0; s <= n; s++)
            first[s] = s < n ? (int)each * s : L;
    } else {
        TESS_TRY_CTX(tess_pipeline_cut_evenly(L, 0, 0, n, first), "parallelism.pipeline_parallel_degree");
    }
    *part = (tess_model_part){first[stage], first[stage + 1] - first[stage], stage == 0, stage == n - 1};
    return TESS_OK;
}

static tess_status build_schedule(tess_mem *mem, const tess_config *config, int n_local,
                                  tess_pipeline_schedule *schedule)
{
    return tess_pipeline_build(mem, (tess_pipeline_kind)config->parallelism.pipeline_parallel_schedule,
                               (int)config->parallelism.pipeline_parallel_degree, 1, n_local, schedule);
}

tess_status tess_stage_slots(tess_mem *mem, const tess_config *config, int stage, int n_data, int *slots)
{
    tess_pipeline_schedule schedule;
    int64_t n_micro = tess_config_micro_batches(config);
    TESS_TRY(build_schedule(mem, config, (int)((n_micro + n_data - 1) / n_data), &schedule));
    *slots = schedule.lists[stage].in_flight;
    tess_pipeline_free(&schedule);
    return TESS_OK;
}

/* ---- Memory ---- */
static size_t stream_bytes(const tess_stage *s, int64_t n_tokens)
{
    const tess_engine *e = s->e;
    return (size_t)(n_tokens * tess_model_get_config(e->model)->hidden_size) *
           tess_dtype_size(tess_fsdp_param_dtype(e->fsdp));
}

static tess_status alloc_slots(tess_stage *s)
{
    tess_engine *e = s->e;
    size_t bytes = stream_bytes(s, e->pass_tokens);
    TESS_TRY(tess_mem_alloc_array(e->mem, TESS_POOL_MISC, (size_t)s->n_slots, sizeof(*s->slots), "slots",
                                  (void **)&s->slots));
    for (int i = 0; i < s->n_slots; i++) {
        if (s->index > 0)
            TESS_TRY(tess_mem_alloc(e->mem, TESS_POOL_COMM, bytes, "the stream", (void **)&s->slots[i].below));
        if (s->index < s->n - 1)
            TESS_TRY(tess_mem_alloc(e->mem, TESS_POOL_COMM, bytes, "the stream", (void **)&s->slots[i].above));
    }
    if (!e->compute.apart)
        return TESS_OK;
    TESS_TRY(tess_device_alloc(e->compute.device, TESS_POOL_ACTIVATIONS, bytes, "the stream", &s->in));
    return tess_device_alloc(e->compute.device, TESS_POOL_ACTIVATIONS, bytes, "the stream", &s->out);
}

tess_status tess_stage_create(tess_engine *e, tess_stage **out)
{
    tess_stage *s;
    *out = NULL;
    TESS_TRY(tess_mem_alloc(e->mem, TESS_POOL_MISC, sizeof(*s), "stage", (void **)&s));
    *s = (tess_stage){.e = e, .team = tess_mesh_team(e->mesh, "pp"), .index = e->at.stage, .n = e->at.n_stages};
    tess_status status = tess_stage_slots(e->mem, e->config, s->index, e->at.n_data, &s->n_slots);
    if (status == TESS_OK)
        status = alloc_slots(s);
    if (status != TESS_OK)
        tess_stage_destroy(&s);
    *out = s;
    return status;
}

void tess_stage_destroy(tess_stage **handle)
{
    tess_stage *s = *handle;
    if (s == NULL)
        return;
    tess_engine *e = s->e;
    for (int i = 0; s->slots != NULL && i < s->n_slots; i++) {
        tess_work **works[] = {&s->slots[i].sent_below, &s->slots[i].sent_above};
        for (int k = 0; k < 2; k++)
            if (*works[k] != NULL)
                tess_work_cancel(works[k]);
        tess_mem_free(e->mem, s->slots[i].below);
        tess_mem_free(e->mem, s->slots[i].above);
    }
    tess_mem_free(e->mem, s->slots);
    tess_device_free(e->compute.device, s->in);
    tess_device_free(e->compute.device, s->out);
    if (s->schedule.lists != NULL)
        tess_pipeline_free(&s->schedule);
    tess_mem_free(e->mem, s);
    *handle = NULL;
}

/* ---- Messages ---- */
static tess_status wait_for(tess_stage *s, tess_work **work)
{
    if (*work == NULL)
        return TESS_OK;
    tess_phase phase = tess_phase_switch(&s->e->clock, TESS_PHASE_WAIT);
    tess_status status = tess_work_wait(work, 0);
    tess_phase_switch(&s->e->clock, phase);
    return status;
}

/* The buffer's own message has left it before the next one comes in. */
static tess_status receive(tess_stage *s, stage_slot *slot, bool forward)
{
    tess_work *work = NULL;
    int from = s->index + (forward ? -1 : 1);
    TESS_TRY(wait_for(s, forward ? &slot->sent_below : &slot->sent_above));
    tess_team_label(s->team, forward ? "stream" : "gradient", slot->micro);
    tess_status status = tess_recv(s->team, forward ? slot->below : slot->above, stream_bytes(s, slot->batch.n_tokens),
                                   TESS_U8, from, forward ? FORWARD_TAG : BACKWARD_TAG, &work);
    tess_team_label(s->team, NULL, -1);
    TESS_TRY(status);
    return wait_for(s, &work);
}

static tess_status send(tess_stage *s, stage_slot *slot, bool forward)
{
    tess_team_label(s->team, forward ? "stream" : "gradient", slot->micro);
    tess_status status = tess_send(s->team, forward ? slot->above : slot->below, stream_bytes(s, slot->batch.n_tokens),
                                   TESS_U8, s->index + (forward ? 1 : -1), forward ? FORWARD_TAG : BACKWARD_TAG,
                                   forward ? &slot->sent_above : &slot->sent_below);
    tess_team_label(s->team, NULL, -1);
    return status;
}

/* Where the executor reads what has come, and writes what will go: the buffer, or its place on the device. */
static tess_status give(const tess_stage *s, const stage_slot *slot, const char *buffer, const void **in)
{
    *in = s->in != NULL && buffer != NULL ? s->in : buffer;
    return *in == buffer ? TESS_OK
                         : tess_upload(s->e->compute.stream, s->in, buffer, stream_bytes(s, slot->batch.n_tokens));
}

static void *place_for(const tess_stage *s, char *buffer)
{
    return s->out != NULL && buffer != NULL ? s->out : buffer;
}

static tess_status take(const tess_stage *s, const stage_slot *slot, char *buffer)
{
    return s->out == NULL || buffer == NULL
               ? TESS_OK
               : tess_fetch(s->e->compute.stream, buffer, s->out, stream_bytes(s, slot->batch.n_tokens));
}

/* ---- Computing ---- */
static tess_range range_of(const tess_stage *s, const stage_slot *slot)
{
    return (tess_range){(int)(slot - s->slots), 0, tess_model_n_units(s->e->model), &slot->batch};
}

static tess_status forward(tess_stage *s, stage_slot *slot)
{
    tess_range range = range_of(s, slot);
    const void *in;
    tess_numbers_micro_begin(s->e->numbers, slot->micro, s->index);
    TESS_TRY(wait_for(s, &slot->sent_above)); /* of the micro-batch that had the slot before */
    TESS_TRY(give(s, slot, slot->below, &in));
    TESS_TRY(tess_executor_forward(s->e->executor, &range, in, place_for(s, slot->above)));
    return take(s, slot, slot->above);
}

static tess_status backward(tess_stage *s, stage_slot *slot, tess_loss_sum *own)
{
    tess_engine *e = s->e;
    tess_range range = range_of(s, slot);
    bool last = s->index == s->n - 1;
    tess_backward b = {.din = place_for(s, slot->below), .logprob = e->logprobs};
    tess_numbers_micro_begin(e->numbers, slot->micro, 2 * s->n - 1 - s->index);
    TESS_TRY(give(s, slot, slot->above, &b.dout));
    TESS_TRY(tess_executor_backward(e->executor, &range, &b));
    TESS_TRY(take(s, slot, slot->below));
    return last ? tess_loss_add(&e->meter, own, e->logprobs, slot->batch.targets, slot->batch.n_tokens) : TESS_OK;
}

static tess_status act(tess_stage *s, stage_slot *slot, tess_pipeline_op op, tess_loss_sum *own)
{
    switch (op) {
    case TESS_PIPELINE_F:
        return forward(s, slot);
    case TESS_PIPELINE_B:
        return backward(s, slot, own);
    case TESS_PIPELINE_RECV_F:
    case TESS_PIPELINE_RECV_B:
        return receive(s, slot, op == TESS_PIPELINE_RECV_F);
    default:
        return send(s, slot, op == TESS_PIPELINE_SEND_F);
    }
}

/* ---- A step ---- */
static tess_status fit_schedule(tess_stage *s, int n_local)
{
    if (s->schedule.lists != NULL && s->schedule.micros == n_local)
        return TESS_OK;
    if (s->schedule.lists != NULL)
        tess_pipeline_free(&s->schedule);
    TESS_TRY(build_schedule(s->e->mem, s->e->config, n_local, &s->schedule));
    int needed = s->schedule.lists[s->index].in_flight;
    TESS_CHECK(needed <= s->n_slots, TESS_E_INVALID,
               "stage %d: %d micro-batches a rank would have %d under way, but there is memory for %d, as "
               "training.global_batch_size needs",
               s->index, n_local, needed, s->n_slots);
    return TESS_OK;
}

/* The first action that names a micro-batch takes its tokens. */
static tess_status take_batch(tess_stage *s, const tess_batch_source *source, int micro, stage_slot *slot)
{
    slot->micro = micro;
    return tess_engine_next_batch(s->e, source, micro, &slot->batch);
}

tess_status tess_stage_run(tess_stage *s, const tess_batch_source *source, int n_local, tess_loss_sum *own)
{
    TESS_TRY(fit_schedule(s, n_local));
    const tess_pipeline_list *list = &s->schedule.lists[s->index];
    int n_taken = 0;
    TESS_TRY(tess_fsdp_micro_begin_all(s->e->fsdp));
    for (int i = 0; i < list->n; i++) {
        const tess_pipeline_action *a = &list->actions[i];
        stage_slot *slot = &s->slots[a->slot];
        if (a->micro == n_taken)
            TESS_TRY(take_batch(s, source, n_taken++, slot));
        TESS_TRY_CTX(act(s, slot, a->op, own), "stage %d of %d, micro-batch %d: %s", s->index, s->n, a->micro,
                     tess_pipeline_op_name(a->op));
    }
    for (int i = 0; i < s->n_slots; i++) {
        TESS_TRY(wait_for(s, &s->slots[i].sent_above));
        TESS_TRY(wait_for(s, &s->slots[i].sent_below));
    }
    return TESS_OK;
}

tess_status tess_stage_score(tess_stage *s, const tess_batch *batch, tess_loss_sum *sum)
{
    tess_engine *e = s->e;
    stage_slot *slot = &s->slots[0];
    const void *in;
    bool first = s->index == 0, last = s->index == s->n - 1;
    slot->batch = *batch;
    slot->micro = -1;
    if (!first)
        TESS_TRY(receive(s, slot, true));
    tess_range range = range_of(s, slot);
    TESS_TRY(wait_for(s, &slot->sent_above));
    TESS_TRY(give(s, slot, slot->below, &in));
    TESS_TRY(tess_executor_score(e->executor, &range, in, place_for(s, slot->above), 1, e->logprobs, NULL));
    TESS_TRY(take(s, slot, slot->above));
    return last ? tess_loss_add(&e->meter, sum, e->logprobs, batch->targets, batch->n_tokens) : send(s, slot, true);
}
