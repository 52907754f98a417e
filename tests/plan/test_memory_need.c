/* The memory that is predicted is the memory that a step then has; what would fit is what fits. */
#include <math.h>

#include "support/rig.h"

#include "base/mem/named.h"
#include "base/mem/scoped.h"
#include "base/mem/pager.h"
#include "base/text/json.h"
#include "tessera/comm.h"
#include "parallel/pipeline/pipeline.h"
#include "plan/dry_rank.h"

enum { ROWS = 4, LENGTH = 32, TOKENS = ROWS * LENGTH, VOCABULARY = 2000, LAYERS = 5 };

static const char model_json[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 2000, \"hidden_size\": 128,"
    "\"intermediate_size\": 352, \"num_hidden_layers\": 5, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-6,"
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

/* The vocabulary gives the embedding a size class of its own, or that of the layers (tied: its window stays open). */
static tess_model_config model_of(bool tied, int64_t vocabulary, int64_t n_layers)
{
    tess_model_config model;
    json_t *json = NULL;
    EXPECT_OK(tess_json_parse(model_json, sizeof(model_json) - 1, "test", true, &json));
    json_object_set_new(json, "tie_word_embeddings", json_boolean(tied));
    json_object_set_new(json, "vocab_size", json_integer(vocabulary));
    json_object_set_new(json, "num_hidden_layers", json_integer(n_layers));
    EXPECT_OK(tess_model_config_parse(json, "test", &model));
    json_decref(json);
    return model;
}

static tess_status next_tokens(void *self, int64_t index, tess_batch *batch)
{
    static int32_t ids[TOKENS], pos[TOKENS], cu_seqlens[ROWS + 1];
    int64_t rows = *(int64_t *)self;
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = (int32_t)((index + i) % 1000);
        pos[i] = i % LENGTH;
    }
    for (int r = 0; r <= ROWS; r++)
        cu_seqlens[r] = r * LENGTH;
    *batch = (tess_batch){
        .n_tokens = rows * LENGTH, .n_seqs = rows, .ids = ids, .pos = pos, .targets = ids, .cu_seqlens = cu_seqlens};
    return TESS_OK;
}

static void configure(const char *overrides, int world, tess_config *config)
{
    tess_config_free(config);
    test_configure(config, world,
                   "training.local_batch_size=4 training.seq_len=32 training.steps=10 training.threads=1 "
                   "validation.enable=false "
                   "lr_scheduler.warmup_steps=1 %s",
                   overrides);
}

static size_t in_use(const tess_runtime *rt, int pool)
{
    return tess_mem_stats(tess_runtime_mem(rt), (tess_pool)pool).bytes;
}

/* Compares this rank with a dry one between steps. A small model's state on disk fits in its window, which is empty
 * then. Peaks may be larger: those of a run are compared by tests/cli/test_memory.sh. */
static void compare(const tess_engine *e, const size_t before[], const tess_dry_report *dry, const char *what)
{
    const tess_mem *mem = tess_runtime_mem(e->runtime);
    for (int pool = 0; pool <= TESS_POOL_COMM; pool++) {
        double got = (double)(in_use(e->runtime, pool) - before[pool]), want = dry->engine_host[pool];
        EXPECT_INT(tess_mem_disk_bytes(mem, (tess_pool)pool), (int64_t)dry->disk[pool]);
        EXPECT(dry->host[pool] >= want);
        if (got != want) {
            fprintf(stderr, "%d ranks, %s: rank %d%s%s: %s: %.0f bytes, predicted %.0f\n", e->at.world, what,
                    e->at.rank, dry->stages[0] != '\0' ? " with " : "", dry->stages, tess_pool_name((tess_pool)pool),
                    got, want);
            EXPECT(got == want);
        }
    }
}

