#include "engine/options/training_section.h"

#include <math.h>

#include "base/core/option_rows.h"

static const tess_option training[] = {
    INT(training, steps, BITS, "1000", 1, 1e12, "number of optimizer steps"),
    INT(training, local_batch_size, LAYOUT_AND_BITS, "8", 1, 65536,
        "rows of a micro-batch; each micro-batch is one leaf of the tree that sums gradients"),
    INT(training, global_batch_size, LAYOUT_AND_BITS, "0", 0, 1e9,
        "rows of a step over all ranks; 0: as many as the run began with, which was local_batch_size times its ranks"),
    INT(training, passes, LAYOUT_AND_BITS, "1", 1, 65536,
        "number of parts in which a micro-batch runs, one after the other; saves activations, but a rank holds "
        "gradients of the whole model"),
    INT(training, seq_len, BITS, "512", 2, 1048576, "number of tokens in a row"),
    FLOAT(training, max_norm, BITS, "1.0", 0, 1e30, "clip gradients to this global norm; 0: never"),
    FLOAT(training, max_value, LAYOUT_AND_BITS, "0", 0, 1e30,
          "clip each element of a gradient to this magnitude, after training.max_norm; 0: never"),
    CHOICE(training, mixed_precision_param, LAYOUT_AND_BITS, "bfloat16", "bfloat16|float32|float16|float8_e4m3|auto",
           "dtype of gathered parameters and activations; float16: with training.loss_scale=0; not float8_e4m3; auto: "
           "bfloat16 where all ranks multiply it in hardware, else float32"),
    BOOL(training, fp8, BITS, "false",
         "emulate FP8 in linear layers (inputs and weights E4M3, gradients E5M2); not faster"),
    CHOICE(training, gather, CALLS, "values", "values|fp8",
           "form in which weights of layers are gathered; fp8: those of training.fp8 as E4M3, a byte each, with the "
           "same bits"),
    CHOICE(training, mixed_precision_reduce, LAYOUT_AND_BITS, "float32", "bfloat16|float32|float16",
           "dtype in which gradients are sent to the rank that owns them; float16: with training.loss_scale=0"),
    FLOAT(training, loss_scale, BITS, "1", 0, 0x1p60,
          "factor of gradients while they are summed, a power of two; 0: adapted during the run, as "
          "torch.amp.GradScaler does"),
    FLOAT(training, loss_scale_init, BITS, "65536", 0x1p-40, 0x1p60, "first scale if training.loss_scale is 0"),
    INT(training, loss_scale_interval, BITS, "2000", 1, 1e12,
        "steps in a row with finite gradients after which the scale doubles, if training.loss_scale is 0"),
    INT(training, loss_scale_hysteresis, BITS, "1", 1, 1e9,
        "the scale is halved at the N-th skipped step since it last grew, if training.loss_scale is 0; 1: as torch, 2: "
        "as DeepSpeed"),
    BOOL(training, loss_scale_in_a_row, BITS, "false",
         "loss_scale_hysteresis counts only steps that are skipped in a row (consecutive_hysteresis of DeepSpeed)"),
    FLOAT(training, loss_scale_min, BITS, "0", 0, 0x1p60,
          "smallest scale, if training.loss_scale is 0; a step that overflows with it ends the run; 0: 2^-40"),
    INT(training, threads, NOTHING, "0", 0, 1024, "compute threads of a rank; 0: cores divided by ranks"),
    LIST(training, freeze, BITS,
         "parameters that do not train: names or their first words, with *, ? and [0-9]: model.layers.[0-3]"),
};
const tess_option_section tess_section_training = SECTION("training", "sizes and precision of a step", training);

tess_dtype tess_precision_dtype(int precision)
{
    return precision == TESS_PRECISION_BF16 ? TESS_BF16 : precision == TESS_PRECISION_F16 ? TESS_F16 : TESS_F32;
}

tess_status tess_training_check_precision(const tess_training_section *training)
{
    TESS_CHECK(
        training->mixed_precision_param != TESS_PRECISION_F8, TESS_E_INVALID,
        "training.mixed_precision_param: no kernel computes in float8_e4m3: choose bfloat16, which has the range "
        "of float32 (`tessera bench precision` shows what casts to float8_e4m3 lose)");
    TESS_CHECK(training->gather != TESS_GATHER_FP8 || training->fp8, TESS_E_INVALID,
               "training.gather: weights that are gathered in fp8 are rounded, which only products of "
               "training.fp8=true do not notice: set it, or leave training.gather out");
    TESS_CHECK(!training->fp8 || training->mixed_precision_param != TESS_PRECISION_F16, TESS_E_INVALID,
               "training.fp8: scaled fp8 values are exact in bfloat16 and float32, not in float16: choose "
               "training.mixed_precision_param=bfloat16");
    return TESS_OK;
}

static bool is_power_of_two(double x)
{
    int exponent;
    return frexp(x, &exponent) == 0.5;
}

tess_status tess_training_check_loss_scale(const tess_training_section *training)
{
    TESS_CHECK(training->loss_scale == 0 || is_power_of_two(training->loss_scale), TESS_E_INVALID,
               "training.loss_scale: %g is no power of two, and would change bits", training->loss_scale);
    TESS_CHECK(is_power_of_two(training->loss_scale_init), TESS_E_INVALID,
               "training.loss_scale_init: %g is no power of two, and would change bits", training->loss_scale_init);
    TESS_CHECK(training->loss_scale_min == 0 || is_power_of_two(training->loss_scale_min), TESS_E_INVALID,
               "training.loss_scale_min: %g is no power of two, and would change bits", training->loss_scale_min);
    TESS_CHECK(training->loss_scale_min <= training->loss_scale_init, TESS_E_INVALID,
               "training.loss_scale_min: %g is more than training.loss_scale_init=%g", training->loss_scale_min,
               training->loss_scale_init);
    return TESS_OK;
}

tess_status tess_training_check_rows(const tess_training_section *training)
{
    const int64_t local = training->local_batch_size, global = training->global_batch_size;
    TESS_CHECK(global % local == 0, TESS_E_INVALID,
               "training.global_batch_size: %lld rows are not a multiple of training.local_batch_size=%lld",
               (long long)global, (long long)local);
    TESS_CHECK(
        training->passes <= local, TESS_E_INVALID,
        "training.passes: %lld passes for the %lld row%s of a micro-batch: set training.passes=%lld or less, or a "
        "larger training.local_batch_size",
        (long long)training->passes, (long long)local, local == 1 ? "" : "s", (long long)local);
    TESS_CHECK(local * training->seq_len < INT32_MAX, TESS_E_INVALID,
               "training: a micro-batch of %lld x %lld tokens is too large", (long long)local,
               (long long)training->seq_len);
    return TESS_OK;
}
