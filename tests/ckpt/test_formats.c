/* Reading checkpoints of other programs. PyTorch wrote the fixtures (tools/make_checkpoint_fixtures.py). */
#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/checkpoint_values.h"
#include "ckpt/files.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/formats/formats.h"
#include "support/test.h"

static const char *fixture(const char *name)
{
    static char path[4096];
    char relative[256];
    snprintf(relative, sizeof(relative), "ckpt/fixtures/%s", name);
    snprintf(path, sizeof(path), "%s", test_path(relative));
    return path;
}

static tess_catalog *open_fixture(const char *name, const char *format, int n_tensors)
{
    tess_catalog *catalog;
    EXPECT_OK(tess_catalog_open(test_mem(), fixture(name), &catalog));
    EXPECT_TEXT(catalog->format, format);
    EXPECT_INT(catalog->n_tensors, n_tensors);
    EXPECT_OK(tess_catalog_verify(catalog, NULL));
    return catalog;
}

static void expect_shape(const tess_catalog *catalog, const char *name, const char *dtype, int n_dims,
                         const int64_t *dim)
{
    const tess_catalog_tensor *tensor = tess_catalog_find(catalog, name);
    EXPECT(tensor != NULL);
    EXPECT_TEXT(tensor->dtype, dtype);
    EXPECT_INT(tensor->n_dims, n_dims);
    for (int d = 0; d < n_dims; d++)
        EXPECT_INT(tensor->dim[d], dim[d]);
}

static const json_t *meta_at(const tess_catalog *catalog, const char *first, const char *second)
{
    const json_t *value = json_object_get(catalog->meta, first);
    return second == NULL ? value : json_object_get(value, second);
}

/* ---- torch.save ---- */
static void check_dtypes(const char *file)
{
    static const char *const names[][2] = {
        {"float32", "F32"}, {"float16", "F16"}, {"bfloat16", "BF16"}, {"float64", "F64"}, {"int64", "I64"},
        {"int32", "I32"},   {"int16", "I16"},   {"int8", "I8"},       {"uint8", "U8"},    {"bool", "BOOL"}};
    tess_catalog *catalog = open_fixture(file, "torch.save", 10);
    for (size_t i = 0; i < 10; i++) {
        expect_shape(catalog, names[i][0], names[i][1], 2, (int64_t[]){3, 5});
        expect_fixture(catalog, names[i][0], names[i][0]);
    }
    tess_catalog_destroy(&catalog);
}

static void every_dtype_of_torch_save(void)
{
    check_dtypes("torch/dtypes.pt");
}

static void an_archive_that_was_packed_again_reads_the_same(void)
{
    check_dtypes("torch/packed.pt");
}

static void nested_dicts_become_dotted_names(void)
{
    tess_catalog *catalog = open_fixture("torch/nested.pt", "torch.save", 5);
    expect_fixture(catalog, "model.layer.weight", "model.layer.weight");
    expect_fixture(catalog, "model.layer.bias", "model.layer.bias");
    expect_fixture(catalog, "optimizer.state.0.exp_avg", "optimizer.state.0.exp_avg");
    expect_fixture(catalog, "rng.0", "rng.0");
    expect_shape(catalog, "optimizer.state.0.step", "F32", 0, NULL);
    EXPECT_INT(json_integer_value(meta_at(catalog, "step", NULL)), 7);
    EXPECT_TEXT(json_string_value(meta_at(catalog, "loss", NULL)), "NaN");
    EXPECT_TEXT(json_string_value(meta_at(catalog, "dtype", NULL)), "torch.bfloat16");
    EXPECT_TEXT(json_string_value(meta_at(catalog, "model_prefix", NULL)), "model.");
    EXPECT_TEXT(json_string_value(meta_at(catalog, "rng", "1")), "second");
    const json_t *group = json_array_get(meta_at(catalog, "optimizer", "param_groups"), 0);
    EXPECT(json_real_value(json_object_get(group, "lr")) == 0.125);
    EXPECT_TEXT(json_string_value(json_object_get(meta_at(catalog, "args", "state"), "name")), "run");
    tess_catalog_destroy(&catalog);
}

