/* One model as PyTorch's recipes and wrappers save it: its own names come out, or a list of what does not fit. PyTorch
 * wrote the fixtures (tools/make_wrapped_fixtures.py). */
#include "ckpt/checkpoint_values.h"
#include "ckpt/formats/export_catalog.h"
#include "ckpt/tools/rewrite.h"
#include "files.h"
#include "nn/model.h"

enum { N_PARAMS = 21 };
static char lines[4096];

static const char *wrapped(const char *name)
{
    static char path[4][4096];
    static int next;
    char relative[256];
    char *at = path[next++ % 4];
    snprintf(relative, sizeof(relative), "ckpt/fixtures/wrapped/%s", name);
    snprintf(at, sizeof(path[0]), "%s", test_path(relative));
    return at;
}

static void note_line(void *self, const char *line)
{
    (void)self;
    snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", line);
}

static tess_status to_hf(const char *in, const char *out, const char *assets)
{
    tess_rewrite_result result;
    const tess_rewrite_options options = {.target = TESS_TO_HF, .step = -1, .assets = assets, .report = note_line};
    lines[0] = '\0';
    return tess_ckpt_rewrite(test_mem(), in, out, &options, &result);
}

static tess_model *model_of(const char *config_path)
{
    tess_model *model;
    tess_model_config config;
    EXPECT_OK(tess_model_config_load(config_path, &config));
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    return model;
}

/* The catalog holds the model's parameters under their own names, with their values, and nothing else. */
static void expect_model(const char *path)
{
    tess_catalog *catalog;
    tess_model *model = model_of(wrapped("hf/config.json"));
    EXPECT_OK(tess_catalog_open(test_mem(), path, &catalog));
    EXPECT_INT(tess_model_n_params(model), N_PARAMS);
    if (catalog->n_tensors != N_PARAMS)
        test_fail(__FILE__, __LINE__, "%s: %d tensors, the first is '%s'", path, catalog->n_tensors,
                  catalog->tensors[0].name);
    for (int i = 0; i < N_PARAMS; i++)
        expect_fixture(catalog, tess_model_param(model, i)->name, tess_model_param(model, i)->name);
    tess_catalog_destroy(&catalog);
    tess_model_destroy(&model);
}

static const char *const files[] = {"app",     "plain.pt", "module.pt",   "net.pt",   "student.pt",
                                    "base.pt", "ddp.pt",   "compiled.pt", "layers.pt"};
enum { N_FILES = sizeof(files) / sizeof(files[0]) };

static void a_model_folder_has_the_models_own_names(void)
{
    char name[64];
    for (int i = 0; i < N_FILES; i++) {
        snprintf(name, sizeof(name), "hf%d", i);
        const char *out = path_in(test_folder(), name);
        EXPECT_OK(to_hf(wrapped(files[i]), out, wrapped("hf")));
        EXPECT_TEXT(lines, "");
        EXPECT_TEXT(names_in(out), "config.json model.safetensors");
        expect_model(out);
    }
}

/* Words that wrappers leave, and the usual dicts, go even if there is no config.json. */
static void known_wrappers_go_without_a_configuration(void)
{
    for (int i = 0; i < N_FILES; i++) {
        char name[64];
        if (strcmp(files[i], "student.pt") == 0 || strcmp(files[i], "base.pt") == 0)
            continue;
        snprintf(name, sizeof(name), "%d", i);
        EXPECT_OK(tess_os_make_dir(path_in(test_folder(), name)));
        const char *in = path_in(path_in(test_folder(), name), files[i]), *out = path_in(in, "../hf");
        if (strcmp(files[i], "app") == 0) {
            EXPECT_OK(tess_os_make_dir(in));
            EXPECT_OK(tess_os_copy(wrapped("app/.metadata"), path_in(in, ".metadata")));
            EXPECT_OK(tess_os_copy(wrapped("app/__0_0.distcp"), path_in(in, "__0_0.distcp")));
        } else {
            EXPECT_OK(tess_os_copy(wrapped(files[i]), in));
            snprintf(name, sizeof(name), "%d/hf", i);
            out = path_in(test_folder(), name);
        }
        EXPECT_OK(to_hf(in, out, NULL));
        EXPECT_CONTAINS(lines, "the new folder holds weights alone");
        expect_model(out);
    }
}

