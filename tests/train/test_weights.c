/* Weights are found by the model's own names, whatever stands around them in a checkpoint. PyTorch wrote the fixtures
 * (tools/make_wrapped_fixtures.py). */
#include "ckpt/checkpoint_values.h"
#include "train/weights.h"

static char lines[4096];

static void note_line(void *self, const char *line)
{
    (void)self;
    snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", line);
}

static const char *wrapped(const char *name)
{
    char relative[256];
    snprintf(relative, sizeof(relative), "ckpt/fixtures/wrapped/%s", name);
    return test_path(relative);
}

static void any_wrapping_gives_the_models_weights(void)
{
    static const char *const files[] = {"app",     "plain.pt", "module.pt",   "net.pt",   "student.pt",
                                        "base.pt", "ddp.pt",   "compiled.pt", "layers.pt"};
    const tess_reporter reporter = {.line = note_line};
    tess_model_config config;
    tess_model *model;
    float data[64];
    EXPECT_OK(tess_model_config_load(wrapped("hf/config.json"), &config));
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        tess_weights *weights;
        EXPECT_OK(tess_weights_open(test_mem(), wrapped(files[f]), model, &reporter, &weights));
        EXPECT_TEXT(lines, ""); /* nothing is left over */
        for (int i = 0; i < tess_model_n_params(model); i++) {
            const tess_param *param = tess_model_param(model, i);
            int64_t rows = tess_shape_rows(&param->shape);
            EXPECT_OK(tess_weights_fill(weights, param->name, 0, rows, data));
            for (int64_t k = 0; k < tess_shape_count(&param->shape); k++)
                if (data[k] != (float)fixture_value(param->name, k, true))
                    test_fail(__FILE__, __LINE__, "%s: element %d of '%s' is %g", files[f], (int)k, param->name,
                              (double)data[k]);
        }
        tess_weights_close(&weights);
    }
    tess_model_destroy(&model);
}

static const test_case cases[] = {
    {"any_wrapping_gives_the_models_weights", any_wrapping_gives_the_models_weights},
};
TEST_MAIN(cases)
