/* Computes the same texts by training's forward pass and by evaluation, in micro-batches of any composition. */
#include <math.h>
#include <string.h>

#include "base/core/rng.h"
#include "verify/on_policy_impl.h"
#include "base/mem/scoped.h"

enum { STRANGER_TOKENS = 37 }; /* longest extra text */

/* ---- Texts ---- */
tess_status on_policy_texts_make(tess_mem *mem, int n, int64_t room, on_policy_texts *texts)
{
    *texts = (on_policy_texts){.n = n, .room = room};
    size_t count = (size_t)n * (size_t)room;
    TESS_TRY(TESS_NEW(mem, n, "texts", &texts->length));
    TESS_TRY(TESS_PART(texts->length, n, "texts", &texts->scored));
    for (int i = 0; i < n; i++)
        texts->scored[i] = 1;
    TESS_TRY(TESS_PART(texts->length, count, "texts", &texts->ids));
    return TESS_PART(texts->length, count, "texts", &texts->logprob);
}

void on_policy_texts_free(on_policy_texts *texts)
{
    tess_mem_drop(&texts->length); /* the other arrays are parts of it */
    *texts = (on_policy_texts){0};
}

/* ---- Places ---- */
tess_status on_policy_place_open(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *s,
                                 on_policy_place *place)
{
    tess_status status;
    *place = (on_policy_place){.mem = mem};
    TESS_GOTO(tess_stream_create(mem, s->n_threads, s->kernels, &place->host), opened);
    TESS_GOTO(tess_compute_open(plan->device, 0, place->host, &place->compute), opened);
    TESS_GOTO(tess_static_hooks(mem, plan->model, plan->w[s->dtype == TESS_BF16], NULL, &place->inner), opened);
    const tess_staging_options staging = {.dtype = s->dtype, .constant = true};
    TESS_GOTO(tess_compute_hooks(&place->compute, plan->model, &place->inner, &staging), opened);
    return TESS_OK;
opened:
    on_policy_place_close(place);
    return status;
}

void on_policy_place_close(on_policy_place *place)
{
    tess_compute_close(&place->compute);
    if (place->inner.self != NULL)
        tess_static_hooks_free(&place->inner);
    tess_stream_destroy(&place->host);
}

/* ---- Micro-batches ---- */
/* A micro-batch of some texts, with extra texts between them. Row t belongs to text[t]; -1: to an extra text. */
typedef struct scored_batch {
    int32_t *ids, *pos, *targets, *cu_seqlens, *text;
    float *logprob;  /* memory of the host */
    float *computed; /* memory of the device */
    int64_t n_tokens, n_seqs;
} scored_batch;

typedef struct on_policy_scoring {
    tess_scope own;
    const tess_on_policy_plan *plan;
    const on_policy_setting *setting;
    const on_policy_texts *texts;
    on_policy_place place;
    tess_executor *executor;
    int64_t most; /* number of tokens in a micro-batch */
    scored_batch batch;
} on_policy_scoring;

static int batch_of(const on_policy_scoring *s)
{
    return s->setting->batch > 0 && s->setting->batch < s->texts->n ? s->setting->batch : s->texts->n;
}

/* Returns an upper bound that does not depend on which texts are combined. */
static int64_t most_tokens(const on_policy_scoring *s)
{
    return batch_of(s) * (s->texts->room + (s->setting->strangers ? STRANGER_TOKENS : 0));
}

static tess_status make_batch(on_policy_scoring *s)
{
    scored_batch *b = &s->batch;
    size_t n = (size_t)s->most;
    void **const parts[] = {(void **)&b->ids,        (void **)&b->pos,  (void **)&b->targets,
                            (void **)&b->cu_seqlens, (void **)&b->text, (void **)&b->logprob};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        TESS_TRY(tess_scope_alloc(&s->own, TESS_POOL_MISC, n + 1, sizeof(int32_t), "micro-batch", parts[i]));
    return tess_device_alloc(s->place.compute.device, TESS_POOL_ACTIVATIONS, n * sizeof(float), "log-probabilities",
                             (void **)&b->computed);
}

static void add_row(scored_batch *b, int text, int32_t id, int64_t pos, int32_t target)
{
    int64_t t = b->n_tokens++;
    b->ids[t] = id;
    b->pos[t] = (int32_t)pos;
    b->targets[t] = target;
    b->text[t] = text;
    b->cu_seqlens[b->n_seqs] = (int32_t)b->n_tokens;
}

static void add_text(on_policy_scoring *s, int text)
{
    const int32_t *ids = on_policy_ids(s->texts, text);
    int64_t n = s->texts->length[text];
    s->batch.n_seqs++;
    for (int64_t p = 0; p < n; p++)
        add_row(&s->batch, text, ids[p], p, p + 1 < n ? ids[p + 1] : -1);
}

