/* A model folder converted to another: bits stay, dtypes change where asked for, and a folder appears whole or not at
 * all. */
#include "ckpt/tools/rewrite.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/text/json.h"
#include "ckpt/formats/formats.h"
#include "ckpt/safetensors/safetensors.h"
#include "files.h"
#include "rows.h"

enum { N_BIG = 1200003 }; /* more than one block, and odd */

static float big[N_BIG];
static char lines[4096];
static uint64_t progress_done, progress_total;

static void note_line(void *context, const char *line)
{
    (void)context;
    snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", line);
}

static void note_progress(void *context, const char *doing, uint64_t done, uint64_t total)
{
    (void)context;
    if (strcmp(doing, "write") != 0)
        return;
    EXPECT(done > progress_done || progress_done == progress_total); /* a new run */
    progress_done = done;
    progress_total = total;
}

static tess_status convert(const char *in, const char *out, const char *dtype, size_t shard_bytes,
                           tess_rewrite_result *result)
{
    tess_rewrite_result unseen;
    const tess_rewrite_options options = {.target = TESS_TO_HF,
                                          .weights_dtype = dtype,
                                          .shard_bytes = shard_bytes,
                                          .step = -1,
                                          .report = note_line,
                                          .progress = note_progress};
    return tess_ckpt_rewrite(test_mem(), in, out, &options, result != NULL ? result : &unseen);
}

static void write_all(tess_st_writer *writer, const void *const *data)
{
    for (int i = 0; i < tess_st_writer_plan(writer)->n_entries; i++)
        EXPECT_OK(tess_st_write_bytes(writer, i, 0, tess_st_writer_plan(writer)->places[i].bytes, data[i]));
    EXPECT_OK(tess_st_write_finish(&writer, TESS_OK));
}

#define CONFIG                                                                                                        \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"rms_norm_eps\": 1e-06, \"rope_theta\": 10000.0, \"torch_dtype\": " \
    "\"float32\", \"eos\": [1, 2], \"rope_scaling\": null, \"tie\": false, \"vocab_size\": 512, \"e\": {}, "          \
    "\"text_config\": {\"dtype\": \"float32\", \"x\": 0.1}}"

/* A source with tensors of many dtypes in one file, and the other files of a model folder. */
static const char *make_source(void)
{
    static const float floats[6] = {1.0f, -2.5f, NAN, INFINITY, 1e6f, 0.1f};
    static const double doubles[3] = {0.1, 1e300, -3};
    static const int64_t integers[2] = {1ll << 40, -1};
    static const uint16_t halves[3] = {0x3c00, 0x7e01, 0x0001};
    static const uint8_t eights[5] = {1, 2, 3, 0x7f, 0xff};
    const tess_st_tensor tensors[] = {
        {.name = "a.f32", .dtype_text = "F32", .n_dims = 2, .dim = {2, 3}},
        {.name = "big", .dtype_text = "F32", .n_dims = 1, .dim = {N_BIG}},
        {.name = "b.f64", .dtype_text = "F64", .n_dims = 1, .dim = {3}},
        {.name = "c.ids", .dtype_text = "I64", .n_dims = 5, .dim = {1, 1, 1, 1, 2}},
        {.name = "d.f16", .dtype_text = "F16", .n_dims = 1, .dim = {3}},
        {.name = "e.f8", .dtype_text = "F8_E4M3", .n_dims = 1, .dim = {5}},
        {.name = "f.none", .dtype_text = "BF16", .n_dims = 2, .dim = {3, 0}},
    };
    const void *const data[] = {floats, big, doubles, integers, halves, eights, NULL};
    const char *in = path_in(test_folder(), "in");
    tess_st_writer *writer;
    for (int i = 0; i < N_BIG; i++)
        big[i] = (float)(i % 997) * 0.01f - 3;
    EXPECT_OK(tess_st_write_begin(test_mem(), NULL, in, "model", tensors, 7, 1000, NULL, &writer));
    write_all(writer, data);
    put_file(path_in(in, "config.json"), CONFIG, strlen(CONFIG));
    put_file(path_in(in, "tokenizer.json"), "{}", 2);
    put_file(path_in(in, "generation_config.json"), "{\"a\":1}", 7);
    put_file(path_in(in, "merges.txt"), "", 0);
    put_file(path_in(in, "pytorch_model.bin"), "pickle", 6);
    lines[0] = '\0';
    progress_done = progress_total = 0;
    return in;
}

static const char companions[] = "config.json generation_config.json merges.txt ";

