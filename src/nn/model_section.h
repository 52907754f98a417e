/* Options of the model, of an adapter, and of the activations that its layers keep. */
#ifndef TESS_NN_MODEL_SECTION_H
#define TESS_NN_MODEL_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_MODEL_OPTIONS(OPTION)                                                                                     \
    OPTION(PATH, model, config, BITS, "",                                                                              \
           "config.json, or the name, of a model to start from random weights: gpt2-124m, llama-1b, ...")              \
    OPTION(PATH, model, path, BITS, "",                                                                                \
           "folder with config.json and weights to start from: Hugging Face's, or a checkpoint of any format")         \
    /* tess_precision */                                                                                               \
    OPTION(CHOICE, model, save_dtype, CALLS, "bfloat16", "bfloat16|float32",                                           \
           "dtype of the model written at the end")                                                                    \
    OPTION(INT, model, max_length, BITS, "0", 0, 1 << 27,                                                              \
           "largest position; dynamic RoPE scaling depends on it; 0: the model's own")                                 \
    OPTION(                                                                                                            \
        INT, model, sum_leaves, BITS, "1", 1, 64,                                                                      \
        "number of leaves in the summation tree over the feed-forward channels; part of the model, a power of two")
/* clang-format on */

typedef struct tess_model_section {
    TESS_MODEL_OPTIONS(TESS_OPTION_FIELD)
    bool value_head; /* no key: the task's check sets it */
} tess_model_section;

/* clang-format off */
#define TESS_LORA_OPTIONS(OPTION)                                                                                      \
    OPTION(INT, lora, rank, BITS, "0", 0, 65536,                                                                       \
           "train an adapter of this rank and nothing else; 0: the model itself")                                      \
    OPTION(FLOAT, lora, alpha, BITS, "0", 0, 1e6, "the adapter's output is scaled by alpha / rank; 0: by 1")           \
    OPTION(LIST, lora, targets, BITS,                                                                                  \
           "linear maps that have an adapter: names or ends of names (q_proj), or all-linear; empty: all-linear")      \
    OPTION(BOOL, lora, use_rslora, BITS, "false", "scale the adapter's output by alpha / sqrt(rank)")                  \
    OPTION(FLOAT, lora, dropout, BITS, "0", 0, 1, "dropout of the adapter, as in PEFT; only 0 is supported")           \
    OPTION(PATH, lora, path, BITS, "",                                                                                 \
           "folder with an adapter to start from, as PEFT or an earlier run wrote it; its settings replace the "       \
           "other options of lora")
/* clang-format on */

typedef struct tess_lora_section {
    TESS_LORA_OPTIONS(TESS_OPTION_FIELD)
} tess_lora_section;

/* clang-format off */
#define TESS_ACTIVATION_CHECKPOINT_OPTIONS(OPTION)                                                                     \
    /* tess_recompute */                                                                                               \
    OPTION(                                                                                                            \
        CHOICE, activation_checkpoint, mode, CALLS, "none", "none|full|every_n|selective",                             \
        "layers that recompute their forward in backward instead of keeping activations; selective: parts of it")      \
    OPTION(INT, activation_checkpoint, every_n, CALLS, "2", 1, 65536,                                                  \
           "distance of the layers that recompute in mode every_n: layers 0, n, 2n, ...")                              \
    /* see tess_activation_groups */                                                                                   \
    OPTION(LIST, activation_checkpoint, recompute, CALLS,                                                              \
           "parts of a layer that selective recomputes, of feed_forward, attention_inputs, residual, attention; "      \
           "empty: all that budget asks for")                                                                          \
    OPTION(BYTES, activation_checkpoint, budget, CALLS, "0", 0, INT64_MAX,                                             \
           "bytes of activations of a rank with selective, such as 2GiB; as little is recomputed as they allow; 0: "   \
           "all of recompute is")                                                                                      \
    OPTION(BOOL, activation_checkpoint, partition, CALLS, "false",                                                     \
           "each of the ranks that share layers keeps only its rows of the input of a layer that recomputes; "         \
           "always so with parallelism.enable_sequence_parallel")
/* clang-format on */

typedef struct tess_activation_checkpoint_section {
    TESS_ACTIVATION_CHECKPOINT_OPTIONS(TESS_OPTION_FIELD)
} tess_activation_checkpoint_section;

/* TESS_E_INVALID: neither model.config nor model.path is set, or both are. */
tess_status tess_model_section_check(const tess_model_section *model);

/* activation_checkpoint.recompute's words, in the order of tess_layer_group. */
extern const char *const tess_group_names[];
/* Reads activation_checkpoint.recompute as a set of tess_layer_group; empty: all. TESS_E_INVALID: an unknown word. */
tess_status tess_activation_groups(const tess_activation_checkpoint_section *activations, unsigned *groups);

/* TESS_E_INVALID: settings that contradict each other. `shares_layers`: several ranks compute a layer. */
tess_status tess_activation_checkpoint_check(const tess_activation_checkpoint_section *activations, bool shares_layers);

extern const tess_option_section tess_section_model;
extern const tess_option_section tess_section_lora;
extern const tess_option_section tess_section_activation_checkpoint;

#endif
