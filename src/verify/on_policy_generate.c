/* Computes the same texts by generation with a cache. No other file of verify uses the generator. */
#include <string.h>

#include "infer/generate.h"
#include "infer/kv_pages.h"
#include "verify/on_policy_impl.h"

/* Extra texts have numbers above those of the texts that are checked. */
enum { STRANGER = TESS_ON_POLICY_PROMPTS };

typedef struct asking {
    const tess_on_policy_plan *plan;
    const on_policy_setting *setting;
    on_policy_texts *texts;
    int next; /* number of the next request */
} asking;

/* Makes the request of an extra text, which is drawn with its own random numbers. Among other texts it has its own
 * prompt; if prompts are shared, it has the same prompt as a checked text. */
static void make_stranger(const asking *a, int i, tess_request *request)
{
    const tess_on_policy_prompt *own = &a->plan->prompts[i], *other = &a->plan->prompts[(i + 1) % a->plan->n_prompts];
    request->id = (uint64_t)(STRANGER + i);
    request->want_prompt_logprobs = false;
    if (a->setting->shared)
        return;
    request->ids = other->ids;
    request->n = request->n_prompt = other->n < own->n ? other->n : own->n;
}

static tess_status next(void *self, tess_request *request, bool *none)
{
    asking *a = self;
    const tess_on_policy_plan *plan = a->plan;
    bool pairs = a->setting->strangers || a->setting->shared;
    int number = a->next, i = pairs ? number / 2 : number;
    *none = i >= plan->n_prompts;
    if (*none)
        return TESS_OK;
    a->next++;
    i = a->setting->reversed ? plan->n_prompts - 1 - i : i;
    *request = (tess_request){.id = (uint64_t)i,
                              .ids = plan->prompts[i].ids,
                              .n = plan->prompts[i].n,
                              .n_prompt = plan->prompts[i].n,
                              .max_new_tokens = plan->new_tokens,
                              .prefix = a->setting->shared ? (uint64_t)i + 1 : 0,
                              .want_prompt_logprobs = !a->setting->shared};
    if (pairs && number % 2 == 0) {
        make_stranger(a, i, request);
        return TESS_OK;
    }
    memcpy(on_policy_ids(a->texts, i), request->ids, (size_t)request->n * sizeof(int32_t));
    a->texts->length[i] = request->n;
    a->texts->scored[i] = a->setting->shared ? request->n : 1;
    return TESS_OK;
}

static tess_status take_token(void *self, const tess_request *request, int64_t position, int32_t token, float logprob,
                              bool generated, bool *stop)
{
    on_policy_texts *texts = ((asking *)self)->texts;
    (void)generated, (void)stop;
    if (request->id >= STRANGER)
        return TESS_OK;
    const int i = (int)request->id;
    on_policy_ids(texts, i)[position] = token;
    on_policy_logprob(texts, i)[position] = logprob;
    texts->length[i] = position + 1 > texts->length[i] ? position + 1 : texts->length[i];
    return TESS_OK;
}

static tess_status finished(void *self, const tess_request *request, tess_finish why)
{
    (void)self, (void)request, (void)why;
    return TESS_OK;
}

static tess_status run(const tess_on_policy_plan *plan, const on_policy_setting *s, tess_generator *generator,
                       on_policy_texts *texts)
{
    const tess_sampling sampling = {
        .temperature = 1 / (double)s->inv_temperature, .top_p = 1, .seed = plan->seed, .exact = true};
    asking a = {.plan = plan, .setting = s, .texts = texts};
    const tess_request_source source = {&a, next, take_token, finished};
    return tess_generator_run(generator, &sampling, NULL, 0, &source);
}

static tess_generator_options options_of(const tess_on_policy_plan *plan, const on_policy_setting *s,
                                         const on_policy_texts *texts)
{
    int64_t all = s->strangers || s->shared ? 2 * texts->n : texts->n;
    int64_t batch = s->batch > 0 && s->batch < all ? s->batch : all;
    int64_t pages = tess_kv_pages_of(texts->room);
    return (tess_generator_options){.dtype = s->dtype,
                                    .max_length = texts->room,
                                    .max_sequences = batch,
                                    .pass_tokens = s->pass > 0 && s->pass < batch ? batch : s->pass,
                                    .cache_bytes =
                                        s->few_pages ? (size_t)pages * tess_kv_page_bytes(plan->model, s->dtype) : 0};
}

tess_status on_policy_generate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *s,
                               on_policy_watch *watch, const on_policy_texts *to)
{
    on_policy_place place;
    on_policy_texts texts = *to;
    tess_generator *generator = NULL;
    const tess_watch seen = on_policy_watch_of(watch);
    const tess_generator_options options = options_of(plan, s, to);
    tess_status status;
    TESS_GOTO(on_policy_place_open(mem, plan, s, &place), closed);
    TESS_GOTO(tess_generator_create(place.compute.stream, plan->model, &place.compute.hooks, &options, &generator),
              opened);
    tess_generator_set_watch(generator, seen.see != NULL ? &seen : NULL);
    status = run(plan, s, generator, &texts);
    const tess_generator_stats stats = tess_generator_get_stats(generator);
    watch->turned_out = stats.preemptions;
    watch->shared = stats.shared;
    if (status == TESS_OK)
        status = watch->status;
opened:
    tess_generator_destroy(&generator);
    on_policy_place_close(&place);
closed:
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "generation");
}
