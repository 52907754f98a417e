/* Checkpoints written for other programs, read again. That PyTorch reads them: tools/check_dcp.py. */
#include "base/os/os.h"
#include "ckpt/checkpoint_values.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/formats/formats.h"
#include "support/test.h"

static tess_catalog *open_path(const char *path)
{
    tess_catalog *catalog;
    EXPECT_OK(tess_catalog_open(test_mem(), path, &catalog));
    EXPECT_OK(tess_catalog_verify(catalog, NULL));
    return catalog;
}

static tess_catalog *open_fixture(const char *name)
{
    char relative[256];
    snprintf(relative, sizeof(relative), "ckpt/fixtures/%s", name);
    return open_path(test_path(relative));
}

static const char *out_path(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    return path;
}

typedef tess_status (*write_fn)(const tess_export *out, const char *path, const tess_write_options *options);

/* A catalog written and opened again; `source` stays open. */
static tess_catalog *write_again(const tess_catalog *source, const tess_export_options *options, write_fn write,
                                 const char *name, int n_files)
{
    tess_export *out;
    tess_write_options how = {.n_files = n_files};
    EXPECT_OK(tess_export_create(source, options, &out));
    EXPECT_OK(write(out, out_path(name), &how));
    tess_export_destroy(&out);
    return open_path(out_path(name));
}

/* Expects tensors of `got` to have the bits of the tensors of the same name in `want`. */
static void expect_same_tensors(const tess_catalog *got, const tess_catalog *want)
{
    EXPECT_INT(got->n_tensors, want->n_tensors);
    for (int i = 0; i < want->n_tensors; i++) {
        const tess_catalog_tensor *a = tess_catalog_find(got, want->tensors[i].name), *b = &want->tensors[i];
        EXPECT(a != NULL);
        EXPECT_TEXT(a->dtype, b->dtype);
        EXPECT_INT(a->n_dims, b->n_dims);
        uint8_t *x = fixture_read(got, a, false), *y = fixture_read(want, b, false);
        EXPECT_SAME(x, y, tess_catalog_tensor_bytes(b));
        free(x);
        free(y);
    }
}

static void check_round_trip(const char *fixture, write_fn write, int n_files)
{
    const tess_export_options same = {.names = TESS_NAMES_SAME};
    char name[64];
    snprintf(name, sizeof(name), "again-%d", n_files);
    tess_catalog *source = open_fixture(fixture), *again = write_again(source, &same, write, name, n_files);
    expect_same_tensors(again, source);
    tess_catalog_destroy(&again);
    tess_catalog_destroy(&source);
    EXPECT_OK(tess_os_remove_tree(out_path(name)));
}

static void every_dtype_and_shape_comes_back(void)
{
    static const char *const fixtures[] = {"torch/dtypes.pt", "torch/strided.pt", "torch/small_dtypes.pt",
                                           "torch/packed.pt", "torch/nested.pt"};
    for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++) {
        check_round_trip(fixtures[i], tess_torch_write, 1);
        for (int n_files = 0; n_files <= 4; n_files++)
            check_round_trip(fixtures[i], tess_dcp_write, n_files);
    }
}

static void shards_are_kept_or_cut_anew(void)
{
    static const char *const fixtures[] = {"dcp", "ranks", "zero1", "zero2", "zero3"};
    for (size_t i = 0; i < sizeof(fixtures) / sizeof(fixtures[0]); i++)
        for (int n_files = 0; n_files <= 3; n_files++)
            check_round_trip(fixtures[i], tess_dcp_write, n_files);
}

