#include "engine/stages/rank_stage.h"

#include "base/core/round_up.h"
#include "comm/agree.h"
#include "comm/device_windows.h"
#include "tessera/comm.h"
#include "engine/numbers/numbers.h"
#include "engine/stages/stage_times.h"
#include "base/mem/scoped.h"

/* The buffers of one micro-batch in one chunk while it is in progress. Messages are received where they are used,
 * and sent from where they were computed.
 * The input stream is received in the buffer that the executor keeps for backward. The first layer writes its
 * gradient to `below`.
 * The last layer writes the stream to `above`, and reads the gradient there, which arrives after the stream has been
 * sent. */
typedef struct stage_slot {
    tess_batch batch;
    int chunk, micro;
    /* (T, C); NULL: the pipeline ends there, or this rank has the neighbouring stage, too */
    char *below, *above;
    tess_work *sent_below, *sent_above; /* sends that still read these buffers */
} stage_slot;

/* A buffer that a send still reads, and the send. The gradient of a micro-batch may be ready before the rank below
 * has received the previous one of the same slot. Waiting for it could deadlock, since that rank may be waiting for
 * this one. So the buffer is left to its message, and the slot takes another one. */
typedef struct stage_parting {
    char *buffer;
    tess_work *sent;
} stage_parting;

struct tess_stage {
    tess_engine *e;
    tess_executor *executor;         /* the engine's, except while another one evaluates */
    tess_team *team;                 /* the ranks that run the stages of the same micro-batches */
    tess_pipeline_schedule schedule; /* schedule for the number of micro-batches of the latest step */
    int *set;                        /* (micros of the schedule) memory of each one's tokens (tess_pieces_take) */
    tess_stage_times times;
    stage_slot *slots; /* (n_slots) grouped by chunk */
    int *first_slot;   /* (chunks + 1) index of each chunk's first slot */
    int n_slots;
    stage_parting *partings; /* (n_partings) buffers that messages read, or free ones */
    int n_partings;
    /* Memory for the buffers on a device apart from the host, which the ranks of the host read */
    char *window;
    size_t window_bytes, window_used;
    /* (T, C) the gradient of the embedding's stream, if this rank has a tied table but not the embedding; else NULL */
    char *embedded;
    tess_stage_traffic traffic;
};

static const tess_stage_plan *plan_of(const tess_stage *s)
{
    return s->e->stage_plan;
}

static int n_stages(const tess_stage *s)
{
    return plan_of(s)->shape.ranks * plan_of(s)->shape.chunks;
}

/* The number of the slot's stage among all stages of the pipeline. */
static int stage_of(const tess_stage *s, const stage_slot *slot)
{
    return tess_pipeline_stage(&plan_of(s)->shape, plan_of(s)->rank, slot->chunk);
}

static bool is_last(const tess_stage *s, const stage_slot *slot)
{
    return stage_of(s, slot) == n_stages(s) - 1;
}

/* ---- Memory ---- */
static size_t rows_bytes(const tess_stage *s, int64_t n_rows)
{
    const tess_engine *e = s->e;
    return (size_t)(n_rows * tess_model_get_config(e->model)->hidden_size) *
           tess_dtype_size(tess_executor_get_options(e->executor)->dtype);
}

static size_t stream_bytes(const tess_stage *s, int64_t n_tokens)
{
    return rows_bytes(s, tess_executor_stream_rows(s->e->model, tess_executor_get_options(s->e->executor), n_tokens));
}

/* Bytes for the stream of the largest micro-batch. */
static size_t room_bytes(const tess_stage *s)
{
    return rows_bytes(s, tess_executor_stream_room(s->e->model, tess_executor_get_options(s->e->executor)));
}

static size_t aligned(size_t room)
{
    enum { ALIGN = 256 };
    return tess_round_up(room, ALIGN);
}

/* Takes a buffer for the stream of the largest micro-batch from the window, or, if that is full, from elsewhere. */
static tess_status take_buffer(tess_stage *s, char **buffer)
{
    const size_t bytes = aligned(room_bytes(s));
    if (bytes <= s->window_bytes - s->window_used) {
        *buffer = s->window + s->window_used;
        s->window_used += bytes;
        return TESS_OK;
    }
    return tess_device_alloc(s->e->compute.device, TESS_POOL_COMM, room_bytes(s), "the stream", (void **)buffer);
}