static void run_layout(const char *overrides, tess_model_config sizes)
{
    tess_config config = {0};
    tess_runtime *rt = test_stay_joined();
    tess_engine *engine;
    tess_engine_report report;
    tess_memory_need need;
    tess_dry_report mine;
    size_t before[TESS_POOL_COUNT];
    int world = tess_runtime_world(rt);
    configure(overrides, world, &config);
    int64_t rows = config.training.local_batch_size;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        before[pool] = in_use(rt, pool);
    const tess_memory_plan plan = tess_memory_plan_of(&config, world);
    EXPECT_OK(tess_memory_predict(test_mem(), &sizes, &plan, &need));
    EXPECT_OK(tess_dry_rank(&plan, &sizes, tess_runtime_rank(rt), &mine));

    EXPECT_OK(tess_engine_create(rt, &config, &sizes, NULL, &engine));
    for (int i = 0; i < 2; i++) {
        tess_batch_source source = tess_engine_source(engine, &rows, next_tokens);
        EXPECT_OK(tess_engine_step(engine, &source, &report));
    }
    tess_pager_drain(tess_mem_pager(tess_runtime_mem(rt)));
    need.host -= need.host_disk;
    compare(engine, before, &mine, overrides);

    double all = 0;
    for (int pool = 0; pool <= TESS_POOL_COMM; pool++)
        all += (double)(in_use(rt, pool) - before[pool]);
    int64_t of_host = (int64_t)all;
    EXPECT_OK(tess_all_reduce(tess_runtime_team(rt), &of_host, &of_host, 1, TESS_I64, TESS_SUM, NULL));
    if (!((double)of_host >= 0.97 * need.host && (double)of_host <= 1.03 * need.host)) {
        fprintf(stderr, "%d ranks, %s: %lld bytes of the host, predicted %.0f\n", world, overrides, (long long)of_host,
                need.host);
        EXPECT(false);
    }
    tess_engine_destroy(&engine);
    tess_config_free(&config);
}

static void each_pool_is_predicted(void)
{
    static const char *const overrides[] = {
        "",
        "training.mixed_precision_param=float32",
        "training.mixed_precision_reduce=bfloat16",
        "parallelism.shard_strategy=none",
        "parallelism.shard_strategy=none training.mixed_precision_param=float32",
        "parallelism.shard_strategy=zero1",
        "parallelism.shard_strategy=zero1 training.mixed_precision_reduce=bfloat16",
        "parallelism.shard_strategy=zero2",
        "parallelism.fsdp_reshard_after_forward=0",
        "parallelism.fsdp_prefetch=0",
        "parallelism.fsdp_prefetch=2",
        "optimizer.name=muon",
        "optimizer.name=muon parallelism.shard_strategy=none",
        "optimizer.name=adamw8bit",
        "optimizer.name=sgd optimizer.state_dtype=bfloat16",
        "activation_checkpoint.mode=full",
        "activation_checkpoint.mode=every_n activation_checkpoint.every_n=2",
        "activation_checkpoint.mode=selective activation_checkpoint.recompute=attention,feed_forward",
        "activation_checkpoint.mode=selective activation_checkpoint.budget=2MiB",
        "training.local_batch_size=2 training.global_batch_size=48",
        "training.global_batch_size=4",
        "training.global_batch_size=20",
        "training.global_batch_size=28 parallelism.shard_strategy=none",
        "training.passes=2",
        "training.passes=4 training.global_batch_size=48 training.mixed_precision_reduce=bfloat16",
        "training.passes=3 parallelism.shard_strategy=none training.mixed_precision_param=float32",
        "training.passes=2 parallelism.shard_strategy=zero1",
        "training.passes=2 training.global_batch_size=4",
        "offload.folder=. offload.params=true offload.grads=true offload.optimizer=true",
        "offload.folder=. offload.grads=true parallelism.shard_strategy=none training.passes=2",
        "offload.folder=. offload.activations=true",
        "offload.folder=. offload.params=true offload.activations=true activation_checkpoint.mode=full",
        "offload.folder=. offload.params=true offload.optimizer=true optimizer.name=muon",
    };
    int n = sizeof(overrides) / sizeof(overrides[0]), world = tess_runtime_world(test_stay_joined());
    /* Each with one embedding, by turns over the worlds (1200: its class is that of the layers); 3 and 4 share them. */
    const int apart = world > 2 ? 2 : 1;
    for (int i = world % apart; i < n; i += apart)
        if (test_takes())
            run_layout(overrides[i], model_of((i + world) % 3 > 0, (i + world) % 3 > 1 ? 1200 : VOCABULARY, LAYERS));
}

