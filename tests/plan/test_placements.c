/* The placement of every parameter is the box that each rank of a run then holds. */
#include "support/rig.h"

#include "base/os/os.h"
#include "engine/engine.h"
#include "engine/model/model_file.h"
#include "plan/placements.h"

static const char *const model_texts[] = {
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 331, \"hidden_size\": 96,"
    "\"intermediate_size\": 200, \"num_hidden_layers\": 4, \"num_attention_heads\": 6, \"num_key_value_heads\": 3,"
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}",
    "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 301, \"n_embd\": 42,"
    "\"n_inner\": 53, \"n_layer\": 4, \"n_head\": 3, \"n_positions\": 64, \"n_ctx\": 64,"
    "\"layer_norm_epsilon\": 1e-5, \"activation_function\": \"gelu_new\", \"tie_word_embeddings\": true}"};

static void configure(int which, const char *overrides, int world, tess_config *config)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/model-%d-%d.json", test_folder(), test_rank(), which);
    EXPECT_OK(tess_os_write_atomic(path, model_texts[which], strlen(model_texts[which])));
    test_configure(config, world,
                   "training.local_batch_size=1 training.seq_len=32 training.steps=1 training.threads=1 "
                   "validation.enable=false model.config=%s %s",
                   path, overrides);
}

static void expect_boxes(const tess_engine *e, const tess_param_placements *p, const char *overrides)
{
    EXPECT_INT(tess_model_n_params(e->whole), p->n);
    for (int i = 0; i < p->n; i++) {
        const tess_param_placement *placement = &p->list[i];
        const tess_box planned = tess_param_placement_box(placement, &e->at);
        const int n_dims = placement->shape.n_dims;
        tess_shard shard;
        EXPECT_OK(tess_engine_shard(e, i, &shard));
        const bool none = tess_box_count(n_dims, &planned) == 0 && tess_box_count(n_dims, &shard.box) == 0;
        if (!none && !tess_box_equal(n_dims, &planned, &shard.box)) {
            char here[96], there[96];
            fprintf(stderr, "%s: rank %d: %s: holds %s, planned is %s\n", overrides, e->at.rank, placement->param->name,
                    tess_box_format(n_dims, &shard.box, here, sizeof(here)),
                    tess_box_format(n_dims, &planned, there, sizeof(there)));
            EXPECT(false);
        }
    }
}

static void run_layout(int which, const char *overrides)
{
    tess_config config = {0};
    tess_runtime *rt = test_stay_joined();
    tess_model_config sizes;
    tess_param_placements placements;
    tess_engine *engine;
    configure(which, overrides, tess_runtime_world(rt), &config);
    EXPECT_OK(tess_config_load_model(&config, NULL, &sizes));
    EXPECT_OK(tess_param_placements_create(test_mem(), &config, &sizes, &placements));
    sizes = *tess_model_get_config(placements.model);
    EXPECT_OK(tess_engine_create(rt, &config, &sizes, NULL, &engine));
    expect_boxes(engine, &placements, overrides);
    tess_engine_destroy(&engine);
    tess_param_placements_free(&placements);
    tess_config_free(&config);
}

#define TP "parallelism.tensor_parallel_degree="
#define PP "parallelism.pipeline_parallel_degree="
#define STRATEGY "parallelism.shard_strategy="

static void ranks_hold_what_is_planned(void)
{
    static const struct {
        int ranks;
        const char *overrides;
    } layouts[] = {{1, ""},
                   {2, ""},
                   {2, STRATEGY "none"},
                   {2, TP "2"},
                   {2, PP "2"},
                   {3, STRATEGY "zero1"},
                   {3, TP "3"},
                   {4, TP "2 " STRATEGY "zero2"},
                   {4, TP "2 " PP "2"},
                   {4, PP "2 parallelism.pipeline_parallel_schedule=zbv"},
                   {4, STRATEGY "hybrid parallelism.data_parallel_replicate_degree=2"},
                   {4, TP "4"},
                   {8, TP "2 " PP "2 " STRATEGY "zero1"},
                   {8, TP "2 " PP "2 " STRATEGY "none"},
                   {8, PP "4 " STRATEGY "zero1"}};
    const int world = tess_runtime_world(test_stay_joined());
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        for (int which = 0; which < 2 && layouts[i].ranks == world; which++)
            run_layout(which, layouts[i].overrides);
}