static void views_of_one_storage_with_any_strides(void)
{
    tess_catalog *catalog = open_fixture("torch/strided.pt", "torch.save", 10);
    expect_fixture(catalog, "base", "base");
    expect_fixture(catalog, "fortran", "fortran");
    expect_fixture(catalog, "every", "every");
    expect_fixture(catalog, "scalar", "scalar");
    expect_fixture(catalog, "one", "one");
    expect_shape(catalog, "empty", "F32", 2, (int64_t[]){0, 4});
    float *rows = fixture_read(catalog, tess_catalog_find(catalog, "rows"), false);
    float *columns = fixture_read(catalog, tess_catalog_find(catalog, "columns"), false);
    float *transposed = fixture_read(catalog, tess_catalog_find(catalog, "transposed"), false);
    float *expanded = fixture_read(catalog, tess_catalog_find(catalog, "expanded"), false);
    for (int i = 0; i < 12; i++)
        EXPECT(rows[i] == (float)fixture_value("base", 6 + i, true));
    for (int i = 0; i < 12; i++)
        EXPECT(columns[i] == (float)fixture_value("base", i / 3 * 6 + 2 + i % 3, true));
    for (int i = 0; i < 24; i++)
        EXPECT(transposed[i] == (float)fixture_value("base", i % 4 * 6 + i / 4, true));
    for (int i = 0; i < 6; i++)
        EXPECT(expanded[i] == (float)fixture_value("base", 0, true));
    free(rows);
    free(columns);
    free(transposed);
    free(expanded);
    tess_catalog_destroy(&catalog);
}

static void dtypes_without_a_storage_class(void)
{
    tess_catalog *catalog = open_fixture("torch/small_dtypes.pt", "torch.save", 3);
    expect_fixture(catalog, "u16", "u16");
    expect_fixture(catalog, "u64", "u64");
    uint8_t *f8 = fixture_read(catalog, tess_catalog_find(catalog, "f8"), false);
    EXPECT_TEXT(tess_catalog_find(catalog, "f8")->dtype, "F8_E4M3");
    EXPECT_INT(f8[0], 0x30);
    EXPECT_INT(f8[1], 0xb8);
    free(f8);
    tess_catalog_destroy(&catalog);
}

static void a_pickle_that_would_run_a_command_is_data(void)
{
    tess_catalog *catalog = open_fixture("torch/inert.pt", "torch.save", 1);
    expect_fixture(catalog, "w", "w");
    EXPECT_TEXT(json_string_value(meta_at(catalog, "evil", "object")), "posix.system");
    EXPECT(!tess_os_is_file("pwned"));
    tess_catalog_destroy(&catalog);
}

static void files_without_checksums_are_read(void)
{
    tess_catalog *catalog = open_fixture("torch/no_crc.pt", "torch.save", 1);
    expect_fixture(catalog, "w", "w");
    EXPECT_INT(catalog->pieces[0].sum_kind, TESS_SUM_KIND_NONE);
    tess_catalog_destroy(&catalog);
}

static void what_torch_wrote_before_zip_is_named(void)
{
    tess_catalog *catalog;
    EXPECT_FAILS(tess_catalog_open(test_mem(), fixture("torch/legacy.pt"), &catalog), TESS_E_UNSUPPORTED,
                 "before version 1.6");
}

/* ---- Damage ---- */
/* A copy of a fixture with byte `at` changed, or cut to `size` bytes. */
static const char *damage(const char *name, size_t at, size_t size)
{
    static char path[4096];
    char *data;
    size_t n;
    EXPECT_OK(tess_os_read(test_mem(), fixture(name), 1 << 20, &data, &n));
    snprintf(path, sizeof(path), "%s/damaged.pt", test_folder());
    if (at < n)
        data[at] ^= 0x10;
    EXPECT_OK(tess_os_write_atomic(path, data, size < n ? size : n));
    tess_mem_free(test_mem(), data);
    return path;
}

static void a_flipped_byte_is_named(void)
{
    tess_catalog *catalog;
    float values[15];
    tess_catalog *whole = open_fixture("torch/dtypes.pt", "torch.save", 10);
    size_t at = whole->pieces[tess_catalog_find(whole, "float32")->first_piece].offset + 9;
    tess_catalog_destroy(&whole);
    EXPECT_OK(tess_torch_open(test_mem(), damage("torch/dtypes.pt", at, SIZE_MAX), &catalog));
    const tess_catalog_tensor *tensor = tess_catalog_find(catalog, "float32");
    tess_box box = tess_catalog_whole(tensor);
    EXPECT_FAILS(tess_catalog_read(catalog, tensor, &box, values), TESS_E_FORMAT, "float32");
    EXPECT_FAILS(tess_catalog_verify(catalog, NULL), TESS_E_FORMAT, "damaged.pt");
    expect_fixture(catalog, "int64", "int64");
    tess_catalog_destroy(&catalog);
}

