/* Plans of shallow dry ranks equal those of full depth, and a plan equals the counters of dry ranks. */
#include <math.h>

#include "support/rig.h"

#include "base/mem/scoped.h"
#include "base/text/json.h"
#include "plan/dry_rank.h"
#include "plan/plan.h"

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 2003, \"hidden_size\": 96,"
    "\"intermediate_size\": 200, \"num_hidden_layers\": 20, \"num_attention_heads\": 6, \"num_key_value_heads\": 3,"
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 1024, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

static const char experts_json[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 301, \"hidden_size\": 48, \"intermediate_size\": 32,"
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 12,"
    "\"max_position_embeddings\": 64, \"num_local_experts\": 8, \"num_experts_per_tok\": 2}";

static tess_model_config parse(const char *text, bool tied)
{
    tess_model_config model;
    json_t *json = NULL;
    EXPECT_OK(tess_json_parse(text, strlen(text), "test", true, &json));
    json_object_set_new(json, "tie_word_embeddings", json_boolean(tied));
    EXPECT_OK(tess_model_config_parse(json, "test", &model));
    json_decref(json);
    return model;
}

static tess_model_config model_of(bool tied)
{
    return parse(model_json, tied);
}

static const struct {
    int ranks;
    const char *overrides;
} layouts[] = {
    {1, ""},
    {2, ""},
    {3, "training.global_batch_size=26"},
    {8, "parallelism.shard_strategy=zero1"},
    {4, "parallelism.shard_strategy=none activation_checkpoint.mode=full"},
    {4, "parallelism.tensor_parallel_degree=2"},
    {8, "parallelism.tensor_parallel_degree=2 parallelism.data_parallel_replicate_degree=2 "
        "parallelism.shard_strategy=hybrid"},
    {2, "parallelism.pipeline_parallel_degree=2"},
    {8, "parallelism.pipeline_parallel_degree=2 parallelism.tensor_parallel_degree=2"},
    {2, "parallelism.pipeline_parallel_degree=2 parallelism.pipeline_parallel_schedule=zb_h1"},
    {4, "parallelism.pipeline_parallel_degree=4 training.global_batch_size=128"},
    {2, "parallelism.context_parallel_degree=2 training.context_leaves=4 training.seq_len=128"},
    {16, "parallelism.pipeline_parallel_degree=2 parallelism.tensor_parallel_degree=2 "
         "parallelism.context_parallel_degree=2 training.context_leaves=4 training.seq_len=128"},
};

static void configure(int i, bool saves, tess_config *config)
{
    test_configure(config, layouts[i].ranks,
                   "training.local_batch_size=2 training.seq_len=32 training.global_batch_size=64 training.steps=10 "
                   "training.threads=1 validation.enable=false lr_scheduler.warmup_steps=1 checkpoint.enable=%s %s",
                   saves ? "true" : "false", layouts[i].overrides);
}

static void expect_near(double got, double want, double tolerance, const char *what, int layout)
{
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        test_fail(__FILE__, __LINE__, "%d ranks, %s: %s: %.17g, expected %.17g", layouts[layout].ranks,
                  layouts[layout].overrides, what, got, want);
}

static void compare(const tess_plan *shallow, const tess_plan *full, int i)
{
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        expect_near(shallow->memory.most.pool[pool], full->memory.most.pool[pool], 0, tess_pool_name((tess_pool)pool),
                    i);
        expect_near(shallow->memory.most.device[pool], full->memory.most.device[pool], 0, "device", i);
    }
    expect_near(shallow->memory.bytes, full->memory.bytes, 0, "bytes", i);
    EXPECT_INT(shallow->memory.rank, full->memory.rank);
    EXPECT_INT(shallow->volume.of_rank.n_rows, full->volume.of_rank.n_rows);
    for (int row = 0; row < full->volume.of_rank.n_rows; row++) {
        expect_near((double)shallow->volume.of_rank.rows[row].bytes, (double)full->volume.of_rank.rows[row].bytes, 0,
                    full->volume.of_rank.rows[row].team, i);
        expect_near((double)shallow->volume.of_rank.rows[row].n, (double)full->volume.of_rank.rows[row].n, 0, "number",
                    i);
    }
    expect_near(shallow->volume.exchanged_bytes, full->volume.exchanged_bytes, 0, "exchanges", i);
    /* The shallowest ranks of a pipeline are timed, which gather a little less. */
    const double tolerance = strstr(layouts[i].overrides, "pipeline") != NULL ? 0.05 : 0.01;
    expect_near(shallow->time.step_s, full->time.step_s, tolerance, "step", i);
    expect_near(shallow->time.compute_s, full->time.compute_s, 0.01, "kernels", i);
}

