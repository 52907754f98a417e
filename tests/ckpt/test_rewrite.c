/* Cutting, merging, converting and comparing checkpoints: values survive every way. */
#include <math.h>

#include "ckpt/tools/diff.h"
#include "ckpt/tools/rewrite.h"
#include "state_files.h"

static tess_status rewrite(const char *in, const char *out, tess_rewrite_options options, tess_rewrite_result *result)
{
    tess_rewrite_result unseen;
    if (options.step == 0)
        options.step = -1;
    return tess_ckpt_rewrite(test_mem(), in, out, &options, result != NULL ? result : &unseen);
}

/* ---- Comparing */
typedef struct seen {
    char text[4096];
    tess_diff_tensor weight; /* the tensor "model.layers.0.w"; its `a` and `b` were freed with the catalogs */
    char dtype_b[12];
} seen;

static void look_at(void *self, const tess_diff_tensor *t)
{
    seen *s = self;
    size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof(s->text) - at, "%s %s\n", t->name, tess_diff_text(t->kind));
    if (strcmp(t->name, "model.layers.0.w") != 0)
        return;
    s->weight = *t;
    if (t->b != NULL)
        snprintf(s->dtype_b, sizeof(s->dtype_b), "%s", t->b->dtype);
}

static tess_diff_summary diff(const char *path_a, const char *path_b, tess_diff_options options, seen *s)
{
    tess_catalog *a, *b;
    tess_diff_summary summary;
    *s = (seen){.text = ""};
    options.self = s;
    options.tensor = look_at;
    EXPECT_OK(tess_catalog_open(test_mem(), path_a, &a));
    EXPECT_OK(tess_catalog_open(test_mem(), path_b, &b));
    EXPECT_OK(tess_ckpt_diff(a, b, &options, &summary));
    tess_catalog_destroy(&a);
    tess_catalog_destroy(&b);
    return summary;
}

static void expect_same(const char *a, const char *b, int n_tensors, bool model_only)
{
    seen s;
    tess_diff_summary summary = diff(a, b, (tess_diff_options){.model_only = model_only}, &s);
    if (summary.n_tensors[TESS_DIFF_SAME] != n_tensors || !tess_diff_alike(&summary))
        test_fail(__FILE__, __LINE__, "%s and %s:\n%s", a, b, s.text);
}

static void a_difference_is_measured(void)
{
    seen s;
    const char *dir = test_folder();
    double square_a = 0, square_b = 0, square_d = 0, max_rel = 0, max_abs = 0;
    save_state(dir, 4, 3);
    save_state(dir, 9, 2);
    tess_diff_summary summary =
        diff(path_in(dir, "step-00000004"), path_in(dir, "step-00000009"), (tess_diff_options){.tolerance = 0}, &s);
    EXPECT_INT(summary.n_tensors[TESS_DIFF_DIFFERENT], 6);
    EXPECT(!tess_diff_alike(&summary));
    for (int64_t i = 0; i < STATE_ROWS * STATE_COLUMNS; i++) {
        double a = (double)state_value(4, 0, i), b = (double)state_value(9, 0, i), d = fabs(a - b);
        square_a += a * a;
        square_b += b * b;
        square_d += d * d;
        max_abs = fmax(max_abs, d);
        max_rel = fmax(max_rel, d / fmax(a, b));
    }
    EXPECT(s.weight.measured);
    EXPECT_INT(s.weight.n, 65);
    EXPECT_INT(s.weight.n_different, 65);
    EXPECT_INT(s.weight.first, 0);
    EXPECT(s.weight.max_abs == max_abs);
    EXPECT(s.weight.max_rel == max_rel);
    EXPECT(s.weight.norm_a == sqrt(square_a));
    EXPECT(s.weight.norm_b == sqrt(square_b));
    EXPECT(s.weight.norm_difference == sqrt(square_d));
    summary = diff(path_in(dir, "step-00000004"), path_in(dir, "step-00000009"),
                   (tess_diff_options){.tolerance = 0.0051}, &s);
    EXPECT_INT(summary.n_tensors[TESS_DIFF_CLOSE], 6);
}

