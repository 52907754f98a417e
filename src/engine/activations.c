#include "engine/activations.h"

#include <stdio.h>

#include "base/text/text.h"
#include "engine/model/adapter.h"
#include "engine/engine.h"

tess_executor_options tess_engine_activations(const tess_config *c)
{
    tess_executor_options options = {.dtype = tess_precision_dtype(c->training.mixed_precision_param),
                                     .recompute = (tess_recompute)c->activation_checkpoint.mode,
                                     .recompute_every = (int)c->activation_checkpoint.every_n,
                                     .fp8 = c->training.fp8,
                                     .on_disk = c->offload.activations,
                                     .partition_inputs = c->activation_checkpoint.partition,
                                     .max_tokens = tess_config_pass_rows(c) * c->training.seq_len,
                                     .max_position = c->training.seq_len,
                                     .train = true,
                                     .sequence_parallel = c->parallelism.tensor_parallel_degree > 1 &&
                                                          c->parallelism.enable_sequence_parallel};
    options.context = tess_context_of(c);
    options.max_tokens = tess_context_tokens(&options.context, options.max_tokens);
    /* The configuration's check has already reported the error. */
    if (tess_activation_groups(&c->activation_checkpoint, &options.recompute_groups) != TESS_OK)
        tess_error_clear();
    return options;
}

/* The budget includes a log-probability for each token, in addition to the executor's activations. */
static tess_status fit_budget(const tess_config *c, const tess_model *model, tess_executor_options *options)
{
    const size_t log_probs = (size_t)options->max_tokens * sizeof(float);
    TESS_TRY_CTX(tess_executor_fit(model, (size_t)c->activation_checkpoint.budget, log_probs, options),
                 "activation_checkpoint.budget is too small: raise it to what they take, or lower "
                 "training.local_batch_size");
    return TESS_OK;
}

tess_status tess_activations_fit(tess_mem *mem, const tess_config *c, const tess_model *model,
                                 const tess_model_part *part, tess_executor_options *options)
{
    tess_model *first;
    tess_model_part of_first = *part;
    /* Every stage of a pipeline passes the stream's gradient on, whichever parameters it trains. */
    options->first_trainable_unit =
        c->parallelism.pipeline_parallel_degree > 1 ? 0 : tess_model_first_trainable_unit(model);
    if (options->recompute != TESS_RECOMPUTE_SELECTIVE || c->activation_checkpoint.budget == 0)
        return TESS_OK;
    if (part->tp_rank == 0)
        return fit_budget(c, model, options);
    of_first.tp_rank = 0;
    TESS_TRY(tess_model_create_part(mem, tess_model_get_config(model), &of_first, &first));
    tess_config_freeze(c, first);
    tess_status status = fit_budget(c, first, options);
    tess_model_destroy(&first);
    return status;
}

const char *tess_activations_describe(const tess_model *model, const tess_executor_options *options,
                                      char text[TESS_ACTIVATIONS_TEXT])
{
    size_t at = 0;
    snprintf(text, TESS_ACTIVATIONS_TEXT, "nothing");
    for (int group = 0; group < TESS_N_GROUPS; group++) {
        int n = tess_executor_count_dropped(model, options, (tess_layer_group)(1 << group));
        if (n > 0)
            at = tess_text_add(text, TESS_ACTIVATIONS_TEXT, at, "%s%s of %d layer%s", at > 0 ? ", " : "",
                               tess_group_names[group], n, n == 1 ? "" : "s");
    }
    return text;
}
