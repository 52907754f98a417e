/* Named models have the parameters of the originals, and unknown names are answered with the list. */
#include "nn/model.h"
#include "nn/model_config.h"
#include "support/test.h"

static int64_t count_parameters(const char *name)
{
    tess_model_config config;
    tess_model *model;
    EXPECT_OK(tess_model_config_load(name, &config));
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    int64_t n = tess_model_count(model);
    tess_model_destroy(&model);
    return n;
}

/* The counts are those of transformers' models from the same config.json. */
static void named_models_have_the_parameters_of_the_originals(void)
{
    static const struct {
        const char *name;
        int64_t n;
    } models[] = {
        {"gpt2-124m", 124439808},     {"gpt2-350m", 354823168},      {"gpt2-774m", 774030080},
        {"gpt2-1.5b", 1557611200},    {"llama-1b", 1235814400},      {"llama-8b", 8030261248},
        {"qwen2-0.5b", 494032768},    {"qwen3-0.6b", 596049920},     {"llama-70b", 70553706496},
        {"llama-405b", 405853388800}, {"deepseek-v3", 671026419200},
    };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        EXPECT_INT(count_parameters(models[i].name), models[i].n);
    EXPECT_INT(count_parameters("llama-5m"), count_parameters(test_path("../examples/kjv.json")));
}

static void unknown_names_are_answered_with_the_list(void)
{
    tess_model_config config;
    EXPECT_FAILS(tess_model_config_load("gpt2-125m", &config), TESS_E_NOT_FOUND, "deepseek-v3, gpt2-124m, gpt2-350m, ");
    EXPECT_FAILS(tess_model_config_load("gone/gpt2-124m", &config), TESS_E_NOT_FOUND, "gone/gpt2-124m");
}

static const test_case cases[] = {
    CASE(named_models_have_the_parameters_of_the_originals),
    CASE(unknown_names_are_answered_with_the_list),
};

TEST_MAIN(cases)
