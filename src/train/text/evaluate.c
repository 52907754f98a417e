#include "train/text/evaluate.h"

#include <stdio.h>

#include "engine/batch/context_pieces.h"
#include "engine/batches.h"
#include "engine/loss.h"
#include "nn/bad_tensor.h"
#include "parallel/tensor/ring_points.h"
#include "parallel/tensor/tensor_points.h"
#include "tessera/comm.h"
#include "train/text/chat_setup.h"
#include "train/text/text_ends.h"

typedef struct evaluation_run {
    tess_model_folder *m;
    tess_loader *loader;
    tess_executor *executor;
    float *entropies; /* device memory; NULL: the caller does not want them */
    float *room;      /* (4, tokens of all ranks) host memory for log-probabilities and entropies */
    tess_loss_meter meter;
    tess_tensor *ranks; /* exchanges between ranks that divide tokens; NULL: one rank */
    tess_ring *ring;    /* leaves that travel between them; NULL: none do */
    tess_pieces pieces;
    const tess_evaluation_options *options;
    int64_t position;
    bool warned; /* a loss that is not finite was reported */
} evaluation_run;

/* Brings a value of each token from the device, of all ranks' tokens. room: (2, tokens of all ranks) */
static tess_status bring_values(const evaluation_run *run, const tess_micro_batch *data, int64_t own,
                                const float *values, float *room, const void **seen)
{
    const tess_context *context = &run->pieces.context;
    const int64_t all = own * context->points.degree;
    TESS_TRY(tess_view(run->meter.stream, values, (size_t)own * sizeof(float), room, seen));
    if (run->ranks == NULL)
        return TESS_OK;
    TESS_TRY(tess_all_gather(run->options->team, *seen, room + all, (size_t)own, TESS_F32, NULL));
    tess_context_sort(context, data->n_tokens, room + all, room);
    *seen = room;
    return TESS_OK;
}

/* own: this rank's tokens */
static tess_status report_tokens(evaluation_run *run, const tess_micro_batch *data, int64_t own)
{
    const tess_evaluation_options *o = run->options;
    const void *logprobs, *entropies;
    const int64_t all = own * run->pieces.context.points.degree;
    TESS_TRY(bring_values(run, data, own, run->meter.logprobs, run->room, &logprobs));
    TESS_TRY(bring_values(run, data, own, run->entropies, run->room + 2 * all, &entropies));
    for (int64_t i = 0; i < data->n_tokens; i++)
        if (data->targets[i] >= 0)
            TESS_TRY(o->per_token(o->context, ++run->position, data->targets[i], ((const float *)logprobs)[i],
                                  ((const float *)entropies)[i]));
    return TESS_OK;
}

static void warn(void *self, const char *text)
{
    const tess_reporter *reporter = self;
    char line[600];
    snprintf(line, sizeof(line), "warning: %s", text);
    reporter->line(reporter->self, line);
}

/* Warns once of log-probabilities that are not finite. Computes them again to name the first tensor that is not. */
static tess_status check_logprobs(evaluation_run *run, const tess_batch *batch)
{
    int64_t at = -1;
    tess_stream *stream = run->meter.stream;
    const tess_reporter *reporter = run->options->reporter;
    if (run->warned || reporter == NULL || !tess_device_get_properties(tess_stream_device(stream))->host_memory)
        return TESS_OK;
    TESS_TRY(tess_stream_kernels(stream)->find_not_finite(
        stream,
        &(tess_find_not_finite_args){.x = run->meter.logprobs, .dtype = TESS_F32, .n = batch->n_tokens, .first = &at}));
    if (run->ranks != NULL) /* all compute again if one does */
        TESS_TRY(tess_all_reduce(run->options->team, &at, &at, 1, TESS_I64, TESS_MAX, NULL));
    if (at < 0)
        return TESS_OK;
    char text[sizeof(((tess_bad_tensor *)NULL)->text) + 160];
    tess_bad_tensor bad = {.model = run->m->model};
    const tess_watch watch = tess_bad_tensor_watch(&bad);
    run->warned = true;
    tess_executor_set_watch(run->executor, &watch);
    tess_status status = tess_executor_logprobs(run->executor, batch, 1, run->meter.logprobs, run->entropies);
    tess_executor_set_watch(run->executor, NULL);
    snprintf(text, sizeof(text),
             "the loss is not finite: %s%sthe model's weights are broken or too large: use an "
             "earlier checkpoint",
             bad.text, bad.text[0] != '\0' ? ": " : "");
    warn((void *)reporter, text);
    return status;
}