/* Each element of a parameter is held once by each replica of its stage's ranks. */
static void each_element_has_a_rank(void)
{
    static const char overrides[] = TP "4 " PP "2 " STRATEGY "hybrid parallelism.data_parallel_replicate_degree=3";
    tess_config config = {0};
    tess_model_config sizes;
    tess_param_placements p;
    configure(0, overrides, 72, &config);
    EXPECT_OK(tess_config_load_model(&config, NULL, &sizes));
    EXPECT_OK(tess_param_placements_create(test_mem(), &config, &sizes, &p));
    for (int i = 0; i < p.n; i++) {
        const tess_param_placement *placement = &p.list[i];
        int64_t held = 0;
        for (int rank = 0; rank < 72; rank++) {
            const tess_coordinates at = tess_coordinates_by(p.degree, rank);
            const tess_box box = tess_param_placement_box(placement, &at);
            held += tess_box_count(placement->shape.n_dims, &box);
        }
        const int64_t replicas = 3 * (placement->place[TESS_AXIS_TP].kind == TESS_SHARD ? 1 : 4);
        EXPECT_INT(held, replicas * tess_shape_count(&placement->shape));
    }
    tess_param_placements_free(&p);
    tess_config_free(&config);
}

static void placements_are_printed_by_layers_that_are_alike(void)
{
    tess_config config = {0};
    tess_model_config sizes;
    tess_param_placements p;
    tess_buffer text = {.mem = test_mem()};
    configure(0, TP "2 " PP "2", 8, &config);
    EXPECT_OK(tess_config_load_model(&config, NULL, &sizes));
    EXPECT_OK(tess_param_placements_create(test_mem(), &config, &sizes, &p));
    EXPECT_OK(tess_param_placements_print(&p, &text));
    EXPECT_CONTAINS(text.data, "parameters: where master weights and moments are (full: ");
    EXPECT_CONTAINS(text.data, "model.layers.0-1.self_attn.k_proj.weight          [48, 96]          0   ");
    EXPECT_CONTAINS(text.data, "  0             Replicate     Shard(0)      Shard(0)      [16, 96]\n");
    EXPECT_CONTAINS(text.data, "model.layers.2-3.mlp.down_proj.weight             [96, 200]         1             "
                               "Replicate     Shard(0)      Shard(1)      [48, 100]\n");
    EXPECT(strstr(text.data, "model.layers.1.") == NULL);
    json_t *json = tess_param_placements_json(&p);
    EXPECT_INT((int)json_array_size(json), p.n);
    const json_t *first = json_array_get(json, 0), *places = json_object_get(first, "placements");
    EXPECT_TEXT(json_string_value(json_object_get(first, "name")), "model.embed_tokens.weight");
    EXPECT_TEXT(json_string_value(json_object_get(places, "dp_shard")), "Shard(0)");
    EXPECT_INT(json_integer_value(json_array_get(json_object_get(first, "shape"), 1)), 96);
    json_decref(json);
    tess_buffer_free(&text);
    tess_param_placements_free(&p);
    tess_config_free(&config);
}

static const test_case cases[] = {
    CASE(ranks_hold_what_is_planned, 1),
    {"two_ranks_hold_what_is_planned", ranks_hold_what_is_planned, 2, 0},
    {"three_ranks_hold_what_is_planned", ranks_hold_what_is_planned, 3, 0},
    {"four_ranks_hold_what_is_planned", ranks_hold_what_is_planned, 4, 0},
    {"eight_ranks_hold_what_is_planned", ranks_hold_what_is_planned, 8, 0},
    CASE(each_element_has_a_rank),
    CASE(placements_are_printed_by_layers_that_are_alike),
};
TEST_MAIN(cases)
