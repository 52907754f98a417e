/* The texts of a run: what is trained on, and what is held out. */
#include "config/data_files.h"
#include "train/text/text_ends.h"
#include "train/trainer_impl.h"

bool tess_trainer_can_validate(const tess_trainer *t)
{
    return t->config.validation.enable && (t->config.validation.files.n > 0 || t->config.validation.fraction > 0);
}

double tess_trainer_trained_share(const tess_trainer *t)
{
    bool held_out = tess_trainer_can_validate(t) && t->config.validation.files.n == 0;
    return held_out ? 1 - t->config.validation.fraction : 1;
}

static void warn(void *self, const char *text)
{
    tess_trainer_warn(self, "%s", text);
}

/* The options that all loaders of the run share. */
static tess_loader_options options_of(tess_trainer *t)
{
    const tess_config *config = &t->config;
    int32_t eos_id = tess_model_end_of_text(&t->model_config, t->tokenizer);
    return (tess_loader_options){.format = (tess_data_format)config->data.format,
                                 .end_id = config->data.end_token >= 0 ? (int32_t)config->data.end_token : eos_id,
                                 .text_key = config->data.text_key,
                                 .prompt_key = config->data.prompt_key,
                                 .completion_key = config->data.completion_key,
                                 .split = (tess_split)config->data.split,
                                 .chat = &t->chat.how,
                                 .seq_len = config->training.seq_len,
                                 .micro_batch = config->training.local_batch_size,
                                 .seed = (uint64_t)config->debug.seed,
                                 .eos_id = eos_id,
                                 .bos = t->bos,
                                 .warn_self = t};
}

static void name_files(const tess_data_files *files, tess_loader_options *options)
{
    options->files = (const char *const *)files->paths;
    options->n_files = (int)files->n;
}

tess_status tess_trainer_open_data(tess_trainer *t)
{
    int64_t weights[TESS_LIST_SIZE];
    TESS_TRY_CTX(
        tess_model_begin_of_text(&t->model_config, t->tokenizer, (tess_add_bos)t->config.data.add_bos, &t->bos),
        "data.add_bos=true");
    TESS_TRY(tess_data_weights(&t->config, weights));
    tess_loader_options options = options_of(t);
    name_files(&t->files, &options);
    options.shuffle = t->config.data.shuffle;
    options.repeat = true;
    options.end = tess_trainer_trained_share(t);
    options.warn = warn;
    if (t->config.data.weights.n > 0) {
        options.weights = weights;
        options.counts = t->files.counts;
        options.n_weights = t->config.data.weights.n;
    }
    TESS_TRY_CTX(tess_loader_create(t->mem, t->tokenizer, &options, &t->loader), "data.files");
    return TESS_OK;
}

tess_status tess_trainer_open_validation(tess_trainer *t)
{
    const tess_config *config = &t->config;
    bool own_files = config->validation.files.n > 0;
    tess_loader_options options = options_of(t);
    name_files(own_files ? &t->held_files : &t->files, &options);
    options.begin = own_files ? 0 : 1 - config->validation.fraction;
    options.end = 1;
    options.warn = own_files ? warn : NULL; /* warns of a file once */
    if (tess_trainer_can_validate(t))
        TESS_TRY_CTX(tess_loader_create(t->mem, t->tokenizer, &options, &t->held_out), "validation");
    return TESS_OK;
}

tess_status tess_trainer_keep_bos(tess_trainer *t, bool began_with)
{
    if (began_with == (t->bos.n > 0))
        return TESS_OK;
    TESS_CHECK(t->config.data.add_bos == TESS_ADD_BOS_AUTO, TESS_E_INVALID,
               "the run began with data.add_bos=%s: the data could not go on from the same sample; give the same, or "
               "start the data anew with checkpoint.exclude_from_loading=data",
               began_with ? "true" : "false");
    TESS_TRY_CTX(tess_model_begin_of_text(&t->model_config, t->tokenizer,
                                          began_with ? TESS_ADD_BOS_TRUE : TESS_ADD_BOS_FALSE, &t->bos),
                 "the run began with data.add_bos=true");
    TESS_TRY(tess_loader_set_bos(t->loader, &t->bos));
    if (t->held_out != NULL)
        TESS_TRY(tess_loader_set_bos(t->held_out, &t->bos));
    tess_trainer_note(t,
                      "documents go on with%s a bos token, as this run began (data.add_bos=%s with "
                      "checkpoint.exclude_from_loading=data starts the data anew)",
                      began_with ? "" : "out", began_with ? "false" : "true");
    return TESS_OK;
}
