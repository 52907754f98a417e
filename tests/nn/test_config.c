/* Reading and writing config.json, and what is refused. */
#include "fixture.h"
#include "nn/models/family.h"

static tess_status parse(const char *text, tess_model_config *config)
{
    json_t *json = NULL;
    EXPECT_OK(tess_json_parse(text, strlen(text), "config.json", true, &json));
    tess_status status = tess_model_config_parse(json, "config.json", config);
    json_decref(json);
    return status;
}

static int64_t count(const tess_model_config *config)
{
    tess_model *model;
    EXPECT_OK(tess_model_create(test_mem(), config, &model));
    int64_t n = tess_model_count(model);
    tess_model_destroy(&model);
    return n;
}

static const char llama2[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_act\":\"silu\","
    "\"hidden_size\":4096,\"initializer_range\":0.02,\"intermediate_size\":11008,\"max_position_embeddings\":4096,"
    "\"model_type\":\"llama\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":32,"
    "\"pretraining_tp\":1,\"rms_norm_eps\":1e-05,\"rope_scaling\":null,\"tie_word_embeddings\":false,"
    "\"torch_dtype\":\"float16\",\"vocab_size\":32000}";

static const char llama31[] =
    "{\"attention_bias\":false,\"bos_token_id\":128000,\"eos_token_id\":[128001,128008,128009],\"hidden_act\":\"silu\","
    "\"hidden_size\":4096,\"intermediate_size\":14336,\"max_position_embeddings\":131072,\"mlp_bias\":false,"
    "\"model_type\":\"llama\",\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"
    "\"rms_norm_eps\":1e-05,\"rope_scaling\":{\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
    "\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"},\"rope_theta\":500000.0,"
    "\"tie_word_embeddings\":false,\"vocab_size\":128256}";

static const char mistral[] =
    "{\"model_type\":\"mistral\",\"bos_token_id\":1,\"eos_token_id\":2,\"hidden_act\":\"silu\",\"hidden_size\":4096,"
    "\"intermediate_size\":14336,\"max_position_embeddings\":32768,\"num_attention_heads\":32,\"num_hidden_layers\":32,"
    "\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"sliding_window\":4096,\"vocab_size\":"
    "32000}";

static const char qwen25[] =
    "{\"model_type\":\"qwen2\",\"bos_token_id\":151643,\"eos_token_id\":151645,\"hidden_act\":\"silu\","
    "\"hidden_size\":3584,\"intermediate_size\":18944,\"max_position_embeddings\":32768,\"max_window_layers\":28,"
    "\"num_attention_heads\":28,\"num_hidden_layers\":28,\"num_key_value_heads\":4,\"rms_norm_eps\":1e-06,"
    "\"rope_theta\":1000000.0,\"sliding_window\":131072,\"tie_word_embeddings\":false,\"use_sliding_window\":false,"
    "\"vocab_size\":152064}";

static const char qwen3[] =
    "{\"model_type\":\"qwen3\",\"attention_bias\":false,\"bos_token_id\":151643,\"eos_token_id\":151645,\"head_dim\":"
    "128,"
    "\"hidden_act\":\"silu\",\"hidden_size\":4096,\"intermediate_size\":12288,\"max_position_embeddings\":40960,"
    "\"max_window_layers\":36,\"num_attention_heads\":32,\"num_hidden_layers\":36,\"num_key_value_heads\":8,"
    "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":1000000,\"sliding_window\":null,"
    "\"tie_word_embeddings\":false,\"use_sliding_window\":false,\"vocab_size\":151936}";

static const char gpt2[] =
    "{\"activation_function\":\"gelu_new\",\"architectures\":[\"GPT2LMHeadModel\"],"
    "\"attn_pdrop\":0.1,\"bos_token_id\":50256,\"embd_pdrop\":0.1,\"eos_token_id\":50256,"
    "\"initializer_range\":0.02,\"layer_norm_epsilon\":1e-05,\"model_type\":\"gpt2\",\"n_ctx\":1024,"
    "\"n_embd\":768,\"n_head\":12,\"n_layer\":12,\"n_positions\":1024,\"resid_pdrop\":0.1,"
    "\"vocab_size\":50257}";

static void published_configs_have_their_parameters(void)
{
    tess_model_config c;
    EXPECT_OK(parse(llama2, &c));
    EXPECT_INT(count(&c), 6738415616);
    EXPECT(c.head_size == 128 && c.norm_eps == 1e-5 && c.rope.kind == TESS_ROPE_DEFAULT && c.rope.theta == 10000);
    EXPECT_OK(parse(llama31, &c));
    EXPECT_INT(count(&c), 8030261248);
    EXPECT(c.rope.kind == TESS_ROPE_LLAMA3 && c.rope.theta == 500000 && c.rope.factor == 8);
    EXPECT_INT(c.rope.original_max_position, 8192);
    EXPECT_INT(c.n_eos, 3);
    EXPECT_INT(c.eos_token_id[2], 128009);
    EXPECT_OK(parse(mistral, &c));
    EXPECT_INT(count(&c), 7241732096);
    EXPECT_INT(c.sliding_window, 4096);
    EXPECT_OK(parse(qwen25, &c));
    EXPECT_INT(count(&c), 7615616512);
    EXPECT(c.sliding_window == 0 && c.parts.qkv_bias && !c.parts.o_bias);
    EXPECT_OK(parse(qwen3, &c));
    EXPECT_INT(count(&c), 8190735360);
    EXPECT(c.parts.qk_norm && !c.parts.qkv_bias && c.head_size == 128);
    EXPECT_OK(parse(gpt2, &c));
    EXPECT_INT(count(&c), 124439808);
    EXPECT(c.tied && c.intermediate_size == 3072);
}

#define SMALL \
    "\"vocab_size\":97,\"hidden_size\":24,\"intermediate_size\":40,\"num_hidden_layers\":3,\"num_attention_heads\":4"