static void free_buffer(const tess_stage *s, char *buffer)
{
    if (s->window == NULL || buffer < s->window || buffer >= s->window + s->window_bytes)
        tess_device_free(s->e->compute.device, buffer);
}

static tess_status alloc_slot(tess_stage *s, stage_slot *slot)
{
    bool below, above;
    tess_stage_ends(plan_of(s), s->e->model, slot->chunk, &below, &above);
    if (below)
        TESS_TRY(take_buffer(s, &slot->below));
    return above ? take_buffer(s, &slot->above) : TESS_OK;
}

static tess_status alloc_partings(tess_stage *s, int n)
{
    TESS_TRY(
        tess_mem_grow(s->e->mem, TESS_POOL_MISC, (size_t)n * sizeof(*s->partings), "messages", (void **)&s->partings));
    for (; s->n_partings < n; s->n_partings++) {
        s->partings[s->n_partings] = (stage_parting){.buffer = NULL};
        TESS_TRY(take_buffer(s, &s->partings[s->n_partings].buffer));
    }
    return TESS_OK;
}

/* Allocates the window. It also has the buffers that replace those of unread messages. */
static tess_status alloc_window(tess_stage *s, int n_buffers)
{
    if (!s->e->compute.apart)
        return TESS_OK;
    size_t bytes = (size_t)(n_buffers + plan_of(s)->n_spares) * aligned(room_bytes(s));
    bytes = bytes > TESS_DEVICE_WINDOW_LEAST ? bytes : TESS_DEVICE_WINDOW_LEAST;
    TESS_TRY(tess_device_outbox_alloc(s->team, TESS_POOL_COMM, bytes, "the stream", (void **)&s->window));
    s->window_bytes = bytes;
    return TESS_OK;
}

static tess_status alloc_slots(tess_stage *s)
{
    tess_engine *e = s->e;
    const tess_slot_units *of_slot = plan_of(s)->slots, *of_chunk = plan_of(s)->units;
    int chunks = plan_of(s)->shape.chunks, n_buffers = 0;
    TESS_TRY(TESS_PART(s, s->n_slots, "slots", &s->slots));
    TESS_TRY(TESS_PART(s, (size_t)chunks + 1, "slots", &s->first_slot));
    for (int i = 0, chunk = 0; i < s->n_slots; i++) {
        bool below, above;
        while (of_slot[i].begin != of_chunk[chunk].begin)
            s->first_slot[++chunk] = i;
        s->slots[i].chunk = chunk;
        s->slots[i].micro = -1;
        tess_stage_ends(plan_of(s), e->model, chunk, &below, &above);
        n_buffers += below + above;
    }
    s->first_slot[chunks] = s->n_slots;
    TESS_TRY(alloc_window(s, n_buffers));
    for (int i = 0; i < s->n_slots; i++)
        TESS_TRY(alloc_slot(s, &s->slots[i]));
    return alloc_partings(s, plan_of(s)->n_spares);
}

static tess_status alloc_embedded(tess_stage *s)
{
    const tess_engine *e = s->e;
    return tess_model_trains_table(e->model) && !plan_of(s)->part.embedding
               ? tess_device_alloc(e->compute.device, TESS_POOL_COMM, room_bytes(s), "the stream",
                                   (void **)&s->embedded)
               : TESS_OK;
}