/* Gradients and moments are those of what trains: a part of the model, or an adapter. */
static void what_trains_is_predicted(void)
{
    static const char *const overrides[] = {
        "training.freeze=model.embed_tokens,model.layers.[0-1]",
        "training.freeze=model.layers.[1-3],*norm* parallelism.shard_strategy=none",
        "training.freeze=lm_head,model.norm parallelism.shard_strategy=zero1",
        "training.freeze=*.self_attn parallelism.fsdp_reshard_after_forward=0 activation_checkpoint.mode=full",
        "",
        "training.mixed_precision_param=float32",
        "parallelism.shard_strategy=none training.global_batch_size=20",
        "parallelism.shard_strategy=zero2 training.passes=2",
        "activation_checkpoint.mode=full training.mixed_precision_reduce=bfloat16",
    };
    int world = tess_runtime_world(test_stay_joined());
    for (int i = world > 1; i < 9; i += 1 + (world > 1)) {
        tess_model_config model = model_of(i != 2 && (i + world) % 2 > 0, VOCABULARY, LAYERS);
        if (i > 3) {
            model.lora = (tess_lora){.rank = 3, .alpha = 3};
            EXPECT_OK(tess_lora_add_target(&model.lora, i % 2 > 0 ? "all-linear" : "q_proj", "lora.targets"));
        }
        run_layout(overrides[i], model);
    }
}

/* The formula: 8 bytes of moments a number of A and B, whatever the model's size. */
static void moments_are_those_of_the_adapter(void)
{
    tess_config config = {0};
    tess_memory_need need, whole;
    tess_model_config sizes = model_of(false, VOCABULARY, LAYERS);
    configure("", 1, &config);
    const tess_memory_plan plan = tess_memory_plan_of(&config, 1);
    for (int k = 0; k < 2; k++) {
        EXPECT_OK(tess_memory_predict(test_mem(), &sizes, &plan, k == 0 ? &whole : &need));
        sizes.lora = (tess_lora){.rank = 6, .alpha = 6};
        EXPECT_OK(tess_lora_add_target(&sizes.lora, "q_proj", "lora.targets"));
        EXPECT_OK(tess_lora_add_target(&sizes.lora, "down_proj", "lora.targets"));
    }
    double adapter = LAYERS * 6 * (128 + 128 + 352 + 128), all = 1435008; /* 2 * 2000 * 128, 5 layers, 11 norms */
    EXPECT(whole.most.pool[TESS_POOL_OPTIMIZER] == 8 * all);
    EXPECT(need.most.pool[TESS_POOL_OPTIMIZER] == 8 * adapter);
    EXPECT(need.most.pool[TESS_POOL_PARAMS] == 2 * all + (4 + 2) * adapter); /* bfloat16 of all, which is gathered */
    EXPECT(need.most.pool[TESS_POOL_GRADS] / adapter <= whole.most.pool[TESS_POOL_GRADS] / all);
    tess_config_free(&config);
}

static void replicas_are_predicted(void)
{
    static const char *const batches[] = {"", "training.global_batch_size=48", "training.global_batch_size=44",
                                          "training.global_batch_size=4"}; /* one rank has a micro-batch */
    char overrides[256];
    int world = tess_runtime_world(test_stay_joined());
    for (int replicas = 2; replicas <= world; replicas++) /* each batch with two numbers of replicas, over all worlds */
        for (int b = replicas % 2; world % replicas == 0 && b < 4; b += 2) {
            snprintf(overrides, sizeof(overrides),
                     "parallelism.shard_strategy=%s parallelism.data_parallel_replicate_degree=%d %s",
                     (b + replicas) % 2 == 0 ? "hybrid" : "zero2", replicas, batches[b]);
            run_layout(overrides, model_of(b == 1, VOCABULARY, LAYERS));
        }
}

/* Over the cases, each schedule with most of the other settings. */
static void stages_are_predicted(void)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "interleaved", "zb_h1", "zbv", "dualpipev"};
    static const char *const others[] = {"",
                                         "training.mixed_precision_param=float32 activation_checkpoint.mode=full",
                                         "parallelism.shard_strategy=none",
                                         "parallelism.shard_strategy=zero1 training.mixed_precision_reduce=bfloat16",
                                         "parallelism.shard_strategy=zero2",
                                         ("parallelism.fsdp_prefetch=2 activation_checkpoint.mode=selective "
                                          "activation_checkpoint.recompute=attention_inputs")};
    char overrides[384];
    int world = tess_runtime_world(test_stay_joined()), n = 0;
    for (int stages = 2; stages <= world && stages <= 3; stages++)
        for (int i = world > 3 ? stages % 2 : 0; i < 6 && world % stages == 0; i += 1 + (world > 3), n++) {
            snprintf(overrides, sizeof(overrides),
                     "parallelism.pipeline_parallel_degree=%d parallelism.pipeline_parallel_schedule=%s "
                     "training.global_batch_size=%d %s",
                     stages, schedules[i], 4 * 6 * world / stages, others[(i + stages + world) % 6]);
            run_layout(overrides, model_of(false, i % 2 > 0 ? 1200 : VOCABULARY, 7));
        }
    EXPECT(n > 0);
}