static void the_text_model_of_a_model_of_images_is_read(void)
{
    static const struct {
        const char *text, *family;
        int64_t kv_heads, bos;
        double theta, eps;
        bool tied;
    } rows[] = {
        {"{\"model_type\":\"llava\",\"text_config\":{" SMALL ",\"rms_norm_eps\":1e-4},\"bos_token_id\":7}", "llama", 4,
         7, 1e4, 1e-4, false},
        {"{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"mistral\",\"tie_word_embeddings\":true," SMALL
         ",\"num_key_value_heads\":2,\"bos_token_id\":3},\"bos_token_id\":7}",
         "mistral", 2, 3, 1e4, 1e-6, true},
        {"{\"model_type\":\"mistral3\",\"text_config\":{" SMALL ",\"num_key_value_heads\":2}}", "mistral", 2, 1, 1e4,
         1e-6, true},
        {"{\"model_type\":\"gemma3\",\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"text_config\":{" SMALL
         "}}",
         "gemma3_text", 4, 2, 1e6, 1e-6, true},
        {"{\"model_type\":\"qwen2_vl\"," SMALL
         ",\"num_key_value_heads\":2,\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[1,1,1]}}",
         "qwen2", 2, 151643, 1e6, 1e-5, false},
        {"{\"model_type\":\"qwen2_5_vl\",\"text_config\":{\"model_type\":\"qwen2_5_vl_text\"," SMALL
         ",\"num_key_value_heads\":1,\"rope_theta\":500}}",
         "qwen2", 1, 151643, 500, 1e-5, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tess_model_config c;
        EXPECT_OK(parse(rows[i].text, &c));
        EXPECT_TEXT(tess_family_name(c.family), rows[i].family);
        EXPECT_INT(c.text_part, true);
        EXPECT_INT(c.n_kv_heads, rows[i].kv_heads);
        EXPECT_INT(c.bos_token_id, rows[i].bos);
        EXPECT_INT(c.tied, rows[i].tied);
        EXPECT_INT(c.rope.kind, TESS_ROPE_DEFAULT);
        if (c.rope.theta != rows[i].theta || c.norm_eps != rows[i].eps)
            test_fail(__FILE__, __LINE__, "row %zu: theta %g, eps %g", i, c.rope.theta, c.norm_eps);
    }
}

static void absent_keys_mean_what_transformers_assumes(void)
{
    tess_model_config c;
    EXPECT_OK(parse("{\"model_type\":\"llama\"," SMALL "}", &c));
    EXPECT(c.n_kv_heads == 4 && c.head_size == 6 && c.max_position == 2048 && !c.tied && c.norm_eps == 1e-6);
    EXPECT(c.bos_token_id == 1 && c.n_eos == 1 && c.eos_token_id[0] == 2 && c.pad_token_id == -1);
    EXPECT_OK(parse("{\"model_type\":\"llama\"," SMALL ",\"eos_token_id\":null,\"bos_token_id\":null}", &c));
    EXPECT(c.bos_token_id == -1 && c.n_eos == 0);
    EXPECT_OK(parse("{\"model_type\":\"mistral\"," SMALL ",\"num_key_value_heads\":2}", &c));
    EXPECT(c.sliding_window == 4096 && c.max_position == 131072);
    EXPECT_OK(parse("{\"model_type\":\"mistral\"," SMALL ",\"num_key_value_heads\":2,\"sliding_window\":null}", &c));
    EXPECT_INT(c.sliding_window, 0);
    EXPECT_OK(parse("{\"model_type\":\"qwen3\"," SMALL ",\"num_key_value_heads\":null}", &c));
    EXPECT(c.head_size == 128 && c.n_kv_heads == 4 && c.max_position == 32768 && c.sliding_window == 0);
    EXPECT_OK(parse("{\"model_type\":\"qwen2\"," SMALL ",\"num_key_value_heads\":2,\"use_sliding_window\":true}", &c));
    EXPECT(c.sliding_window == 4096 && tess_model_config_window(&c, 2) == 0);
    EXPECT_OK(parse("{\"model_type\":\"qwen2\"," SMALL ",\"num_key_value_heads\":2,\"use_sliding_window\":true,"
                    "\"sliding_window\":8,\"max_window_layers\":0,"
                    "\"layer_types\":[\"full_attention\",\"full_attention\",\"sliding_attention\"]}",
                    &c));
    EXPECT(tess_model_config_window(&c, 1) == 0 && tess_model_config_window(&c, 2) == 8);
    EXPECT_OK(parse("{\"model_type\":\"ministral\"," SMALL ",\"num_key_value_heads\":2}", &c));
    EXPECT(tess_model_config_window(&c, 0) == 4096 && c.max_position == 131072);
    EXPECT_OK(parse("{\"model_type\":\"gpt2\"}", &c));
    EXPECT_INT(count(&c), 124439808);
    EXPECT(c.initializer_range == 0.02);
    EXPECT_OK(parse("{\"model_type\":\"starcoder2\"," SMALL ",\"num_key_value_heads\":2}", &c));
    EXPECT(c.initializer_range == 0.018042);
}

static void old_and_new_rope_keys_mean_the_same(void)
{
    tess_model_config old, new;
    EXPECT_OK(parse("{\"model_type\":\"llama\"," SMALL
                    ",\"rope_theta\":5e5,\"max_position_embeddings\":64,\"rope_scaling\":"
                    "{\"type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":16,\"mscale\":0.7}}",
                    &old));
    EXPECT_OK(parse(
        "{\"model_type\":\"llama\"," SMALL ",\"max_position_embeddings\":64,\"rope_parameters\":{\"rope_type\":"
        "\"yarn\",\"rope_theta\":500000.0,\"factor\":4.0,\"original_max_position_embeddings\":16,\"mscale\":0.7}}",
        &new));
    EXPECT_SAME(&old, &new, 1);
    EXPECT(old.rope.kind == TESS_ROPE_YARN && old.rope.beta_fast == 32 && old.rope.truncate && old.rope.mscale == 0.7);
    EXPECT_INT(tess_model_config_max_length(&old), 64);
    EXPECT_OK(parse("{\"model_type\":\"llama\"," SMALL ",\"max_position_embeddings\":64,\"rope_scaling\":"
                    "{\"type\":\"linear\",\"factor\":2.5}}",
                    &old));
    EXPECT_INT(tess_model_config_max_length(&old), 160);
    EXPECT_OK(parse("{\"model_type\":\"llama\"," SMALL ",\"max_position_embeddings\":64}", &old));
    EXPECT_INT(tess_model_config_max_length(&old), 64);
    EXPECT_OK(parse("{\"model_type\":\"llama\"," SMALL ",\"max_position_embeddings\":64,"
                    "\"original_max_position_embeddings\":8,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":null}}",
                    &old));
    EXPECT(old.rope.factor == 8 && old.rope.original_max_position == 8);
}