/* Adds an extra text, whose result is not used, with a length of its own. */
static void add_stranger(on_policy_scoring *s, int number)
{
    int64_t V = tess_model_get_config(s->plan->model)->vocab_size;
    int64_t n = 1 + (int64_t)(number * 11) % STRANGER_TOKENS;
    n = n < s->texts->room ? n : s->texts->room;
    s->batch.n_seqs++;
    for (int64_t p = 0; p < n; p++) {
        uint64_t drawn = tess_rng_u64(s->plan->seed + 1, TESS_RNG_TEST, (uint64_t)number, (uint64_t)p);
        add_row(&s->batch, -1, (int32_t)(drawn % (uint64_t)V), p, p + 1 < n ? (int32_t)(drawn / 3 % (uint64_t)V) : -1);
    }
}

/* Computes -log p of each target, at the setting's temperature. */
static tess_status grade(void *self, int64_t begin, int64_t n, const float *logprob, const float *entropy,
                         float *dlogprob, float *dentropy)
{
    (void)self, (void)begin, (void)logprob, (void)entropy, (void)dentropy;
    for (int64_t i = 0; i < n; i++)
        dlogprob[i] = -1;
    return TESS_OK;
}

static tess_status run_batch(on_policy_scoring *s)
{
    scored_batch *b = &s->batch;
    const on_policy_setting *setting = s->setting;
    const tess_batch batch = {.n_tokens = b->n_tokens,
                              .n_seqs = b->n_seqs,
                              .ids = b->ids,
                              .pos = b->pos,
                              .targets = b->targets,
                              .cu_seqlens = b->cu_seqlens};
    const tess_token_loss loss = {
        .inv_temperature = setting->inv_temperature, .whole = setting->loss == ON_POLICY_LOSS_WHOLE, .grade = grade};
    if (setting->engine == TESS_ENGINE_TRAINING)
        TESS_TRY(
            tess_executor_train(s->executor, &batch, setting->loss != ON_POLICY_LOSS_NONE ? &loss : NULL, b->computed));
    else
        TESS_TRY(tess_executor_logprobs(s->executor, &batch, setting->inv_temperature, b->computed, NULL));
    TESS_TRY(tess_fetch(s->place.compute.stream, b->logprob, b->computed, (size_t)b->n_tokens * sizeof(float)));
    for (int64_t t = 0; t < b->n_tokens; t++)
        if (b->text[t] >= 0 && b->targets[t] >= 0)
            on_policy_logprob(s->texts, b->text[t])[b->pos[t] + 1] = b->logprob[t];
    return TESS_OK;
}

static tess_status run_batches(on_policy_scoring *s)
{
    int n = s->texts->n, batch = batch_of(s);
    for (int begin = 0; begin < n; begin += batch) {
        s->batch.n_tokens = s->batch.n_seqs = 0;
        for (int i = begin; i < n && i < begin + batch; i++) {
            if (s->setting->strangers)
                add_stranger(s, i);
            add_text(s, s->setting->reversed ? n - 1 - i : i);
        }
        TESS_TRY(run_batch(s));
    }
    return TESS_OK;
}

static tess_status make_executor(on_policy_scoring *s)
{
    const on_policy_setting *setting = s->setting;
    const tess_executor_options options = {.dtype = setting->dtype,
                                           .max_tokens = s->most,
                                           .max_position = setting->longest > 0 ? setting->longest : s->texts->room,
                                           .recompute = setting->recompute ? TESS_RECOMPUTE_FULL : TESS_RECOMPUTE_NONE,
                                           .train = setting->engine == TESS_ENGINE_TRAINING,
                                           .logit_bytes = s->place.compute.apart ? TESS_DEVICE_LOGIT_BYTES : 0};
    return tess_executor_create(s->place.compute.stream, s->plan->model, &s->place.compute.hooks, &options,
                                &s->executor);
}

tess_status on_policy_score(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *setting,
                            on_policy_watch *watch, const on_policy_texts *texts)
{
    on_policy_scoring s = {.own = {.mem = mem}, .plan = plan, .setting = setting, .texts = texts};
    tess_watch seen = on_policy_watch_of(watch);
    s.most = most_tokens(&s);
    tess_status status;
    TESS_GOTO(on_policy_place_open(mem, plan, setting, &s.place), opened);
    TESS_GOTO(make_batch(&s), made);
    TESS_GOTO(make_executor(&s), made);
    tess_executor_set_watch(s.executor, seen.see != NULL ? &seen : NULL);
    status = run_batches(&s);
    if (status == TESS_OK)
        status = watch->status;
made:
    tess_executor_destroy(&s.executor);
    tess_device_free(s.place.compute.device, s.batch.computed);
    tess_scope_end(&s.own);
    on_policy_place_close(&s.place);
opened:
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "%s", tess_on_policy_engine_name(setting->engine));
}
