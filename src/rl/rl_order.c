/* The trainers' side of rollouts that other ranks draw. With rollout.lag a rollout is ordered before the steps on
 * the previous rollout, and taken after them. All trainers know the order; each sends it to the ranks that it
 * serves. */
#include <string.h>

#include "base/os/os.h"
#include "rl/rl_messages.h"
#include "tessera/comm.h"

struct rl_orders {
    tess_weight_sync sync;
    tess_weight_sender *sender;
    int64_t sent_step; /* step of the newest weights that were sent; -1: none */
    uint64_t weights;  /* their digest */
    bool is_out;       /* a rollout is ordered and not yet taken */
    rl_state ordered;
};

static void enter(const rl *r, const char *phase)
{
    tess_runtime_phase(tess_trainer_runtime(r->trainer), phase, r->engine->step + 1, r->next.rollout);
}

/* Sends a message to the ranks that this rank serves. */
static tess_status tell(const rl *r, const rl_message *message)
{
    const tess_weight_sync *sync = &r->orders->sync;
    const int n = tess_team_size(sync->all) - sync->n_trainers, me = tess_team_rank(sync->all);
    for (int i = 0; i < n; i++)
        if (tess_weight_sync_source(sync, i) == me)
            TESS_TRY(
                tess_send(sync->all, message, sizeof(*message), TESS_U8, sync->n_trainers + i, RL_TAG_MESSAGE, NULL));
    return TESS_OK;
}

/* ---- Weights ---- */
static tess_status send_weights(rl *r)
{
    rl_orders *o = r->orders;
    int64_t bytes;
    TESS_TRY(tess_weights_digest(r->engine, &o->weights));
    const rl_message message = {.kind = RL_MESSAGE_WEIGHTS, .step = r->engine->step, .weights = o->weights};
    TESS_TRY(tell(r, &message));
    TESS_TRY(tess_weights_send(o->sender, &bytes));
    TESS_TRY(tess_all_reduce(r->team, &bytes, &bytes, 1, TESS_I64, TESS_SUM, NULL));
    r->sync.sent_bytes += bytes;
    o->sent_step = r->engine->step;
    return TESS_OK;
}

tess_status rl_send_weights(rl *r)
{
    const double begin_s = tess_os_now_s();
    if (r->orders == NULL || r->orders->sent_step == r->engine->step)
        return TESS_OK;
    enter(r, "weights");
    TESS_TRY_CTX(send_weights(r), "weights of step %lld", (long long)r->engine->step);
    r->sync.send_s += tess_os_now_s() - begin_s;
    return TESS_OK;
}

/* ---- Rollouts ---- */
tess_status rl_order(rl *r, const rl_state *of, bool may_draw)
{
    rl_orders *o = r->orders;
    TESS_CHECK(!o->is_out, TESS_E_INTERNAL, "rollout %lld is ordered before the one before it was taken",
               (long long)of->rollout);
    if (may_draw)
        TESS_TRY(rl_send_weights(r));
    const rl_message message = {.kind = RL_MESSAGE_ORDER,
                                .step = o->sent_step,
                                .identity = r->identity,
                                .kernels = rl_kernels_of(r),
                                .state = *of,
                                .may_draw = may_draw,
                                .restored = r->restored};
    TESS_TRY(tell(r, &message));
    r->restored = false;
    o->ordered = *of;
    o->is_out = true;
    return TESS_OK;
}

/* Called on the first trainer. */
static tess_status receive(const rl *r, rl_result *result, tess_buffer *bytes)
{
    const tess_weight_sync *sync = &r->orders->sync;
    TESS_TRY(tess_recv(sync->all, result, sizeof(*result), TESS_U8, sync->n_trainers, RL_TAG_RESULT, NULL));
    TESS_TRY(tess_mem_grow(r->mem, TESS_POOL_MISC, (size_t)result->bytes + 1, "samples", (void **)&bytes->data));
    bytes->size = bytes->capacity = (size_t)result->bytes;
    return tess_recv(sync->all, bytes->data, bytes->size, TESS_U8, sync->n_trainers, RL_TAG_RESULT, NULL);
}

static tess_status take(rl *r, rl_result *result, tess_buffer *bytes)
{
    const size_t n = (size_t)r->config->rollout.prompts;
    if (tess_team_rank(r->team) == 0)
        TESS_TRY(receive(r, result, bytes));
    TESS_TRY(tess_broadcast(r->team, result, sizeof(*result), TESS_U8, 0, NULL));
    TESS_TRY(rl_share_bytes(r->team, bytes));
    rl_groups_free(r->mem, &r->newest.chosen, r->config->rollout.n);
    TESS_TRY(rl_groups_read(r, bytes, n, &r->newest.chosen));
    TESS_CHECK(r->newest.chosen.n == n, TESS_E_MISMATCH, "%zu prompts have come, and not %zu", r->newest.chosen.n, n);
    r->newest.state = r->orders->ordered;
    r->newest.after = result->after;
    r->newest.facts = result->facts;
    r->orders->is_out = false;
    return TESS_OK;
}

tess_status rl_take_order(rl *r)
{
    const double begin_s = tess_os_now_s();
    TESS_AUTO(tess_buffer_free) tess_buffer bytes = {.mem = r->mem};
    rl_result result = {.bytes = 0};
    if (r->orders == NULL || !r->orders->is_out)
        return TESS_OK;
    enter(r, "rollout");
    tess_status status = take(r, &result, &bytes);
    r->sync.wait_s += tess_os_now_s() - begin_s;
    return status == TESS_OK ? TESS_OK
                             : tess_fail_context(status, "rollout %lld of the ranks that draw",
                                                 (long long)r->orders->ordered.rollout);
}

tess_status rl_dismiss(rl *r, bool interrupted)
{
    const rl_message message = {.kind = RL_MESSAGE_END, .interrupted = interrupted};
    return r->orders != NULL ? tell(r, &message) : TESS_OK;
}

/* ---- Making ---- */
tess_status rl_orders_create(rl *r)
{
    if (r->config->rollout.ranks == 0)
        return TESS_OK;
    TESS_TRY(TESS_NEW(r->mem, 1, "orders", &r->orders));
    *r->orders = (rl_orders){.sync = rl_sync_of(r), .sent_step = -1};
    return tess_weight_sender_create(r->engine, &r->orders->sync, &r->orders->sender);
}

void rl_orders_free(rl *r)
{
    if (r->orders == NULL)
        return;
    tess_weight_sender_destroy(&r->orders->sender);
    tess_mem_drop(&r->orders);
}
