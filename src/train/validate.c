/* Evaluation on held-out text while training. */
#include "train/trainer_impl.h"

#include <math.h>
#include <string.h>

#include "base/os/os.h"
#include "train/batches.h"
#include "train/loss.h"

bool tess_trainer_can_validate(const tess_trainer *t)
{
    return t->config.validation.enable && (t->config.validation.files.n > 0 || t->config.validation.fraction > 0);
}

tess_status tess_trainer_open_validation(tess_trainer *t)
{
    const tess_config *config = &t->config;
    if (!tess_trainer_can_validate(t))
        return TESS_OK;
    bool own_files = config->validation.files.n > 0;
    const tess_text_list *list = own_files ? &config->validation.files : &config->data.files;
    const char *files[TESS_LIST_SIZE];
    for (int i = 0; i < list->n; i++)
        files[i] = list->item[i];
    tess_loader_options options = {.files = files,
                                   .n_files = list->n,
                                   .text_key = config->data.text_key,
                                   .seq_len = config->training.seq_len,
                                   .micro_batch = config->training.local_batch_size,
                                   .shuffle = false,
                                   .begin = own_files ? 0 : 1 - config->validation.fraction,
                                   .end = 1,
                                   .eos_id = tess_trainer_eos(t),
                                   .bos_id = -1};
    TESS_TRY_CTX(tess_loader_create(t->mem, t->tokenizer, &options, &t->held_out), "validation");
    return TESS_OK;
}

/* What a rank runs when its share of the text has ended but others' has not: the hooks are collective. */
typedef struct idle_batch {
    int32_t id, pos, target, cu_seqlens[2];
} idle_batch;

/* One round: every rank its micro-batch. *more is false on all ranks once no rank had one. */
static tess_status run_round(tess_trainer *t, int64_t round, tess_loss_sum *sum, bool *more)
{
    static const idle_batch idle = {0, 0, -1, {0, 1}};
    tess_micro_batch data;
    int64_t limit = t->config.validation.steps; /* micro-batches over all ranks: the same ones for any number of them */
    bool end = limit > 0 && round * t->world + t->rank >= limit;
    if (!end)
        TESS_TRY(tess_loader_next(t->held_out, round == 0 ? t->rank : t->world - 1, &data, &end));
    int32_t any = !end;
    TESS_TRY(tess_all_reduce(t->team, &any, &any, 1, TESS_I32, TESS_MAX, NULL));
    *more = any != 0;
    if (!any)
        return TESS_OK;
    tess_batch batch = {.n_tokens = 1,
                        .n_seqs = 1,
                        .ids = &idle.id,
                        .pos = &idle.pos,
                        .targets = &idle.target,
                        .cu_seqlens = idle.cu_seqlens};
    if (!end)
        batch = tess_batch_of(&data);
    TESS_TRY(tess_executor_logprobs(t->engine->executor, &batch, t->engine->logprobs, NULL));
    if (!end) {
        tess_loss_add(sum, t->engine->logprobs, data.targets, data.n_tokens);
        sum->n_bytes += (int64_t)data.n_bytes;
    }
    return TESS_OK;
}

tess_status tess_trainer_validate(tess_trainer *t, tess_validation_report *report)
{
    static const tess_data_cursor beginning = {0};
    tess_loss_sum sum = {0};
    double begin = tess_os_now_s();
    bool more = true;
    tess_runtime_phase(t->runtime, "validation", t->engine->step, -1);
    TESS_TRY_CTX(tess_loader_seek(t->held_out, &beginning), "validation");
    for (int64_t round = 0; more; round++)
        TESS_TRY_CTX(run_round(t, round, &sum, &more), "validation");
    TESS_TRY(tess_loss_all_reduce(t->team, &sum));
    TESS_CHECK(sum.n_tokens > 0, TESS_E_INVALID,
               "validation: the held-out text has no target tokens: raise "
               "validation.fraction, or set validation.enable=false");
    double nll = tess_exact_value(&sum.nll);
    *report = (tess_validation_report){.step = t->engine->step,
                                       .n_tokens = sum.n_tokens,
                                       .loss = nll / (double)sum.n_tokens,
                                       .perplexity = exp(nll / (double)sum.n_tokens),
                                       .bits_per_byte = sum.n_bytes > 0 ? nll / M_LN2 / (double)sum.n_bytes : 0,
                                       .seconds = tess_os_now_s() - begin};
    return TESS_OK;
}