/* The length before scaling is in Phi-3's configuration, if not at the top level of the file. */
static void longrope_starts_from_4096_positions_unless_stated(void)
{
    static const struct {
        const char *more;
        int64_t original;
        double factor;
        const char *says;
    } rows[] = {
        {"", 4096, 4, "long factors, for a position limit of 16384 above original_max_position_embeddings (4096)"},
        {",\"original_max_position_embeddings\":2048,\"tessera_max_length\":2048,\"attention_dropout\":0.25,"
         "\"resid_pdrop\":0.125",
         2048, 8, "short factors, for a position limit of 2048 within original_max_position_embeddings (2048)"}};
    for (int i = 0; i < 2; i++) {
        char text[512], says[200];
        tess_model_config c;
        snprintf(text, sizeof(text),
                 "{\"model_type\":\"phi3\"," SMALL ",\"max_position_embeddings\":16384,\"rope_scaling\":{\"type\":"
                 "\"longrope\",\"long_factor\":[1,2,3],\"short_factor\":[1,2,3],\"original_max_position_embeddings\":"
                 "1024}%s}",
                 rows[i].more);
        EXPECT_OK(parse(text, &c));
        EXPECT_INT(c.rope.original_max_position, rows[i].original);
        EXPECT(c.rope.factor == rows[i].factor);
        EXPECT_CONTAINS(tess_model_config_longrope(&c, says, sizeof(says)), rows[i].says);
        EXPECT(c.dropout == (i == 0 ? 0 : 0.25));
    }
}

/* Positions of Ministral 3 without keys of rotary positions, and with the default kind. */
static void families_assume_their_scaling(void)
{
    static const char *const more[] = {"", ",\"rope_parameters\":{\"rope_type\":\"default\"}"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        tess_model_config c, again;
        json_t *json;
        snprintf(text, sizeof(text), "{\"model_type\":\"ministral3\"," SMALL ",\"num_key_value_heads\":2%s}", more[i]);
        EXPECT_OK(parse(text, &c));
        EXPECT(c.rope.kind == (i == 0 ? TESS_ROPE_YARN : TESS_ROPE_DEFAULT) && c.rope.theta == 1e6);
        EXPECT(i > 0 || (c.rope.factor == 16 && c.rope.original_max_position == 16384 && c.rope.query_beta == 0.1));
        EXPECT(i > 0 || (c.rope.mscale == 1 && c.rope.mscale_all_dim == 1));
        EXPECT_OK(tess_model_config_to_json(&c, TESS_F32, &json));
        EXPECT_OK(tess_model_config_parse(json, "again", &again));
        json_decref(json);
        EXPECT_SAME(&again, &c, 1);
    }
}

static void written_configs_read_back_the_same(void)
{
    static const char *const texts[] = {
        llama2,
        llama31,
        mistral,
        qwen25,
        qwen3,
        gpt2,
        "{\"model_type\":\"llama\"," SMALL
        ",\"attention_bias\":true,\"mlp_bias\":true,\"head_dim\":10,\"pad_token_id\":5,"
        "\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2.25},\"tie_word_embeddings\":true,\"eos_token_id\":[]}",
        "{\"model_type\":\"qwen2\"," SMALL
        ",\"num_key_value_heads\":1,\"use_sliding_window\":true,\"sliding_window\":3,"
        "\"max_window_layers\":2,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":3.3,\"attention_factor\":0.9,"
        "\"original_max_position_embeddings\":100,\"mscale\":0.5,\"mscale_all_dim\":0.25,\"truncate\":false}}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        tess_model_config config, again;
        json_t *json;
        EXPECT_OK(parse(texts[i], &config));
        EXPECT_OK(tess_model_config_to_json(&config, TESS_BF16, &json));
        EXPECT_TEXT(json_string_value(json_object_get(json, "torch_dtype")), "bfloat16");
        EXPECT_TEXT(json_string_value(json_object_get(json, "model_type")), tess_family_name(config.family));
        EXPECT_OK(tess_model_config_parse(json, "again", &again));
        json_decref(json);
        config.dropout = 0; /* it is written as 0 */
        EXPECT_SAME(&again, &config, 1);
    }
}

static void configs_of_all_families_read_back_the_same(void)
{
    for (int i = 0; i < N_FIXTURES; i++) {
        tess_model_config config, again;
        json_t *json;
        EXPECT_OK(tess_model_config_load(fixture_file(fixture_names[i], "config.json"), &config));
        EXPECT_OK(tess_model_config_to_json(&config, TESS_BF16, &json));
        EXPECT_OK(tess_model_config_parse(json, "again", &again));
        json_decref(json);
        if (memcmp(&again, &config, sizeof(config)) != 0)
            test_fail(__FILE__, __LINE__, "%s: the config that was written reads back as another one",
                      fixture_names[i]);
    }
}

/* Values that differ between families if config.json does not state them. A layer is W with the window, F without; a
 * small letter means that it is not rotated. */
