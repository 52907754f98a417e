/* Writes for people what is not a number of a step: the header of the run, its configuration, histograms of weights and
 * gradients, texts of samples. */
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "comm/agree.h"
#include "tessera/comm.h"
#include "tessera/fsdp.h"
#include "train/run_header.h"
#include "train/trainer_impl.h"

/* ---- The configuration ---- */
/* Returns the options that decide about the bits of the run, and those that are not at their default. */
static json_t *list_hparams(const tess_config *config)
{
    int n_tables;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    json_auto_t *all = tess_run_header_config(config);
    json_t *chosen = json_object();
    for (int i = 0; i < n_tables; i++)
        for (int k = 0; k < tables[i].section->n_rows; k++) {
            const tess_option *row = &tables[i].section->rows[k];
            json_t *value = json_object_get(all, row->key);
            const bool is_default = tess_options_is_default(row, tess_options_section(&tables[i], config));
            if (value != NULL && ((row->effect & TESS_EFFECT_BITS) != 0 || !is_default))
                json_object_set(chosen, row->key, value);
        }
    return chosen;
}

/* Writes the configuration as a block of code in Markdown. */
static tess_status put_config(const json_t *hparams, tess_buffer *text)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)hparams, key, value) {
        char *shown = json_dumps(value, JSON_ENCODE_ANY);
        tess_status status = tess_buffer_printf(text, "    %s=%s\n", key, shown != NULL ? shown : "?");
        free(shown);
        TESS_TRY(status);
    }
    return TESS_OK;
}

static tess_status show_config(tess_trainer *t, tess_tensorboard *board)
{
    static const char *const of_text[] = {"loss_metrics/global_avg_loss", "grad_norm", "validation_metrics/loss"};
    static const char *const of_rl[] = {"reward", "loss_metrics/global_avg_loss", "grad_norm", "eval/held_out"};
    const bool is_rl = t->kind->has_own_batches;
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = t->mem};
    json_auto_t *hparams = list_hparams(&t->config);
    TESS_TRY(put_config(hparams, &text));
    TESS_TRY(tess_tensorboard_hparams(board, hparams, is_rl ? of_rl : of_text, is_rl ? 4 : 3));
    TESS_TRY(tess_tensorboard_text(board, "config", t->engine->step, text.size > 0 ? text.data : "", text.size));
    return tess_tensorboard_flush(board);
}

tess_status tess_trainer_begin_board(tess_trainer *t)
{
    tess_tensorboard *board = t->rank == 0 ? tess_metrics_board(t->metrics) : NULL;
    tess_status status = board != NULL ? show_config(t, board) : TESS_OK;
    if (status == TESS_OK && t->rank == 0)
        status = tess_run_header_write(t);
    if (status != TESS_OK && status != TESS_E_NOMEM) { /* a full disk does not end the run */
        tess_trainer_warn(t, "the header of the run could not be written for TensorBoard and metrics.command: %s",
                          tess_error_message());
        tess_error_clear();
        status = TESS_OK;
    }
    return status;
}

void tess_trainer_end_board(tess_trainer *t, bool succeeded)
{
    tess_tensorboard *board = t->metrics != NULL ? tess_metrics_board(t->metrics) : NULL;
    if (board != NULL &&
        (tess_tensorboard_hparams_end(board, succeeded) != TESS_OK || tess_tensorboard_flush(board) != TESS_OK))
        tess_error_clear();
}

/* ---- Histograms ---- */
/* Adds this rank's part of a parameter: the rows that it is primary for, so that each value counts once. */
static void count_values(const tess_shard *shard, const float *values, double scale, tess_histogram *h)
{
    const int64_t row = tess_shard_row(shard), before = shard->primary.begin[0] - shard->box.begin[0];
    if (values != NULL && tess_shard_count(shard) > 0)
        tess_histogram_add(h, values + before * row, shard->primary.size[0] * row, scale);
}

static tess_status add_ranks(const tess_trainer *t, tess_histogram *h)
{
    TESS_TRY(tess_all_reduce(t->team, h->sums, h->sums, TESS_HISTOGRAM_SUMS, TESS_I64, TESS_SUM, NULL));
    return tess_all_reduce(t->team, h->ends, h->ends, 2, TESS_I64, TESS_MAX, NULL);
}

static tess_status show_histogram(const tess_trainer *t, const char *kind, const char *name, const tess_histogram *h)
{
    char tag[256];
    tess_tensorboard *board = t->rank == 0 ? tess_metrics_board(t->metrics) : NULL;
    snprintf(tag, sizeof(tag), "%s/%s", kind, name);
    return board != NULL ? tess_tensorboard_histogram(board, tag, t->engine->step, h) : TESS_OK;
}

static int n_params(const tess_trainer *t)
{
    return t->kind->program != NULL ? tess_fsdp_shards(t->engine->fsdp) : tess_model_n_params(t->engine->whole);
}