/* The optimizer's names lose them, too. */
static void moments_belong_to_the_models_names(void)
{
    tess_catalog *catalog;
    tess_export *out;
    const tess_export_options options = {.names = TESS_NAMES_TESSERA};
    EXPECT_OK(tess_catalog_open(test_mem(), wrapped("app"), &catalog));
    EXPECT_OK(tess_export_create(catalog, &options, &out));
    EXPECT(tess_export_find(out, "model.model.layers.1.mlp.up_proj.weight") != NULL);
    EXPECT(tess_export_find(out, "optimizer.model.layers.1.mlp.up_proj.weight.exp_avg") != NULL);
    EXPECT(tess_export_find(out, "optimizer.lm_head.weight.exp_avg_sq") != NULL);
    EXPECT_INT(out->n_tensors, 3 * N_PARAMS);
    tess_export_destroy(&out);
    tess_catalog_destroy(&catalog);
}

/* Writes a config.json like the fixtures', with one member changed. */
static const char *other_config(const char *name, const char *key, json_t *value)
{
    const char *folder = path_in(test_folder(), name);
    json_t *config = json_load_file(wrapped("hf/config.json"), 0, NULL);
    EXPECT_OK(tess_os_make_dir(folder));
    json_object_set_new(config, key, value);
    char *text = json_dumps(config, 0);
    put_file(path_in(folder, "config.json"), text, strlen(text));
    free(text);
    json_decref(config);
    return folder;
}

static void what_does_not_fit_is_listed(void)
{
    const char *out = path_in(test_folder(), "out");
    EXPECT_FAILS(to_hf(wrapped("ddp.pt"), out, other_config("wide", "intermediate_size", json_integer(8))),
                 TESS_E_INVALID,
                 "config.json: 6 misfits: 'model.layers.0.mlp.gate_proj.weight' has shape [6, 4], not "
                 "[8, 4]");
    EXPECT_CONTAINS(tess_error_message(), "ddp.pt does not hold the model of ");
    EXPECT_FAILS(to_hf(wrapped("app"), out, other_config("deep", "num_hidden_layers", json_integer(3))), TESS_E_INVALID,
                 "9 misfits: 'model.layers.2.input_layernorm.weight' is missing, ");
    EXPECT_FAILS(to_hf(wrapped("net.pt"), out, other_config("flat", "num_hidden_layers", json_integer(1))),
                 TESS_E_INVALID, "9 misfits: 'model.layers.1.input_layernorm.weight' is none of its tensors, ");
    EXPECT_FAILS(to_hf(wrapped("module.pt"), out, other_config("more", "vocab_size", json_integer(9))), TESS_E_INVALID,
                 "2 misfits: 'model.embed_tokens.weight' has shape [8, 4], not [9, 4], 'lm_head.weight' has shape");
    EXPECT_FAILS(to_hf(wrapped("plain.pt"), out, other_config("many", "num_hidden_layers", json_integer(5))),
                 TESS_E_INVALID, "27 misfits");
    EXPECT_CONTAINS(tess_error_message(), "'model.layers.3.input_layernorm.weight' is missing, ...; name");
    EXPECT_TEXT(names_in(out), "-");
}

static void a_model_that_we_do_not_know_is_not_checked(void)
{
    const char *out = path_in(test_folder(), "out");
    json_t *other = json_pack("[s]", "LlamaForQuestionAnswering");
    EXPECT_OK(to_hf(wrapped("app"), out, other_config("odd", "model_type", json_string("bert"))));
    EXPECT_CONTAINS(lines, "names and shapes of tensors are not checked: ");
    EXPECT_CONTAINS(lines, "model_type is 'bert'");
    expect_model(out);
    EXPECT_OK(to_hf(wrapped("ddp.pt"), path_in(test_folder(), "out2"), other_config("task", "architectures", other)));
    EXPECT_CONTAINS(lines, "architectures is 'LlamaForQuestionAnswering'; supported for llama: LlamaForCausalLM, ");
}