static void absent_keys_are_those_of_the_family(void)
{
    static const struct {
        const char *type, *layers;
        double theta, local_theta, partial;
        bool tied;
    } rows[] = {
        {"llama", "FFFFFF", 1e4, 0, 0, false},        {"mistral", "WWWWWW", 1e4, 0, 0, false},
        {"smollm3", "FFFfFF", 2e6, 0, 0, true},       {"granite", "FFFFFF", 1e4, 0, 0, false},
        {"ministral3", "FFFFFF", 1e6, 0, 0, false},   {"phi3", "FFFFFF", 1e4, 0, 0, false},
        {"olmo2", "FFFFFF", 1e4, 0, 0, false},        {"olmo3", "WWWFWW", 5e5, 5e5, 0, false},
        {"starcoder2", "FFFFFF", 1e4, 0, 0, true},    {"stablelm", "FFFFFF", 1e4, 0, 0.25, false},
        {"gemma", "FFFFFF", 1e4, 0, 0, true},         {"gemma2", "WFWFWF", 1e4, 0, 0, true},
        {"gemma3_text", "WWWWWF", 1e6, 1e4, 0, true}, {"glm", "FFFFFF", 1e4, 0, 0.5, false},
        {"glm4", "FFFFFF", 1e4, 0, 0.5, false},       {"exaone4", "WWWfWW", 1e4, 0, 0, false},
        {"gpt_neox", "FFFFFF", 1e4, 0, 0.25, false},  {"cohere2", "WWWfWW", 1e4, 0, 0, true},
        {"mixtral", "FFFFFF", 1e6, 0, 0, false},      {"qwen3_moe", "FFFFFF", 1e4, 0, 0, false},
        {"olmoe", "FFFFFF", 1e4, 0, 0, false},        {"qwen2_moe", "FFFFFF", 1e4, 0, 0, false},
        {"gpt_oss", "WFWFWF", 1.5e5, 0, 0, false},
    };
    static const char *const latents[] = {
        "{\"model_type\":\"deepseek_v2\"," SMALL ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3}",
        "{\"model_type\":\"deepseek_v3\"," SMALL ",\"kv_lora_rank\":8,\"q_lora_rank\":6,\"num_key_value_heads\":null}"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512], layers[7] = {0};
        tess_model_config c;
        snprintf(text, sizeof(text),
                 "{\"model_type\":\"%s\",\"vocab_size\":97,\"hidden_size\":32,\"intermediate_size\":40,"
                 "\"num_hidden_layers\":6,\"num_attention_heads\":4,\"num_key_value_heads\":2}",
                 rows[i].type);
        EXPECT_OK(parse(text, &c));
        for (int l = 0; l < 6; l++)
            layers[l] = (char)((tess_model_config_window(&c, l) > 0 ? 'W' : 'F') +
                               (c.layers[l] & TESS_LAYER_NO_ROPE ? 'a' - 'A' : 0));
        EXPECT_TEXT(layers, rows[i].layers);
        EXPECT(c.rope.theta == rows[i].theta && c.local_theta == rows[i].local_theta);
        EXPECT(c.rope.partial == rows[i].partial && c.tied == rows[i].tied);
        EXPECT(count(&c) > 0);
    }
    tess_model_config c;
    for (int v3 = 0; v3 < 2; v3++) {
        EXPECT_OK(parse(latents[v3], &c));
        EXPECT_INT(c.head_size, 192);
        EXPECT_INT(tess_model_config_rotary(&c), 64);
        EXPECT_INT(c.parts.latent.value, 128);
        EXPECT_INT(c.parts.experts.kept, v3 ? 4 : 0);
        EXPECT_INT(c.parts.experts.shared, v3 ? 2048 : 2 * 1407);
        EXPECT_INT(c.parts.experts.top_k, v3 ? 8 : 3);
        EXPECT(c.parts.experts.scale == (v3 ? 2.5 : 1) && c.parts.experts.normalize == v3);
        EXPECT(tess_model_config_mixes(&c, 0) == !v3);
    }
    EXPECT_OK(parse("{\"model_type\":\"mixtral\"," SMALL ",\"num_key_value_heads\":2,\"num_experts\":5}", &c));
    EXPECT_INT(c.parts.experts.n, 5);
    EXPECT_OK(parse("{\"model_type\":\"olmoe\"," SMALL ",\"num_local_experts\":9,\"head_dim\":6}", &c));
    EXPECT_INT(c.parts.experts.n, 9);
    EXPECT_OK(parse("{\"model_type\":\"ministral3\"," SMALL ",\"num_key_value_heads\":2,\"head_dim\":null}", &c));
    EXPECT_INT(c.head_size, 6);
    EXPECT_OK(parse("{\"model_type\":\"olmo2\"," SMALL ",\"head_dim\":10}", &c));
    EXPECT_INT(c.head_size, 10);
    EXPECT_OK(
        parse("{\"model_type\":\"gemma2\"," SMALL ",\"num_key_value_heads\":2,\"sliding_window_pattern\":3}", &c));
    EXPECT(tess_model_config_window(&c, 0) > 0 && tess_model_config_window(&c, 1) == 0);
    EXPECT_OK(
        parse("{\"model_type\":\"cohere2\"," SMALL ",\"num_key_value_heads\":2,\"sliding_window_pattern\":3}", &c));
    EXPECT(tess_model_config_window(&c, 1) > 0 && tess_model_config_window(&c, 2) == 0);
}

/* The activation's name is written as it was read. */
static void activations_are_found_by_their_names(void)
{
    static const struct {
        const char *type, *key, *name, *written;
        tess_activation activation;
    } rows[] = {
        {"gpt2", "activation_function", "gelu", "gelu", TESS_ACT_GELU_ERF},
        {"gpt2", "activation_function", "gelu_fast", "gelu_fast", TESS_ACT_GELU_TANH},
        {"gpt2", "activation_function", "silu", "silu", TESS_ACT_SILU},
        {"gpt2", "activation_function", NULL, "gelu_new", TESS_ACT_GELU_TANH},
        {"llama", "hidden_act", "gelu", "gelu", TESS_ACT_GELU_ERF},
        {"llama", "hidden_act", NULL, "silu", TESS_ACT_SILU},
        {"granite", "hidden_act", "swish", "swish", TESS_ACT_SILU},
        {"starcoder2", "hidden_act", "gelu", "gelu", TESS_ACT_GELU_ERF},
        {"gemma", "hidden_act", "gelu", "gelu_pytorch_tanh", TESS_ACT_GELU_TANH}, /* its first files mean tanh */
        {"gemma2", "hidden_activation", "gelu", "gelu", TESS_ACT_GELU_ERF},
        {"mixtral", "hidden_act", "gelu_new", "gelu_new", TESS_ACT_GELU_TANH},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512], act[64] = "";
        tess_model_config c, again;
        json_t *json;
        if (rows[i].name != NULL)
            snprintf(act, sizeof(act), ",\"%s\":\"%s\"", rows[i].key, rows[i].name);
        snprintf(text, sizeof(text), "{\"model_type\":\"%s\"," SMALL ",\"num_key_value_heads\":2%s}", rows[i].type,
                 act);
        EXPECT_OK(parse(text, &c));
        EXPECT_OK(tess_model_config_to_json(&c, TESS_F32, &json));
        EXPECT_TEXT(json_string_value(json_object_get(json, rows[i].key)), rows[i].written);
        EXPECT_OK(tess_model_config_parse(json, "again", &again));
        json_decref(json);
        EXPECT_SAME(&again, &c, 1);
        EXPECT_INT(tess_family_activation(&c), rows[i].activation);
    }
}