/* Heads and channels that the ranks share evenly, or not. */
static void shared_layers_are_predicted(void)
{
    static const char *const others[] = {"", "training.mixed_precision_param=float32 activation_checkpoint.mode=full",
                                         "parallelism.shard_strategy=zero1 parallelism.enable_sequence_parallel=false "
                                         "activation_checkpoint.mode=selective activation_checkpoint.budget=2700KiB "
                                         "activation_checkpoint.partition=true",
                                         "parallelism.pipeline_parallel_degree=2"};
    char overrides[384];
    int world = tess_runtime_world(test_stay_joined());
    for (int tp = 2; tp <= world; tp++)
        for (int i = 0; world % tp == 0 && i < 3 + (world % (2 * tp) == 0); i++) {
            snprintf(overrides, sizeof(overrides), "parallelism.tensor_parallel_degree=%d %s", tp, others[i]);
            tess_model_config model = model_of(i == 1, VOCABULARY, LAYERS);
            model.sum_leaves = i == 2 ? 4 : 1; /* partial sums, where tp divides that */
            model.intermediate_size = i == 2 ? 4 * 64 : model.intermediate_size;
            if (i % 2 > 0) {
                model.lora = (tess_lora){.rank = 3, .alpha = 3};
                EXPECT_OK(tess_lora_add_target(&model.lora, "all-linear", "lora.targets"));
            }
            run_layout(overrides, model);
        }
}

/* A task that has a block next to its engine, and ranks that do not train. */
enum { BESIDE = 100000, SERVES = 3000000 };

typedef struct beside {
    tess_mem *mem;
    void *block;
} beside;

static tess_status create_beside(tess_engine *engine, tess_team *all, void **self)
{
    beside *b;
    EXPECT(tess_team_size(all) >= engine->at.world);
    TESS_TRY(TESS_NEW(engine->mem, 1, "beside", &b));
    *self = b;
    b->mem = engine->mem;
    return tess_mem_alloc(engine->mem, TESS_POOL_KV_CACHE, BESIDE, "beside", &b->block);
}

static tess_engine *no_second(const void *self)
{
    (void)self;
    return NULL;
}

static tess_status no_pause(void *self, const tess_batch *batch)
{
    EXPECT(self != NULL && batch->n_tokens > 0);
    return TESS_OK;
}

static void destroy_beside(void **self)
{
    beside *b = *self;
    tess_mem_free(b->mem, b->block);
    tess_mem_free(b->mem, b);
    *self = NULL;
}

static tess_status serve(tess_team *all, const tess_config *config, const tess_model_config *model,
                         tess_dry_report *report)
{
    const int n_train = tess_team_size(all) - (int)config->rollout.ranks;
    (void)model;
    EXPECT(tess_team_rank(all) >= n_train);
    report->host[TESS_POOL_PARAMS] = SERVES;
    return TESS_OK;
}

static const tess_dry_task task = {create_beside, no_second, no_pause, destroy_beside, serve, NULL};

/* The bytes of a host with other settings. */
static double host_with(const tess_model_config *model, const tess_memory_plan *plan, tess_strategy strategy,
                        tess_recompute recompute, int64_t rows)
{
    tess_config config;
    tess_memory_need need;
    tess_memory_plan other = *plan;
    EXPECT_OK(tess_config_copy(plan->config, &config));
    config.parallelism.shard_strategy = (int)strategy;
    config.activation_checkpoint.mode = (int)recompute;
    config.training.local_batch_size = rows;
    other.config = &config;
    EXPECT_OK(tess_memory_predict(test_mem(), model, &other, &need));
    tess_config_free(&config);
    return need.host;
}

