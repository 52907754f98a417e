/* The layers that each rank of a pipeline has. */
#include "base/text/json.h"
#include "support/test.h"
#include "engine/stages/rank_stage.h"

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 4000, \"hidden_size\": 64,"
    "\"intermediate_size\": 160, \"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": %s}";

static tess_model *model_of(int n_layers, bool tied)
{
    char text[sizeof(model_json) + 16];
    json_t *json = NULL;
    tess_model_config config;
    tess_model *model;
    snprintf(text, sizeof(text), model_json, n_layers, tied ? "true" : "false");
    EXPECT_OK(tess_json_parse(text, strlen(text), "test", true, &json));
    EXPECT_OK(tess_model_config_parse(json, "test", &config));
    EXPECT_OK(tess_model_create(test_mem(), &config, &model));
    json_decref(json);
    return model;
}

static void configure(tess_pipeline_kind kind, int degree, tess_config *config)
{
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "test", config));
    config->training.seq_len = 32;
    config->training.local_batch_size = 1;
    config->training.global_batch_size = 840; /* a multiple of what any schedule below may ask for */
    config->parallelism.data_parallel_replicate_degree = config->parallelism.data_parallel_shard_degree = 1;
    config->parallelism.pipeline_parallel_schedule = (int)kind;
    config->parallelism.pipeline_parallel_degree = degree;
}

/* Every layer is on one rank, in the units that the rank's chunk says; ends are with the first and the last stage. */
static void expect_whole(const tess_config *config, const tess_model *whole)
{
    int degree = (int)config->parallelism.pipeline_parallel_degree, n_layers = tess_model_n_units(whole) - 2;
    int owners[64] = {0}, n_embedding = 0, n_head = 0;
    for (int rank = 0; rank < degree; rank++) {
        tess_stage_plan plan;
        tess_model *part;
        EXPECT_OK(tess_stage_plan_create(test_mem(), config, tess_model_get_config(whole), rank, &plan));
        EXPECT_OK(tess_model_create_part(test_mem(), tess_model_get_config(whole), &plan.part, &part));
        int chunks = plan.shape.chunks, stages = degree * chunks;
        EXPECT_INT(plan.units[chunks - 1].end, tess_model_n_units(part));
        for (int chunk = 0; chunk < chunks; chunk++) {
            int stage = tess_pipeline_stage(&plan.shape, rank, chunk), layer = plan.first[stage];
            for (int unit = plan.units[chunk].begin; unit < plan.units[chunk].end; unit++) {
                bool embedding = stage == 0 && unit == 0,
                     head = stage == stages - 1 && unit == plan.units[chunk].end - 1;
                int64_t want = embedding || head ? -1 : layer++;
                EXPECT_INT(tess_model_unit_layer(part, unit), want);
                if (want >= 0)
                    owners[want]++;
            }
            EXPECT_INT(layer, plan.first[stage + 1]);
        }
        n_embedding += plan.part.embedding;
        n_head += plan.part.head;
        tess_model_destroy(&part);
        tess_stage_plan_free(test_mem(), &plan);
    }
    EXPECT_INT(n_embedding, 1);
    EXPECT_INT(n_head, 1);
    for (int layer = 0; layer < n_layers; layer++)
        EXPECT_INT(owners[layer], 1);
}

static void every_layer_is_on_one_rank(void)
{
    tess_model *whole = model_of(23, false), *tied = model_of(23, true);
    for (int kind = 0; kind < TESS_PIPELINE_KINDS; kind++)
        for (int degree = 1; degree <= 8; degree++) {
            tess_config config;
            configure((tess_pipeline_kind)kind, degree, &config);
            expect_whole(&config, whole);
            expect_whole(&config, tied);
            config.parallelism.pipeline_parallel_last_stage_less_layers = 0;
            expect_whole(&config, whole);
            tess_config_free(&config);
        }
    tess_model_destroy(&tied);
    tess_config config;
    configure(TESS_PIPELINE_INTERLEAVED, 4, &config);
    config.parallelism.pipeline_parallel_layers_per_stage = 2; /* 12 stages */
    expect_whole(&config, whole);
    tess_config_free(&config);
    tess_model_destroy(&whole);
}

static void expect_first(const tess_config *config, const tess_model *whole, const int *first)
{
    tess_stage_plan plan;
    EXPECT_OK(tess_stage_plan_create(test_mem(), config, tess_model_get_config(whole), 0, &plan));
    for (int g = 0; g <= plan.shape.ranks * plan.shape.chunks; g++)
        EXPECT_INT(plan.first[g], first[g]);
    tess_stage_plan_free(test_mem(), &plan);
}

/* By hand: a layer has 64 * (64 * 2 + 32 * 2) + 3 * 64 * 160 = 43,008 matrix weights and 12 * 64 * 32 operations of
 * attention in addition to 6 a weight: 282,624; the head 6 * 64 * 4000 = 1,536,000, which is 5.4 layers: it gets one
 * layer with it, and the others share 13. */
static void stages_are_cut_by_operations(void)
{
    tess_model *whole = model_of(14, false);
    tess_config config;
    configure(TESS_PIPELINE_1F1B, 4, &config);
    EXPECT(tess_model_unit_flops_per_token(whole, 0, 32) == 0);
    EXPECT(tess_model_unit_flops_per_token(whole, 1, 32) == 282624);
    EXPECT(tess_model_unit_flops_per_token(whole, 15, 32) == 1536000);
    EXPECT(tess_model_flops_per_token(whole, 32) == 14 * 282624 + 1536000);
    expect_first(&config, whole, (const int[]){0, 4, 8, 13, 14});
    config.parallelism.pipeline_parallel_last_stage_less_layers = 0; /* counted as none: equal numbers */
    expect_first(&config, whole, (const int[]){0, 4, 8, 11, 14});
    config.parallelism.pipeline_parallel_first_stage_less_layers = 1;
    config.parallelism.pipeline_parallel_last_stage_less_layers = 1;
    expect_first(&config, whole, (const int[]){0, 3, 7, 11, 14});
    tess_config_free(&config);
    tess_model_destroy(&whole);
}