static void files_are_those_of_the_ranks(void)
{
    const tess_export_options same = {.names = TESS_NAMES_SAME};
    tess_catalog *source = open_fixture("dcp");
    tess_catalog *kept = write_again(source, &same, tess_dcp_write, "kept", 0);
    EXPECT_INT(kept->n_files, 4);
    EXPECT_INT(kept->n_pieces, source->n_pieces);
    tess_catalog *whole = write_again(source, &same, tess_dcp_write, "whole", 1);
    EXPECT_INT(whole->n_files, 1);
    EXPECT_INT(whole->n_pieces, whole->n_tensors);
    EXPECT_TEXT(json_string_value(json_object_get(json_object_get(whole->meta, "train_state"), "note")), "text");
    tess_catalog *cut = write_again(source, &same, tess_dcp_write, "cut", 2);
    const tess_catalog_tensor *tok = tess_catalog_find(cut, "tok.weight");
    EXPECT_INT(tok->n_pieces, 2);
    EXPECT_INT(cut->pieces[tok->first_piece].box.size[0], 3); /* 5 rows as 3 and 2 */
    EXPECT_INT(cut->pieces[tok->first_piece + 1].rank, 1);
    tess_catalog_destroy(&cut);
    tess_catalog_destroy(&whole);
    tess_catalog_destroy(&kept);
    tess_catalog_destroy(&source);
}

/* ---- Names ---- */
static void names_of_torchtitan_and_back(void)
{
    const tess_export_options titan = {.names = TESS_NAMES_TORCHTITAN}, ours = {.names = TESS_NAMES_TESSERA};
    tess_catalog *source = open_fixture("zero2");
    tess_catalog *there = write_again(source, &titan, tess_dcp_write, "titan", 2);
    expect_fixture(there, "embed.weight", "model.embed.weight");
    expect_fixture(there, "optimizer.state.embed.weight.exp_avg", "optimizer.embed.weight.exp_avg");
    expect_fixture(there, "rotary.inv_freq", "model.rotary.inv_freq");
    float *step = fixture_read(there, tess_catalog_find(there, "optimizer.state.lm_head.weight.step"), false);
    EXPECT(*step == 12);
    free(step);
    EXPECT_INT(tess_export_find_step(there), 12);
    EXPECT_TEXT(json_string_value(json_object_get(there->meta, "model_prefix")), "");
    tess_catalog *back = write_again(there, &ours, tess_dcp_write, "ours", 1);
    expect_fixture(back, "model.embed.weight", "model.embed.weight");
    expect_fixture(back, "optimizer.embed.weight.exp_avg_sq", "optimizer.embed.weight.exp_avg_sq");
    EXPECT(tess_catalog_find(back, "optimizer.state.embed.weight.step") == NULL);
    EXPECT_TEXT(json_string_value(json_object_get(back->meta, "model_prefix")), "model.");
    tess_catalog_destroy(&back);
    tess_catalog_destroy(&there);
    tess_catalog_destroy(&source);
}

static void parameters_may_begin_with_a_number(void)
{
    const tess_export_options ours = {.names = TESS_NAMES_TESSERA};
    tess_catalog *catalog;
    tess_export *out;
    int tensor;
    EXPECT_OK(tess_catalog_create(test_mem(), "dcp", "x", &catalog));
    EXPECT_OK(tess_catalog_add_tensor(catalog, "optimizer.state.0.weight.exp_avg", "F32", 0, NULL, &tensor));
    EXPECT_OK(tess_catalog_add_tensor(catalog, "optimizer.state.0.exp_avg", "F32", 0, NULL, &tensor)); /* no name */
    EXPECT_OK(tess_catalog_finish(catalog));
    EXPECT_OK(tess_export_create(catalog, &ours, &out));
    EXPECT(tess_export_find(out, "optimizer.0.weight.exp_avg") != NULL);
    EXPECT(tess_export_find(out, "optimizer.state.0.exp_avg") != NULL);
    tess_export_destroy(&out);
    tess_catalog_destroy(&catalog);
}