/* Writes a safetensors file with a few values of one tensor. */
static const char *put_values(const char *name, const char *dtype, const char *shape, const void *data, size_t size)
{
    char file[1024], header[256];
    const char *path = path_in(test_folder(), name);
    int n = snprintf(header, sizeof(header),
                     "{\"model.layers.0.w\": {\"dtype\": \"%s\", \"shape\": %s, \"data_offsets\": [0, %zu]}}", dtype,
                     shape, size);
    uint64_t length = (uint64_t)n;
    memcpy(file, &length, 8);
    memcpy(file + 8, header, (size_t)n);
    memcpy(file + 8 + n, data, size);
    put_file(path, file, 8 + (size_t)n + size);
    return path;
}

static void nan_zeros_and_dtypes_are_compared_by_value(void)
{
    seen s;
    const tess_diff_options plain = {0};
    const float x[4] = {1, NAN, INFINITY, 0}, y[4] = {1, NAN, INFINITY, -0.0f}, z[4] = {1, 2, INFINITY, 0};
    const uint16_t half[4] = {0x3f80, 0x7fc0, 0x7f80, 0x0000}; /* x as bfloat16 */
    const int64_t integers[4] = {1, -2, 3, 4}, others[4] = {1, -2, 3, 5};
    const char *a = put_values("a.safetensors", "F32", "[4]", x, sizeof(x));
    const char *b = put_values("b.safetensors", "F32", "[4]", y, sizeof(y));
    const char *c = put_values("c.safetensors", "F32", "[4]", z, sizeof(z));
    const char *d = put_values("d.safetensors", "BF16", "[4]", half, sizeof(half));
    const char *e = put_values("e.safetensors", "F32", "[2, 2]", x, sizeof(x));
    const char *f = put_values("f.safetensors", "I64", "[4]", integers, sizeof(integers));
    const char *g = put_values("g.safetensors", "I64", "[4]", others, sizeof(others));
    EXPECT_INT(diff(a, a, plain, &s).n_tensors[TESS_DIFF_SAME], 1);
    EXPECT_INT(diff(a, b, plain, &s).n_tensors[TESS_DIFF_CLOSE], 1); /* 0 and -0 */
    EXPECT_INT(diff(a, d, plain, &s).n_tensors[TESS_DIFF_CLOSE], 1);
    EXPECT_INT(diff(a, e, plain, &s).n_tensors[TESS_DIFF_SHAPE], 1);
    tess_diff_summary summary = diff(a, c, (tess_diff_options){.tolerance = 1e9}, &s);
    EXPECT_INT(summary.n_tensors[TESS_DIFF_DIFFERENT], 1); /* NaN is close to no number */
    EXPECT(isinf(summary.max_abs));
    EXPECT_INT(diff(f, g, plain, &s).n_tensors[TESS_DIFF_DIFFERENT], 1);
    EXPECT_INT(diff(f, f, plain, &s).n_tensors[TESS_DIFF_SAME], 1);
}

static void names_that_only_one_has_are_reported(void)
{
    seen s;
    const char *dir = test_folder();
    save_state(dir, 4, 2);
    EXPECT_OK(rewrite(dir, path_in(dir, "model.safetensors"),
                      (tess_rewrite_options){.target = TESS_TO_SAFETENSORS, .bare_names = true}, NULL));
    tess_diff_summary summary =
        diff(path_in(dir, "step-00000004"), path_in(dir, "model.safetensors"), (tess_diff_options){.tolerance = 0}, &s);
    EXPECT_INT(summary.n_tensors[TESS_DIFF_ONLY_A], 4);
    EXPECT_TEXT(s.text, "model.bias same\nmodel.layers.0.w same\noptimizer.bias.exp_avg only in A\n"
                        "optimizer.bias.exp_avg_sq only in A\noptimizer.layers.0.w.exp_avg only in A\n"
                        "optimizer.layers.0.w.exp_avg_sq only in A\n");
    expect_same(path_in(dir, "model.safetensors"), path_in(dir, "step-00000004"), 2, true);
}