static void plans_of(const char *machine_name, bool tied)
{
    const tess_model_config model = model_of(tied);
    tess_machine machine;
    EXPECT_OK(tess_machine_load(test_mem(), machine_name, &machine));
    for (int i = 0; i < (int)(sizeof(layouts) / sizeof(layouts[0])); i++) {
        tess_config config = {0};
        tess_plan shallow, full;
        TESS_AUTO(tess_planner_destroy) tess_planner *planner = NULL;
        configure(i, !tied, &config);
        if (tied && config.parallelism.pipeline_parallel_degree > 1) {
            tess_config_free(&config);
            continue;
        }
        tess_plan_request request = {
            .config = &config, .model = &model, .machine = &machine, .n_ranks = layouts[i].ranks};
        EXPECT_OK(tess_planner_create(test_mem(), &planner));
        tess_plan_memory memory;
        EXPECT_OK(tess_plan_memory_of(planner, &request, &memory));
        EXPECT_OK(tess_plan_make(planner, &request, &shallow));
        expect_near(memory.bytes, shallow.memory.bytes, 0, "memory alone", i);
        request.options.full_ranks = true;
        EXPECT_OK(tess_plan_make(planner, &request, &full));
        EXPECT(!full.composed && full.memory.n_alive > 0);
        EXPECT(shallow.composed || config.parallelism.pipeline_parallel_degree > 1);
        compare(&shallow, &full, i);
        tess_config_free(&config);
    }
}

static void shallow_plans_equal_full_ones_on_gpus(void)
{
    plans_of("h100-sxm", false);
}

static void shallow_plans_equal_full_ones_on_cpus(void)
{
    plans_of("xeon-amx", true);
}

static double attention_flops(const tess_plan *plan)
{
    for (int i = 0; i < plan->time.n_kernels; i++)
        if (strcmp(plan->time.kernels[i].name, "attention_forward") == 0)
            return plan->time.kernels[i].flops;
    test_fail(__FILE__, __LINE__, "the plan has no attention");
    return 0;
}

/* Causal attention of four ranks reads 16 halves of blocks. If tokens are in order, the first rank has one of them and
 * the last one seven, and the step waits for the last. */
static void a_step_waits_for_the_rank_with_most_attention(void)
{
    const tess_model_config model = model_of(false);
    tess_machine machine;
    tess_plan plans[2];
    TESS_AUTO(tess_planner_destroy) tess_planner *planner = NULL;
    EXPECT_OK(tess_machine_load(test_mem(), "h100-sxm", &machine));
    EXPECT_OK(tess_planner_create(test_mem(), &planner));
    for (int i = 0; i < 2; i++) {
        tess_config config = {0};
        test_configure(&config, 4,
                       "training.local_batch_size=1 training.seq_len=1024 training.global_batch_size=1 "
                       "training.steps=10 training.context_leaves=8 parallelism.context_parallel_degree=4 "
                       "parallelism.context_parallel_method=ring parallelism.context_parallel_load_balancer=%s",
                       i == 0 ? "zigzag" : "contiguous");
        const tess_plan_request request = {.config = &config, .model = &model, .machine = &machine, .n_ranks = 4};
        EXPECT_OK(tess_plan_make(planner, &request, &plans[i]));
        tess_config_free(&config);
    }
    const double more = attention_flops(&plans[1]) / attention_flops(&plans[0]);
    if (fabs(more - 7.0 / 4) > 0.01)
        test_fail(__FILE__, __LINE__, "%.3f times the attention of zigzag, expected 1.75", more);
    double sum = plans[1].time.compute_s + plans[1].time.exposed_s + plans[1].time.bubble_s + plans[1].time.optimizer_s;
    if (fabs(sum / plans[1].time.step_s - 1) > 1e-9)
        test_fail(__FILE__, __LINE__, "the parts are %.9f s, the step %.9f s", sum, plans[1].time.step_s);
}

