/* Weights are found by the model's own names, whatever stands around them in a checkpoint. PyTorch wrote the fixtures
 * (tools/make_wrapped_fixtures.py). */
#include "ckpt/checkpoint_values.h"
#include "tessera/dtensor.h"
#include "tessera/fsdp.h"
#include "engine/model/weights.h"

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
            const tess_box whole = tess_box_whole(&param->shape);
            EXPECT_OK(tess_weights_fill(weights, param->name, &param->shape, &whole, data));
            for (int64_t k = 0; k < tess_shape_count(&param->shape); k++)
                if (data[k] != (float)fixture_value(param->name, k, true))
                    test_fail(__FILE__, __LINE__, "%s: element %d of '%s' is %g", files[f], (int)k, param->name,
                              (double)data[k]);
        }
        tess_weights_close(&weights);
    }
    tess_model_destroy(&model);
}

/* The ranks of a mesh (dp, tp) fill what they hold of every parameter: tp cuts dimension `tp_dim` of matrices first, dp
 * cuts rows. Together they have every element once, with the bits of a fill of the whole. */
static void fill_on_mesh(const tess_model *model, tess_fill_fn fill, void *context, const int sizes[2], int tp_dim)
{
    enum { LARGEST = 8192 };
    static float whole[LARGEST], got[LARGEST], part[LARGEST];
    for (int i = 0; i < tess_model_n_params(model); i++) {
        const tess_param *param = tess_model_param(model, i);
        const tess_box all = tess_box_whole(&param->shape);
        int n_dims = param->shape.n_dims;
        int64_t n = tess_shape_count(&param->shape), n_filled = 0;
        tess_spec spec = {.shape = param->shape, .n_axes = 2, .order = {1, 0}};
        spec.place[0] = (tess_place){TESS_SHARD, 0};
        spec.place[1] = (tess_place){TESS_SHARD, n_dims == 2 ? tp_dim : 0};
        EXPECT(n < LARGEST);
        EXPECT_OK(fill(context, param->name, &param->shape, &all, whole));
        memset(got, 0xff, sizeof(got));
        for (int rank = 0; rank < sizes[0] * sizes[1]; rank++) {
            tess_box box = tess_spec_box(&spec, sizes, (const int[]){rank / sizes[1], rank % sizes[1]});
            int64_t n_box = tess_box_count(n_dims, &box);
            n_filled += n_box;
            if (n_box == 0)
                continue;
            part[n_box] = -7;
            EXPECT_OK(fill(context, param->name, &param->shape, &box, part));
            EXPECT(part[n_box] == -7); /* not an element more */
            tess_box_copy(n_dims, sizeof(float), &box, &box, part, &all, got);
        }
        EXPECT_INT(n_filled, n);
        EXPECT_SAME(got, whole, (size_t)n);
    }
}

static void tensor_and_data_parallel_ranks_fill_their_own_parts(void)
{
    static const int meshes[][2] = {{1, 1}, {1, 3}, {2, 2}, {3, 2}, {2, 5}, {7, 3}};
    tess_model_config config;
    tess_model *model;
    tess_threads *threads;
    tess_weights *weights;
    EXPECT_OK(tess_model_config_load(wrapped("hf/config.json"), &config));
    config.hidden_size = 75; /* rows for more than one thread; no mesh divides it */
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    EXPECT_OK(tess_threads_create(test_mem(), 3, &threads));
    tess_random_weights random = {model, 5, threads};
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++)
        for (int tp_dim = 0; tp_dim < 2; tp_dim++)
            fill_on_mesh(model, tess_random_weights_fill, &random, meshes[m], tp_dim);
    tess_threads_destroy(&threads);
    tess_model_destroy(&model);

    EXPECT_OK(tess_model_config_load(wrapped("hf/config.json"), &config));
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    EXPECT_OK(tess_weights_open(test_mem(), wrapped("app"), model, NULL, &weights));
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++)
        for (int tp_dim = 0; tp_dim < 2; tp_dim++)
            fill_on_mesh(model, tess_weights_fill, weights, meshes[m], tp_dim);
    tess_weights_close(&weights);
    tess_model_destroy(&model);
}

static const test_case cases[] = {
    CASE(any_wrapping_gives_the_models_weights),
    CASE(tensor_and_data_parallel_ranks_fill_their_own_parts),
};
TEST_MAIN(cases)