tess_status tess_stage_create(tess_engine *e, tess_stage **out)
{
    TESS_AUTO(tess_stage_destroy) tess_stage *s = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(e->mem, 1, "stage", &s));
    *s = (tess_stage){
        .e = e, .executor = e->executor, .team = tess_mesh_team(e->mesh, "pp"), .n_slots = e->stage_plan->n_slots};
    TESS_TRY(alloc_slots(s));
    TESS_TRY(alloc_embedded(s));
    *out = TESS_GIVE(s);
    return TESS_OK;
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
        free_buffer(s, s->slots[i].below);
        free_buffer(s, s->slots[i].above);
    }
    for (int i = 0; i < s->n_partings; i++) {
        if (s->partings[i].sent != NULL)
            tess_work_cancel(&s->partings[i].sent);
        free_buffer(s, s->partings[i].buffer);
    }
    tess_mem_free(e->mem, s->partings);
    e->pieces.set_of = NULL;
    e->pieces.n_micros = 0;
    tess_mem_free(e->mem, s->set);
    tess_device_free(e->compute.device, s->embedded);
    tess_device_window_free(s->team, s->window);
    tess_stage_times_close(&s->times);
    if (s->schedule.lists != NULL)
        tess_pipeline_free(&s->schedule);
    tess_mem_drop(handle);
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

/* The tag of the stream, or of its gradient, between the stage `lower` and the next one. The message about a tied table
 * has the tag of the stream that the last stage would send. */
static uint32_t tag_of(int lower, bool forward)
{
    return (uint32_t)(2 * lower + (forward ? 0 : 1));
}

static bool has_left(tess_work *sent)
{
    return sent == NULL || tess_work_done(sent);
}

/* Makes sure that no message reads the slot's `below`: replaces the buffer if one still does. */
static tess_status part_with(tess_stage *s, stage_slot *slot)
{
    if (has_left(slot->sent_below))
        return wait_for(s, &slot->sent_below);
    int i = 0;
    while (i < s->n_partings && !has_left(s->partings[i].sent))
        i++;
    if (i == s->n_partings) /* a network may tell late that a message was read */
        TESS_TRY(alloc_partings(s, i + 1));
    TESS_TRY(wait_for(s, &s->partings[i].sent));
    char *buffer = s->partings[i].buffer;
    s->partings[i] = (stage_parting){slot->below, slot->sent_below};
    slot->below = buffer;
    slot->sent_below = NULL;
    return TESS_OK;
}

/* The executor's number of a slot. Other executors than the engine's have one slot, for all units. */
static int number_of(const tess_stage *s, const stage_slot *slot)
{
    return s->executor == s->e->executor ? (int)(slot - s->slots) : 0;
}

/* The buffer from which the executor reads the stream of the stage below. */
static void *input_of(const tess_stage *s, const stage_slot *slot)
{
    return tess_executor_input(s->executor, number_of(s, slot), plan_of(s)->units[slot->chunk].begin);
}

static tess_status receive(tess_stage *s, stage_slot *slot, bool forward)
{
    void *to = forward ? input_of(s, slot) : slot->above;
    tess_work *work = NULL;
    int stage = stage_of(s, slot), from = forward ? stage - 1 : stage + 1;
    if (!forward)
        TESS_TRY(wait_for(s, &slot->sent_above)); /* the message still reads the old content */
    tess_team_label(s->team, forward ? "stream" : "gradient", slot->micro);
    tess_status status =
        tess_recv(s->team, to, stream_bytes(s, slot->batch.n_tokens), TESS_U8,
                  tess_pipeline_rank_of(&plan_of(s)->shape, from), tag_of(forward ? from : stage, forward), &work);
    tess_team_label(s->team, NULL, -1);
    TESS_TRY(status);
    return wait_for(s, &work);
}

static tess_status send(tess_stage *s, stage_slot *slot, tess_pipeline_op op)
{
    const bool forward = op == TESS_PIPELINE_SEND_F, table = op == TESS_PIPELINE_SEND_T;
    const int stage = stage_of(s, slot), last = n_stages(s) - 1;
    const int to = table ? last : forward ? stage + 1 : stage - 1;
    const uint32_t tag = table ? tag_of(last, true) : tag_of(forward ? stage : to, forward);
    const size_t bytes = stream_bytes(s, slot->batch.n_tokens);
    tess_team_label(s->team, forward ? "stream" : "gradient", slot->micro);
    tess_status status =
        tess_send(s->team, forward ? slot->above : slot->below, bytes, TESS_U8,
                  tess_pipeline_rank_of(&plan_of(s)->shape, to), tag, forward ? &slot->sent_above : &slot->sent_below);
    tess_team_label(s->team, NULL, -1);
    s->traffic.messages[op]++;
    s->traffic.bytes[op] += bytes;
    return status;
}