static tess_status run_batch(evaluation_run *run, const tess_micro_batch *data, tess_loss_sum *sum)
{
    const tess_evaluation_options *o = run->options;
    tess_batch batch = tess_batch_of(data);
    TESS_TRY(tess_pieces_take(&run->pieces, 0, &batch));
    TESS_TRY(tess_executor_logprobs(run->executor, &batch, 1, run->meter.logprobs, run->entropies));
    TESS_TRY(check_logprobs(run, &batch));
    TESS_TRY(tess_loss_add(&run->meter, sum, run->meter.logprobs, batch.targets, batch.n_tokens));
    sum->n_bytes += run->pieces.context.points.rank == 0 ? (int64_t)data->n_bytes : 0;
    if (o->per_token != NULL)
        TESS_TRY(report_tokens(run, data, batch.n_tokens));
    if (o->progress != NULL)
        o->progress(o->context, sum->n_tokens);
    return TESS_OK;
}

static tess_status run_all(evaluation_run *run, tess_loss_sum *sum)
{
    TESS_TRY(tess_loss_begin(&run->meter));
    for (;;) {
        tess_micro_batch data;
        bool end = false;
        TESS_TRY(tess_loader_next(run->loader, 0, &data, &end));
        if (end)
            break;
        TESS_TRY(run_batch(run, &data, sum));
    }
    TESS_TRY(tess_loss_end(&run->meter, sum));
    return run->ranks != NULL ? tess_loss_all_reduce(run->options->team, sum, 0) : TESS_OK;
}

/* Opens the exchanges between the ranks of the team, and sets the options of the executor that follow. */
static tess_status open_ranks(evaluation_run *run, tess_executor_options *options)
{
    const tess_evaluation_options *o = run->options;
    const tess_model_folder *m = run->m;
    const int n = o->team != NULL ? tess_team_size(o->team) : 1;
    tess_context *context = &options->context;
    *context = (tess_context){.points.degree = n, .n_leaves = n > 1 ? 2 * n : 1, .folded = true};
    run->pieces = (tess_pieces){.context = *context, .mem = m->mem};
    if (n == 1)
        return TESS_OK;
    TESS_CHECK((n & (n - 1)) == 0, TESS_E_INVALID, "%d ranks: the tokens of a batch are divided among a power of two",
               n);
    context->by_heads = o->context_method < 0 ? n <= m->config.n_kv_heads : o->context_method == TESS_CONTEXT_ULYSSES;
    context->rings = o->context_method == TESS_CONTEXT_RING;
    options->max_tokens = tess_context_tokens(context, options->max_tokens);
    TESS_TRY(tess_tensor_create(m->mem, o->team, m->compute.stream, tess_executor_context_bytes(m->model, options),
                                &run->ranks));
    context->points = tess_tensor_points(run->ranks);
    if (context->rings) {
        TESS_TRY(tess_ring_create(m->mem, o->team, m->compute.stream, tess_executor_ring_bytes(m->model, options),
                                  &run->ring));
        context->ring = tess_ring_get_points(run->ring);
    }
    run->pieces.context = *context;
    run->pieces.max_tokens = options->max_tokens;
    return TESS_OK;
}