/* A class that the family lacks is refused: its head is no language model's. */
static void classes_that_the_family_lacks_are_named(void)
{
    static const struct {
        const char *type, *class, *supported; /* supported NULL: the class counts as the language model */
    } rows[] = {
        {"llama", "LlamaForCausalLM", NULL},
        {"llama", "LLaMAForCausalLM", NULL},
        {"llama", "LlamaModel", NULL},
        {"mistral", "MistralModel", NULL},
        {"gpt2", "GPT2Model", NULL},
        {"gpt2", "GPT2LMHeadModel", NULL},
        {"gemma3_text", "Gemma3TextModel", NULL},
        {"llama", "", NULL},
        {"llama", "LlamaForQuestionAnswering",
         "LlamaForCausalLM, LlamaForSequenceClassification, LlamaForTokenClassification"},
        {"mistral", "LlamaForSequenceClassification",
         "MistralForCausalLM, MistralForSequenceClassification, MistralForTokenClassification"},
        {"gpt2", "GPT2DoubleHeadsModel", "GPT2LMHeadModel, GPT2ForSequenceClassification, GPT2ForTokenClassification"},
        {"olmo2", "Olmo2ForTokenClassification", "Olmo2ForCausalLM, Olmo2ForSequenceClassification"},
        {"granite", "GraniteForSequenceClassification", "GraniteForCausalLM"},
        {"gemma3_text", "Gemma3TextForTokenClassification", "Gemma3ForCausalLM, Gemma3TextForSequenceClassification"},
        {"gemma3_text", "Gemma3ForSequenceClassification", "Gemma3ForCausalLM, Gemma3TextForSequenceClassification"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512], needle[256];
        tess_model_config c;
        snprintf(text, sizeof(text),
                 "{\"model_type\":\"%s\",\"architectures\":[\"%s\"]," SMALL ",\"num_key_value_heads\":2}", rows[i].type,
                 rows[i].class);
        if (rows[i].supported == NULL) {
            EXPECT_OK(parse(text, &c));
            EXPECT_INT(c.n_outputs, 0);
            continue;
        }
        snprintf(needle, sizeof(needle), "config.json: architectures is '%s'; supported for %s: %s", rows[i].class,
                 rows[i].type, rows[i].supported);
        EXPECT_FAILS(parse(text, &c), TESS_E_UNSUPPORTED, needle);
        EXPECT_TEXT(strstr(tess_error_message(), rows[i].supported), rows[i].supported);
    }
    tess_model_config c;
    EXPECT_OK(parse("{\"model_type\":\"llama\"," SMALL ",\"architectures\":null}", &c));
}