static void what_would_fit_fits(void)
{
    tess_config config = {0};
    tess_memory_need need;
    const tess_model_config sizes = model_of(false, VOCABULARY, LAYERS);
    const tess_model_config *model = &sizes;
    configure("parallelism.shard_strategy=none", 4, &config);
    tess_memory_plan plan = tess_memory_plan_of(&config, 4), other;
    EXPECT_OK(tess_memory_predict(test_mem(), model, &plan, &need));
    EXPECT_OK(tess_memory_check(test_mem(), model, &plan, need.host, "it"));
    EXPECT_FAILS(tess_memory_check(test_mem(), model, &plan, need.host - 1, "it"), TESS_E_INVALID,
                 "4 ranks of this host would need");
    EXPECT_CONTAINS(tess_error_message(), "but it has");
    EXPECT_CONTAINS(tess_error_message(), "(a rank: params ");
    EXPECT_CONTAINS(tess_error_message(), "with -n 3, or with parallelism.shard_strategy=full, or with "
                                          "activation_checkpoint.mode=full, or with training.local_batch_size=2. "
                                          "job.ignore_memory=true");

    /* Ranks that only draw come on top, and so does what a task has in addition to training. */
    config.rollout.ranks = plan.n_drawing = 2;
    plan.task = &task;
    const double with = need.host + 4 * BESIDE + 2 * SERVES;
    EXPECT_OK(tess_memory_check(test_mem(), model, &plan, with, "it"));
    EXPECT_FAILS(tess_memory_check(test_mem(), model, &plan, with - 1, "it"), TESS_E_INVALID,
                 "2 of the ranks only draw (rollout.ranks)");
    EXPECT_CONTAINS(tess_error_message(), "kv-cache 97.7 KiB; 2 of");
    config.rollout.ranks = plan.n_drawing = 0;
    plan.task = NULL;

    /* If no setting suffices by itself, all do together. */
    configure("parallelism.shard_strategy=none training.global_batch_size=32", 8, &config);
    plan = tess_memory_plan_of(&config, 4);
    const double alone[] = {host_with(model, &plan, TESS_STRATEGY_FULL, TESS_RECOMPUTE_NONE, 4),
                            host_with(model, &plan, TESS_STRATEGY_NONE, TESS_RECOMPUTE_FULL, 4),
                            host_with(model, &plan, TESS_STRATEGY_NONE, TESS_RECOMPUTE_NONE, 2),
                            host_with(model, &plan, TESS_STRATEGY_NONE, TESS_RECOMPUTE_NONE, 1)};
    double room = INFINITY;
    for (int i = 0; i < 4; i++)
        room = fmin(room, alone[i] - 1);
    need.host = host_with(model, &plan, TESS_STRATEGY_FULL, TESS_RECOMPUTE_FULL, 1);
    EXPECT(need.host < room);
    EXPECT_FAILS(tess_memory_check(test_mem(), model, &plan, room, "its control group"), TESS_E_INVALID,
                 "but its control group has");
    EXPECT_CONTAINS(tess_error_message(), "It would fit with parallelism.shard_strategy=full, "
                                          "activation_checkpoint.mode=full, training.local_batch_size=1. ");
    EXPECT_FAILS(tess_memory_check(test_mem(), model, &plan, 0.6 * need.host, "it"), TESS_E_INVALID,
                 "hosts like this one, 4 ranks each, parallelism.shard_strategy=full");
    EXPECT_FAILS(tess_memory_check(test_mem(), model, &plan, 1e5, "it"), TESS_E_INVALID,
                 "on no number of hosts like this one");

    /* A pipeline: the message names the stage of the rank that needs most. */
    configure("parallelism.pipeline_parallel_degree=2 parallelism.pipeline_parallel_schedule=gpipe "
              "training.global_batch_size=64",
              4, &config);
    plan = tess_memory_plan_of(&config, 4);
    EXPECT_OK(tess_memory_predict(test_mem(), model, &plan, &need));
    EXPECT_CONTAINS(need.most.stages, "stage 0 of 2"); /* three layers of five */
    EXPECT_OK(tess_memory_check(test_mem(), model, &plan, need.host, "it"));
    EXPECT_FAILS(tess_memory_check(test_mem(), model, &plan, need.host - 1, "it"), TESS_E_INVALID,
                 "(a rank with stage 0 of 2: params ");
    EXPECT_CONTAINS(tess_error_message(), "It would fit with -n 2, or with "
                                          "parallelism.pipeline_parallel_schedule=1f1b, or with "
                                          "activation_checkpoint.mode=full, or with ");
    config.parallelism.pipeline_parallel_schedule = TESS_PIPELINE_1F1B;
    EXPECT_OK(tess_memory_check(test_mem(), model, &plan, need.host - 1, "it"));
    other = plan;
    other.n_local = 2; /* a stage a host: the host of the second stage decides */
    EXPECT_OK(tess_memory_predict(test_mem(), model, &plan, &need));
    double both = need.host;
    EXPECT_OK(tess_memory_predict(test_mem(), model, &other, &need));
    EXPECT(need.host > both / 2 && need.host < both);

    /* Four ranks on each of `n` hosts suffice, and one host fewer would not be enough. */
    configure("", 4, &config);
    plan = tess_memory_plan_of(&config, 4);
    for (int n = 2; n < 9; n += 3) {
        char text[64];
        snprintf(text, sizeof(text), "with %d hosts like this one, 4 ranks each", n);
        config.parallelism.data_parallel_shard_degree = 4 * n;
        EXPECT_OK(tess_memory_predict(test_mem(), model, &plan, &need));
        config.parallelism.data_parallel_shard_degree = 4;
        EXPECT_FAILS(tess_memory_check(test_mem(), model, &plan, need.host, "it"), TESS_E_INVALID, text);
    }
    tess_config_free(&config);
}