/* Receives the gradient of the embedding's stream. For a rank that has the tied table, if the embedding is on the
 * first rank. */
static tess_status receive_embedded(tess_stage *s, int64_t n_tokens, int micro)
{
    tess_work *work = NULL;
    tess_team_label(s->team, "gradient", micro);
    tess_status status =
        tess_recv(s->team, s->embedded, stream_bytes(s, n_tokens), TESS_U8, 0, tag_of(n_stages(s) - 1, true), &work);
    tess_team_label(s->team, NULL, -1);
    TESS_TRY(status);
    return wait_for(s, &work);
}

/* ---- Computing ---- */
/* The buffer between a stage and the previous one: its own `below`, or, if this rank has both stages, the `above` of
 * the previous one. */
static char *below_of(const tess_stage *s, const stage_slot *slot)
{
    if (slot->below != NULL || stage_of(s, slot) == 0)
        return slot->below;
    for (int i = s->first_slot[slot->chunk - 1]; i < s->first_slot[slot->chunk]; i++)
        if (s->slots[i].micro == slot->micro)
            return s->slots[i].above;
    return NULL;
}

/* Puts the stage's input where the executor reads it. If this rank also has the previous stage, its output is
 * copied: the slot there may be needed for another micro-batch before the backward of this one is complete. */
static tess_status give_stream(const tess_stage *s, const stage_slot *slot, const void **in)
{
    const char *below = stage_of(s, slot) > 0 ? below_of(s, slot) : NULL;
    void *place = below != NULL ? input_of(s, slot) : NULL;
    *in = place;
    return place == NULL || slot->below != NULL
               ? TESS_OK
               : tess_stream_copy(s->e->compute.stream, place, below, stream_bytes(s, slot->batch.n_tokens));
}

static tess_range range_of(const tess_stage *s, const stage_slot *slot)
{
    tess_slot_units units = plan_of(s)->units[slot->chunk];
    return (tess_range){number_of(s, slot), units.begin, units.end, &slot->batch};
}

/* Whether this is the first stage and sends the gradient of its stream to the last one, for a tied table. */
static bool hands_embedded(const tess_stage *s, const stage_slot *slot)
{
    return stage_of(s, slot) == 0 && slot->below != NULL;
}

/* The units whose backward passes a gradient on. */
static tess_range backward_range(const tess_stage *s, const stage_slot *slot)
{
    tess_range range = range_of(s, slot);
    range.begin += hands_embedded(s, slot);
    return range;
}

/* Whether a stage that sends that gradient also trains a part of the embedding itself: the positions. */
static bool has_own_embedding(const tess_stage *s, const stage_slot *slot, tess_backward_part part)
{
    return hands_embedded(s, slot) && part != TESS_BACKWARD_WEIGHTS && tess_model_unit_trains(s->e->model, 0);
}

static tess_status forward(tess_stage *s, stage_slot *slot)
{
    tess_range range = range_of(s, slot);
    const void *in;
    TESS_TRY(tess_numbers_micro_begin(s->e->numbers, slot->micro, stage_of(s, slot)));
    TESS_TRY(wait_for(s, &slot->sent_above)); /* the message of the previous micro-batch in this slot */
    TESS_TRY(give_stream(s, slot, &in));
    return tess_executor_forward(s->e->executor, &range, in, slot->above);
}

static tess_status backward(tess_stage *s, stage_slot *slot, tess_backward_part part, tess_loss_sum *own)
{
    tess_engine *e = s->e;
    tess_range range = backward_range(s, slot);
    bool weights = part == TESS_BACKWARD_WEIGHTS;
    if (!weights && slot->below != NULL)
        TESS_TRY(part_with(s, slot));
    tess_backward b = {.part = part,
                       .din = weights ? NULL : below_of(s, slot),
                       .dout = weights ? NULL : slot->above,
                       .loss = slot->batch.loss,
                       .logprob = e->meter.logprobs};
    TESS_TRY(
        tess_numbers_micro_begin(e->numbers, slot->micro, (weights ? 3 : 2) * n_stages(s) - 1 - stage_of(s, slot)));
    TESS_TRY(tess_executor_backward(e->executor, &range, &b));
    if (has_own_embedding(s, slot, part)) {
        range = (tess_range){range.slot, 0, 1, range.batch};
        TESS_TRY(tess_executor_backward(e->executor, &range, &(tess_backward){.dout = b.din}));
    }
    return is_last(s, slot) && !weights ? tess_engine_add_loss(e, slot->batch.targets, slot->batch.n_tokens, own)
                                        : TESS_OK;
}