static void a_model_alone_in_bfloat16(void)
{
    const tess_export_options bare = {.names = TESS_NAMES_BARE, .weights_dtype = "BF16"};
    tess_catalog *source = open_fixture("ranks");
    tess_catalog *model = write_again(source, &bare, tess_torch_write, "model.pt", 1);
    EXPECT_INT(model->n_tensors, 3);
    EXPECT_TEXT(tess_catalog_find(model, "lm_head.weight")->dtype, "BF16");
    expect_fixture(model, "layers.0.weight", "model.layers.0.weight"); /* whole numbers below 256 */
    expect_fixture(model, "layers.0.bias", "model.layers.0.bias");
    EXPECT_INT(json_object_size(model->meta), 1);
    tess_catalog_destroy(&model);
    const tess_export_options odd = {.names = TESS_NAMES_BARE, .weights_dtype = "F64"};
    tess_export *out;
    EXPECT_FAILS(tess_export_create(source, &odd, &out), TESS_E_INVALID, "'F64'");
    tess_catalog_destroy(&source);
}

static void two_tensors_of_one_name_are_refused(void)
{
    const tess_export_options ours = {.names = TESS_NAMES_TESSERA};
    tess_catalog *catalog;
    tess_export *out;
    int tensor;
    EXPECT_OK(tess_catalog_create(test_mem(), "torch.save", "x.pt", &catalog));
    EXPECT_OK(tess_catalog_add_tensor(catalog, "optimizer.w.exp_avg", "F32", 0, NULL, &tensor));
    EXPECT_OK(tess_catalog_add_tensor(catalog, "optim.state.w.exp_avg", "F32", 0, NULL, &tensor));
    EXPECT_OK(tess_catalog_finish(catalog));
    EXPECT_FAILS(tess_export_create(catalog, &ours, &out), TESS_E_INVALID, "x.pt: two tensors would be called");
    tess_catalog_destroy(&catalog);
}

/* The optimizer's settings of Tessera's trainer, as PyTorch's AdamW expects them. */
static void settings_of_the_optimizer_are_those_of_each_parameter(void)
{
    static const char *const names[] = {"model.w", "optimizer.w.exp_avg", "model.b", "optimizer.b.exp_avg"};
    static const float values[4] = {1, 2, 3, 4};
    static const int64_t dim[2] = {2, 2};
    const tess_export_options titan = {.names = TESS_NAMES_TORCHTITAN};
    tess_catalog *source;
    int file, tensor;
    EXPECT_OK(tess_os_write_atomic(out_path("raw"), values, sizeof(values)));
    EXPECT_OK(tess_catalog_create(test_mem(), "tessera", "raw", &source));
    EXPECT_OK(tess_catalog_add_file(source, out_path("raw"), sizeof(values), &file));
    for (int i = 0; i < 4; i++) {
        tess_catalog_piece piece = {.stored = 16, .bytes = 16, .box.size = {2, 2}};
        piece.box.size[0] = i < 2 ? 2 : 4;
        EXPECT_OK(
            tess_catalog_add_tensor(source, names[i], "F32", i < 2 ? 2 : 1, i < 2 ? dim : (int64_t[]){4}, &tensor));
        EXPECT_OK(tess_catalog_add_piece(source, tensor, &piece));
    }
    EXPECT_OK(tess_catalog_finish(source));
    json_object_set_new(source->meta, "step", json_integer(3));
    json_object_set_new(source->meta, "meta",
                        json_pack("{s:I, s:{s:f, s:s, s:f, s:f, s:f, s:f}}", "n_tokens", (json_int_t)9, "optimizer",
                                  "lr", 0.5, "param_groups.0.weight.fused", "kept", "beta1", 0.9, "beta2", 0.95, "eps",
                                  1e-8, "weight_decay", 0.25));
    tess_catalog *there = write_again(source, &titan, tess_dcp_write, "titan", 1);
    const json_t *optimizer = json_object_get(there->meta, "optimizer");
    EXPECT(json_real_value(json_object_get(optimizer, "param_groups.w.weight_decay")) == 0.25);
    EXPECT(json_real_value(json_object_get(optimizer, "param_groups.b.weight_decay")) == 0);
    EXPECT(json_real_value(json_array_get(json_object_get(optimizer, "param_groups.b.betas"), 1)) == 0.95);
    EXPECT(json_is_null(json_object_get(optimizer, "param_groups.w.fused")));
    EXPECT_TEXT(json_string_value(json_object_get(optimizer, "param_groups.0.weight.fused")), "kept");
    int64_t *n_tokens = fixture_read(there, tess_catalog_find(there, "train_state.ntokens_seen"), false);
    EXPECT_INT(*n_tokens, 9);
    EXPECT_INT(tess_export_find_step(there), 3);
    free(n_tokens);
    tess_catalog_destroy(&there);
    tess_catalog_destroy(&source);
}