static void without_a_dtype_every_bit_stays(void)
{
    const char *in = make_source(), *out = path_in(test_folder(), "out");
    tess_rewrite_result result;
    tess_catalog *a, *b;
    EXPECT_OK(convert(in, out, NULL, 0, &result));
    EXPECT_CONTAINS(names_in(out), companions);
    EXPECT_CONTAINS(names_in(out), " model.safetensors tokenizer.json");
    EXPECT_TEXT(names_in(test_folder()), "in out");
    expect_same_file(path_in(in, "config.json"), path_in(out, "config.json"));
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), in, &a));
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), out, &b));
    EXPECT_INT(b->n_tensors, 7);
    for (int i = 0; i < 7; i++) {
        static uint8_t of_a[4 * N_BIG], of_b[4 * N_BIG];
        const tess_catalog_tensor *x = &a->tensors[i], *y = tess_catalog_find(b, x->name);
        tess_box whole = tess_catalog_whole(x);
        EXPECT_TEXT(y->dtype, x->dtype);
        EXPECT_INT(y->n_dims, x->n_dims);
        EXPECT_INT(tess_catalog_tensor_bytes(y), tess_catalog_tensor_bytes(x));
        EXPECT_OK(tess_catalog_read(a, x, &whole, of_a));
        EXPECT_OK(tess_catalog_read(b, y, &whole, of_b));
        EXPECT_SAME(of_b, of_a, tess_catalog_tensor_bytes(x));
    }
    tess_catalog_destroy(&a);
    tess_catalog_destroy(&b);
    EXPECT_INT(result.n_tensors, 7);
    EXPECT_INT(result.n_files, 1);
    EXPECT_INT(result.n_nan, 2);
    EXPECT_INT(result.n_inf, 1);
    EXPECT_INT(result.n_overflowed, 0);
    EXPECT_CONTAINS(lines, "'a.f32' has 1 NaN and 1 infinite values");
    EXPECT_CONTAINS(lines, "'d.f16' has 1 NaN and 0 infinite values");
    EXPECT_CONTAINS(lines, "pytorch_model.bin is left out");
    EXPECT_INT(progress_done, progress_total);
    EXPECT_INT(progress_total, 24 + 4ll * N_BIG + 24 + 16 + 6 + 5);
    /* there and back through other shards: the same file */
    const char *third = path_in(test_folder(), "third"), *fourth = path_in(test_folder(), "fourth");
    EXPECT_OK(convert(out, third, NULL, 10, &result));
    EXPECT_INT(result.n_files, 6);
    EXPECT_OK(convert(third, fourth, NULL, 0, NULL));
    expect_same_file(path_in(out, "model.safetensors"), path_in(fourth, "model.safetensors"));
}

static tess_status read_rows(const tess_catalog *c, const char *name, int64_t n, float *out)
{
    const tess_catalog_tensor *t = tess_catalog_find(c, name);
    tess_box rows = tensor_rows(t, 0, n);
    return tess_catalog_read_floats(c, t, &rows, out);
}

static void floats_change_their_dtype_and_integers_do_not(void)
{
    const char *in = make_source(), *out = path_in(test_folder(), "out/");
    static const char *const names[] = {"a.f32", "big", "b.f64", "c.ids", "d.f16", "e.f8", "f.none"};
    static const char *const bf16[] = {"BF16", "BF16", "BF16", "I64", "BF16", "F8_E4M3", "BF16"};
    tess_rewrite_result result;
    tess_catalog *c;
    static float got[N_BIG], want[N_BIG];
    static uint16_t coded[N_BIG];
    EXPECT_OK(convert(in, out, "BF16", 0, &result));
    EXPECT_OK(tess_catalog_open_safetensors(test_mem(), out, &c));
    for (int i = 0; i < 7; i++)
        EXPECT_TEXT(tess_catalog_find(c, names[i])->dtype, bf16[i]);
    EXPECT_OK(read_rows(c, "big", N_BIG, got));
    EXPECT_OK(tess_st_encode(big, N_BIG, TESS_BF16, coded));
    for (int i = 0; i < N_BIG; i++) {
        uint32_t u = (uint32_t)coded[i] << 16;
        memcpy(&want[i], &u, 4);
    }
    EXPECT_SAME(got, want, N_BIG);
    EXPECT_OK(read_rows(c, "b.f64", 3, got));
    EXPECT(got[0] == 0.10009765625f && isinf(got[1]) && got[2] == -3);
    EXPECT_OK(read_rows(c, "a.f32", 2, got));
    EXPECT(isnan(got[2]) && isinf(got[3]) && got[1] == -2.5f);
    tess_catalog_destroy(&c);
    EXPECT_INT(result.n_overflowed, 1);
    EXPECT_CONTAINS(lines, "'b.f64': 1 values are too large for bfloat16");
    EXPECT_CONTAINS(lines, "'e.f8' stays F8_E4M3");
    EXPECT_INT(progress_done, progress_total);
    EXPECT_OK(convert(in, path_in(test_folder(), "half"), "F16", 0, &result)); /* 1e6 does not fit */
    EXPECT_INT(result.n_overflowed, 2);
    EXPECT_INT(result.n_inf, 1);
    EXPECT_FAILS(convert(in, path_in(test_folder(), "int"), "I32", 0, &result), TESS_E_INVALID, "F32");
}

