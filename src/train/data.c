/* The training text, as a source of micro-batches. */
#include "train/batches.h"
#include "train/trainer_impl.h"

tess_status tess_trainer_open_data(tess_trainer *t)
{
    const tess_config *config = &t->config;
    const char *files[TESS_LIST_SIZE];
    for (int i = 0; i < config->data.files.n; i++)
        files[i] = config->data.files.item[i];
    tess_loader_options options = {.files = files,
                                   .n_files = config->data.files.n,
                                   .text_key = config->data.text_key,
                                   .seq_len = config->training.seq_len,
                                   .micro_batch = config->training.local_batch_size,
                                   .seed = (uint64_t)config->debug.seed,
                                   .shuffle = config->data.shuffle,
                                   .repeat = true,
                                   .begin = 0,
                                   .end = tess_trainer_trained_share(t),
                                   .eos_id = tess_trainer_eos(t),
                                   .bos_id = -1};
    TESS_TRY_CTX(tess_loader_create(t->mem, t->tokenizer, &options, &t->loader), "data.files");
    return TESS_OK;
}

/* Of the step that is under way: the last of its micro-batches is what counts. */
static void note_position(const tess_trainer *t)
{
    logbook_data data = {.position = t->loader_position};
    tess_loader_cursor(t->loader, &data.cursor);
    tess_logbook_read(t->book, t->engine->step + 1, &data);
}

static tess_status next(void *self, int64_t index, tess_batch *batch)
{
    tess_trainer *t = self;
    tess_micro_batch data;
    bool end = false;
    TESS_TRY(tess_loader_next(t->loader, index - t->loader_position, &data, &end));
    TESS_CHECK(!end, TESS_E_INTERNAL, "the training data ended");
    t->loader_position = index + 1;
    if (t->book != NULL)
        note_position(t);
    *batch = tess_batch_of(&data);
    return TESS_OK;
}

tess_batch_source tess_trainer_source(tess_trainer *t)
{
    return (tess_batch_source){t, next};
}