/* Two whole models under names that say nothing: neither is chosen. */
/* Writes a file with each tensor of the model at every place, all zero; `cut` bytes are removed from its names. */
static void put_places(const char *in, const char *const *places, int n_places, size_t cut)
{
    tess_model *model = model_of(wrapped("hf/config.json"));
    char header[16384];
    size_t n = (size_t)snprintf(header, sizeof(header), "{"), at = 0;
    for (int i = 0; i < n_places * N_PARAMS; i++) {
        const tess_param *param = tess_model_param(model, i / n_places);
        const bool inside = strncmp(param->name, "model.", 6) == 0;
        char shape[64];
        size_t bytes = 4 * (size_t)tess_shape_count(&param->shape);
        n += (size_t)snprintf(
            header + n, sizeof(header) - n, "%s\"%s%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
            i > 0 ? "," : "", inside || cut == 0 ? places[i % n_places] : "", param->name + (inside ? cut : 0),
            tess_shape_format(&param->shape, shape, sizeof(shape)), at, at + bytes);
        at += bytes;
    }
    n += (size_t)snprintf(header + n, sizeof(header) - n, "}");
    uint8_t *file = calloc(1, 8 + n + at);
    EXPECT(file != NULL);
    memcpy(file, &(uint64_t){n}, 8);
    memcpy(file + 8, header, n);
    put_file(in, file, 8 + n + at);
    free(file);
    tess_model_destroy(&model);
}

static void two_models_are_told_apart_by_the_user(void)
{
    static const char *const places[] = {"ema.", "raw."};
    const char *in = path_in(test_folder(), "two.safetensors");
    put_places(in, places, 2, 0);
    EXPECT_FAILS(to_hf(in, path_in(test_folder(), "out"), wrapped("hf")), TESS_E_INVALID,
                 "both 'ema.' and 'raw.' hold the whole model: save the one that is meant by itself");
}

/* transformers has had two sets of names for the text model of a model of images. */
static void the_text_model_of_a_model_of_images_has_its_own_names(void)
{
    static const char *const places[] = {"language_model.", "model.language_model."};
    for (int i = 0; i < 2; i++) {
        const char *in = path_in(test_folder(), i == 0 ? "old.safetensors" : "new.safetensors");
        put_places(in, &places[i], 1, i == 0 ? 0 : strlen("model."));
        tess_catalog *catalog;
        tess_export *out;
        tess_model *model = model_of(wrapped("hf/config.json"));
        EXPECT_OK(tess_catalog_open(test_mem(), in, &catalog));
        EXPECT_OK(
            tess_export_create(catalog, &(tess_export_options){.names = TESS_NAMES_TESSERA, .model = model}, &out));
        for (int k = 0; k < N_PARAMS; k++) {
            char name[256];
            snprintf(name, sizeof(name), "model.%s", tess_model_param(model, k)->name);
            EXPECT(tess_export_find(out, name) != NULL);
        }
        EXPECT_INT(out->n_tensors, N_PARAMS);
        tess_export_destroy(&out);
        tess_catalog_destroy(&catalog);
        tess_model_destroy(&model);
    }
}

/* A model of images and text is written as it is, under its own names. A text model alone is not one. */
static void a_text_model_is_no_model_of_images(void)
{
    json_t *text = json_load_file(wrapped("hf/config.json"), 0, NULL);
    const char *assets = other_config("pictured", "model_type", json_string("llava")),
               *path = path_in(assets, "config.json");
    json_t *config = json_load_file(path, 0, NULL);
    json_object_set_new(config, "text_config", text);
    json_object_set_new(config, "architectures", json_pack("[s]", "LlavaForConditionalGeneration"));
    EXPECT_INT(json_dump_file(config, path, 0), 0);
    json_decref(config);
    EXPECT_FAILS(to_hf(wrapped("plain.pt"), path_in(test_folder(), "out"), assets), TESS_E_INVALID,
                 "holds a text model alone, but ");
    const char *const towers[] = {"language_model.", "vision_tower."};
    put_places(path_in(test_folder(), "both.safetensors"), towers, 2, 0);
    EXPECT_OK(to_hf(path_in(test_folder(), "both.safetensors"), path_in(test_folder(), "out2"), assets));
    EXPECT_CONTAINS(lines, "it describes a model of images and text");
}

static const test_case cases[] = {
    CASE(the_text_model_of_a_model_of_images_has_its_own_names),
    CASE(a_model_folder_has_the_models_own_names),
    CASE(known_wrappers_go_without_a_configuration),
    CASE(moments_belong_to_the_models_names),
    CASE(what_does_not_fit_is_listed),
    CASE(a_model_that_we_do_not_know_is_not_checked),
    CASE(a_text_model_is_no_model_of_images),
    CASE(two_models_are_told_apart_by_the_user),
};
TEST_MAIN(cases)