/* PyTorch's get_state_dict leaves groups as lists of parameters; torchtitan's names, which its recipe loads, have none.
 */
static void groups_that_name_their_parameters_are_spread(void)
{
    static const char *const names[] = {"app.model.0.w", "app.optim.state.0.w.exp_avg", "app.optim.state.0.w.step"};
    const tess_export_options titan = {.names = TESS_NAMES_TORCHTITAN};
    tess_catalog *source;
    tess_export *out;
    int tensor;
    EXPECT_OK(tess_catalog_create(test_mem(), "dcp", "x", &source));
    for (int i = 0; i < 3; i++)
        EXPECT_OK(tess_catalog_add_tensor(source, names[i], "F32", 0, NULL, &tensor));
    EXPECT_OK(tess_catalog_finish(source));
    json_object_set_new(source->meta, "model_prefix", json_string("app.model."));
    json_object_set_new(source->meta, "step", json_integer(3));
    json_object_set_new(source->meta, "app",
                        json_pack("{s:{s:[{s:f, s:[s,s]}], s:f, s:[s], s:f, s:[i]}}", "optim", "param_groups", "lr",
                                  0.5, "params", "_orig_mod.0.w", "0.b", "param_groups.1.lr", 0.25,
                                  "param_groups.1.params", "1.w", "param_groups.2.lr", 0.125, "param_groups.2.params",
                                  7));
    EXPECT_OK(tess_export_create(source, &titan, &out));
    EXPECT_INT(out->n_tensors, 4); /* the source's step is not made again; train_state.step is */
    EXPECT(tess_export_find(out, "0.w") != NULL);
    EXPECT(tess_export_find(out, "optimizer.state.0.w.step")->source != NULL);
    EXPECT(json_real_value(json_object_get(out->meta, "optimizer.param_groups.0.w.lr")) == 0.5);
    EXPECT(json_real_value(json_object_get(out->meta, "optimizer.param_groups.0.b.lr")) == 0.5);
    EXPECT(json_real_value(json_object_get(out->meta, "optimizer.param_groups.1.w.lr")) == 0.25);
    EXPECT(json_real_value(json_object_get(out->meta, "optimizer.param_groups.2.lr")) ==
           0.125); /* the group of numbers */
    EXPECT(json_object_get(out->meta, "app") == NULL);
    EXPECT(json_object_get(source->meta, "app") != NULL);
    tess_export_destroy(&out);
    tess_catalog_destroy(&source);
}

/* ---- Megatron, damage ---- */
static void megatrons_folder_is_named_by_the_step(void)
{
    const tess_export_options same = {.names = TESS_NAMES_SAME};
    tess_catalog *source = open_fixture("megatron"), *again = write_again(source, &same, tess_megatron_write, "m", 2);
    expect_fixture(again, "model.embedding.weight", "model.embedding.weight");
    EXPECT(tess_os_is_file(out_path("m/iter_0000100/.metadata")));
    EXPECT_INT(json_integer_value(json_object_get(again->meta, "iteration")), 100);
    tess_catalog_destroy(&again);
    tess_export *out;
    tess_write_options how = {.n_files = 1};
    EXPECT_OK(tess_export_create(source, &same, &out));
    EXPECT_FAILS(tess_megatron_write(out, out_path("m"), &how), TESS_E_INVALID, "there is a checkpoint already");
    tess_export_destroy(&out);
    tess_catalog_destroy(&source);
}