/* Parts of a storage have no checksum of their own: verifying the checkpoint checks the storage's. */
static void a_flipped_byte_of_a_view_is_named(void)
{
    tess_catalog *catalog, *whole = open_fixture("torch/strided.pt", "torch.save", 10);
    size_t at = whole->pieces[tess_catalog_find(whole, "rows")->first_piece].offset + 5;
    EXPECT(whole->n_ranges >= 1 && whole->n_ranges <= 3); /* ranges of three storages */
    tess_catalog_destroy(&whole);
    EXPECT_OK(tess_torch_open(test_mem(), damage("torch/strided.pt", at, SIZE_MAX), &catalog));
    expect_fixture(catalog, "fortran", "fortran");
    EXPECT_FAILS(tess_catalog_verify(catalog, NULL), TESS_E_FORMAT, "damaged.pt: bytes [");
    tess_catalog_destroy(&catalog);
}

static void a_damaged_pickle_is_named(void)
{
    tess_catalog *catalog;
    EXPECT_FAILS(tess_torch_open(test_mem(), damage("torch/dtypes.pt", 100, SIZE_MAX), &catalog), TESS_E_FORMAT,
                 "data.pkl' is damaged: its CRC");
}

static void a_file_that_is_cut_off_is_refused_wherever_it_ends(void)
{
    tess_catalog *catalog;
    uint64_t size;
    EXPECT_OK(tess_os_file_size(fixture("torch/dtypes.pt"), &size));
    for (size_t n = 0; n < size; n += n < 64 || n + 128 > size ? 1 : 61)
        EXPECT_FAILS(tess_torch_open(test_mem(), damage("torch/dtypes.pt", SIZE_MAX, n), &catalog), TESS_E_FORMAT,
                     "damaged.pt");
}

/* ---- A file for each rank ---- */
static void parts_of_ranks_become_tensors(void)
{
    tess_catalog *catalog = open_fixture("ranks", "torch.save", 5);
    expect_fixture(catalog, "model.layers.0.weight", "model.layers.0.weight");
    expect_fixture(catalog, "model.layers.0.bias", "model.layers.0.bias");
    expect_fixture(catalog, "model.lm_head.weight", "model.lm_head.weight");
    expect_fixture(catalog, "optim.state.layers.0.weight.exp_avg", "optim.state.layers.0.weight.exp_avg");
    expect_shape(catalog, "model.layers.0.weight", "F32", 2, (int64_t[]){5, 3});
    EXPECT_TEXT(json_string_value(meta_at(catalog, "model_prefix", NULL)), "model.");
    const json_t *group = json_array_get(meta_at(catalog, "optim", "param_groups"), 0);
    EXPECT(json_real_value(json_object_get(group, "lr")) == 0.5);
    tess_catalog_destroy(&catalog);
}

static void meshes_of_two_dimensions(void)
{
    tess_catalog *catalog = open_fixture("grid", "torch.save", 4);
    expect_fixture(catalog, "strided", "strided");
    expect_fixture(catalog, "both", "both");
    expect_fixture(catalog, "twice", "twice");
    expect_fixture(catalog, "half", "half");
    tess_catalog_destroy(&catalog);
}

static void sharded_tensors_of_older_fsdp(void)
{
    tess_catalog *catalog = open_fixture("sharded_tensor", "torch.save", 1);
    expect_fixture(catalog, "w", "w");
    EXPECT_INT(catalog->n_pieces, 2);
    tess_catalog_destroy(&catalog);
}

static void copy_file(const char *from, const char *folder, const char *name)
{
    char path[4096], *data;
    size_t n;
    EXPECT_OK(tess_os_read(test_mem(), from, 1 << 20, &data, &n));
    EXPECT_OK(tess_os_join(path, sizeof(path), folder, name));
    EXPECT_OK(tess_os_write_atomic(path, data, n));
    tess_mem_free(test_mem(), data);
}