/* HF's number of labels, by whichever key says it; written so that both say it. */
static void heads_of_few_outputs_are_read_and_written(void)
{
    static const struct {
        const char *type, *architecture, *more;
        int64_t n_outputs;
    } rows[] = {
        {"llama", "LlamaForSequenceClassification", ",\"num_labels\":1,\"tie_word_embeddings\":true", 1},
        {"llama", "LlamaForSequenceClassification", ",\"id2label\":{\"0\":\"LABEL_0\"}", 1},
        {"mistral", "MistralForSequenceClassification", "", 2},
        {"qwen2", "Qwen2ForSequenceClassification", ",\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"}", 3},
        {"qwen3", "Qwen3ForSequenceClassification", ",\"num_labels\":1", 1},
        {"ministral", "MinistralForSequenceClassification", ",\"num_labels\":1", 1},
        {"gemma3_text", "Gemma3TextForSequenceClassification", ",\"num_labels\":1", 1},
        {"gemma3_text", "Gemma3ForCausalLM", ",\"tie_word_embeddings\":false", 0},
        {"qwen3", "Qwen3ForCausalLM", ",\"num_labels\":1", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        tess_model_config config, again;
        tess_model *model;
        json_t *json;
        snprintf(text, sizeof(text),
                 "{\"model_type\":\"%s\",\"architectures\":[\"%s\"]," SMALL ",\"num_key_value_heads\":2%s}",
                 rows[i].type, rows[i].architecture, rows[i].more);
        EXPECT_OK(parse(text, &config));
        EXPECT_INT(config.n_outputs, rows[i].n_outputs);
        EXPECT(config.n_outputs == 0 || !config.tied);
        EXPECT_OK(tess_model_config_to_json(&config, TESS_F32, &json));
        EXPECT_TEXT(json_string_value(json_array_get(json_object_get(json, "architectures"), 0)), rows[i].architecture);
        EXPECT_INT(json_object_size(json_object_get(json, "id2label")), rows[i].n_outputs);
        EXPECT_OK(tess_model_config_parse(json, "again", &again));
        json_decref(json);
        config.dropout = 0; /* it is written as 0 */
        EXPECT_SAME(&again, &config, 1);
        EXPECT_OK(tess_model_create(test_mem(), &config, &model));
        const tess_param *head = tess_model_param(model, tess_model_n_params(model) - 1);
        EXPECT_TEXT(head->name, config.n_outputs > 0 ? "score.weight" : "lm_head.weight");
        EXPECT_INT(head->shape.dim[0], config.n_outputs > 0 ? config.n_outputs : config.vocab_size);
        EXPECT_INT(head->shape.dim[1], config.hidden_size);
        tess_model_destroy(&model);
    }
    tess_model_config config;
    EXPECT_FAILS(parse("{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]," SMALL
                       ",\"num_labels\":0}",
                       &config),
                 TESS_E_FORMAT, "num_labels is 0");
    EXPECT_FAILS(parse("{\"model_type\":\"llama\",\"architectures\":[\"LlamaForSequenceClassification\"]," SMALL
                       ",\"num_labels\":4097}",
                       &config),
                 TESS_E_INVALID, "num_labels is 4097");
}

/* The window of each layer, as parsed and after the config was written and read again. */
static void layers_slide_where_layer_types_says_so(void)
{
    static const struct {
        const char *text, *windows;
    } rows[] = {
        {"{\"model_type\":\"qwen2\",%s,\"use_sliding_window\":true,\"max_window_layers\":2,%s\"sliding_attention\","
         "\"full_attention\",\"sliding_attention\"]}",
         "7 0 7"},
        {"{\"model_type\":\"qwen3\",%s,\"use_sliding_window\":true,%s\"full_attention\",\"sliding_attention\","
         "\"full_attention\"]}",
         "0 7 0"},
        {"{\"model_type\":\"qwen3\",%s,\"use_sliding_window\":true,%s\"full_attention\",\"full_attention\","
         "\"full_attention\"]}",
         "0 0 0"},
        {"{\"model_type\":\"qwen2\",%s,\"max_window_layers\":1,%s\"full_attention\",\"full_attention\","
         "\"full_attention\"]}",
         "0 0 0"},
        {"{\"model_type\":\"ministral\",%s,%s\"full_attention\",\"full_attention\",\"sliding_attention\"]}", "0 0 7"},
        {"{\"model_type\":\"mistral\",%s,%s\"full_attention\",\"full_attention\",\"sliding_attention\"]}", "7 7 7"},
        {"{\"model_type\":\"qwen3_moe\",%s,\"use_sliding_window\":true,\"max_window_layers\":2,%s\"full_attention\","
         "\"full_attention\",\"full_attention\"]}",
         "7 7 7"},
        {"{\"model_type\":\"qwen3_moe\",%s,%s\"full_attention\",\"full_attention\",\"sliding_attention\"]}", "0 0 0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        tess_model_config c[2];
        json_t *json;
        snprintf(text, sizeof(text), rows[i].text, SMALL ",\"num_key_value_heads\":2",
                 "\"sliding_window\":7,\"layer_types\":[");
        EXPECT_OK(parse(text, &c[0]));
        EXPECT_OK(tess_model_config_to_json(&c[0], TESS_F32, &json));
        EXPECT_OK(tess_model_config_parse(json, "again", &c[1]));
        json_decref(json);
        EXPECT_SAME(&c[1], &c[0], 1);
        for (int k = 0; k < 2; k++) {
            char windows[64];
            snprintf(windows, sizeof(windows), "%lld %lld %lld", (long long)tess_model_config_window(&c[k], 0),
                     (long long)tess_model_config_window(&c[k], 1), (long long)tess_model_config_window(&c[k], 2));
            EXPECT_TEXT(windows, rows[i].windows);
        }
    }
}

static void bad_settings_are_named(void)
{
    static const struct {
        const char *text;
        tess_status status;
        const char *needle;
    } bad[] = {
        {"[]", TESS_E_FORMAT, "expected a JSON object"},
        {"{}", TESS_E_FORMAT, "no 'model_type'"},
        {"{\"model_type\":7}", TESS_E_FORMAT, "model_type"},
        {"{\"model_type\":\"mixtrail\"}", TESS_E_UNSUPPORTED,
         "'mixtrail'; supported: llama, mistral, qwen2, qwen3, gpt2"},
        {"{\"model_type\":\"llama\",\"hidden_size\":24}", TESS_E_FORMAT, "'vocab_size' is missing"},
        {"{\"model_type\":\"llama\"," SMALL ",\"hidden_act\":\"relu2\"}", TESS_E_UNSUPPORTED,
         "hidden_act is 'relu2'; supported: silu, swish, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh"},
        {"{\"model_type\":\"llama\"," SMALL ",\"head_dim\":5}", TESS_E_INVALID, "head_dim 5 is odd"},
        {"{\"model_type\":\"llama\"," SMALL ",\"num_key_value_heads\":3}", TESS_E_INVALID,
         "not a multiple of num_key_value"},
        {"{\"model_type\":\"llama\"," SMALL ",\"num_key_value_heads\":0}", TESS_E_INVALID,
         "'num_key_value_heads' is 0"},
        {"{\"model_type\":\"llama\"," SMALL ",\"max_position_embeddings\":0}", TESS_E_INVALID,
         "max_position_embeddings"},
        {"{\"model_type\":\"llama\"," SMALL ",\"rms_norm_eps\":\"small\"}", TESS_E_FORMAT, "rms_norm_eps"},
        {"{\"model_type\":\"llama\"," SMALL ",\"partial_rotary_factor\":0.5}", TESS_E_UNSUPPORTED,
         "partial_rotary_factor"},
        {"{\"model_type\":\"llama\"," SMALL ",\"num_local_experts\":8}", TESS_E_UNSUPPORTED, "mixtures of experts"},
        {"{\"model_type\":\"llama\"," SMALL ",\"quantization_config\":{}}", TESS_E_UNSUPPORTED, "quantization_config"},
        {"{\"model_type\":\"llama\"," SMALL ",\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
         TESS_E_UNSUPPORTED, "(mxfp4): quantized weights are not supported"},
        {"{\"model_type\":\"gpt_oss\"," SMALL ",\"quantization_config\":{\"quant_method\":\"fp8\"}}",
         TESS_E_UNSUPPORTED, "(fp8): supported: mxfp4"},
        {"{\"model_type\":\"llama\"," SMALL ",\"rope_theta\":0}", TESS_E_FORMAT, "rope_theta"},
        {"{\"model_type\":\"llama\"," SMALL ",\"rope_scaling\":3}", TESS_E_FORMAT, "'rope_scaling' must be an object"},
        {"{\"model_type\":\"llama\"," SMALL ",\"rope_scaling\":{\"type\":\"longrope\"}}", TESS_E_UNSUPPORTED,
         "rope_scaling.rope_type is 'longrope'"},
        {"{\"model_type\":\"llama\"," SMALL ",\"rope_scaling\":{\"type\":\"linear\"}}", TESS_E_FORMAT,
         "needs 'factor'"},
        {"{\"model_type\":\"llama\"," SMALL ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}}", TESS_E_FORMAT,
         "needs 'low_freq_factor'"},
        {"{\"model_type\":\"llama\"," SMALL ",\"rope_parameters\":{\"full_attention\":{}}}", TESS_E_UNSUPPORTED,
         "by layer type"},
        {"{\"model_type\":\"llama\"," SMALL ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", TESS_E_FORMAT, "at most 8"},
        {"{\"model_type\":\"llama\"," SMALL ",\"eos_token_id\":-5}", TESS_E_INVALID, "eos_token_id is -5"},
        {"{\"model_type\":\"mistral\"," SMALL ",\"num_key_value_heads\":1,\"sliding_window\":0}", TESS_E_INVALID,
         "'sliding_window' is 0; it must be at least 1, or null for none"},
        {"{\"model_type\":\"qwen3\"," SMALL ",\"num_key_value_heads\":1,\"layer_types\":[\"full_attention\"]}",
         TESS_E_FORMAT, "each of the 3 layers"},
        {"{\"model_type\":\"qwen3\"," SMALL ",\"num_key_value_heads\":1,\"use_sliding_window\":true,\"layer_types\":"
         "[\"sliding_attention\",\"chunked_attention\",\"full_attention\"]}",
         TESS_E_UNSUPPORTED, "layer_types[1] is 'chunked_attention'; supported: full_attention, sliding_attention"},
        {"{\"model_type\":\"qwen2\"," SMALL ",\"num_key_value_heads\":1,\"layer_types\":"
         "[\"sliding_attention\",\"full_attention\",\"full_attention\"]}",
         TESS_E_FORMAT, "no sliding_window in use"},
        {"{\"model_type\":\"bert\"}", TESS_E_UNSUPPORTED, "'bert'; supported: llama"},
        {"{\"model_type\":\"llava\"," SMALL "}", TESS_E_FORMAT, "'llava' needs text_config"},
        {"{\"model_type\":\"qwen2_vl\",\"text_config\":[]}", TESS_E_FORMAT, "'qwen2_vl' needs text_config"},
        {"{\"model_type\":\"gemma3\",\"architectures\":[\"Gemma3ForSequenceClassification\"]}", TESS_E_UNSUPPORTED,
         "'Gemma3ForSequenceClassification'; supported for gemma3"},
        {"{\"model_type\":\"gpt_neox\",\"rotary_pct\":0}", TESS_E_FORMAT, "rotary_pct is 0"},
        {"{\"model_type\":\"bert\"}", TESS_E_UNSUPPORTED, "glm4, exaone4, gemma2, cohere2"},
        {"{\"model_type\":\"smollm3\"," SMALL ",\"num_key_value_heads\":2,\"no_rope_layers\":[1,0]}", TESS_E_FORMAT,
         "'no_rope_layers' must list 0 or 1 for each of the 3 layers"},
        {"{\"model_type\":\"smollm3\"," SMALL ",\"num_key_value_heads\":2,\"no_rope_layers\":[1,0,2]}", TESS_E_FORMAT,
         "no_rope_layers[2] is neither 0 nor 1"},
        {"{\"model_type\":\"smollm3\"," SMALL ",\"num_key_value_heads\":2,\"no_rope_layer_interval\":0}", TESS_E_FORMAT,
         "no_rope_layer_interval is 0"},
        {"{\"model_type\":\"granite\"," SMALL ",\"logits_scaling\":0}", TESS_E_INVALID, "'logits_scaling' is 0"},
        {"{\"model_type\":\"gemma\"," SMALL ",\"num_key_value_heads\":2,\"use_bidirectional_attention\":true}",
         TESS_E_UNSUPPORTED, "use_bidirectional_attention is true; supported: false"},
        {"{\"model_type\":\"phi3\"," SMALL ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1,2]}}",
         TESS_E_FORMAT, "rope_scaling.short_factor must list 1 to 256 numbers"},
        {"{\"model_type\":\"phi3\"," SMALL ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1,2],"
         "\"short_factor\":[1,2]}}",
         TESS_E_INVALID, "longrope lists 2 factors; 6 channels are rotated in pairs"},
        {"{\"model_type\":\"phi3\"," SMALL ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", TESS_E_UNSUPPORTED,
         "rope_scaling.rope_type is 'linear'; supported: default, longrope"},
        {"{\"model_type\":\"phi3\"," SMALL ",\"partial_rotary_factor\":0.5}", TESS_E_INVALID,
         "partial_rotary_factor rotates 3 channels"},
        {"{\"model_type\":\"phi3\"," SMALL ",\"partial_rotary_factor\":2}", TESS_E_FORMAT,
         "partial_rotary_factor is 2; it must be in (0, 1]"},
        {"{\"model_type\":\"gemma3_text\"," SMALL ",\"num_key_value_heads\":2,\"rope_parameters\":"
         "{\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2}}}",
         TESS_E_UNSUPPORTED, "rope_parameters.sliding_attention scales positions"},
        {"{\"model_type\":\"cohere2\"," SMALL ",\"sliding_window_pattern\":0}", TESS_E_INVALID,
         "sliding_window_pattern is 0"},
        {"{\"model_type\":\"gemma3_text\"," SMALL ",\"num_key_value_heads\":2,\"attn_logit_softcapping\":50}",
         TESS_E_UNSUPPORTED, "attn_logit_softcapping is set; supported: null"},
        {"{\"model_type\":\"olmoe\"," SMALL ",\"head_dim\":8}", TESS_E_UNSUPPORTED, "head_dim is 8; this family has"},
        {"{\"model_type\":\"stablelm\"," SMALL ",\"num_key_value_heads\":2,\"head_dim\":8}", TESS_E_UNSUPPORTED,
         "head_dim is 8; this family has"},
        {"{\"model_type\":\"mixtral\"," SMALL ",\"num_key_value_heads\":2,\"num_experts_per_tok\":null}",
         TESS_E_INVALID, "a mixture of 8 experts, 0 for a token, with 40 channels each; there must be one at least"},
        {"{\"model_type\":\"mixtral\"," SMALL ",\"num_key_value_heads\":2,\"num_local_experts\":null}", TESS_E_INVALID,
         "a mixture of 0 experts, 2 for a token, with 40 channels each"},
        {"{\"model_type\":\"qwen2_moe\"," SMALL ",\"num_key_value_heads\":2,\"shared_expert_intermediate_size\":null}",
         TESS_E_INVALID, "shared_expert_intermediate_size is null"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL ",\"kv_lora_rank\":8,\"q_lora_rank\":null}", TESS_E_FORMAT,
         "'num_experts_per_tok' is missing"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":null,\"q_lora_rank\":null,\"num_experts_per_tok\":3}",
         TESS_E_INVALID, "kv_lora_rank, qk_nope_head_dim"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL ",\"kv_lora_rank\":8,\"num_experts_per_tok\":3}", TESS_E_UNSUPPORTED,
         "q_lora_rank is 1536 and kv_lora_rank 8; supported: up to hidden_size"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3,\"v_head_dim\":193}",
         TESS_E_UNSUPPORTED, "v_head_dim is 193; supported: up to"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3,\"num_key_value_heads\":1}",
         TESS_E_UNSUPPORTED, "num_key_value_heads is 1; with latents"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3,\"norm_topk_prob\":true}",
         TESS_E_UNSUPPORTED, "norm_topk_prob is true; supported: false"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3,\"moe_layer_freq\":2}",
         TESS_E_UNSUPPORTED, "moe_layer_freq is 2; supported: 1"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3,\"topk_method\":\"best\"}",
         TESS_E_UNSUPPORTED, "topk_method is 'best'; supported: greedy, group_limited_greedy"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3,\"scoring_func\":\"sigmoid\"}",
         TESS_E_UNSUPPORTED, "scoring_func is 'sigmoid'; supported: softmax"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":3,\"topk_method\":\"group_limited_greedy\"}",
         TESS_E_INVALID, "and topk_group null"},
        {"{\"model_type\":\"deepseek_v2\"," SMALL
         ",\"kv_lora_rank\":8,\"q_lora_rank\":null,\"num_experts_per_tok\":9,\"n_group\":8,\"topk_group\":1,\"topk_"
         "method\":\"group_limited_greedy\"}",
         TESS_E_INVALID, "64 experts in 8 groups (n_group), of which topk_group 1"},
        {"{\"model_type\":\"qwen3_moe\"," SMALL ",\"num_key_value_heads\":2,\"moe_intermediate_size\":null}",
         TESS_E_INVALID, "a mixture of 128 experts, 8 for a token, with 0 channels each"},
        {"{\"model_type\":\"gpt2\",\"activation_function\":\"relu\"}", TESS_E_UNSUPPORTED,
         "activation_function is 'relu'"},
        {"{\"model_type\":\"gpt2\",\"scale_attn_weights\":false}", TESS_E_UNSUPPORTED, "scale_attn_weights is false"},
        {"{\"model_type\":\"gpt2\",\"scale_attn_by_inverse_layer_idx\":true}", TESS_E_UNSUPPORTED,
         "inverse_layer_idx is true"},
        {"{\"model_type\":\"gpt2\",\"n_head\":7}", TESS_E_INVALID, "n_embd 768 is not a multiple of n_head 7"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":9223372036854775807}", TESS_E_INVALID, "'n_layer' is 9"},
        {"{\"model_type\":\"gpt2\",\"n_embd\":9223372036854775807}", TESS_E_INVALID, "n_embd"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tess_model_config config;
        test_expect_status(__FILE__, __LINE__, bad[i].text, parse(bad[i].text, &config), bad[i].status, bad[i].needle);
    }
}

