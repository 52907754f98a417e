/* The loss scale against torch.amp.GradScaler and deepspeed's. tests/cli/test_loss_scale.sh has whole runs. */
#include "engine/loss_scale.h"

#include <math.h>

#include "support/test.h"
#include "engine/loss_scale_torch.h"

static void scales_are_those_of_torch(void)
{
    const tess_loss_scale_rule rule = {.interval = SCALE_INTERVAL, .hysteresis = 1};
    tess_loss_scaler scaler = {.scale = scale_begin};
    for (int step = 0; step < SCALE_STEPS; step++) {
        scaler = tess_loss_scaler_next(scaler, &rule, scale_overflows[step]);
        if (scaler.scale != scale_after[step])
            test_fail(__FILE__, __LINE__, "step %d: the scale is %g, torch has %g", step, scaler.scale,
                      scale_after[step]);
    }
}

/* By hand, by what DeepSpeed's loss_scaler.py says: an overflow is endured while more than one of `hysteresis` is left,
 * and takes one of them, else it halves the scale, down to the least; both begin the window anew. A whole window
 * doubles the scale. What is left is restored by that, or, of overflows in a row, by any step without one. `steps`: o
 * overflows, . does not. Scales as powers of two. */
static void scales_are_those_of_deepspeed(void)
{
    static const struct {
        tess_loss_scale_rule rule;
        const char *steps;
        int scales[16];
    } runs[] = {
        {{.interval = 3, .hysteresis = 2, .least = 1}, /* the defaults, with a shorter window */
         "o..o...o.o....o",
         {16, 16, 16, 15, 15, 15, 16, 16, 16, 15, 15, 15, 16, 16, 16}},
        {{.interval = 3, .hysteresis = 2, .least = 1}, "...oo.oo", {16, 16, 17, 17, 16, 16, 15, 14}},
        {{.interval = 3, .hysteresis = 2, .in_a_row = true, .least = 1},
         "o..o.oo.ooo...o",
         {16, 16, 16, 16, 16, 16, 15, 15, 15, 14, 13, 13, 13, 14, 14}},
        {{.interval = 2, .hysteresis = 3, .least = 1}, "ooo.oo..ooo", {16, 16, 15, 15, 14, 13, 13, 14, 14, 14, 13}},
        {{.interval = 1, .hysteresis = 1, .least = 0x1p14}, "ooo..", {15, 14, 14, 15, 16}},
    };
    for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
        tess_loss_scaler scaler = {.scale = 0x1p16};
        for (int i = 0; runs[r].steps[i] != '\0'; i++) {
            scaler = tess_loss_scaler_next(scaler, &runs[r].rule, runs[r].steps[i] == 'o');
            if (scaler.scale != ldexp(1, runs[r].scales[i]))
                test_fail(__FILE__, __LINE__, "run %zu, step %d: the scale is %g, by hand it is %g", r, i, scaler.scale,
                          ldexp(1, runs[r].scales[i]));
        }
    }
}

static void a_scale_does_not_grow_out_of_float32(void)
{
    const tess_loss_scale_rule rule = {.interval = 1, .hysteresis = 1};
    tess_loss_scaler scaler = tess_loss_scaler_next((tess_loss_scaler){.scale = 0x1p127}, &rule, false);
    EXPECT(scaler.scale == 0x1p127);
}

static const test_case cases[] = {
    CASE(scales_are_those_of_torch),
    CASE(scales_are_those_of_deepspeed),
    CASE(a_scale_does_not_grow_out_of_float32),
};

TEST_MAIN(cases)
