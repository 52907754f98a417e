#include "engine/options/training_section.h"

#include <math.h>

#include "base/core/option_rows.h"

SECTION(training, "sizes and precision of a step", TESS_TRAINING_OPTIONS);

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