static double product_flops(const tess_plan *plan)
{
    double flops = 0;
    for (int i = 0; i < plan->time.n_kernels; i++)
        flops += strncmp(plan->time.kernels[i].name, "gemm", 4) == 0 ? plan->time.kernels[i].flops : 0;
    return flops;
}

/* Ranks that divide the experts compute as much as ranks that have all of them, if the router is balanced. Memory is
 * that of the worst routing all the same. */
static void experts_have_equal_work_and_the_most_memory(void)
{
    const tess_model_config model = parse(experts_json, false);
    tess_machine machine;
    double flops[2];
    EXPECT_OK(tess_machine_load(test_mem(), "h100-sxm", &machine));
    for (int i = 0; i < 2; i++) {
        tess_config config = {0};
        tess_plan plan;
        tess_plan_memory worst;
        TESS_AUTO(tess_planner_destroy) tess_planner *planner = NULL, *other = NULL;
        test_configure(&config, 4,
                       "training.local_batch_size=1 training.seq_len=64 training.global_batch_size=8 "
                       "training.steps=10 validation.enable=false parallelism.expert_parallel_degree=%d",
                       i == 0 ? 1 : 4);
        const tess_plan_request request = {.config = &config, .model = &model, .machine = &machine, .n_ranks = 4};
        EXPECT_OK(tess_planner_create(test_mem(), &planner));
        EXPECT_OK(tess_planner_create(test_mem(), &other));
        EXPECT_OK(tess_plan_make(planner, &request, &plan));
        EXPECT_OK(tess_plan_memory_of(other, &request, &worst));
        if (!(plan.memory.bytes == worst.bytes))
            test_fail(__FILE__, __LINE__, "%.0f bytes, alone %.0f", plan.memory.bytes, worst.bytes);
        flops[i] = product_flops(&plan);
        tess_config_free(&config);
    }
    if (!(flops[0] > 0 && fabs(flops[1] / flops[0] - 1) < 1e-9))
        test_fail(__FILE__, __LINE__, "%.0f operations on divided experts, %.0f on whole ones", flops[1], flops[0]);
}

/* The parts of a step's time add up, and the plan has the counters of the dry rank. */
static void a_plan_has_the_counters_of_a_dry_rank(void)
{
    const tess_model_config model = model_of(false);
    tess_machine machine;
    EXPECT_OK(tess_machine_load(test_mem(), "epyc", &machine));
    for (int i = 0; i < 5; i++) {
        tess_config config = {0};
        tess_plan plan;
        tess_dry_report dry;
        TESS_AUTO(tess_planner_destroy) tess_planner *planner = NULL;
        configure(i, false, &config);
        tess_plan_request request = {.config = &config,
                                     .model = &model,
                                     .machine = &machine,
                                     .n_ranks = layouts[i].ranks,
                                     .options.full_ranks = true};
        EXPECT_OK(tess_planner_create(test_mem(), &planner));
        EXPECT_OK(tess_plan_make(planner, &request, &plan));
        tess_memory_plan of = tess_memory_plan_of(&config, layouts[i].ranks);
        of.moves = true;
        EXPECT_OK(tess_dry_rank(&of, &model, 0, &dry));
        for (int pool = 0; pool < TESS_POOL_MISC; pool++)
            expect_near(plan.memory.most.pool[pool], dry.host[pool], 0, tess_pool_name((tess_pool)pool), i);
        EXPECT_INT(plan.volume.of_rank.n_rows, dry.volume.n_rows);
        for (int row = 0; row < dry.volume.n_rows; row++)
            EXPECT_INT(plan.volume.of_rank.rows[row].bytes, dry.volume.rows[row].bytes);
        const tess_plan_time *t = &plan.time;
        expect_near(t->compute_s + t->exposed_s + t->bubble_s + t->optimizer_s + t->loader_s + t->other_s, t->step_s,
                    1e-9, "sum of the parts", i);
        double phases = 0, kernels = 0;
        for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
            phases += t->phase_s[phase];
        for (int k = 0; k < t->n_kernels; k++)
            kernels += t->kernels[k].seconds;
        expect_near(phases, t->step_s, 1e-9, "sum of the phases", i);
        expect_near(kernels, t->compute_s + t->optimizer_s, 1e-9, "sum of the kernels", i);
        tess_config_free(&config);
    }
}