/* Adds the embedding's part of a tied table's gradient. */
static tess_status add_embedded(tess_stage *s, const tess_batch *batch, int micro)
{
    tess_engine *e = s->e;
    TESS_TRY(receive_embedded(s, batch->n_tokens, micro));
    TESS_TRY(tess_numbers_micro_begin(e->numbers, micro, 3 * n_stages(s)));
    return tess_executor_backward_table(e->executor, batch, s->embedded);
}

static tess_status act(tess_stage *s, stage_slot *slot, tess_pipeline_op op, tess_loss_sum *own)
{
    switch (op) {
    case TESS_PIPELINE_F:
        return forward(s, slot);
    case TESS_PIPELINE_B:
        return backward(s, slot, TESS_BACKWARD_WHOLE, own);
    case TESS_PIPELINE_BI:
        return backward(s, slot, TESS_BACKWARD_INPUT, own);
    case TESS_PIPELINE_BW:
        return backward(s, slot, TESS_BACKWARD_WEIGHTS, own);
    case TESS_PIPELINE_RECV_F:
    case TESS_PIPELINE_RECV_B:
        return receive(s, slot, op == TESS_PIPELINE_RECV_F);
    default:
        return send(s, slot, op);
    }
}

/* ---- A step ---- */
static tess_status fit_schedule(tess_stage *s, int n_local)
{
    static const char no_room[] =
        "%d micro-batches a rank would have %d %s under way, but there is memory for %d, which "
        "is what training.global_batch_size needs";
    const int chunks = plan_of(s)->shape.chunks, n_tables = tess_executor_get_options(s->e->executor)->n_tables;
    int n_sets;
    if (s->schedule.lists != NULL && s->schedule.micros == n_local)
        return TESS_OK;
    tess_stage_times_close(&s->times);
    if (s->schedule.lists != NULL)
        tess_pipeline_free(&s->schedule);
    TESS_TRY(tess_stage_build(s->e->mem, plan_of(s), s->e->model, n_local, &s->schedule));
    TESS_TRY(tess_stage_times_open(s->e->mem, &s->schedule, &s->times));
    s->e->pieces.set_of = NULL; /* the memory moves */
    TESS_TRY(
        tess_mem_grow(s->e->mem, TESS_POOL_MISC, (size_t)n_local * sizeof(*s->set), "micro-batches", (void **)&s->set));
    TESS_TRY(tess_pipeline_sets(&s->schedule, plan_of(s)->rank, s->set, &n_sets));
    s->e->pieces.set_of = s->set;
    s->e->pieces.n_micros = n_local;
    for (int chunk = 0; chunk < chunks; chunk++) {
        int needed = s->schedule.lists[plan_of(s)->rank].slots[chunk],
            there = s->first_slot[chunk + 1] - s->first_slot[chunk];
        TESS_CHECK(needed <= there, TESS_E_INVALID, no_room, n_local, needed, "of them", there);
    }
    if (tess_model_trains_table(s->e->model))
        TESS_CHECK(s->schedule.tables <= n_tables, TESS_E_INVALID, no_room, n_local, s->schedule.tables,
                   "gradients of the tied table", n_tables);
    return TESS_OK;
}

/* Starts a micro-batch in a slot, at the first action of a chunk that names it. Requests micro-batches from the
 * source once each, in order. */