/* Ranks that share a dry rank take what each of them would take alone. */
static void equal_ranks_share_a_dry_rank(void)
{
    static const struct {
        int world;
        const char *overrides;
    } layouts[] = {{6, ""},
                   {7, "parallelism.shard_strategy=none"},
                   {5, "parallelism.shard_strategy=zero1 optimizer.name=muon"},
                   {6, "optimizer.name=adamw8bit training.global_batch_size=12"},
                   {12, "parallelism.tensor_parallel_degree=2 parallelism.pipeline_parallel_degree=2"},
                   {12, "parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=3 "
                        "training.global_batch_size=148"},
                   {8, "parallelism.fsdp_reshard_after_forward=2"}};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        for (int n_local = layouts[i].world; n_local > 1; n_local = n_local > 4 ? 4 : 1) {
            tess_config config = {0};
            const tess_model_config model = model_of(i % 2 > 0, VOCABULARY, LAYERS);
            TESS_AUTO(tess_memory_ranks_close) tess_memory_ranks *ranks = NULL;
            configure(layouts[i].overrides, layouts[i].world, &config);
            const tess_memory_plan plan = tess_memory_plan_of(&config, n_local);
            EXPECT_OK(tess_memory_ranks_open(test_mem(), &model, &plan, true, &ranks));
            for (int rank = 0; rank < layouts[i].world; rank++) {
                const tess_memory_of_rank *shared;
                tess_memory_of_rank alone;
                EXPECT_OK(tess_memory_ranks_need(ranks, rank, &shared));
                EXPECT_OK(tess_memory_predict_rank(&model, &plan, rank, &alone));
                for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
                    if (shared->pool[pool] != alone.pool[pool])
                        test_fail(__FILE__, __LINE__, "%s, %d on a host: rank %d: %s: %.0f bytes, shared %.0f",
                                  layouts[i].overrides, n_local, rank, tess_pool_name((tess_pool)pool),
                                  alone.pool[pool], shared->pool[pool]);
            }
            tess_config_free(&config);
        }
}

/* ---- Ranks that divide tokens ---- */
enum { LONG_ROW = 3072 };

/* A row of documents that begin and end anywhere; *self: the lengths that take turns. */
static tess_status next_documents(void *self, int64_t index, tess_batch *batch)
{
    static int32_t ids[LONG_ROW], pos[LONG_ROW], cu_seqlens[LONG_ROW + 1];
    const int *lengths = self;
    int64_t n = 0, at = 0;
    for (; at < LONG_ROW; n++) {
        const int64_t length = lengths[n % 3] < LONG_ROW - at ? lengths[n % 3] : LONG_ROW - at;
        cu_seqlens[n] = (int32_t)at;
        for (int64_t i = 0; i < length; i++) {
            ids[at + i] = (int32_t)((index + at + i) % 1000);
            pos[at + i] = (int32_t)i;
        }
        at += length;
    }
    cu_seqlens[n] = LONG_ROW;
    *batch = (tess_batch){
        .n_tokens = LONG_ROW, .n_seqs = n, .ids = ids, .pos = pos, .targets = ids, .cu_seqlens = cu_seqlens};
    return TESS_OK;
}

