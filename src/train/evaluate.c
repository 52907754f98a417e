/* Evaluation of a text file by a model folder, in one process. */
#include "train/model_folder.h"

#include "train/batches.h"
#include "train/loss.h"

typedef struct evaluation_run {
    tess_model_folder *m;
    tess_loader *loader;
    tess_executor *executor;
    float *logprobs;
    tess_eval_token_fn per_token;
    void (*progress)(void *context, int64_t n_tokens);
    void *context;
    int64_t position;
} evaluation_run;

static tess_status run_batch(evaluation_run *run, const tess_micro_batch *data, tess_loss_sum *sum)
{
    tess_batch batch = tess_batch_of(data);
    TESS_TRY(tess_executor_logprobs(run->executor, &batch, run->logprobs, NULL));
    tess_loss_add(sum, run->logprobs, data->targets, data->n_tokens);
    sum->n_bytes += (int64_t)data->n_bytes;
    for (int64_t i = 0; i < data->n_tokens; i++) {
        if (data->targets[i] < 0)
            continue;
        run->position++;
        if (run->per_token != NULL)
            TESS_TRY(run->per_token(run->context, run->position, data->targets[i], run->logprobs[i]));
    }
    if (run->progress != NULL)
        run->progress(run->context, sum->n_tokens);
    return TESS_OK;
}

static tess_status run_all(evaluation_run *run, tess_loss_sum *sum)
{
    for (;;) {
        tess_micro_batch data;
        bool end = false;
        TESS_TRY(tess_loader_next(run->loader, 0, &data, &end));
        if (end)
            return TESS_OK;
        TESS_TRY(run_batch(run, &data, sum));
    }
}

tess_status tess_evaluate_file(tess_model_folder *m, const char *path, const char *text_key, int64_t seq_len,
                               tess_eval_token_fn per_token, void (*progress)(void *context, int64_t n_tokens),
                               void *context, tess_evaluation *result)
{
    int64_t longest = tess_model_config_max_length(&m->config);
    if (seq_len == 0)
        seq_len = longest < 1024 ? longest : 1024;
    TESS_CHECK(seq_len >= 2 && seq_len <= longest, TESS_E_INVALID,
               "rows of %lld tokens: the model takes 2 to %lld (with dynamic rope scaling, --max-length takes more)",
               (long long)seq_len, (long long)longest);
    int64_t rows = seq_len >= 4096 ? 1 : 4096 / seq_len;
    tess_loader_options data = {.files = &path,
                                .n_files = 1,
                                .text_key = text_key,
                                .seq_len = seq_len,
                                .micro_batch = rows,
                                .end = 1,
                                .eos_id = tess_model_end_of_text(&m->config, m->tokenizer),
                                .bos_id = -1};
    tess_executor_options options = {.dtype = m->dtype, .max_tokens = rows * seq_len, .max_position = seq_len};
    evaluation_run run = {.m = m, .per_token = per_token, .progress = progress, .context = context};
    tess_loss_sum sum = {0};
    tess_status status;
    TESS_GOTO(tess_loader_create(m->mem, m->tokenizer, &data, &run.loader), opened);
    TESS_GOTO(tess_executor_create(m->stream, m->model, &m->hooks, &options, &run.executor), opened);
    TESS_GOTO(tess_mem_alloc_array(m->mem, TESS_POOL_ACTIVATIONS, (size_t)(rows * seq_len), sizeof(float),
                                   "log-probabilities", (void **)&run.logprobs),
              opened);
    status = run_all(&run, &sum);
opened:
    tess_mem_free(m->mem, run.logprobs);
    tess_executor_destroy(&run.executor);
    tess_loader_destroy(&run.loader);
    TESS_TRY_CTX(status, "evaluate %s", path);
    TESS_CHECK(sum.n_tokens > 0, TESS_E_INVALID, "evaluate %s: it has no token that another one precedes", path);
    *result = (tess_evaluation){.n_tokens = sum.n_tokens, .n_bytes = sum.n_bytes};
    tess_loss_score(&sum, &result->loss, &result->perplexity, &result->bits_per_byte);
    return TESS_OK;
}