static tess_status enter(tess_stage *s, const tess_batch_source *source, const tess_pipeline_action *a,
                         tess_batch *batches, int *n_taken, stage_slot *slot)
{
    if (slot->micro == a->micro)
        return TESS_OK;
    for (; *n_taken <= a->micro; ++*n_taken)
        TESS_TRY(tess_engine_next_batch(s->e, source, *n_taken, &batches[*n_taken]));
    slot->micro = a->micro;
    slot->batch = batches[a->micro];
    return TESS_OK;
}

static tess_status run_list(tess_stage *s, const tess_batch_source *source, tess_batch *batches, tess_loss_sum *own)
{
    const tess_pipeline_list *list = &s->schedule.lists[plan_of(s)->rank];
    int n_taken = 0;
    for (int i = 0; i < s->n_slots; i++)
        s->slots[i].micro = -1;
    for (int i = 0; i < list->n; i++) {
        const tess_pipeline_action *a = &list->actions[i];
        const bool table = a->op == TESS_PIPELINE_RECV_T;
        stage_slot *slot = &s->slots[s->first_slot[a->chunk] + a->slot];
        if (!table)
            TESS_TRY(enter(s, source, a, batches, &n_taken, slot));
        s->times.own[i].start = tess_stage_now();
        TESS_TRY_CTX(table ? add_embedded(s, &batches[a->micro], a->micro) : act(s, slot, a->op, own),
                     "stage %d of %d, micro-batch %d: %s", stage_of(s, slot), n_stages(s), a->micro,
                     tess_pipeline_op_name(a->op));
        s->times.own[i].end = tess_stage_now();
    }
    for (int i = 0; i < s->n_slots; i++) {
        TESS_TRY(wait_for(s, &s->slots[i].sent_above));
        TESS_TRY(wait_for(s, &s->slots[i].sent_below));
    }
    for (int i = 0; i < s->n_partings; i++)
        TESS_TRY(wait_for(s, &s->partings[i].sent));
    return TESS_OK;
}

/* ---- The weights of a tied table */
/* The rank of the pipeline that owns a tied table, if the first rank has a copy of it; else -1. */
static int table_owner(const tess_stage *s)
{
    const int owner = tess_pipeline_rank_of(&plan_of(s)->shape, n_stages(s) - 1);
    const bool is_owner = plan_of(s)->rank == owner && tess_model_trains_table(s->e->model);
    return owner > 0 && (is_owner || tess_model_copies_table(s->e->model)) ? owner : -1;
}

tess_status tess_stage_share_table(tess_stage *s)
{
    const int owner = table_owner(s);
    const uint32_t tag = tag_of(n_stages(s) - 1, true);
    if (owner < 0)
        return TESS_OK;
    tess_team_label(s->team, "tied table", -1);
    tess_status status = plan_of(s)->rank == owner ? tess_fsdp_send_weights(s->e->fsdp, 0, s->team, 0, tag)
                                                   : tess_fsdp_receive_weights(s->e->fsdp, 0, s->team, owner, tag);
    tess_team_label(s->team, NULL, -1);
    return status;
}

tess_status tess_stage_compare_table(tess_stage *s, uint64_t hash, int *differs)
{
    const int owner = table_owner(s);
    const uint32_t tag = tag_of(n_stages(s) - 1, true);
    uint64_t other = hash;
    *differs = -1;
    if (owner < 0)
        return TESS_OK;
    tess_team_label(s->team, "tied table", -1);
    tess_status status = plan_of(s)->rank == owner ? tess_recv(s->team, &other, 1, TESS_I64, 0, tag, NULL)
                                                   : tess_send(s->team, &hash, 1, TESS_I64, owner, tag, NULL);
    tess_team_label(s->team, NULL, -1);
    *differs = other != hash ? tess_team_global_rank(s->team, 0) : -1;
    return status;
}

/* Whether this step's timeline is recorded. It is, at intervals, for the pipeline of rank 0. */
static bool draws(const tess_stage *s)
{
    const tess_engine *e = s->e;
    int64_t every = e->config->metrics.pipeline_timeline;
    return every > 0 && (e->step + 1) % every == 0 && e->at.data == 0 && e->at.place[TESS_AXIS_CP] == 0 &&
           tess_coordinates_counts(&e->at);
}