static void the_missing_file_of_a_rank_is_named(void)
{
    tess_catalog *catalog;
    copy_file(fixture("ranks/model_world_size_2_rank_0.pt"), test_folder(), "model_world_size_2_rank_0.pt");
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &catalog), TESS_E_NOT_FOUND,
                 "the file of rank 1 beside 'model_world_size_2_rank_0.pt' is missing");
}

/* Changes a checksum in the zip directory, as other values would. */
static void change_checksum(const char *path, const char *record)
{
    char *data;
    size_t n, length = strlen(record), at;
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &n));
    for (at = n - length; memcmp(data + at, record, length) != 0; at--)
        EXPECT(at > 46);
    data[at - 46 + 16] ^= 1;
    EXPECT_OK(tess_os_write_atomic(path, data, n));
    tess_mem_free(test_mem(), data);
}

/* Appends a number of n bytes, the lowest first. */
static void add_number(tess_buffer *to, int n, uint64_t value)
{
    for (int i = 0; i < n; i++)
        EXPECT_OK(tess_buffer_append(to, &(char){(char)(value >> (8 * i))}, 1));
}

/* Appends the fields that a local header and a directory record have in common: of an entry whose CRC is not known. */
static void add_header(tess_buffer *to, uint64_t signature, int n_versions, uint64_t size, size_t n_name)
{
    add_number(to, 4, signature);
    for (int i = 0; i < n_versions; i++)
        add_number(to, 2, 20);
    for (int i = 0; i < 6; i++) /* flags, method, time, date, CRC */
        add_number(to, 2, 0);
    add_number(to, 4, size);
    add_number(to, 4, size);
    add_number(to, 2, n_name);
    add_number(to, 2, 0);
}

/* Two entries with the same bytes; with thousands the work on them would be that on a file thousands of times as large.
 */
static void entries_that_share_bytes_are_refused(void)
{
    enum { BYTES = 1000 };
    static const char body[BYTES];
    tess_buffer zip = {.mem = test_mem()};
    tess_catalog *catalog;
    add_header(&zip, 0x04034b50, 1, BYTES, 1);
    EXPECT_OK(tess_buffer_append(&zip, "a", 1));
    EXPECT_OK(tess_buffer_append(&zip, body, BYTES));
    const size_t directory = zip.size;
    for (int i = 0; i < 2; i++) {
        add_header(&zip, 0x02014b50, 2, BYTES, 1);
        add_number(&zip, 2, 0); /* comment */
        for (int k = 0; k < 3; k++)
            add_number(&zip, 4, 0); /* disk, attributes, offset */
        EXPECT_OK(tess_buffer_append(&zip, &"ab"[i], 1));
    }
    const size_t n_directory = zip.size - directory;
    add_number(&zip, 4, 0x06054b50);
    add_number(&zip, 4, 0); /* disks */
    add_number(&zip, 2, 2);
    add_number(&zip, 2, 2);
    add_number(&zip, 4, n_directory);
    add_number(&zip, 4, directory);
    add_number(&zip, 2, 0); /* comment */
    put_file(path_in(test_folder(), "shared.pt"), zip.data, zip.size);
    EXPECT_FAILS(tess_catalog_open(test_mem(), path_in(test_folder(), "shared.pt"), &catalog), TESS_E_FORMAT,
                 "'b' shares bytes with other entries");
    tess_buffer_free(&zip);
}

static void whole_tensors_that_differ_between_ranks_are_refused(void)
{
    tess_catalog *catalog;
    char path[4096];
    copy_file(fixture("torch/dtypes.pt"), test_folder(), "model_rank_0.pt");
    copy_file(fixture("torch/dtypes.pt"), test_folder(), "model_rank_1.pt");
    EXPECT_OK(tess_catalog_open(test_mem(), test_folder(), &catalog));
    expect_fixture(catalog, "float32", "float32");
    tess_catalog_destroy(&catalog);
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "model_rank_1.pt"));
    change_checksum(path, "dtypes/data/0");
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &catalog), TESS_E_UNSUPPORTED,
                 "not the same on all ranks");
}

