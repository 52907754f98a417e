/* `tessera bench step`: the tokens that it makes up. */
#include "bench/step/step_tokens.h"
#include "nn/model.h"
#include "support/test.h"

/* The first ones as bench/peers/torch_step.py makes them. */
static void tokens_are_those_of_the_peers(void)
{
    static const int32_t first[] = {0, 31060, 11863, 42924}, next_row[] = {42259, 23062, 3866};
    for (int t = 0; t < 4; t++)
        EXPECT_INT(step_token(0, t, 50257), first[t]);
    for (int t = 0; t < 3; t++)
        EXPECT_INT(step_token(1, t, 50257), next_row[t]);
    for (int64_t row = 0; row < 50; row++)
        for (int64_t t = 0; t < 50; t++)
            EXPECT(step_token(row, t, 7) >= 0 && step_token(row, t, 7) < 7);
}

static const test_case cases[] = {
    CASE(tokens_are_those_of_the_peers),
};
TEST_MAIN(cases)
