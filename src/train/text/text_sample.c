/* Generates the sample at the end of a run. Rank 0 opens the exported folder as a user would, and continues the prompt.
 */
#include "infer/generate.h"
#include "train/text/model_folder.h"
#include "train/text/run_text.h"

#include <string.h>

#include "base/text/text.h"
#include "infer/generation_config.h"

/* The single request, and the text that is generated for it. */
typedef struct sample_source {
    tess_request request;
    bool begun;
    tess_ids *text;
} sample_source;

static tess_status next_request(void *self, tess_request *request, bool *none)
{
    sample_source *s = self;
    *none = s->begun;
    s->begun = true;
    *request = s->request;
    return TESS_OK;
}

static tess_status append_token(void *self, const tess_request *request, int64_t position, int32_t token, float logprob,
                                bool generated, bool *stop)
{
    (void)request, (void)position, (void)logprob, (void)generated, (void)stop;
    return tess_ids_append(((sample_source *)self)->text, token);
}

static tess_status no_more(void *self, const tess_request *request, tess_finish why)
{
    (void)self, (void)request, (void)why;
    return TESS_OK;
}

static tess_status encode_prompt(const tess_run_text *x, const tess_tokenizer *tokenizer, const tess_prefix *bos,
                                 tess_ids *ids)
{
    const char *prompt = x->config->sample.prompt;
    for (int i = 0; i < bos->n; i++)
        TESS_TRY(tess_ids_append(ids, bos->id[i]));
    return tess_encode_text(tokenizer, prompt, strlen(prompt), false, ids);
}

tess_status tess_run_text_check_sample(const tess_run_text *x, const tess_prefix *bos)
{
    tess_ids ids = {.mem = x->mem};
    int64_t longest = tess_model_config_max_length(tess_trainer_model(x->trainer));
    if (x->config->sample.prompt[0] == '\0')
        return TESS_OK;
    tess_status status = encode_prompt(x, x->tokenizer, bos, &ids);
    int64_t n = (int64_t)ids.size;
    tess_ids_free(&ids);
    TESS_TRY_CTX(status, "sample.prompt");
    TESS_CHECK(n >= 1 && n < longest, TESS_E_INVALID,
               "sample.prompt has %lld tokens; this model can continue 1 to %lld", (long long)n,
               (long long)longest - 1);
    tess_generation_config file; /* read now to find errors in it: the exported folder will have a copy */
    return x->config->model.path[0] != '\0' ? tess_generation_config_load(x->config->model.path, &file) : TESS_OK;
}

static tess_status continue_prompt(const tess_run_text *x, const char *folder, tess_model_folder *m,
                                   const tess_prefix *bos, tess_ids *ids)
{
    const tess_config *c = x->config;
    TESS_AUTO(tess_generator_destroy) tess_generator *generator = NULL;
    TESS_TRY(encode_prompt(x, m->tokenizer, bos, ids));
    int64_t prompt_length = (int64_t)ids->size, longest = tess_model_config_max_length(&m->config);
    int64_t length =
        prompt_length + c->sample.max_new_tokens < longest ? prompt_length + c->sample.max_new_tokens : longest;
    tess_generator_options options = {.dtype = m->dtype, .max_length = length > 2 ? length : 2, .max_sequences = 1};
    tess_sampling sampling = {.temperature = c->sample.temperature,
                              .top_k = c->sample.top_k,
                              .top_p = c->sample.top_p,
                              .seed = (uint64_t)c->debug.seed};
    tess_generation_config file;
    TESS_TRY(tess_generation_config_load(folder, &file));
    const int64_t *end_tokens = file.n_end > 0 ? file.end_tokens : m->config.eos_token_id;
    int n_end = file.n_end > 0 ? file.n_end : m->config.n_eos;
    TESS_TRY(tess_generator_create(m->compute.stream, m->model, &m->compute.hooks, &options, &generator));
    /* The continuation is appended to `ids`, which may be reallocated, so the prompt needs its own copy. */
    TESS_AUTO(tess_mem_drop) int32_t *prompt_ids = NULL;
    TESS_TRY(TESS_NEW(x->mem, ids->size + 1, "prompt", &prompt_ids));
    memcpy(prompt_ids, ids->data, ids->size * sizeof(int32_t));
    sample_source one = {.request = {.ids = prompt_ids,
                                     .n = prompt_length,
                                     .n_prompt = prompt_length,
                                     .max_new_tokens = c->sample.max_new_tokens},
                         .text = ids};
    const tess_request_source source = {&one, next_request, append_token, no_more};
    return tess_generator_run(generator, &sampling, end_tokens, n_end, &source);
}

static tess_status sample(const tess_run_text *x, const tess_prefix *bos, int n_threads, const char *folder)
{
    const tess_config *c = x->config;
    tess_model_folder m;
    TESS_AUTO(tess_ids_free) tess_ids ids = {.mem = x->mem};
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = x->mem};
    bool adapter = tess_trainer_model(x->trainer)->lora.rank > 0;
    const char *model = adapter ? c->model.path : folder;
    const tess_model_folder_options options = {.dtype = TESS_DTYPE_COUNT,
                                               .adapter = adapter ? folder : NULL,
                                               .max_length = c->model.max_length,
                                               .n_threads = n_threads,
                                               .device = tess_config_device(c)};
    TESS_TRY(tess_model_folder_open(x->mem, model, &options, NULL, &m));
    tess_status status = tess_buffer_printf(&text, "sample:\n");
    if (status == TESS_OK)
        status = continue_prompt(x, model, &m, bos, &ids);
    if (status == TESS_OK)
        status = tess_decode(m.tokenizer, ids.data, ids.size, true, &text);
    if (status == TESS_OK)
        tess_trainer_show(x->trainer, text.data);
    tess_model_folder_close(&m);
    return status;
}

tess_status tess_run_text_sample(const tess_run_text *x, const tess_prefix *bos, int n_threads, const char *folder)
{
    if (x->config->sample.prompt[0] != '\0')
        TESS_TRY_CTX(sample(x, bos, n_threads, folder), "sample");
    return TESS_OK;
}