static void a_part_that_no_file_holds_is_named(void)
{
    tess_catalog *catalog;
    copy_file(fixture("sharded_tensor/shard_rank_0.pt"), test_folder(), "shard_rank_0.pt");
    EXPECT_OK(tess_catalog_open(test_mem(), test_folder(), &catalog));
    EXPECT_FAILS(tess_catalog_check(catalog), TESS_E_FORMAT, "w");
    tess_catalog_destroy(&catalog);
}

static void shards_of_a_model_from_before_safetensors(void)
{
    tess_catalog *catalog = open_fixture("model", "torch.save", 2);
    expect_fixture(catalog, "model.embed_tokens.weight", "model.embed_tokens.weight");
    expect_fixture(catalog, "lm_head.weight", "lm_head.weight");
    EXPECT_TEXT(json_string_value(meta_at(catalog, "model_prefix", NULL)), "");
    tess_catalog_destroy(&catalog);
    copy_file(fixture("model/pytorch_model-00001-of-00002.bin"), test_folder(), "pytorch_model-00001-of-00002.bin");
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &catalog), TESS_E_NOT_FOUND,
                 "pytorch_model-00002-of-00002.bin");
}

/* ---- Distributed checkpoints ---- */
static void a_distributed_checkpoint_of_four_ranks(void)
{
    static const char *const names[] = {"tok.weight",
                                        "norm.weight",
                                        "half",
                                        "double",
                                        "output.weight",
                                        "replicated",
                                        "ids",
                                        "optimizer.state.tok.weight.exp_avg",
                                        "optimizer.state.tok.weight.exp_avg_sq"};
    tess_catalog *catalog = open_fixture("dcp", "dcp", 11);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        expect_fixture(catalog, names[i], names[i]);
    expect_shape(catalog, "norm.weight", "BF16", 1, (int64_t[]){2});
    expect_shape(catalog, "half", "F16", 2, (int64_t[]){7, 2});
    expect_shape(catalog, "train_state.step", "I32", 0, NULL);
    int32_t *step = fixture_read(catalog, tess_catalog_find(catalog, "train_state.step"), false);
    EXPECT_INT(*step, 100);
    free(step);
    EXPECT_TEXT(json_string_value(meta_at(catalog, "model_prefix", NULL)), "");
    EXPECT_TEXT(json_string_value(meta_at(catalog, "train_state", "note")), "text");
    EXPECT_INT(json_array_size(meta_at(catalog, "train_state", "list")), 2);
    EXPECT(json_real_value(meta_at(catalog, "optimizer", "param_groups.tok.weight.lr")) == 0.25);
    tess_catalog_destroy(&catalog);
}

static void copy_dcp(int n_files)
{
    char name[64], from[64];
    copy_file(fixture("dcp/.metadata"), test_folder(), ".metadata");
    for (int i = 0; i < n_files; i++) {
        snprintf(name, sizeof(name), "__%d_0.distcp", i);
        snprintf(from, sizeof(from), "dcp/%s", name);
        copy_file(fixture(from), test_folder(), name);
    }
}

static void the_missing_file_of_a_distributed_checkpoint_is_named(void)
{
    tess_catalog *catalog;
    copy_dcp(3);
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &catalog), TESS_E_NOT_FOUND, "__3_0.distcp");
}

static void a_distributed_checkpoint_that_is_cut_off_is_named(void)
{
    tess_catalog *catalog;
    char path[4096], *data;
    size_t n;
    copy_dcp(4);
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "__2_0.distcp"));
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &n));
    EXPECT_OK(tess_os_write_atomic(path, data, n - 1));
    tess_mem_free(test_mem(), data);
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &catalog), TESS_E_FORMAT, "__2_0.distcp");
    EXPECT_CONTAINS(tess_error_message(), "cut off");
}

static void megatrons_folder(void)
{
    tess_catalog *catalog = open_fixture("megatron", "dcp", 1);
    expect_fixture(catalog, "model.embedding.weight", "model.embedding.weight");
    EXPECT_INT(json_integer_value(meta_at(catalog, "iteration", NULL)), 100);
    EXPECT_TEXT(json_string_value(meta_at(catalog, "note", NULL)), "x");
    EXPECT_TEXT(json_string_value(meta_at(catalog, "model_prefix", NULL)), "model.");
    EXPECT_INT(json_integer_value(json_object_get(meta_at(catalog, "args", "state"), "num_layers")), 2);
    tess_catalog_destroy(&catalog);
}

