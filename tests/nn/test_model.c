/* The parameter table: names, shapes, units, initial values, operations. */
#include <math.h>

#include "fixture.h"

static int find(const tess_model *model, const char *name)
{
    for (int i = 0; i < tess_model_n_params(model); i++)
        if (strcmp(tess_model_param(model, i)->name, name) == 0)
            return i;
    test_fail(__FILE__, __LINE__, "no parameter '%s'", name);
}

static void units_hold_their_parameters_in_order(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        fixture f;
        fixture_open(&f, fixture_names[i]);
        tess_model *model;
        EXPECT_OK(tess_model_create(test_mem(), &f.config, &model));
        EXPECT_INT(tess_model_n_units(model), f.config.n_layers + 2);
        int next = 0;
        int64_t total = 0;
        for (int unit = 0; unit < tess_model_n_units(model); unit++) {
            int first, n;
            tess_model_unit_params(model, unit, &first, &n);
            EXPECT_INT(first, next);
            EXPECT(n > 0);
            for (int p = first; p < first + n; p++) {
                const tess_param *param = tess_model_param(model, p);
                EXPECT_INT(param->unit, unit);
                EXPECT(param->decay == (param->shape.n_dims >= 2 && strstr(param->name, "_bias") == NULL));
                total += tess_shape_count(&param->shape);
            }
            next = first + n;
        }
        EXPECT_INT(next, tess_model_n_params(model));
        EXPECT_INT(total, tess_model_count(model));
        tess_model_destroy(&model);
        fixture_close(&f);
    }
}

static void layers_are_named_and_shaped_as_in_files(void)
{
    fixture f;
    tess_model *model;
    fixture_open(&f, "gpt2");
    EXPECT_OK(tess_model_create(test_mem(), &f.config, &model));
    EXPECT_TEXT(tess_model_unit_name(model, 0), "embed");
    EXPECT_TEXT(tess_model_unit_name(model, 2), "transformer.h.1");
    EXPECT_TEXT(tess_model_unit_name(model, 3), "head");
    const tess_param *attn = tess_model_param(model, find(model, "transformer.h.1.attn.c_attn.weight"));
    EXPECT(attn->shape.dim[0] == 20 && attn->shape.dim[1] == 60); /* Conv1D: (in, out) */
    tess_model_destroy(&model);
    fixture_close(&f);
    fixture_open(&f, "mistral");
    EXPECT_OK(tess_model_create(test_mem(), &f.config, &model));
    EXPECT_TEXT(tess_model_unit_name(model, 2), "model.layers.1");
    const tess_param *k = tess_model_param(model, find(model, "model.layers.1.self_attn.k_proj.weight"));
    EXPECT(k->shape.dim[0] == 24 && k->shape.dim[1] == 24);
    const tess_param *o = tess_model_param(model, find(model, "model.layers.0.self_attn.o_proj.weight"));
    EXPECT(o->shape.dim[0] == 24 && o->shape.dim[1] == 48);
    tess_model_destroy(&model);
    fixture_close(&f);
}

/* Fills `whole` box by box, of at most `rows` by `columns`. */
static void fill_in_boxes(const tess_param *param, int64_t rows, int64_t columns, float *whole)
{
    const tess_box all = tess_box_whole(&param->shape);
    int n_dims = param->shape.n_dims;
    int64_t last = n_dims == 2 ? param->shape.dim[1] : 1;
    float *part = test_alloc((size_t)(rows * columns) * sizeof(float));
    memset(whole, 0xff, (size_t)tess_shape_count(&param->shape) * sizeof(float));
    for (int64_t r = 0; r < param->shape.dim[0]; r += rows)
        for (int64_t c = 0; c < last; c += columns) {
            tess_box box = {{r, c}, {rows, columns}};
            tess_box_meet(n_dims, &all, &box, &box);
            tess_param_fill(param, 42, &box, part);
            tess_box_copy(n_dims, sizeof(float), &box, &box, part, &all, whole);
        }
    test_free(part);
}

static void initial_values_do_not_depend_on_the_shard(void)
{
    fixture f;
    fixture_open(&f, "gpt2");
    tess_model *model;
    EXPECT_OK(tess_model_create(test_mem(), &f.config, &model));
    for (int i = 0; i < tess_model_n_params(model); i++) {
        const tess_param *param = tess_model_param(model, i);
        int64_t row = tess_shape_row_count(&param->shape), n = tess_shape_count(&param->shape);
        float *whole = test_alloc((size_t)n * sizeof(float)), *parts = test_alloc((size_t)n * sizeof(float));
        const tess_box all = tess_box_whole(&param->shape);
        tess_param_fill(param, 42, &all, whole);
        fill_in_boxes(param, 7, row, parts); /* rows */
        EXPECT_SAME(parts, whole, (size_t)n);
        fill_in_boxes(param, 5, 11, parts); /* a grid, uneven on both sides */
        EXPECT_SAME(parts, whole, (size_t)n);
        double mean = 0, square = 0;
        for (int64_t k = 0; k < n; k++) {
            mean += whole[k] / (double)n;
            square += (double)whole[k] * whole[k] / (double)n;
        }
        bool matrix = param->shape.n_dims == 2, residual = strstr(param->name, "c_proj.weight") != NULL;
        if (!matrix) {
            float expected = strstr(param->name, "weight") != NULL ? 1 : 0;
            for (int64_t k = 0; k < n; k++)
                EXPECT(whole[k] == expected);
        } else { /* at least 400 values: four standard errors of a standard deviation are 15% */
            double std = residual ? 0.02 / sqrt(2.0 * 2) : 0.02;
            EXPECT(fabs(mean) < 4 * std / sqrt((double)n));
            EXPECT(fabs(sqrt(square) / std - 1) < 4 / sqrt(2.0 * (double)n));
        }
        tess_param_fill(param, 43, &all, parts);
        EXPECT((memcmp(parts, whole, (size_t)n * sizeof(float)) != 0) == matrix);
        test_free(whole);
        test_free(parts);
    }
    tess_model_destroy(&model);
    fixture_close(&f);
}

static void operations_per_token_are_counted(void)
{
    tess_model_config config;
    json_t *json = json_pack("{ss}", "model_type", "gpt2");
    EXPECT_OK(tess_model_config_parse(json, "gpt2", &config));
    json_decref(json);
    tess_model *model;
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    /* 6 * (50257 * 768 + 12 * 12 * 768^2) + 12 * 12 * 768 * 1024 */
    EXPECT(tess_model_flops_per_token(model, 1024) == 854438400.0);
    tess_model_destroy(&model);

    fixture f;
    fixture_open(&f, "qwen2"); /* 3 layers, the last two with a window of 4; 4 heads of 6 */
    EXPECT_OK(tess_model_create(test_mem(), &f.config, &model));
    double layer = 24 * 24 * 2 + 24 * 12 * 2 + 3 * 24 * 31;
    EXPECT(tess_model_flops_per_token(model, 10) == 6 * (97 * 24 + 3 * layer) + 12 * 24 * (10 + 4 + 4));
    tess_model_destroy(&model);
    fixture_close(&f);
}

static const test_case cases[] = {
    CASE(units_hold_their_parameters_in_order),
    CASE(layers_are_named_and_shaped_as_in_files),
    CASE(initial_values_do_not_depend_on_the_shard),
    CASE(operations_per_token_are_counted),
};
TEST_MAIN(cases)
