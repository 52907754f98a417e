#include "nn/model_section.h"

#include "base/core/option_rows.h"
#include "nn/model.h"

static const tess_option model[] = {
    PATH(model, config, BITS, "", "config.json of a model to start from random weights"),
    PATH(model, path, BITS, "",
         "folder with config.json and weights to start from: Hugging Face's, or a checkpoint of any format"),
    CHOICE(model, save_dtype, CALLS, "bfloat16", "bfloat16|float32", "dtype of the model written at the end"),
    INT(model, max_length, BITS, "0", 0, 1 << 27,
        "largest position; dynamic RoPE scaling depends on it; 0: the model's own"),
    INT(model, sum_leaves, BITS, "1", 1, 64,
        "number of leaves in the summation tree over the feed-forward channels; part of the model, a power of two"),
};
const tess_option_section tess_section_model = SECTION("model", "the model to train", model);

static const tess_option lora[] = {
    INT(lora, rank, BITS, "0", 0, 65536, "train an adapter of this rank and nothing else; 0: the model itself"),
    FLOAT(lora, alpha, BITS, "0", 0, 1e6, "the adapter's output is scaled by alpha / rank; 0: by 1"),
    LIST(lora, targets, BITS,
         "linear maps that have an adapter: names or ends of names (q_proj), or all-linear; empty: all-linear"),
    BOOL(lora, use_rslora, BITS, "false", "scale the adapter's output by alpha / sqrt(rank)"),
    FLOAT(lora, dropout, BITS, "0", 0, 1, "dropout of the adapter, as in PEFT; only 0 is supported"),
    PATH(lora, path, BITS, "",
         "folder with an adapter to start from, as PEFT or an earlier run wrote it; its settings replace the other "
         "options of lora"),
};
const tess_option_section tess_section_lora = SECTION("lora", "adapters", lora);

static const tess_option activation_checkpoint[] = {
    CHOICE(activation_checkpoint, mode, CALLS, "none", "none|full|every_n|selective",
           "layers that recompute their forward in backward instead of keeping activations; selective: parts of it"),
    INT(activation_checkpoint, every_n, CALLS, "2", 1, 65536,
        "distance of the layers that recompute in mode every_n: layers 0, n, 2n, ..."),
    LIST(activation_checkpoint, recompute, CALLS,
         "parts of a layer that selective recomputes, of feed_forward, attention_inputs, residual, attention; empty: "
         "all that budget asks for"),
    BYTES(activation_checkpoint, budget, CALLS, "0", 0, INT64_MAX,
          "bytes of activations of a rank with selective, such as 2GiB; as little is recomputed as they allow; 0: all "
          "of recompute is"),
    BOOL(activation_checkpoint, partition, CALLS, "false",
         "each of the ranks that share layers keeps only its rows of the input of a layer that recomputes; always so "
         "with parallelism.enable_sequence_parallel"),
};
const tess_option_section tess_section_activation_checkpoint =
    SECTION("activation_checkpoint", "memory for time", activation_checkpoint);

tess_status tess_model_section_check(const tess_model_section *model)
{
    TESS_CHECK(model->config[0] != '\0' || model->path[0] != '\0', TESS_E_INVALID,
               "model: set model.config (a config.json, random weights) or model.path (a folder with config.json and "
               "weights)");
    TESS_CHECK(model->config[0] == '\0' || model->path[0] == '\0', TESS_E_INVALID,
               "model: both model.config and model.path are set; keep one");
    return TESS_OK;
}

const char *const tess_group_names[TESS_N_GROUPS] = {"feed_forward", "attention_inputs", "residual", "attention"};

tess_status tess_activation_groups(const tess_activation_checkpoint_section *activations, unsigned *groups)
{
    const tess_text_list *list = &activations->recompute;
    *groups = list->n == 0 ? TESS_GROUP_ALL : 0;
    for (int i = 0; i < list->n; i++) {
        int chosen;
        TESS_TRY_CTX(
            tess_options_choose("group of activations", list->item[i], tess_group_names, TESS_N_GROUPS, &chosen),
            "activation_checkpoint.recompute");
        *groups |= 1u << chosen;
    }
    return TESS_OK;
}

tess_status tess_activation_checkpoint_check(const tess_activation_checkpoint_section *activations, bool shares_layers)
{
    unsigned groups;
    int mode = activations->mode;
    bool selects = activations->recompute.n > 0 || activations->budget > 0;
    TESS_TRY(tess_activation_groups(activations, &groups));
    TESS_CHECK(mode != TESS_RECOMPUTE_SELECTIVE || selects, TESS_E_INVALID,
               "activation_checkpoint.mode=selective: name what is computed again in activation_checkpoint.recompute "
               "(feed_forward, attention_inputs, residual, attention), or set activation_checkpoint.budget");
    TESS_CHECK(mode == TESS_RECOMPUTE_SELECTIVE || !selects, TESS_E_INVALID,
               "activation_checkpoint.%s needs activation_checkpoint.mode=selective",
               activations->budget > 0 ? "budget" : "recompute");
    TESS_CHECK(!activations->partition || shares_layers, TESS_E_INVALID,
               "activation_checkpoint.partition: there are no ranks that share layers; set "
               "parallelism.tensor_parallel_degree, or leave it out");
    TESS_CHECK(!activations->partition || mode != TESS_RECOMPUTE_NONE, TESS_E_INVALID,
               "activation_checkpoint.partition is for layers that run again: set activation_checkpoint.mode");
    return TESS_OK;
}