static void nothing_stays_of_what_could_not_be_written(void)
{
    char from[4096], *data;
    size_t n;
    const tess_export_options same = {.names = TESS_NAMES_SAME};
    tess_write_options how = {.n_files = 1};
    tess_catalog *catalog;
    tess_export *out;
    EXPECT_OK(tess_os_read(test_mem(), test_path("ckpt/fixtures/torch/dtypes.pt"), 1 << 20, &data, &n));
    snprintf(from, sizeof(from), "%s", out_path("damaged.pt"));
    EXPECT_OK(tess_os_write_atomic(from, data, n));
    EXPECT_OK(tess_torch_open(test_mem(), from, &catalog));
    data[catalog->pieces[tess_catalog_find(catalog, "int64")->first_piece].offset + 3] ^= 1;
    EXPECT_OK(tess_os_write_atomic(from, data, n));
    EXPECT_OK(tess_export_create(catalog, &same, &out));
    EXPECT_FAILS(tess_dcp_write(out, out_path("folder"), &how), TESS_E_FORMAT, "int64");
    EXPECT(!tess_os_is_dir(out_path("folder")));
    EXPECT_FAILS(tess_torch_write(out, out_path("file.pt"), &how), TESS_E_FORMAT, "int64");
    EXPECT(!tess_os_is_file(out_path("file.pt")) && !tess_os_is_file(out_path("file.pt.tmp")));
    tess_export_destroy(&out);
    tess_catalog_destroy(&catalog);
    tess_mem_free(test_mem(), data);
}

/* Blocks of 8 MiB: rows larger than a block, and a tensor that ends inside one. */
static void tensors_larger_than_a_block(void)
{
    static const int64_t dim[2] = {3, 2500001};
    const tess_export_options same = {.names = TESS_NAMES_SAME};
    tess_catalog *source;
    int file, tensor;
    size_t n = (size_t)(dim[0] * dim[1]);
    float *values = malloc(n * sizeof(float));
    EXPECT(values != NULL);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)i;
    EXPECT_OK(tess_os_write_atomic(out_path("raw"), values, n * sizeof(float)));
    EXPECT_OK(tess_catalog_create(test_mem(), "test", "raw", &source));
    EXPECT_OK(tess_catalog_add_file(source, out_path("raw"), n * sizeof(float), &file));
    EXPECT_OK(tess_catalog_add_tensor(source, "w", "F32", 2, dim, &tensor));
    tess_catalog_piece piece = {.stored = n * sizeof(float), .bytes = n * sizeof(float), .box.size = {dim[0], dim[1]}};
    EXPECT_OK(tess_catalog_add_piece(source, tensor, &piece));
    EXPECT_OK(tess_catalog_finish(source));
    tess_catalog *again = write_again(source, &same, tess_torch_write, "large.pt", 1);
    expect_same_tensors(again, source);
    tess_catalog_destroy(&again);
    tess_catalog_destroy(&source);
    free(values);
}

static const test_case cases[] = {
    CASE(every_dtype_and_shape_comes_back),
    CASE(shards_are_kept_or_cut_anew),
    CASE(files_are_those_of_the_ranks),
    CASE(names_of_torchtitan_and_back),
    CASE(parameters_may_begin_with_a_number),
    CASE(a_model_alone_in_bfloat16),
    CASE(settings_of_the_optimizer_are_those_of_each_parameter),
    CASE(groups_that_name_their_parameters_are_spread),
    CASE(two_tensors_of_one_name_are_refused),
    CASE(megatrons_folder_is_named_by_the_step),
    CASE(nothing_stays_of_what_could_not_be_written),
    CASE(tensors_larger_than_a_block),
};

TEST_MAIN(cases)