static void config_says_the_new_dtype_and_keeps_the_rest(void)
{
    static const char want[] =
        "{\n  \"architectures\": [\n    \"LlamaForCausalLM\"\n  ],\n  \"rms_norm_eps\": 1e-06,\n"
        "  \"rope_theta\": 10000.0,\n  \"torch_dtype\": \"bfloat16\",\n  \"eos\": [\n    1,\n    2\n  ],\n"
        "  \"rope_scaling\": null,\n  \"tie\": false,\n  \"vocab_size\": 512,\n  \"e\": {},\n"
        "  \"text_config\": {\n    \"dtype\": \"bfloat16\",\n    \"x\": 0.1\n  }\n}\n";
    const char *in = make_source();
    char *text;
    size_t size;
    EXPECT_OK(convert(in, path_in(test_folder(), "out"), "BF16", 0, NULL));
    EXPECT_OK(tess_os_read(test_mem(), path_in(test_folder(), "out/config.json"), 4096, &text, &size));
    json_t *a, *b; /* rope_theta may be written 1e+04: compare the values, and the layout without it */
    EXPECT_OK(tess_json_parse(text, size, "got", true, &a));
    EXPECT_OK(tess_json_parse(want, strlen(want), "want", true, &b));
    EXPECT(json_equal(a, b));
    EXPECT_CONTAINS(text, "\n  ],\n  \"rms_norm_eps\": 1e-06,\n  \"rope_theta\": ");
    EXPECT(json_is_real(json_object_get(a, "rope_theta")));
    json_decref(a);
    json_decref(b);
    tess_mem_free(test_mem(), text);
    put_file(path_in(in, "config.json"), "{}", 2);
    EXPECT_OK(convert(in, path_in(test_folder(), "out2"), "BF16", 0, NULL));
    EXPECT_OK(tess_os_read(test_mem(), path_in(test_folder(), "out2/config.json"), 4096, &text, &size));
    EXPECT_TEXT(text, "{\n  \"torch_dtype\": \"bfloat16\"\n}\n");
    tess_mem_free(test_mem(), text);
}

static void bad_folders_are_refused_and_nothing_is_written(void)
{
    const char *in = make_source(), *other = path_in(test_folder(), "other"), *link = path_in(test_folder(), "link");
    EXPECT_FAILS(convert(in, in, NULL, 0, NULL), TESS_E_INVALID, "same folder");
    EXPECT(symlink(in, link) == 0);
    EXPECT_FAILS(convert(in, link, NULL, 0, NULL), TESS_E_INVALID, "same folder");
    EXPECT(unlink(link) == 0);
    EXPECT_FAILS(convert(other, in, NULL, 0, NULL), TESS_E_NOT_FOUND, "no such file or folder");
    EXPECT_FAILS(convert(in, path_in(in, "config.json"), NULL, 0, NULL), TESS_E_INVALID, "name a folder that is new");
    EXPECT_FAILS(convert(in, "", NULL, 0, NULL), TESS_E_INVALID, "name what is to be written");
    EXPECT_OK(tess_os_make_dirs(path_in(other, "x")));
    EXPECT_FAILS(convert(in, other, NULL, 0, NULL), TESS_E_INVALID, "already holds 'x'");
    EXPECT_OK(tess_os_remove_tree(path_in(other, "x")));
    EXPECT_FAILS(convert(other, path_in(test_folder(), "new"), NULL, 0, NULL), TESS_E_UNSUPPORTED, "model.safetensors");
    put_file(path_in(in, "config.json"), "{", 1);
    EXPECT_FAILS(convert(in, path_in(test_folder(), "new"), "F32", 0, NULL), TESS_E_FORMAT, "config.json");
    EXPECT_TEXT(names_in(test_folder()), "in other");
    EXPECT_OK(tess_os_remove_tree(path_in(in, "config.json")));
    EXPECT_OK(convert(in, other, "F32", 0, NULL)); /* an empty folder is accepted */
    EXPECT_CONTAINS(lines, "config.json is missing");
}

static void a_full_disk_leaves_no_folder(void)
{
    const char *in = make_source();
    struct rlimit limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    EXPECT_FAILS(convert(in, path_in(test_folder(), "out"), NULL, 0, NULL), TESS_E_NO_SPACE, "out");
    EXPECT_TEXT(names_in(test_folder()), "in");
}

static const test_case cases[] = {
    CASE(without_a_dtype_every_bit_stays),
    CASE(floats_change_their_dtype_and_integers_do_not),
    CASE(config_says_the_new_dtype_and_keeps_the_rest),
    CASE(bad_folders_are_refused_and_nothing_is_written),
    CASE(a_full_disk_leaves_no_folder),
};
TEST_MAIN(cases)
