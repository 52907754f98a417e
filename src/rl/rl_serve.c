/* A rank that only draws. It receives weights whenever they arrive, and collects the ordered rollouts together with
 * the other ranks of its kind. */
#include "rl/rl_copy.h"
#include "tessera/comm.h"

/* The newest answer, sent by the first rank that only draws. */
typedef struct rl_answer {
    rl_result result;
    tess_buffer samples;
    tess_work *works[2];
} rl_answer;

/* Waits for the previous answer to be sent, before the next one; the trainers do not order again before they have
 * taken it. */
static tess_status wait_for(rl_answer *a)
{
    for (int i = 0; i < 2; i++)
        if (a->works[i] != NULL)
            TESS_TRY(tess_work_wait(&a->works[i], 0));
    return TESS_OK;
}

static tess_status answer(rl *r, rl_answer *a)
{
    tess_team *all = r->copy->sync.all;
    TESS_TRY(wait_for(a));
    if (tess_team_rank(r->team) != 0)
        return TESS_OK;
    a->samples.size = 0;
    TESS_TRY(rl_groups_write(r, &r->newest.chosen, &a->samples));
    a->result = (rl_result){.bytes = (int64_t)a->samples.size, .after = r->newest.after, .facts = r->newest.facts};
    TESS_TRY(tess_send(all, &a->result, sizeof(a->result), TESS_U8, 0, RL_TAG_RESULT, &a->works[0]));
    return tess_send(all, a->samples.data, a->samples.size, TESS_U8, 0, RL_TAG_RESULT, &a->works[1]);
}

static tess_status check_order(const rl *r, const rl_message *order)
{
    TESS_CHECK(order->identity == r->identity, TESS_E_MISMATCH,
               "rollout.ranks: this rank has other prompts or settings than those that train: are data.files the same "
               "on all hosts?");
    TESS_CHECK(order->kernels == rl_kernels_of(r), TESS_E_MISMATCH,
               "rollout.ranks: this rank computes with kernels '%s', and those that train with others: choose one "
               "job.device and one TESSERA_CUBLAS for all hosts",
               tess_stream_kernels(rl_stream(r))->name);
    return TESS_OK;
}

static tess_status obey(rl *r, rl_answer *a)
{
    const rl_message order = r->copy->message;
    TESS_TRY(check_order(r, &order));
    if (order.may_draw && r->copy->step != order.step)
        TESS_TRY(rl_copy_take(r->copy));
    r->newest.state = order.state;
    r->restored = order.restored != 0;
    TESS_TRY(rl_copy_listen(r->copy));
    TESS_TRY(rl_collect(r, order.may_draw != 0));
    return answer(r, a);
}

/* Receives weights completely before it waits for the next message, because the trainers wait for the transfer. */
static tess_status serve(rl *r, rl_answer *a)
{
    rl_copy *c = r->copy;
    TESS_TRY(rl_copy_listen(c));
    for (;;) {
        tess_runtime_phase(tess_trainer_runtime(r->trainer), "weights", c->step + 1, -1);
        TESS_TRY_CTX(tess_weights_receive_rest(c->receiver), "weights");
        TESS_TRY_CTX(tess_work_wait(&c->incoming, 0), "wait for the ranks that train");
        if (c->message.kind == RL_MESSAGE_END)
            return wait_for(a);
        TESS_TRY(c->message.kind == RL_MESSAGE_WEIGHTS ? rl_copy_begin(c) : obey(r, a));
    }
}

tess_status rl_serve(void *self, bool *interrupted)
{
    rl *r = self;
    rl_answer a = {.samples = {.mem = r->mem}};
    const tess_weight_sync sync = rl_sync_of(r);
    TESS_TRY(rl_copy_open(r->config, tess_trainer_model(r->trainer), &sync, &r->copy));
    tess_status status = serve(r, &a);
    *interrupted = r->copy->message.interrupted != 0;
    for (int i = 0; i < 2; i++)
        tess_work_cancel(&a.works[i]);
    tess_buffer_free(&a.samples);
    return status;
}
