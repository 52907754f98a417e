#include "rl/rl_copy.h"

#include "tessera/comm.h"

/* ---- Questions of drawing ---- */
int64_t rl_step(const rl *r)
{
    return r->copy != NULL ? r->copy->step : r->engine->step;
}

tess_stream *rl_stream(const rl *r)
{
    return r->copy != NULL ? r->copy->compute.stream : r->engine->compute.stream;
}

uint64_t rl_copy_digest(const rl *r)
{
    return r->copy->weights;
}

tess_status rl_copy_hold(const rl *r, tess_held_weights *held)
{
    const rl_copy *c = r->copy;
    return tess_weights_hold_copy(&c->compute, c->model, tess_weights_present(c->receiver),
                                  tess_precision_dtype(r->config->training.mixed_precision_param), held);
}

/* ---- Newer weights ---- */
tess_status rl_copy_listen(rl_copy *c)
{
    return tess_recv(c->sync.all, &c->message, sizeof(c->message), TESS_U8, c->source, RL_TAG_MESSAGE, &c->incoming);
}

tess_status rl_copy_begin(rl_copy *c)
{
    c->is_coming = true;
    c->next_step = c->message.step;
    c->next_weights = c->message.weights;
    TESS_TRY(tess_weights_receive(c->receiver));
    return rl_copy_listen(c);
}

tess_status rl_copy_look(rl *r)
{
    rl_copy *c = r->copy;
    if (c == NULL)
        return TESS_OK;
    if (!c->is_coming && tess_work_done(c->incoming)) {
        TESS_TRY(tess_work_wait(&c->incoming, 0));
        TESS_CHECK(c->message.kind == RL_MESSAGE_WEIGHTS, TESS_E_INTERNAL,
                   "message %lld comes while a rollout is drawn", (long long)c->message.kind);
        TESS_TRY(rl_copy_begin(c));
    }
    return tess_weights_receive_some(c->receiver);
}

tess_status rl_copy_take(rl_copy *c)
{
    TESS_TRY(tess_weights_take(c->receiver, c->next_step));
    c->is_coming = false;
    c->step = c->next_step;
    c->weights = c->next_weights;
    return TESS_OK;
}

/* ---- Making ---- */
tess_status rl_copy_open(const tess_config *config, const tess_model_config *model, const tess_weight_sync *sync,
                         rl_copy **out)
{
    tess_runtime *runtime = tess_team_runtime(sync->all);
    tess_mem *mem = tess_runtime_mem(runtime);
    const tess_dtype dtype = tess_precision_dtype(config->training.mixed_precision_param);
    *out = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**out), "copy of weights", (void **)out));
    rl_copy *c = *out;
    *c = (rl_copy){.sync = *sync, .step = -1};
    c->source = tess_weight_sync_source(sync, tess_team_rank(sync->all) - sync->n_trainers);
    TESS_TRY(tess_stream_create(mem, tess_runtime_threads(runtime), tess_runtime_kernels(runtime), &c->stream));
    TESS_TRY(tess_compute_open_of_rank(tess_config_device(config), tess_runtime_rank(runtime), c->stream, &c->compute));
    TESS_TRY(tess_model_create(mem, model, &c->model));
    return tess_weight_receiver_create(mem, c->model, dtype, &c->sync, &c->receiver);
}

void rl_copy_close(rl_copy **handle)
{
    rl_copy *c = *handle;
    if (c == NULL)
        return;
    tess_mem *mem = tess_runtime_mem(tess_team_runtime(c->sync.all));
    tess_work_cancel(&c->incoming);
    tess_weight_receiver_destroy(&c->receiver);
    tess_compute_close(&c->compute);
    tess_stream_destroy(&c->stream);
    tess_model_destroy(&c->model);
    tess_mem_free(mem, c);
    *handle = NULL;
}