static void a_missing_file_is_named(void)
{
    tess_model_config config;
    tess_status status = tess_model_config_load("/nonexistent/config.json", &config);
    EXPECT(status == TESS_E_NOT_FOUND || status == TESS_E_IO);
    EXPECT_CONTAINS(tess_error_message(), "/nonexistent/config.json");
}

static void the_position_limit_is_the_stated_one_or_the_models(void)
{
    static const char text[] = "{\"model_type\":\"llama\"," SMALL ",\"max_position_embeddings\":64,\"rope_scaling\":"
                               "{\"type\":\"%s\",\"factor\":2.5}%s}";
    static const struct {
        const char *kind, *more;
        int64_t unstated, most;
    } rows[] = {{"dynamic", "", 64, 1 << 27},
                {"dynamic", ",\"tessera_max_length\":200", 200, 1 << 27},
                {"linear", "", 160, 160},
                {"linear", ",\"tessera_max_length\":100", 100, 160},
                {"default", "", 64, 64}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tess_model_config c, again;
        json_t *json;
        char written[512];
        snprintf(written, sizeof(written), text, rows[i].kind, rows[i].more);
        EXPECT_OK(parse(written, &c));
        EXPECT_INT(tess_model_config_max_length(&c), rows[i].unstated);
        EXPECT_OK(tess_model_config_set_max_length(&c, 0, "model.max_length"));
        EXPECT_INT(tess_model_config_max_length(&c), rows[i].unstated);
        EXPECT_OK(tess_model_config_set_max_length(&c, rows[i].most, "model.max_length"));
        EXPECT_INT(tess_model_config_max_length(&c), rows[i].most);
        EXPECT_OK(tess_model_config_to_json(&c, TESS_F32, &json));
        EXPECT_OK(tess_model_config_parse(json, "again", &again));
        json_decref(json);
        EXPECT_SAME(&again, &c, 1);
        EXPECT_FAILS(tess_model_config_set_max_length(&c, rows[i].most + 1, "model.max_length"), TESS_E_INVALID,
                     "model.max_length: ");
        EXPECT_FAILS(tess_model_config_set_max_length(&c, 1, "--max-length"), TESS_E_INVALID,
                     "--max-length: 1 positions");
    }
    tess_model_config c;
    EXPECT_FAILS(parse("{\"model_type\":\"gpt2\",\"tessera_max_length\":1025}", &c), TESS_E_INVALID,
                 "tessera_max_length: 1025 positions; this model takes 2 to 1024");
}