/* n: this rank's tokens */
static tess_status alloc_results(evaluation_run *run, size_t n)
{
    const tess_compute *c = &run->m->compute;
    TESS_TRY(tess_loss_meter_create(c->stream, (int64_t)n, &run->meter));
    if (run->options->per_token == NULL)
        return TESS_OK;
    TESS_TRY(
        tess_device_alloc(c->device, TESS_POOL_ACTIVATIONS, n * sizeof(float), "entropies", (void **)&run->entropies));
    return tess_mem_alloc_array(run->m->mem, TESS_POOL_ACTIVATIONS, n * (size_t)run->pieces.context.points.degree,
                                4 * sizeof(float), "values of tokens", (void **)&run->room);
}

tess_status tess_evaluate_file(tess_model_folder *m, const tess_evaluation_options *o, tess_evaluation *result)
{
    int64_t seq_len = o->seq_len, longest = tess_model_config_max_length(&m->config);
    if (seq_len == 0)
        seq_len = longest < 1024 ? longest : 1024;
    TESS_CHECK(seq_len >= 2 && seq_len <= longest, TESS_E_INVALID,
               "rows of %lld tokens: the model takes 2 to %lld (with dynamic rope scaling, --max-length takes more)",
               (long long)seq_len, (long long)longest);
    int64_t rows = seq_len >= 4096 ? 1 : 4096 / seq_len;
    int32_t eos_id = tess_model_end_of_text(&m->config, m->tokenizer);
    tess_loader_options data = {.files = &o->path,
                                .n_files = 1,
                                .format = o->format,
                                .text_key = o->text_key,
                                .prompt_key = o->prompt_key,
                                .completion_key = o->completion_key,
                                .split = o->split,
                                .seq_len = seq_len,
                                .micro_batch = rows,
                                .end = 1,
                                .eos_id = eos_id,
                                .end_id = o->end_token >= 0 ? (int32_t)o->end_token : eos_id,
                                .warn = o->reporter != NULL ? warn : NULL,
                                .warn_self = (void *)o->reporter};
    tess_executor_options options = {.dtype = m->dtype,
                                     .max_tokens = rows * seq_len,
                                     .max_position = seq_len,
                                     .logit_bytes = m->compute.apart ? (size_t)o->logit_bytes : 0};
    evaluation_run run = {.m = m, .options = o};
    tess_chat_setup chat = {0};
    tess_loss_sum sum = {0};
    tess_status status;
    TESS_GOTO(tess_model_begin_of_text(&m->config, m->tokenizer, o->add_bos, &data.bos), opened);
    TESS_GOTO(tess_chat_setup_open(m->mem, o->chat_template, m->folder, m->tokenizer, &chat), opened);
    TESS_GOTO(tess_chat_setup_train(m->mem, &chat, o->reporter), opened);
    data.chat = &chat.how;
    TESS_GOTO(tess_loader_create(m->mem, m->tokenizer, &data, &run.loader), opened);
    TESS_GOTO(open_ranks(&run, &options), opened);
    TESS_GOTO(tess_executor_create(m->compute.stream, m->model, &m->compute.hooks, &options, &run.executor), opened);
    TESS_GOTO(alloc_results(&run, (size_t)options.max_tokens), opened);
    status = run_all(&run, &sum);
opened:
    tess_mem_free(m->mem, run.room);
    tess_device_free(m->compute.device, run.entropies);
    tess_loss_meter_destroy(&run.meter);
    tess_executor_destroy(&run.executor);
    tess_ring_destroy(&run.ring);
    tess_tensor_destroy(&run.ranks);
    tess_pieces_free(&run.pieces);
    tess_loader_destroy(&run.loader);
    tess_chat_setup_close(&chat);
    TESS_TRY_CTX(status, "evaluate %s", o->path);
    TESS_CHECK(sum.n_tokens > 0, TESS_E_INVALID, "evaluate %s: it has no token that another one precedes", o->path);
    *result = (tess_evaluation){.n_tokens = sum.n_tokens, .n_bytes = sum.n_bytes};
    tess_loss_score(&sum, &result->loss, &result->perplexity, &result->bits_per_byte);
    return TESS_OK;
}