/* One row without an end takes what is predicted; documents take no more. */
static void run_context(const char *method, const int *lengths, bool exactly)
{
    tess_config config = {0};
    tess_runtime *rt = test_stay_joined();
    tess_engine *engine;
    tess_engine_report report;
    tess_dry_report mine;
    tess_model_config sizes = model_of(false, VOCABULARY, 1);
    size_t before[TESS_POOL_COUNT];
    const int world = tess_runtime_world(rt);
    char overrides[384];
    sizes.max_position = LONG_ROW;
    snprintf(overrides, sizeof(overrides),
             "training.local_batch_size=1 training.global_batch_size=2 training.seq_len=%d "
             "parallelism.context_parallel_degree=%d training.context_leaves=%d parallelism.context_parallel_method=%s",
             LONG_ROW, world, 2 * world, method);
    configure(overrides, world, &config);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        before[pool] = in_use(rt, pool);
    const tess_memory_plan plan = tess_memory_plan_of(&config, world);
    EXPECT_OK(tess_dry_rank(&plan, &sizes, tess_runtime_rank(rt), &mine));
    EXPECT_OK(tess_engine_create(rt, &config, &sizes, NULL, &engine));
    tess_batch_source source = tess_engine_source(engine, (void *)(uintptr_t)lengths, next_documents);
    EXPECT_OK(tess_engine_step(engine, &source, &report));
    const double got = (double)(in_use(rt, TESS_POOL_ACTIVATIONS) - before[TESS_POOL_ACTIVATIONS]),
                 want = mine.engine_host[TESS_POOL_ACTIVATIONS];
    if (exactly ? got != want : got > want)
        test_fail(__FILE__, __LINE__, "%d ranks, %s, documents of %d: activations of rank %d: %.0f, %.0f", world,
                  method, lengths[0], tess_runtime_rank(rt), got, want);
    tess_engine_destroy(&engine);
    tess_config_free(&config);
}

static void documents_over_ranks_take_no_more_than_predicted(void)
{
    static const char *const methods[] = {"ring", "gather", "ulysses"};
    static const int lengths[][3] = {{LONG_ROW, LONG_ROW, LONG_ROW}, {5, 5, 5}, {33, 1, 65}, {130, 500, 7}};
    for (int method = 0; method < 3; method++)
        for (int i = 0; i < 4; i += method == 0 ? 1 : 2)
            run_context(methods[method], lengths[i], i == 0);
}

static const test_case cases[] = {
    CASE(each_pool_is_predicted, 1),
    {"each_pool_of_2_ranks_is_predicted", each_pool_is_predicted, 2, 0},
    {"each_pool_of_3_ranks_is_predicted", each_pool_is_predicted, 3, 0},
    {"each_pool_of_4_ranks_is_predicted", each_pool_is_predicted, 4, 0},
    {"what_trains_of_1_rank_is_predicted", what_trains_is_predicted, 1, 0},
    {"what_trains_of_3_ranks_is_predicted", what_trains_is_predicted, 3, 0},
    CASE(moments_are_those_of_the_adapter),
    {"replicas_of_4_ranks_are_predicted", replicas_are_predicted, 4, 0},
    {"replicas_of_6_ranks_are_predicted", replicas_are_predicted, 6, 0},
    {"layers_of_2_ranks_are_predicted", shared_layers_are_predicted, 2, 0},
    {"layers_of_3_ranks_are_predicted", shared_layers_are_predicted, 3, 0},
    {"layers_of_4_ranks_are_predicted", shared_layers_are_predicted, 4, 0},
    {"stages_of_2_ranks_are_predicted", stages_are_predicted, 2, 0},
    {"stages_of_3_ranks_are_predicted", stages_are_predicted, 3, 0},
    {"stages_of_4_ranks_are_predicted", stages_are_predicted, 4, 0},
    {"stages_of_6_ranks_are_predicted", stages_are_predicted, 6, 0},
    {"documents_over_2_ranks_take_no_more_than_predicted", documents_over_ranks_take_no_more_than_predicted, 2, 0},
    {"documents_over_4_ranks_take_no_more_than_predicted", documents_over_ranks_take_no_more_than_predicted, 4, 0},
    CASE(what_would_fit_fits),
    CASE(equal_ranks_share_a_dry_rank),
};
TEST_MAIN(cases)