/* ---- DeepSpeed ---- */
static void check_deepspeed(const char *folder)
{
    static const char *const names[] = {"embed.weight", "norm.weight", "lm_head.weight"};
    char name[128];
    tess_catalog *catalog = open_fixture(folder, "deepspeed", 11);
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "model.%s", names[i]);
        expect_fixture(catalog, name, name);
        EXPECT_TEXT(tess_catalog_find(catalog, name)->dtype, "F32");
        snprintf(name, sizeof(name), "optimizer.%s.exp_avg", names[i]);
        expect_fixture(catalog, name, name);
        snprintf(name, sizeof(name), "optimizer.%s.exp_avg_sq", names[i]);
        expect_fixture(catalog, name, name);
    }
    expect_fixture(catalog, "model.rotary.inv_freq", "model.rotary.inv_freq");
    expect_fixture(catalog, "model.frozen.weight", "model.frozen.weight");
    EXPECT_INT(json_integer_value(meta_at(catalog, "global_steps", NULL)), 12);
    EXPECT_TEXT(json_string_value(meta_at(catalog, "shared_params", "tied.weight")), "embed.weight");
    tess_catalog_destroy(&catalog);
}

static void zero_1_and_2_hold_groups_one_after_the_other(void)
{
    check_deepspeed("zero1");
    check_deepspeed("zero2");
}

static void zero_3_holds_a_part_of_every_parameter(void)
{
    check_deepspeed("zero3");
}

/* DeepSpeed itself wrote these (tools/make_deepspeed_fixtures.py). Without ZeRO the optimizer numbers its parameters.
 */
static void what_deepspeed_writes_is_read_in_every_stage(void)
{
    static const char *const numbered[] = {"optimizer.0.weight", "optimizer.1.weight", "optimizer.1.bias",
                                           "optimizer.3.weight"};
    static const int n_tensors[] = {16, 12, 9, 10}; /* stage 0: the steps too; 2: no frozen parameter; 3: one */
    char name[128];
    for (int stage = 0; stage <= 3; stage++) {
        snprintf(name, sizeof(name), "deepspeed%d/expected.safetensors", stage);
        tess_catalog *expected = open_fixture(name, "safetensors", stage == 0 ? 12 : n_tensors[stage]);
        snprintf(name, sizeof(name), "deepspeed%d", stage);
        tess_catalog *catalog = open_fixture(name, "deepspeed", n_tensors[stage]);
        for (int i = 0; i < expected->n_tensors; i++) {
            const tess_catalog_tensor *want = &expected->tensors[i];
            snprintf(name, sizeof(name), "%s", want->name);
            for (int k = 0; k < 4 && stage == 0; k++)
                if (strncmp(want->name, numbered[k], strlen(numbered[k])) == 0)
                    snprintf(name, sizeof(name), "optimizer.state.%d%s", k, want->name + strlen(numbered[k]));
            expect_shape(catalog, name, "F32", want->n_dims, want->dim);
            float *a = fixture_read(expected, want, true);
            float *b = fixture_read(catalog, tess_catalog_find(catalog, name), true);
            EXPECT(memcmp(a, b, tess_catalog_tensor_bytes(want)) == 0);
            free(a);
            free(b);
        }
        EXPECT_INT(json_integer_value(meta_at(catalog, "global_steps", NULL)), 2);
        tess_catalog_destroy(&catalog);
        tess_catalog_destroy(&expected);
    }
}

static void the_optimizers_steps_are_the_step(void)
{
    static const char header[] = "{\"optimizer.state.v.step\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                                 "\"optimizer.state.w.step\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]}}";
    const uint64_t n = sizeof(header) - 1;
    const float steps[] = {5, 7};
    char path[4096];
    snprintf(path, sizeof(path), "%s/steps.safetensors", test_folder());
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(&n, sizeof(n), 1, file) == 1 && fwrite(header, n, 1, file) == 1);
    EXPECT(fwrite(steps, sizeof(steps), 1, file) == 1 && fclose(file) == 0);
    tess_catalog *catalog;
    EXPECT_OK(tess_catalog_open(test_mem(), path, &catalog));
    EXPECT_INT(tess_export_find_step(catalog), 7);
    tess_catalog_destroy(&catalog);
}

