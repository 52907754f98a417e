/* Gives the trainer the texts of some answers of a rollout (metrics.samples). */
#include <math.h>

#include "rl/rl_impl.h"

/* The texts of all answers lie in one buffer, which may move while it grows. */
typedef struct sample_texts {
    tess_scope own;
    tess_sample_text *samples;
    size_t *ends; /* (2 * samples) end of each prompt and of each response in `text` */
    tess_buffer text;
    int n;
} sample_texts;

static tess_status add(const rl *r, const rl_sample *sample, sample_texts *s)
{
    const int i = s->n++;
    s->samples[i] = (tess_sample_text){.rollout = r->training.rollout,
                                       .number = sample->number,
                                       .reward = sample->grade == RL_SCORED ? sample->reward : NAN};
    TESS_TRY(rl_text(r, sample->ids, sample->n_prompt, &s->text));
    s->ends[2 * i] = s->text.size;
    TESS_TRY(rl_text(r, sample->ids + sample->n_prompt, sample->n - sample->n_prompt, &s->text));
    s->ends[2 * i + 1] = s->text.size;
    return TESS_OK;
}

static void set_texts(sample_texts *s)
{
    size_t begin = 0;
    for (int i = 0; i < s->n; i++) {
        s->samples[i].prompt = s->text.data + begin;
        s->samples[i].prompt_size = s->ends[2 * i] - begin;
        s->samples[i].response = s->text.data + s->ends[2 * i];
        s->samples[i].response_size = s->ends[2 * i + 1] - s->ends[2 * i];
        begin = s->ends[2 * i + 1];
    }
}

/* The first answers of the rollout, in the order of their prompts. */
static tess_status collect(const rl *r, sample_texts *s)
{
    const int64_t most = r->config->metrics.samples, n = r->config->rollout.n;
    TESS_TRY(TESS_NEW_IN(&s->own, most, "texts of samples", &s->samples));
    TESS_TRY(TESS_NEW_IN(&s->own, 2 * most, "texts of samples", &s->ends));
    for (size_t g = 0; g < r->trained.n; g++)
        for (int64_t k = 0; k < n && s->n < most; k++)
            TESS_TRY(add(r, &r->trained.group[g].samples[k], s));
    set_texts(s);
    return TESS_OK;
}

void rl_show(const rl *r)
{
    sample_texts s = {.own = {.mem = r->mem}, .text = {.mem = r->mem}};
    if (r->config->metrics.samples == 0 || (r->engine->step - 1) % rl_steps_per_rollout(r->config) != 0)
        return;
    if (collect(r, &s) == TESS_OK)
        tess_trainer_add_samples(r->trainer, s.samples, s.n);
    else
        tess_error_clear();
    tess_scope_end(&s.own);
    tess_buffer_free(&s.text);
}
