/* `tessera bench step`: the models that it knows by name, the tokens that it makes up. */
#include "bench/step/step_models.h"
#include "bench/step/step_tokens.h"
#include "nn/model.h"
#include "support/test.h"

static int64_t count_parameters(const char *name)
{
    tess_model_config config;
    tess_model *model;
    bool folder;
    EXPECT_OK(step_model_config(name, &config, &folder));
    EXPECT(!folder);
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    int64_t n = tess_model_count(model);
    tess_model_destroy(&model);
    return n;
}

static void presets_have_the_parameters_of_the_originals(void)
{
    EXPECT_INT(count_parameters("gpt2-124m"), 124439808);
    EXPECT_INT(count_parameters("llama-1b"), 1235814400);
    EXPECT_INT(count_parameters("llama-5m"), count_parameters(test_path("../examples/kjv.json")));
}

static void unknown_models_are_told_the_known_ones(void)
{
    tess_model_config config;
    bool folder;
    EXPECT_FAILS(step_model_config("gpt2-125m", &config, &folder), TESS_E_NOT_FOUND,
                 "gpt2-124m, gpt2-1.5b, llama-1b, llama-5m");
    EXPECT_FAILS(step_model_config(test_folder(), &config, &folder), TESS_E_NOT_FOUND, "config.json");
}

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
    CASE(presets_have_the_parameters_of_the_originals),
    CASE(unknown_models_are_told_the_known_ones),
    CASE(tokens_are_those_of_the_peers),
};
TEST_MAIN(cases)