static tess_status shard_of(const tess_trainer *t, int index, tess_shard *shard)
{
    return t->kind->program != NULL ? tess_fsdp_shard(t->engine->fsdp, index, shard)
                                    : tess_engine_shard(t->engine, index, shard);
}

static tess_status show_param(const tess_trainer *t, int index, double scale, tess_histogram *h)
{
    tess_shard shard;
    TESS_TRY(shard_of(t, index, &shard));
    if (!shard.trainable)
        return TESS_OK;
    tess_histogram_clear(h);
    count_values(&shard, shard.master, 1, h);
    TESS_TRY(add_ranks(t, h));
    TESS_TRY(show_histogram(t, "weights", shard.name, h));
    tess_histogram_clear(h);
    count_values(&shard, shard.grad, scale, h);
    TESS_TRY(add_ranks(t, h));
    return show_histogram(t, "gradients", shard.name, h);
}

tess_status tess_trainer_show_histograms(tess_trainer *t, const tess_engine_report *done)
{
    const int64_t every = t->config.metrics.histograms_every;
    if (every == 0 || t->engine->step % every != 0 || !t->config.metrics.enable_tensorboard)
        return TESS_OK; /* all ranks return here, or none: the sums below need all of them */
    TESS_AUTO(tess_mem_drop) tess_histogram *h = NULL;
    const double scale = 1.0 / done->divisor / done->loss_scale;
    TESS_TRY(TESS_NEW(t->mem, 1, "a histogram", &h));
    TESS_TRY(tess_fsdp_see_gradients(t->engine->fsdp));
    for (int i = 0; i < n_params(t); i++)
        TESS_TRY(show_param(t, i, scale, h));
    return TESS_OK;
}

/* ---- Samples ---- */
/* Appends a text as a block of code in Markdown: each line begins with four spaces. */
static tess_status put_block(const char *text, size_t size, tess_buffer *out)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t n = end != NULL ? (size_t)(end - text) - at : size - at;
        TESS_TRY(tess_buffer_append(out, "    ", 4));
        TESS_TRY(tess_buffer_append(out, text + at, n));
        TESS_TRY(tess_buffer_append(out, "\n", 1));
        at += n + 1;
    }
    return TESS_OK;
}

static tess_status show_samples(const tess_trainer *t, const tess_sample_text *samples, int n)
{
    tess_tensorboard *board = tess_metrics_board(t->metrics);
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = t->mem};
    for (int i = 0; i < n && board != NULL; i++) {
        const tess_sample_text *s = &samples[i];
        TESS_TRY(tess_buffer_printf(&text, "%ssample %lld of rollout %lld, reward %.6g\n\n", i > 0 ? "\n" : "",
                                    (long long)s->number, (long long)s->rollout, s->reward));
        TESS_TRY(put_block(s->prompt, s->prompt_size, &text));
        TESS_TRY(tess_buffer_printf(&text, "\nanswer\n\n"));
        TESS_TRY(put_block(s->response, s->response_size, &text));
    }
    if (board == NULL)
        return TESS_OK;
    TESS_TRY(tess_tensorboard_text(board, "samples", t->engine->step, text.size > 0 ? text.data : "", text.size));
    return tess_tensorboard_flush(board);
}

static json_t *text_of(const char *text, size_t size)
{
    json_t *string = json_stringn(text, size);
    return string != NULL ? string : json_string("(the text is not UTF-8)");
}

static tess_status write_sample(tess_trainer *t, const tess_sample_text *s)
{
    json_auto_t *line =
        json_pack("{s:s, s:I, s:I, s:o, s:o, s:o}", "event", "sample", "rollout", (json_int_t)s->rollout, "sample",
                  (json_int_t)s->number, "prompt", text_of(s->prompt, s->prompt_size), "response",
                  text_of(s->response, s->response_size), "reward", tess_json_number(s->reward));
    char *text = line != NULL ? json_dumps(line, JSON_COMPACT) : NULL;
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for the text of a sample");
    text[strlen(text) - 1] = '\0'; /* cuts its last brace off */
    tess_status status = tess_metrics_members(t->samples, t->engine->step, text + 1);
    free(text);
    return status;
}

void tess_trainer_add_samples(tess_trainer *t, const tess_sample_text *samples, int n)
{
    tess_status status = TESS_OK;
    if (t->samples == NULL)
        return;
    for (int i = 0; i < n && status == TESS_OK; i++)
        status = write_sample(t, &samples[i]);
    if (status == TESS_OK)
        status = show_samples(t, samples, n);
    if (status == TESS_OK)
        return;
    tess_trainer_warn(t, "texts of samples of step %lld: %s", (long long)t->engine->step, tess_error_message());
    tess_error_clear();
}
