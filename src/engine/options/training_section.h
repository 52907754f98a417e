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

typedef struct tess_training_section {
    int64_t steps, local_batch_size, global_batch_size, passes, seq_len, threads;
    double max_norm, max_value, loss_scale, loss_scale_init;
    double loss_scale_min;
    int64_t loss_scale_interval, loss_scale_hysteresis;
    bool loss_scale_in_a_row;
    int mixed_precision_param, mixed_precision_reduce; /* tess_precision */
    bool fp8;
    int gather; /* tess_gather_form */
    tess_text_list freeze;
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