static void stages_begin_at_named_layers(void)
{
    char *names[] = {"layers.3", "model.layers.4", "11"};
    tess_model *whole = model_of(14, false);
    tess_config config;
    configure(TESS_PIPELINE_1F1B, 4, &config);
    const tess_text_list points = {3, names};
    config.parallelism.pipeline_parallel_split_points = points;
    expect_first(&config, whole, (const int[]){0, 3, 4, 11, 14});
    expect_whole(&config, whole);
    config.parallelism.pipeline_parallel_last_stage_less_layers = 2; /* it matters only where layers are counted */
    expect_first(&config, whole, (const int[]){0, 3, 4, 11, 14});
    config.parallelism.pipeline_parallel_degree = 2;
    config.parallelism.pipeline_parallel_schedule = TESS_PIPELINE_ZBV; /* two stages a rank */
    expect_whole(&config, whole);

    tess_stage_plan plan;
#define REFUSED(expected)                                                                                             \
    EXPECT_FAILS(tess_stage_plan_create(test_mem(), &config, tess_model_get_config(whole), 0, &plan), TESS_E_INVALID, \
                 "parallelism.pipeline_parallel_split_points: " expected)
    config.parallelism.pipeline_parallel_degree = 1;
    REFUSED("pipeline_parallel_degree=1 has no stages to split: set a degree of 2 or more, or leave the points out");
    config.parallelism.pipeline_parallel_degree = 3;
    config.parallelism.pipeline_parallel_schedule = TESS_PIPELINE_1F1B;
    REFUSED("3 layers begin a stage, which makes 4 stages; 1f1b over 3 ranks takes 3: name 2");
    config.parallelism.pipeline_parallel_degree = 2;
    REFUSED("3 layers begin a stage, which makes 4 stages; 1f1b over 2 ranks takes 2: name 1");
    config.parallelism.pipeline_parallel_degree = 4;
    config.parallelism.pipeline_parallel_layers_per_stage = 3;
    REFUSED("pipeline_parallel_layers_per_stage=3 divides layers, too: leave one of them out");
    config.parallelism.pipeline_parallel_layers_per_stage = 0;
    names[1] = "layers.3";
    REFUSED("'layers.3' is no layer after model.layers.3, where the stage before it begins: name layers in their "
            "order, up to model.layers.13");
    names[1] = "ayers.4";
    REFUSED("'ayers.4' is no layer after model.layers.3");
    names[0] = "layers.0";
    REFUSED("'layers.0' is no layer after model.layers.0");
    names[0] = "lm_head";
    REFUSED("'lm_head' is no layer after model.layers.0");
    config.parallelism.pipeline_parallel_split_points = (tess_text_list){0};
    tess_config_free(&config);
    tess_model_destroy(&whole);
}

static void a_line_says_where_stages_are(void)
{
    tess_model *whole = model_of(14, false);
    tess_config config;
    configure(TESS_PIPELINE_1F1B, 4, &config);
    tess_stage_plan plan;
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_stage_plan_create(test_mem(), &config, tess_model_get_config(whole), 0, &plan));
    EXPECT_OK(tess_stage_plan_describe(test_mem(), &plan, whole, 32, 8, &text));
    EXPECT_CONTAINS(text.data,
                    "pipeline: 1f1b, 8 micro-batches through 4 stages of layers 0-3, 4-7, 8-12, 13; of their "
                    "time, ");
    tess_buffer_free(&text);
    tess_stage_plan_free(test_mem(), &plan);
    tess_config_free(&config);
    tess_model_destroy(&whole);
}

static void bad_cuts_are_refused(void)
{
    tess_model *whole = model_of(5, false);
    tess_stage_plan plan;
    tess_config config;
    configure(TESS_PIPELINE_ZBV, 3, &config);
    EXPECT_FAILS(tess_stage_plan_create(test_mem(), &config, tess_model_get_config(whole), 0, &plan), TESS_E_INVALID,
                 "3 ranks with 2 stages each (zbv) are more stages than the model's 5 layers");
    tess_config_free(&config);
    configure(TESS_PIPELINE_1F1B, 2, &config);
    config.parallelism.pipeline_parallel_layers_per_stage = 2;
    EXPECT_FAILS(tess_stage_plan_create(test_mem(), &config, tess_model_get_config(whole), 0, &plan), TESS_E_INVALID,
                 "parallelism.pipeline_parallel_layers_per_stage: pipeline: 2 layers a stage make 3 stages");
    config.parallelism.pipeline_parallel_layers_per_stage = 0;
    config.parallelism.pipeline_parallel_last_stage_less_layers = 9;
    EXPECT_FAILS(tess_stage_plan_create(test_mem(), &config, tess_model_get_config(whole), 0, &plan), TESS_E_INVALID,
                 "which its embedding or head uses up");
    tess_config_free(&config);
    tess_model_destroy(&whole);
}

static const test_case cases[] = {
    CASE(every_layer_is_on_one_rank),   CASE(stages_are_cut_by_operations), CASE(stages_begin_at_named_layers),
    CASE(a_line_says_where_stages_are), CASE(bad_cuts_are_refused),
};
TEST_MAIN(cases)