static void a_flipped_byte_of_a_flat_tensor_is_named(void)
{
    tess_catalog *catalog = open_fixture("zero2", "deepspeed", 11);
    const tess_catalog_piece *piece = &catalog->pieces[tess_catalog_find(catalog, "model.embed.weight")->first_piece];
    const char *path = catalog->files[piece->file].path;
    size_t at = piece->offset + 2, n;
    char *data;
    EXPECT_OK(tess_os_read(test_mem(), path, 1 << 20, &data, &n));
    data[at] ^= 1;
    copy_file(fixture("zero2/global_step12/mp_rank_00_model_states.pt"), test_folder(), "mp_rank_00_model_states.pt");
    for (int rank = 0; rank < 3; rank++) {
        char name[128], from[256];
        snprintf(name, sizeof(name), "bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt", rank);
        snprintf(from, sizeof(from), "zero2/global_step12/%s", name);
        copy_file(fixture(from), test_folder(), name);
    }
    char damaged[4096];
    EXPECT_OK(tess_os_join(damaged, sizeof(damaged), test_folder(), strrchr(path, '/') + 1));
    EXPECT_OK(tess_os_write_atomic(damaged, data, n));
    tess_mem_free(test_mem(), data);
    tess_catalog_destroy(&catalog);
    EXPECT_OK(tess_catalog_open(test_mem(), test_folder(), &catalog));
    EXPECT_FAILS(tess_catalog_verify(catalog, NULL), TESS_E_FORMAT, "optim_states.pt: bytes [");
    EXPECT_CONTAINS(tess_error_message(), "checksum");
    tess_catalog_destroy(&catalog);
}

static void the_missing_file_of_deepspeed_is_named(void)
{
    tess_catalog *catalog;
    copy_file(fixture("zero2/global_step12/mp_rank_00_model_states.pt"), test_folder(), "mp_rank_00_model_states.pt");
    copy_file(fixture("zero2/global_step12/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"), test_folder(),
              "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &catalog), TESS_E_NOT_FOUND,
                 "of 3 ranks, but there are files of 1");
    copy_file(fixture("zero2/global_step12/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"), test_folder(),
              "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt");
    EXPECT_FAILS(tess_catalog_open(test_mem(), test_folder(), &catalog), TESS_E_NOT_FOUND, "of rank 1");
}

static const test_case cases[] = {
    CASE(every_dtype_of_torch_save),
    CASE(an_archive_that_was_packed_again_reads_the_same),
    CASE(entries_that_share_bytes_are_refused),
    CASE(nested_dicts_become_dotted_names),
    CASE(views_of_one_storage_with_any_strides),
    CASE(dtypes_without_a_storage_class),
    CASE(a_pickle_that_would_run_a_command_is_data),
    CASE(files_without_checksums_are_read),
    CASE(what_torch_wrote_before_zip_is_named),
    CASE(a_flipped_byte_is_named),
    CASE(a_flipped_byte_of_a_view_is_named),
    CASE(a_damaged_pickle_is_named),
    CASE(a_file_that_is_cut_off_is_refused_wherever_it_ends),
    CASE(parts_of_ranks_become_tensors),
    CASE(meshes_of_two_dimensions),
    CASE(sharded_tensors_of_older_fsdp),
    CASE(the_missing_file_of_a_rank_is_named),
    CASE(whole_tensors_that_differ_between_ranks_are_refused),
    CASE(a_part_that_no_file_holds_is_named),
    CASE(shards_of_a_model_from_before_safetensors),
    CASE(a_distributed_checkpoint_of_four_ranks),
    CASE(the_missing_file_of_a_distributed_checkpoint_is_named),
    CASE(a_distributed_checkpoint_that_is_cut_off_is_named),
    CASE(megatrons_folder),
    CASE(zero_1_and_2_hold_groups_one_after_the_other),
    CASE(zero_3_holds_a_part_of_every_parameter),
    CASE(the_optimizers_steps_are_the_step),
    CASE(what_deepspeed_writes_is_read_in_every_stage),
    CASE(a_flipped_byte_of_a_flat_tensor_is_named),
    CASE(the_missing_file_of_deepspeed_is_named),
};

TEST_MAIN(cases)