/* ---- Rewriting */
static void any_cut_holds_the_same_values(void)
{
    static const int cuts[] = {1, 2, 5, 13, 20};
    const char *dir = test_folder();
    save_state(dir, 4, 3);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        char name[32];
        tess_rewrite_result result;
        snprintf(name, sizeof(name), "cut-%d", cuts[i]);
        EXPECT_OK(rewrite(path_in(dir, "step-00000004"), path_in(dir, name),
                          (tess_rewrite_options){.target = TESS_TO_TESSERA, .n_files = cuts[i]}, &result));
        EXPECT_TEXT(result.path, path_in(path_in(dir, name), "step-00000004"));
        EXPECT_INT(result.n_tensors, 6);
        EXPECT_INT(result.step, 4);
        json_t *old, *new;
        EXPECT_OK(tess_store_open_manifest(path_in(dir, "step-00000004"), 4, &old));
        EXPECT_OK(tess_store_open_manifest(result.path, 4, &new));
        EXPECT_INT(json_object_size(json_object_get(new, "files")), cuts[i]);
        EXPECT(json_equal(json_object_get(old, "meta"), json_object_get(new, "meta")));
        json_decref(old);
        json_decref(new);
        expect_same(dir, path_in(dir, name), 6, false);
    }
    EXPECT_OK(rewrite(path_in(dir, "cut-13"), path_in(dir, "merged.safetensors"),
                      (tess_rewrite_options){.target = TESS_TO_SAFETENSORS}, NULL));
    expect_same(dir, path_in(dir, "merged.safetensors"), 6, false);
}

static void expect_same_meta(const char *dir, const char *back)
{
    json_t *old, *new;
    EXPECT_OK(tess_store_open_manifest(path_in(dir, "step-00000004"), 4, &old));
    EXPECT_OK(tess_store_open_manifest(path_in(back, "step-00000004"), 4, &new));
    EXPECT(json_equal(json_object_get(old, "meta"), json_object_get(new, "meta")));
    EXPECT_INT(json_object_size(json_object_get(new, "tensors")), 6);
    json_decref(old);
    json_decref(new);
}

static void every_format_brings_everything_back(void)
{
    static const tess_target targets[] = {TESS_TO_TORCH, TESS_TO_DCP, TESS_TO_MEGATRON, TESS_TO_SAFETENSORS};
    const char *dir = test_folder();
    save_state(dir, 4, 3);
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        char there[64], back[64];
        tess_rewrite_options options = {.target = targets[i]};
        snprintf(there, sizeof(there), "%s%s", tess_target_name(targets[i]),
                 targets[i] == TESS_TO_TORCH         ? ".pt"
                 : targets[i] == TESS_TO_SAFETENSORS ? ".safetensors"
                                                     : "");
        snprintf(back, sizeof(back), "back-%s", tess_target_name(targets[i]));
        EXPECT_OK(rewrite(dir, path_in(dir, there), options, NULL));
        expect_same(dir, path_in(dir, there), 6, false);
        options = (tess_rewrite_options){.target = TESS_TO_TESSERA};
        EXPECT_OK(rewrite(path_in(dir, there), path_in(dir, back), options, NULL));
        expect_same(dir, path_in(dir, back), 6, false);
        expect_same_meta(dir, path_in(dir, back));
    }
}

/* Metadata of a file is hostile. */
static void a_description_that_is_none_is_refused(void)
{
    static const struct {
        const char *text, *problem;
    } cases[] = {{"[1]", "'tessera' of its __metadata__ is no object"},
                 {"{", "'tessera' of its __metadata__"},
                 {"{} {}", "'tessera' of its __metadata__"}};
    const char *dir = test_folder(), *path = path_in(dir, "w.safetensors");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char file[256];
        int n = snprintf(file + 8, sizeof(file) - 8, "{\"__metadata__\":{\"tessera\":\"%s\"}}", cases[i].text);
        uint64_t bytes = (uint64_t)n;
        tess_catalog *catalog;
        memcpy(file, &bytes, sizeof(bytes));
        put_file(path, file, sizeof(bytes) + bytes);
        EXPECT_FAILS(tess_catalog_open(test_mem(), path, &catalog), TESS_E_FORMAT, cases[i].problem);
    }
}

