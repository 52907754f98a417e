/* Opens the texts of a run: the training part and the held-out part. */
#include <stdio.h>

#include "base/text/text.h"
#include "train/text/text_ends.h"
#include "train/text/text_impl.h"

bool text_can_validate(const tess_config *c)
{
    return c->validation.enable && (c->validation.files.n > 0 || c->validation.fraction > 0);
}

double text_trained_share(const tess_config *c)
{
    bool held_out = text_can_validate(c) && c->validation.files.n == 0;
    return held_out ? 1 - c->validation.fraction : 1;
}

static void warn(void *self, const char *text)
{
    tess_trainer_warn(self, "%s", text);
}

/* The options that all loaders of the run share. */
static tess_loader_options options_of(const text_task *t)
{
    const tess_config *config = t->text.config;
    int32_t eos_id = tess_model_end_of_text(tess_trainer_model(t->text.trainer), t->text.tokenizer);
    return (tess_loader_options){.format = (tess_data_format)config->data.format,
                                 .end_id = config->data.end_token >= 0 ? (int32_t)config->data.end_token : eos_id,
                                 .text_key = config->data.text_key,
                                 .prompt_key = config->data.prompt_key,
                                 .completion_key = config->data.completion_key,
                                 .split = (tess_split)config->data.split,
                                 .chat = &t->text.chat.how,
                                 .seq_len = config->training.seq_len,
                                 .micro_batch = config->training.local_batch_size,
                                 .seed = (uint64_t)config->debug.seed,
                                 .eos_id = eos_id,
                                 .bos = t->bos,
                                 .warn_self = t->text.trainer};
}

static tess_status begin_of_text(text_task *t, tess_add_bos add)
{
    return tess_model_begin_of_text(tess_trainer_model(t->text.trainer), t->text.tokenizer, add, &t->bos);
}

static void name_files(const tess_data_files *files, tess_loader_options *options)
{
    options->files = (const char *const *)files->paths;
    options->n_files = (int)files->n;
}

/* Notes the size of the data, and how often the run goes through it. Each source of a mixture has epochs of its own. */
static void note_size(const text_task *t)
{
    const tess_config *config = t->text.config;
    const int64_t rows = tess_loader_estimate_rows(t->loader);
    const double taken = (double)config->training.steps * (double)config->training.global_batch_size;
    char tokens[32], epochs[96] = "";
    if (rows == 0)
        return;
    if (config->data.weights.n == 0)
        snprintf(epochs, sizeof(epochs), "; %lld steps are %.3g epochs", (long long)config->training.steps,
                 taken / (double)rows);
    tess_trainer_note(t->text.trainer, "data: about %lld rows of %lld tokens (%s)%s", (long long)rows,
                      (long long)config->training.seq_len,
                      tess_format_count((double)(rows * config->training.seq_len), tokens, sizeof(tokens)), epochs);
}

tess_status text_open_data(text_task *t)
{
    const tess_config *config = t->text.config;
    int64_t weights[TESS_LIST_SIZE];
    TESS_TRY_CTX(begin_of_text(t, (tess_add_bos)config->data.add_bos), "data.add_bos=true");
    TESS_TRY(tess_data_weights(&config->data, weights));
    tess_loader_options options = options_of(t);
    name_files(&t->text.files, &options);
    options.shuffle = config->data.shuffle;
    options.repeat = true;
    options.end = text_trained_share(config);
    options.warn = warn;
    if (config->data.weights.n > 0) {
        options.weights = weights;
        options.counts = t->text.files.counts;
        options.n_weights = config->data.weights.n;
    }
    TESS_TRY_CTX(tess_loader_create(t->text.mem, t->text.tokenizer, &options, &t->loader), "data.files");
    note_size(t);
    return TESS_OK;
}

tess_status text_open_validation(text_task *t)
{
    const tess_config *config = t->text.config;
    bool own_files = config->validation.files.n > 0;
    tess_loader_options options = options_of(t);
    name_files(own_files ? &t->text.held_files : &t->text.files, &options);
    options.begin = own_files ? 0 : 1 - config->validation.fraction;
    options.end = 1;
    options.warn = own_files ? warn : NULL; /* a file is warned of only once */
    if (text_can_validate(config))
        TESS_TRY_CTX(tess_loader_create(t->text.mem, t->text.tokenizer, &options, &t->held_out), "validation");
    return TESS_OK;
}

tess_status text_keep_bos(text_task *t, bool began_with)
{
    if (began_with == (t->bos.n > 0))
        return TESS_OK;
    TESS_CHECK(t->text.config->data.add_bos == TESS_ADD_BOS_AUTO, TESS_E_INVALID,
               "the run began with data.add_bos=%s: the data could not go on from the same sample; give the same, or "
               "start the data anew with checkpoint.exclude_from_loading=data",
               began_with ? "true" : "false");
    TESS_TRY_CTX(begin_of_text(t, began_with ? TESS_ADD_BOS_TRUE : TESS_ADD_BOS_FALSE),
                 "the run began with data.add_bos=true");
    TESS_TRY(tess_loader_set_bos(t->loader, &t->bos));
    if (t->held_out != NULL)
        TESS_TRY(tess_loader_set_bos(t->held_out, &t->bos));
    tess_trainer_note(t->text.trainer,
                      "documents go on with%s a bos token, as this run began (data.add_bos=%s with "
                      "checkpoint.exclude_from_loading=data starts the data anew)",
                      began_with ? "" : "out", began_with ? "false" : "true");
    return TESS_OK;
}