bool tess_stage_timeline(tess_stage *s, const tess_pipeline_schedule **schedule, const tess_pipeline_report **report)
{
    bool is_new = s->times.is_new;
    s->times.is_new = false;
    *schedule = &s->schedule;
    *report = &s->times.report;
    return is_new;
}

int64_t tess_stage_fill_up(const tess_stage *s, int64_t n_micro)
{
    const tess_pipeline_schedule *shape = &plan_of(s)->shape;
    const int n_local = (int)tess_coordinates_rounds(&s->e->at, n_micro);
    const int filled = tess_pipeline_fill_up(shape->kind, shape->ranks, n_local);
    return filled > n_local ? (int64_t)filled * s->e->at.n_data : n_micro;
}

tess_status tess_stage_run(tess_stage *s, const tess_batch_source *source, int n_local, tess_loss_sum *own)
{
    TESS_AUTO(tess_mem_drop) tess_batch *batches = NULL;
    TESS_TRY(fit_schedule(s, n_local));
    TESS_TRY(tess_fsdp_micro_begin_all(s->e->fsdp));
    TESS_TRY(TESS_NEW(s->e->mem, n_local, "micro-batches", &batches));
    TESS_TRY(run_list(s, source, batches, own));
    if (draws(s))
        TESS_TRY(tess_stage_times_gather(&s->times, s->team, &s->schedule));
    return TESS_OK;
}

tess_stage_traffic tess_stage_get_traffic(const tess_stage *s)
{
    return s->traffic;
}

int tess_stage_enough(const tess_stage *s, int n_local)
{
    int enough = 4 * plan_of(s)->shape.ranks;
    return n_local < enough || plan_of(s)->csv[0] != '\0' ? n_local : enough; /* a file has one number */
}

/* ---- Forward only ---- */
static tess_status evaluate_chunk(tess_stage *s, stage_slot *slot, const tess_head_task *task)
{
    const void *in;
    const int stage = stage_of(s, slot);
    const tess_range range = range_of(s, slot);
    if (slot->below != NULL && stage > 0)
        TESS_TRY(receive(s, slot, true));
    TESS_TRY(wait_for(s, &slot->sent_above));
    TESS_TRY(give_stream(s, slot, &in));
    TESS_TRY(tess_executor_score(s->executor, &range, in, slot->above, task));
    return !is_last(s, slot) && tess_pipeline_crosses(&plan_of(s)->shape, stage) ? send(s, slot, TESS_PIPELINE_SEND_F)
                                                                                 : TESS_OK;
}

static tess_status evaluate(tess_stage *s, const tess_batch *batch, const tess_head_task *task)
{
    const int64_t most = s->e->pieces.max_tokens;
    TESS_CHECK(batch->n_tokens <= most, TESS_E_INVALID, "batch: %lld tokens; a stage has room for %lld",
               (long long)batch->n_tokens, (long long)most);
    for (int chunk = 0; chunk < plan_of(s)->shape.chunks; chunk++) {
        stage_slot *slot = &s->slots[s->first_slot[chunk]];
        slot->batch = *batch;
        slot->micro = -1;
        TESS_TRY_CTX(evaluate_chunk(s, slot, task), "stage %d of %d: forward", stage_of(s, slot), n_stages(s));
    }
    for (int i = 0; i < s->n_slots; i++)
        TESS_TRY(wait_for(s, &s->slots[i].sent_above));
    return TESS_OK;
}

tess_status tess_stage_evaluate(tess_stage *s, tess_executor *executor, const tess_batch *batch,
                                const tess_head_task *task)
{
    s->executor = executor;
    tess_status status = evaluate(s, batch, task);
    s->executor = s->e->executor;
    return status;
}

tess_status tess_stage_share(tess_stage *s, tess_status status, void *data, size_t bytes)
{
    const int head = tess_pipeline_rank_of(&plan_of(s)->shape, n_stages(s) - 1);
    tess_team_label(s->team, "draws", -1);
    status = tess_team_agree(s->team, status);
    if (status == TESS_OK)
        status = tess_broadcast(s->team, data, bytes, TESS_U8, head, NULL);
    tess_team_label(s->team, NULL, -1);
    return status;
}