static void what_does_not_fit_is_told_with_what_would(void)
{
    const tess_model_config model = model_of(false);
    char with[640];
    tess_machine machine;
    tess_config config = {0};
    tess_plan_memory memory;
    TESS_AUTO(tess_planner_destroy) tess_planner *planner = NULL;
    EXPECT_OK(tess_machine_load(test_mem(), "h100-sxm", &machine));
    configure(4, false, &config);
    tess_plan_request request = {.config = &config, .model = &model, .machine = &machine, .n_ranks = 4};
    EXPECT_OK(tess_planner_create(test_mem(), &planner));
    EXPECT_OK(tess_plan_memory_of(planner, &request, &memory));
    EXPECT(memory.missing == 0);
    machine.memory.gb = (memory.bytes - 1) * 1e-9;
    EXPECT_OK(tess_plan_memory_of(planner, &request, &memory));
    EXPECT(memory.missing > 0 && memory.missing < 2);
    EXPECT_OK(tess_plan_would_fit(planner, &request, with, sizeof(with)));
    EXPECT_CONTAINS(with, "parallelism.shard_strategy=full");
    machine.memory.gb = 1e-6;
    EXPECT_OK(tess_plan_would_fit(planner, &request, with, sizeof(with)));
    EXPECT_CONTAINS(with, "use more ranks");
    machine.memory.gb = 80;
    EXPECT_OK(tess_plan_memory_of(planner, &request, &memory));
    EXPECT(memory.missing == 0 && memory.host_bytes > 0);
    machine.memory.host_gb = memory.host_bytes * 0.5e-9; /* the host counts, too */
    EXPECT_OK(tess_plan_memory_of(planner, &request, &memory));
    EXPECT(memory.missing > 0);
    machine.links[TESS_LINK_NVLINK].gb_per_s = machine.links[TESS_LINK_PCIE].gb_per_s =
        machine.links[TESS_LINK_INFINIBAND].gb_per_s = 0;
    tess_plan plan;
    EXPECT_FAILS(tess_plan_make(planner, &request, &plan), TESS_E_INVALID, "nvlink, shared_memory or pcie");
    tess_config_free(&config);
}

/* Dry ranks of a few micro-batches, extended, take as long as those of all micro-batches. */
static void long_steps_take_as_long_as_all_their_micro_batches(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb_h1", "zbv", "dualpipev"};
    const tess_model_config model = model_of(false);
    tess_machine machine;
    EXPECT_OK(tess_machine_load(test_mem(), "h100-sxm", &machine));
    for (int i = 0; i < (int)(sizeof(schedules) / sizeof(schedules[0])); i++)
        for (int stages = 2; stages <= 4; stages += 2) {
            tess_config config = {0};
            tess_plan few, all;
            TESS_AUTO(tess_planner_destroy) tess_planner *planner = NULL;
            test_configure(&config, stages,
                           "training.local_batch_size=1 training.seq_len=256 training.global_batch_size=%d "
                           "training.steps=10 parallelism.pipeline_parallel_degree=%d "
                           "parallelism.pipeline_parallel_schedule=%s",
                           12 * stages, stages, schedules[i]);
            tess_plan_request request = {.config = &config,
                                         .model = &model,
                                         .machine = &machine,
                                         .n_ranks = stages,
                                         .options = {.no_volume = true, .no_memory = true}};
            EXPECT_OK(tess_planner_create(test_mem(), &planner));
            EXPECT_OK(tess_plan_make(planner, &request, &few));
            request.options.all_micros = true;
            EXPECT_OK(tess_plan_make(planner, &request, &all));
            const double tolerance = strcmp(schedules[i], "1f1b") == 0 ? 0.015 : 0.006;
            if (!(fabs(few.time.step_s / all.time.step_s - 1) < tolerance))
                test_fail(__FILE__, __LINE__, "%s, %d stages: %.9f s, with all micro-batches %.9f s", schedules[i],
                          stages, few.time.step_s, all.time.step_s);
            tess_config_free(&config);
        }
}

static const test_case cases[] = {
    CASE(shallow_plans_equal_full_ones_on_gpus),
    CASE(shallow_plans_equal_full_ones_on_cpus),
    CASE(a_step_waits_for_the_rank_with_most_attention),
    CASE(experts_have_equal_work_and_the_most_memory),
    CASE(a_plan_has_the_counters_of_a_dry_rank),
    CASE(what_does_not_fit_is_told_with_what_would),
    CASE(long_steps_take_as_long_as_all_their_micro_batches),
};
TEST_MAIN(cases)
