/* The same texts by generation with a cache: all that verify knows of the generator. */
#include <string.h>

#include "infer/generate.h"
#include "train/verify/on_policy_impl.h"

static tess_status take_token(void *context, int prompt, int64_t position, int32_t token, float logprob, bool generated)
{
    on_policy_texts *texts = context;
    (void)generated;
    on_policy_ids(texts, prompt)[position] = token;
    on_policy_logprob(texts, prompt)[position] = logprob;
    texts->length[prompt] = position + 1;
    return TESS_OK;
}

static tess_status run(const tess_on_policy_plan *plan, const on_policy_setting *s, tess_generator *generator,
                       const tess_prompt *prompts, on_policy_texts *texts)
{
    const tess_sampling sampling = {
        .temperature = 1 / (double)s->inv_temperature, .top_p = 1, .seed = plan->seed, .exact = true};
    for (int i = 0; i < plan->n_prompts; i++) {
        on_policy_ids(texts, i)[0] = prompts[i].ids[0];
        texts->length[i] = 1;
    }
    return tess_generate(generator, prompts, plan->n_prompts, plan->new_tokens, &sampling, NULL, 0, take_token, texts);
}

tess_status on_policy_generate(tess_mem *mem, const tess_on_policy_plan *plan, const on_policy_setting *s,
                               on_policy_watch *watch, const on_policy_texts *to)
{
    on_policy_place place;
    on_policy_texts texts = *to;
    tess_generator *generator = NULL;
    tess_watch seen = on_policy_watch_of(watch);
    tess_prompt *prompts = NULL;
    const tess_generator_options options = {.dtype = s->dtype,
                                            .max_length = texts.room,
                                            .n_slots = s->batch > 0 && s->batch < texts.n ? s->batch : texts.n,
                                            .chunk_tokens = s->chunk};
    tess_status status;
    TESS_GOTO(on_policy_place_open(mem, plan, s, &place), closed);
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)plan->n_prompts, sizeof(*prompts), "prompts",
                                   (void **)&prompts),
              opened);
    for (int i = 0; i < plan->n_prompts; i++)
        prompts[i] = (tess_prompt){plan->prompts[i].ids, plan->prompts[i].n};
    TESS_GOTO(tess_generator_create(place.compute.stream, plan->model, &place.compute.hooks, &options, &generator),
              opened);
    tess_generator_set_watch(generator, seen.see != NULL ? &seen : NULL);
    status = run(plan, s, generator, prompts, &texts);
    if (status == TESS_OK)
        status = watch->status;
opened:
    tess_generator_destroy(&generator);
    tess_mem_free(mem, prompts);
    on_policy_place_close(&place);
closed:
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "generation");
}