static void a_model_alone_says_nothing_of_its_run(void)
{
    const char *dir = test_folder();
    tess_catalog *catalog;
    save_state(dir, 4, 2);
    EXPECT_OK(rewrite(dir, path_in(dir, "model.safetensors"),
                      (tess_rewrite_options){.target = TESS_TO_SAFETENSORS, .bare_names = true}, NULL));
    EXPECT_OK(tess_catalog_open(test_mem(), path_in(dir, "model.safetensors"), &catalog));
    EXPECT_INT(json_object_size(catalog->meta), 0);
    tess_catalog_destroy(&catalog);
}

static void weights_change_their_dtype_and_the_optimizer_does_not(void)
{
    seen s;
    const char *dir = test_folder();
    save_state(dir, 4, 2);
    EXPECT_OK(rewrite(dir, path_in(dir, "half"),
                      (tess_rewrite_options){.target = TESS_TO_TESSERA, .weights_dtype = "BF16"}, NULL));
    tess_diff_summary summary = diff(dir, path_in(dir, "half"), (tess_diff_options){.tolerance = 4e-3}, &s);
    EXPECT_INT(summary.n_tensors[TESS_DIFF_CLOSE], 2);
    EXPECT_INT(summary.n_tensors[TESS_DIFF_SAME], 4);
    EXPECT_TEXT(s.dtype_b, "BF16");
}

/* Tensors of any dtype of whole bytes, and of any shape that a catalog holds. */
static void tensors_that_are_no_weights_are_stored_as_they_are(void)
{
    static const char header[] = "{\"a.f64\":{\"dtype\":\"F64\",\"shape\":[3,2],\"data_offsets\":[0,48]},"
                                 "\"b.i16\":{\"dtype\":\"I16\",\"shape\":[5],\"data_offsets\":[48,58]},"
                                 "\"c.bool\":{\"dtype\":\"BOOL\",\"shape\":[7],\"data_offsets\":[58,65]},"
                                 "\"d.f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,1,2,1,2],\"data_offsets\":[65,73]},"
                                 "\"e.u64\":{\"dtype\":\"U64\",\"shape\":[],\"data_offsets\":[73,81]},"
                                 "\"f.none\":{\"dtype\":\"C64\",\"shape\":[1000000000000,0],\"data_offsets\":[81,81]}}";
    enum { HEADER = sizeof(header) - 1, DATA = 81 };
    uint8_t file[8 + HEADER + DATA];
    uint64_t n = HEADER;
    const char *dir = test_folder();
    memcpy(file, &n, 8);
    memcpy(file + 8, header, HEADER);
    for (int i = 0; i < DATA; i++)
        file[8 + HEADER + i] = (uint8_t)(i * 37 + 1);
    put_file(path_in(dir, "odd.safetensors"), file, sizeof(file));
    EXPECT_OK(rewrite(path_in(dir, "odd.safetensors"), path_in(dir, "x"),
                      (tess_rewrite_options){.target = TESS_TO_TESSERA, .n_files = 3, .step = 9}, NULL));
    expect_same(path_in(dir, "odd.safetensors"), path_in(dir, "x"), 6, false);
    EXPECT_OK(rewrite(path_in(dir, "x"), path_in(dir, "back.safetensors"),
                      (tess_rewrite_options){.target = TESS_TO_SAFETENSORS, .bare_names = true}, NULL));
    expect_same(path_in(dir, "odd.safetensors"), path_in(dir, "back.safetensors"), 6, false);
}

