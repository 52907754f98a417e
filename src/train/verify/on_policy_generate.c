/* The same texts by generation with a cache: all that verify knows of the generator. */
#include <string.h>

#include "infer/generate.h"
#include "train/verify/on_policy_impl.h"

typedef struct asking {
    const tess_on_policy_plan *plan;
    on_policy_texts *texts;
    int next;
} asking;

static tess_status next(void *self, tess_request *request, bool *none)
{
    asking *a = self;
    *none = a->next == a->plan->n_prompts;
    if (*none)
        return TESS_OK;
    const int i = a->next++;
    *request = (tess_request){.id = (uint64_t)i,
                              .ids = a->plan->prompts[i].ids,
                              .n = a->plan->prompts[i].n,
                              .n_prompt = a->plan->prompts[i].n,
                              .max_new_tokens = a->plan->new_tokens,
                              .want_prompt_logprobs = true,
                              .user = (void *)(intptr_t)i};
    on_policy_ids(a->texts, i)[0] = request->ids[0];
    a->texts->length[i] = 1;
    return TESS_OK;
}

static tess_status take_token(void *self, const tess_request *request, int64_t position, int32_t token, float logprob,
                              bool generated, bool *stop)
{
    on_policy_texts *texts = ((asking *)self)->texts;
    const int i = (int)(intptr_t)request->user;
    (void)generated, (void)stop;
    on_policy_ids(texts, i)[position] = token;
    on_policy_logprob(texts, i)[position] = logprob;
    texts->length[i] = position + 1;
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
    asking a = {plan, texts, 0};
    const tess_request_source source = {&a, next, take_token, finished};
    return tess_generator_run(generator, &sampling, NULL, 0, &source);
}

tess_status on_policy_generate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *s,
                               on_policy_watch *watch, const on_policy_texts *to)
{
    on_policy_place place;
    on_policy_texts texts = *to;
    tess_generator *generator = NULL;
    const tess_watch seen = on_policy_watch_of(watch);
    const int64_t batch = s->batch > 0 && s->batch < texts.n ? s->batch : texts.n;
    const tess_generator_options options = {.dtype = s->dtype,
                                            .max_length = texts.room,
                                            .max_sequences = batch,
                                            .pass_tokens = s->chunk > 0 && s->chunk < batch ? batch : s->chunk};
    tess_status status;
    TESS_GOTO(on_policy_place_open(mem, plan, s, &place), closed);
    TESS_GOTO(tess_generator_create(place.compute.stream, plan->model, &place.compute.hooks, &options, &generator),
              opened);
    tess_generator_set_watch(generator, seen.see != NULL ? &seen : NULL);
    status = run(plan, s, generator, &texts);
    if (status == TESS_OK)
        status = watch->status;
opened:
    tess_generator_destroy(&generator);
    on_policy_place_close(&place);
closed:
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "generation");
}