static void leaves_of_sums_are_a_power_of_two(void)
{
    tess_model_config c, again;
    json_t *json;
    EXPECT_OK(parse("{\"model_type\":\"gpt2\"}", &c));
    EXPECT_INT(c.sum_leaves, 1);
    EXPECT_OK(tess_model_config_to_json(&c, TESS_F32, &json));
    EXPECT(json_object_get(json, "tessera_sum_leaves") == NULL);
    json_decref(json);
    EXPECT_OK(tess_model_config_set_sum_leaves(&c, 64, "model.sum_leaves"));
    EXPECT_OK(tess_model_config_to_json(&c, TESS_F32, &json));
    EXPECT_OK(tess_model_config_parse(json, "again", &again));
    json_decref(json);
    EXPECT_SAME(&again, &c, 1);
    const int64_t bad[] = {0, -2, 3, 128};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(tess_model_config_set_sum_leaves(&c, bad[i], "model.sum_leaves"), TESS_E_INVALID,
                     "model.sum_leaves: a sum of ");
    EXPECT_FAILS(parse("{\"model_type\":\"gpt2\",\"tessera_sum_leaves\":5}", &c), TESS_E_INVALID,
                 "config.json: tessera_sum_leaves: a sum of 5 leaves");
}

static const test_case cases[] = {
    CASE(heads_of_few_outputs_are_read_and_written),
    CASE(published_configs_have_their_parameters),
    CASE(absent_keys_mean_what_transformers_assumes),
    CASE(old_and_new_rope_keys_mean_the_same),
    CASE(longrope_starts_from_4096_positions_unless_stated),
    CASE(families_assume_their_scaling),
    CASE(written_configs_read_back_the_same),
    CASE(configs_of_all_families_read_back_the_same),
    CASE(the_text_model_of_a_model_of_images_is_read),
    CASE(absent_keys_are_those_of_the_family),
    CASE(activations_are_found_by_their_names),
    CASE(classes_that_the_family_lacks_are_named),
    CASE(layers_slide_where_layer_types_says_so),
    CASE(bad_settings_are_named),
    CASE(the_position_limit_is_the_stated_one_or_the_models),
    CASE(leaves_of_sums_are_a_power_of_two),
    CASE(a_missing_file_is_named),
};
TEST_MAIN(cases)