static void packed_pieces_are_unpacked(void)
{
    enum { ROWS = 4096, COLUMNS = 2048 }; /* 32 MiB: more than a slice */
    const char *dir = test_folder();
    char folder[TESS_CKPT_PATH];
    float *data;
    json_t *part;
    const tess_store_options options = {.codec = TESS_CODEC_ZSTD};
    const tess_store_facts facts = {.world_size = 1};
    EXPECT_OK(tess_mem_alloc(test_mem(), TESS_POOL_MISC, sizeof(float) * ROWS * COLUMNS, "data", (void **)&data));
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
        data[i] = (float)(i / 1000);
    const tess_store_piece piece = {
        "model.w", "F32", false, 2, {ROWS, COLUMNS}, {{0}, {ROWS, COLUMNS}}, 0, data, {{0}, {ROWS, COLUMNS}}};
    EXPECT_OK(tess_store_begin(NULL, dir, 7, folder));
    EXPECT_OK(tess_store_write_part(test_mem(), &options, folder, "rank-00000.data", &piece, 1, &part));
    EXPECT_OK(tess_store_commit(NULL, dir, 7, &part, 1, &facts));
    json_decref(part);
    tess_mem_free(test_mem(), data);
    EXPECT_OK(rewrite(dir, path_in(dir, "cut"), (tess_rewrite_options){.target = TESS_TO_TESSERA, .n_files = 3}, NULL));
    expect_same(dir, path_in(dir, "cut"), 1, false);
}

static void a_hosts_part_is_not_taken_for_the_whole(void)
{
    int first[] = {0, 1}, last[] = {0, 1};
    char names[2][TESS_CKPT_HOST_NAME] = {"h1", "h2"};
    const tess_ckpt_hosts hosts = {.n = 2, .host = 0, .first = first, .last = last, .names = names};
    const char *dir = test_folder();
    save_part(path_in(dir, "part"), 5, 2, &hosts);
    EXPECT_FAILS(rewrite(path_in(dir, "part"), path_in(dir, "x"), (tess_rewrite_options){.target = TESS_TO_DCP}, NULL),
                 TESS_E_FORMAT, "one host's part of a checkpoint");
    EXPECT_TEXT(names_in(dir), "part");
}

static void count_line(void *self, const char *line)
{
    (void)line;
    ++*(int *)self;
}

static void values_that_no_training_should_have_are_counted(void)
{
    const float x[4] = {1e6f, NAN, INFINITY, 0};
    const char *dir = test_folder(), *in = put_values("a.safetensors", "F32", "[4]", x, sizeof(x));
    int n_lines = 0;
    tess_rewrite_result result;
    tess_rewrite_options options = {
        .target = TESS_TO_SAFETENSORS, .weights_dtype = "F16", .self = &n_lines, .report = count_line};
    EXPECT_OK(rewrite(in, path_in(dir, "b.safetensors"), options, &result));
    EXPECT_INT(result.n_nan, 1);
    EXPECT_INT(result.n_inf, 1);
    EXPECT_INT(result.n_overflowed, 1);
    EXPECT_INT(result.n_files, 1);
    EXPECT_INT(n_lines, 2);
}

/* ---- Places */
static void what_is_there_is_not_replaced(void)
{
    const char *dir = test_folder();
    const tess_rewrite_options store = {.target = TESS_TO_TESSERA}, file = {.target = TESS_TO_SAFETENSORS},
                               hf = {.target = TESS_TO_HF, .bare_names = true};
    save_state(dir, 4, 2);
    EXPECT_FAILS(rewrite(path_in(dir, "step-00000004"), dir, store, NULL), TESS_E_INVALID, "is there already");
    EXPECT_FAILS(rewrite(dir, path_in(dir, "x/step-00000005"), store, NULL), TESS_E_INVALID, "is of step 4");
    EXPECT_OK(rewrite(dir, path_in(dir, "x/step-00000004"), store, NULL));
    expect_same(dir, path_in(dir, "x"), 6, false);
    EXPECT_FAILS(rewrite(dir, path_in(dir, "x.bin"), file, NULL), TESS_E_INVALID, "ends in .safetensors");
    put_file(path_in(dir, "x.safetensors"), "precious", 8);
    EXPECT_FAILS(rewrite(dir, path_in(dir, "x.safetensors"), file, NULL), TESS_E_INVALID, "is there already");
    EXPECT_FAILS(rewrite(dir, path_in(dir, "x"), file, NULL), TESS_E_INVALID, "is a folder");
    EXPECT_FAILS(rewrite(dir, path_in(dir, "x"), hf, NULL), TESS_E_INVALID, "already holds");
    EXPECT_FAILS(rewrite(dir, dir, hf, NULL), TESS_E_INVALID, "are the same");
    EXPECT_FAILS(rewrite(path_in(dir, "gone"), path_in(dir, "y"), hf, NULL), TESS_E_NOT_FOUND, "gone");
}

