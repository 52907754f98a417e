/* Options of a step: its sizes, its precision, and what it does to gradients. */
#ifndef TESS_ENGINE_OPTIONS_TRAINING_SECTION_H
#define TESS_ENGINE_OPTIONS_TRAINING_SECTION_H

#include "base/core/options.h"
#include "tessera/types.h"

typedef enum tess_precision {
    TESS_PRECISION_BF16,
    TESS_PRECISION_F32,
    TESS_PRECISION_F16,
    TESS_PRECISION_F8,  /* refused */
    TESS_PRECISION_AUTO /* not chosen yet */
} tess_precision;

/* The codes of tess_param_desc, in their order. */
typedef enum tess_gather_form { TESS_GATHER_VALUES, TESS_GATHER_FP8 } tess_gather_form;

/* clang-format off */
#define TESS_TRAINING_OPTIONS(OPTION)                                                                                  \
    OPTION(INT, training, steps, BITS, "1000", 1, 1e12, "number of optimizer steps")                                   \
    OPTION(INT_OR, training, local_batch_size, LAYOUT_AND_BITS, "auto", "8", 1, 65536,                                 \
           "rows of a micro-batch; each micro-batch is one leaf of the tree that sums gradients; auto: the most that " \
           "fit into training.memory_budget, chosen before the first step and kept by every resume")                   \
    OPTION(BYTES, training, memory_budget, NOTHING, "0", 0, INT64_MAX,                                                 \
           "memory that a rank may take with training.local_batch_size=auto, of its GPU or else of its host; 0: its "  \
           "share of nine tenths of what is free there")                                                               \
    OPTION(INT, training, global_batch_size, LAYOUT_AND_BITS, "0", 0, 1e9,                                             \
           "rows of a step over all ranks; 0: as many as the run began with, which was local_batch_size times its "    \
           "ranks")                                                                                                    \
    OPTION(INT, training, passes, LAYOUT_AND_BITS, "1", 1, 65536,                                                      \
           "number of parts in which a micro-batch runs, one after the other; saves activations, but a rank holds "    \
           "gradients of the whole model")                                                                             \
    OPTION(INT, training, context_leaves, LAYOUT_AND_BITS, "1", 1, 1024,                                               \
           "leaves of the tree that sums over the tokens of a micro-batch, a power of two; ranks of "                  \
           "parallelism.context_parallel_degree have whole ones")                                                      \
    /* its default is TESS_DEVICE_LOGIT_BYTES */                                                                       \
    OPTION(BYTES, training, logit_bytes, BITS, "4GiB", 0, 1LL << 40,                                                   \
           "logits that may be in a GPU's memory at the same time; the head runs over as many rows as fit, or a few "  \
           "hundred if fewer do")                                                                                      \
    OPTION(INT, training, seq_len, BITS, "512", 2, 1048576, "number of tokens in a row")                               \
    OPTION(FLOAT, training, max_norm, BITS, "1.0", 0, 1e30, "clip gradients to this global norm; 0: never")            \
    OPTION(FLOAT, training, max_value, LAYOUT_AND_BITS, "0", 0, 1e30,                                                  \
           "clip each element of a gradient to this magnitude, after training.max_norm; 0: never")                     \
    /* tess_precision */                                                                                               \
    OPTION(CHOICE, training, mixed_precision_param, LAYOUT_AND_BITS, "bfloat16",                                       \
           "bfloat16|float32|float16|float8_e4m3|auto",                                                                \
           "dtype of gathered parameters and activations; float16: with training.loss_scale=0; not float8_e4m3; "      \
           "auto: bfloat16 where all ranks multiply it in hardware, else float32")                                     \
    OPTION(BOOL, training, fp8, BITS, "false",                                                                         \
           "emulate FP8 in linear layers (inputs and weights E4M3, gradients E5M2); not faster")                       \
    /* tess_gather_form */                                                                                             \
    OPTION(CHOICE, training, gather, CALLS, "values", "values|fp8",                                                    \
           "form in which weights of layers are gathered; fp8: those of training.fp8 as E4M3, a byte each, with "      \
           "the same bits")                                                                                            \
    /* tess_precision */                                                                                               \
    OPTION(CHOICE, training, mixed_precision_reduce, LAYOUT_AND_BITS, "float32", "bfloat16|float32|float16",           \
           "dtype in which gradients are sent to the rank that owns them; float16: with training.loss_scale=0")        \
    OPTION(FLOAT, training, loss_scale, BITS, "1", 0, 0x1p60,                                                          \
           "factor of gradients while they are summed, a power of two; 0: adapted during the run, as "                 \
           "torch.amp.GradScaler does")                                                                                \
    OPTION(FLOAT, training, loss_scale_init, BITS, "65536", 0x1p-40, 0x1p60,                                           \
           "first scale if training.loss_scale is 0")                                                                  \
    OPTION(INT, training, loss_scale_interval, BITS, "2000", 1, 1e12,                                                  \
           "steps in a row with finite gradients after which the scale doubles, if training.loss_scale is 0")          \
    OPTION(INT, training, loss_scale_hysteresis, BITS, "1", 1, 1e9,                                                    \
           "the scale is halved at the N-th skipped step since it last grew, if training.loss_scale is 0; 1: as "      \
           "torch, 2: as DeepSpeed")                                                                                   \
    OPTION(                                                                                                            \
        BOOL, training, loss_scale_in_a_row, BITS, "false",                                                            \
        "loss_scale_hysteresis counts only steps that are skipped in a row (consecutive_hysteresis of DeepSpeed)")     \
    OPTION(FLOAT, training, loss_scale_min, BITS, "0", 0, 0x1p60,                                                      \
           "smallest scale, if training.loss_scale is 0; a step that overflows with it ends the run; 0: 2^-40")        \
    OPTION(FLOAT, training, router_bias_update_rate, BITS, "0", 0, 1,                                                  \
           "change of an expert's bias per step, up if it had fewer tokens than the mean of its layer, down if it "    \
           "had more; for routers with a bias (DeepSeek-V3); 0: none")                                                 \
    OPTION(INT, training, threads, NOTHING, "0", 0, 1024, "compute threads of a rank; 0: cores divided by ranks")      \
    OPTION(LIST, training, freeze, BITS,                                                                               \
           "parameters that do not train: names or their first words, with *, ? and [0-9]: model.layers.[0-3]")
/* clang-format on */

typedef struct tess_training_section {
    TESS_TRAINING_OPTIONS(TESS_OPTION_FIELD)
} tess_training_section;

/* The dtype of a tess_precision that is chosen. */
tess_dtype tess_precision_dtype(int precision);

/* TESS_E_INVALID: no kernel computes in mixed_precision_param, or fp8 and its gathering do not fit with it. */
tess_status tess_training_check_precision(const tess_training_section *training);
/* TESS_E_INVALID: a scale of the loss that is no power of two, or a least one above the first. */
tess_status tess_training_check_loss_scale(const tess_training_section *training);
/* TESS_E_INVALID: rows that do not divide into micro-batches and passes, or too large a micro-batch. The global batch
 * size is known by then. */
tess_status tess_training_check_rows(const tess_training_section *training);

extern const tess_option_section tess_section_training;

#endif
