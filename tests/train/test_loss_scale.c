/* The loss scale against torch.amp.GradScaler. tests/cli/test_loss_scale.sh has whole runs. */
#include "train/loss_scale.h"

#include "support/test.h"
#include "train/loss_scale_torch.h"

static void scales_are_those_of_torch(void)
{
    tess_loss_scaler scaler = {.scale = scale_begin};
    for (int step = 0; step < SCALE_STEPS; step++) {
        scaler = tess_loss_scaler_next(scaler, SCALE_INTERVAL, scale_overflows[step]);
        if (scaler.scale != scale_after[step])
            test_fail(__FILE__, __LINE__, "step %d: the scale is %g, torch has %g", step, scaler.scale,
                      scale_after[step]);
    }
}

static void a_scale_does_not_grow_out_of_float32(void)
{
    tess_loss_scaler scaler = tess_loss_scaler_next((tess_loss_scaler){.scale = 0x1p127}, 1, false);
    EXPECT(scaler.scale == 0x1p127);
}

static const test_case cases[] = {
    {"scales_are_those_of_torch", scales_are_those_of_torch},
    {"a_scale_does_not_grow_out_of_float32", a_scale_does_not_grow_out_of_float32},
};

TEST_MAIN(cases)