static void a_damaged_source_leaves_nothing(void)
{
    const char *dir = test_folder();
    save_state(dir, 4, 2);
    flip_byte(path_in(dir, "step-00000004/rank-00001.data"), 3);
    EXPECT_FAILS(rewrite(dir, path_in(dir, "x"), (tess_rewrite_options){.target = TESS_TO_TESSERA}, NULL),
                 TESS_E_FORMAT, "written by rank 1");
    EXPECT_FAILS(
        rewrite(dir, path_in(dir, "x.safetensors"), (tess_rewrite_options){.target = TESS_TO_SAFETENSORS}, NULL),
        TESS_E_FORMAT, "rank-00001.data");
    EXPECT_FAILS(
        rewrite(dir, path_in(dir, "hf"), (tess_rewrite_options){.target = TESS_TO_HF, .bare_names = true}, NULL),
        TESS_E_FORMAT, "rank-00001.data");
    EXPECT_TEXT(names_in(dir), "step-00000004 x");
    EXPECT_TEXT(names_in(path_in(dir, "x")), "");
}

static void a_model_folder_gets_the_configuration_of_the_job(void)
{
    json_t *config;
    const char *job = test_folder(), *dir = path_in(job, "checkpoint");
    save_state(dir, 4, 2);
    EXPECT_OK(
        rewrite(dir, path_in(job, "bare"), (tess_rewrite_options){.target = TESS_TO_HF, .bare_names = true}, NULL));
    EXPECT_TEXT(names_in(path_in(job, "bare")), "model.safetensors");
    EXPECT_OK(tess_os_make_dir(path_in(job, "model")));
    put_file(path_in(job, "model/config.json"), "{\"torch_dtype\": \"bfloat16\"}", 27);
    put_file(path_in(job, "model/tokenizer.json"), "{}", 2);
    put_file(path_in(job, "model/model.safetensors"), "other weights", 13);
    EXPECT_OK(rewrite(dir, path_in(job, "hf"), (tess_rewrite_options){.target = TESS_TO_HF, .bare_names = true}, NULL));
    EXPECT_TEXT(names_in(path_in(job, "hf")), "config.json model.safetensors tokenizer.json");
    config = json_load_file(path_in(job, "hf/config.json"), 0, NULL);
    EXPECT_TEXT(json_string_value(json_object_get(config, "torch_dtype")), "float32");
    json_decref(config);
    expect_same(dir, path_in(job, "hf"), 2, true);
    EXPECT_FAILS(rewrite(dir, path_in(job, "hf2"),
                         (tess_rewrite_options){.target = TESS_TO_HF, .bare_names = true, .assets = dir}, NULL),
                 TESS_E_NOT_FOUND, "no config.json");
    EXPECT_TEXT(names_in(path_in(job, "hf2")), "-");
}

static const test_case cases[] = {
    CASE(a_difference_is_measured),
    CASE(nan_zeros_and_dtypes_are_compared_by_value),
    CASE(names_that_only_one_has_are_reported),
    CASE(any_cut_holds_the_same_values),
    CASE(every_format_brings_everything_back),
    CASE(a_description_that_is_none_is_refused),
    CASE(a_model_alone_says_nothing_of_its_run),
    CASE(weights_change_their_dtype_and_the_optimizer_does_not),
    CASE(tensors_that_are_no_weights_are_stored_as_they_are),
    CASE(values_that_no_training_should_have_are_counted),
    CASE(packed_pieces_are_unpacked),
    CASE(a_hosts_part_is_not_taken_for_the_whole),
    CASE(what_is_there_is_not_replaced),
    CASE(a_damaged_source_leaves_nothing),
    CASE(a_model_folder_gets_the_configuration_of_the_job),
};
TEST_MAIN(cases)
