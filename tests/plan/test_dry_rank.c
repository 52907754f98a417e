/* A dry rank moves what the real rank moves, and takes little itself. */
#include "plan/dry_rank.h"

#include <sys/resource.h>

#include "base/os/os.h"
#include "comm/rehearsal/rehearsal.h"
#include "mesh/coordinates.h"
#include "support/rig.h"
#include "tessera/comm.h"

static const char small[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 250, \"hidden_size\": 64,"
    "\"intermediate_size\": 172, \"num_hidden_layers\": 5, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0}";

/* The sizes of Llama 3.1 405B. */
static const char large[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 128256, "
    "\"hidden_size\": 16384, \"intermediate_size\": 53248, \"num_hidden_layers\": 126, \"num_attention_heads\": 128, "
    "\"num_key_value_heads\": 8, \"hidden_act\": \"silu\", \"max_position_embeddings\": 8192, \"rms_norm_eps\": 1e-5, "
    "\"rope_theta\": 500000.0}";

/* ---- Volume ---- */
enum { ROWS = 2, LENGTH = 16, TOKENS = ROWS * LENGTH };

static tess_volume counted; /* operations of the real rank */

static tess_status count(tess_work *work, tess_work **handle)
{
    tess_volume_add(&counted, work);
    return tess_work_post(work, handle);
}

static tess_status next_tokens(void *self, int64_t index, tess_batch *batch)
{
    static int32_t ids[TOKENS], pos[TOKENS], cu_seqlens[ROWS + 1];
    (void)self;
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = (int32_t)((index + i) % 250);
        pos[i] = i % LENGTH;
    }
    for (int r = 0; r <= ROWS; r++)
        cu_seqlens[r] = r * LENGTH;
    *batch = (tess_batch){
        .n_tokens = TOKENS, .n_seqs = ROWS, .ids = ids, .pos = pos, .targets = ids, .cu_seqlens = cu_seqlens};
    return TESS_OK;
}

static void compare(const tess_volume *dry, const char *what, int rank)
{
    EXPECT_INT(dry->n_rows, counted.n_rows);
    for (int i = 0; i < counted.n_rows; i++) {
        const tess_volume_row *a = &dry->rows[i], *b = &counted.rows[i];
        if (strcmp(a->team, b->team) != 0 || a->kind != b->kind || a->n != b->n || a->bytes != b->bytes)
            fprintf(stderr, "rank %d, %s: dry %s %s %lld times %lld bytes, real %s %s %lld times %lld bytes\n", rank,
                    what, a->team, tess_trace_op_name(a->kind), (long long)a->n, (long long)a->bytes, b->team,
                    tess_trace_op_name(b->kind), (long long)b->n, (long long)b->bytes);
        EXPECT_TEXT(a->team, b->team);
        EXPECT_INT(a->kind, b->kind);
        EXPECT_INT(a->n, b->n);
        EXPECT_INT(a->bytes, b->bytes);
    }
}

static int64_t all_bytes(const tess_volume *v)
{
    int64_t sum = 0;
    for (int i = 0; i < v->n_rows; i++)
        sum += v->rows[i].bytes;
    return sum;
}

/* The pools of state have the counted bytes, on the host and on the device. */
static void compare_memory(const tess_engine *e, const tess_dry_report *dry, const char *what)
{
    for (int pool = TESS_POOL_PARAMS; pool <= TESS_POOL_OPTIMIZER; pool++) {
        const size_t host = tess_mem_stats(e->mem, (tess_pool)pool).bytes;
        const size_t device = tess_device_mem_stats(e->compute.device, (tess_pool)pool).bytes;
        if ((double)device != dry->device[pool] || (double)host != dry->engine_host[pool])
            test_fail(__FILE__, __LINE__, "%s: %s has %zu bytes of the host and %zu of the device, dry %.0f and %.0f",
                      what, tess_pool_name((tess_pool)pool), host, device, dry->engine_host[pool], dry->device[pool]);
    }
}

static void run_layout(const char *overrides, bool tied)
{
    tess_config config = {0};
    tess_model_config model;
    tess_engine *engine;
    tess_engine_report report;
    tess_dry_report dry;
    tess_runtime *rt = test_stay_joined();
    const int world = tess_runtime_world(rt), rank = tess_runtime_rank(rt);
    test_model(small, &model);
    model.tied = tied;
    test_configure(&config, world,
                   "training.local_batch_size=2 training.seq_len=16 training.steps=10 training.threads=1 "
                   "validation.enable=false lr_scheduler.warmup_steps=1 %s",
                   overrides);
    tess_memory_plan plan = tess_memory_plan_of(&config, world);
    plan.moves = true;
    EXPECT_OK(tess_dry_rank(&plan, &model, rank, &dry));
    EXPECT_OK(tess_engine_create(rt, &config, &model, NULL, &engine));
    counted = (tess_volume){.n_rows = 0};
    tess_batch_source source = tess_engine_source(engine, NULL, next_tokens);
    EXPECT_OK(tess_engine_step(engine, &source, &report));
    compare(&dry.volume, overrides, rank);
    EXPECT(all_bytes(&counted) > 0);
    EXPECT(dry.exchanged_bytes == report.times.exchanged_bytes);
    if (engine->compute.apart)
        compare_memory(engine, &dry, overrides);
    tess_engine_destroy(&engine);
    tess_config_free(&config);
}

static void a_step_moves_what_the_dry_rank_recorded(void)
{
    static const char *const overrides[] = {
        "",
        "parallelism.shard_strategy=none",
        "parallelism.shard_strategy=zero1 training.mixed_precision_reduce=bfloat16",
        "parallelism.shard_strategy=zero2 training.global_batch_size=26",
        "parallelism.fsdp_reshard_after_forward=0 training.mixed_precision_param=float32",
        "parallelism.fsdp_prefetch=2 training.passes=2",
        "optimizer.name=muon activation_checkpoint.mode=full",
        "training.global_batch_size=2",
    };
    tess_runtime_observe(test_stay_joined(), &(comm_observer){.submit = count});
    for (int i = 0; i < (int)(sizeof(overrides) / sizeof(overrides[0])); i++)
        run_layout(overrides[i], i % 2 > 0);
}

static void every_axis_moves_what_the_dry_rank_recorded(void)
{
    static const char *const overrides[] = {
        "parallelism.tensor_parallel_degree=2",
        "parallelism.tensor_parallel_degree=2 parallelism.enable_sequence_parallel=false optimizer.name=muon",
        "parallelism.pipeline_parallel_degree=2 training.global_batch_size=24",
        ("parallelism.pipeline_parallel_degree=2 parallelism.pipeline_parallel_schedule=zb_h1 "
         "training.global_batch_size=24"),
        "parallelism.data_parallel_replicate_degree=2 parallelism.shard_strategy=hybrid",
        "parallelism.data_parallel_replicate_degree=2 parallelism.shard_strategy=hybrid training.global_batch_size=14",
        "parallelism.data_parallel_replicate_degree=2 parallelism.shard_strategy=hybrid training.global_batch_size=70",
        "parallelism.pipeline_parallel_degree=2 parallelism.tensor_parallel_degree=2 training.global_batch_size=24",
    };
    const int world = tess_runtime_world(test_stay_joined());
    tess_runtime_observe(test_stay_joined(), &(comm_observer){.submit = count});
    for (int i = 0; i < (int)(sizeof(overrides) / sizeof(overrides[0])) - (world % 4 > 0); i++)
        run_layout(overrides[i], i % 2 > 0);
}

/* ---- Rehearsals ---- */
/* Ranks of a valid run agree on the calls of a step, however their teams lie on hosts. */
static void dry_ranks_of_a_valid_run_agree(void)
{
    static const struct {
        int world, hosts[12];
        const char *overrides;
    } runs[] = {
        {4, {0, 0, 0, 1}, "parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=2"},
        {4, {0, 0, 0, 1}, "optimizer.name=muon training.global_batch_size=14"},
        {4, {0, 1, 1, 1}, "parallelism.shard_strategy=zero1"},
        {4, {0, 1, 2, 2}, "parallelism.fsdp_reshard_after_forward=2"},
        {4, {1, 0, 0, 1}, "parallelism.tensor_parallel_degree=2"},
        {4, {0, 0, 0, 1}, "parallelism.pipeline_parallel_degree=2 training.global_batch_size=24"},
        {8, {0}, "parallelism.shard_strategy=none training.global_batch_size=10 training.passes=2"},
        {8, {0, 0, 0, 1, 1, 1, 1, 1}, "parallelism.shard_strategy=zero1 training.global_batch_size=10"},
        {12,
         {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1},
         "parallelism.shard_strategy=hybrid parallelism.data_parallel_replicate_degree=3"},
    };
    tess_runtime *rt = test_stay_joined();
    const int world = tess_runtime_world(rt), rank = tess_runtime_rank(rt);
    for (int i = 0; i < (int)(sizeof(runs) / sizeof(runs[0])); i++) {
        tess_config config = {0};
        tess_model_config model;
        tess_memory_of_rank need;
        if (runs[i].world != world)
            continue;
        test_model(small, &model);
        test_configure(&config, world,
                       "training.local_batch_size=2 training.seq_len=16 training.steps=10 training.threads=1 "
                       "validation.enable=true lr_scheduler.warmup_steps=1 %s",
                       runs[i].overrides);
        tess_rehearsal mine = {.mem = test_mem(), .group = tess_coordinates_of(&config.parallelism, rank).part};
        tess_memory_plan plan = tess_memory_plan_of(&config, world);
        plan.hosts = runs[i].hosts;
        plan.rehearsal = &mine;
        EXPECT_OK(tess_memory_predict_rank(&model, &plan, rank, &need));
        EXPECT(mine.n > 0);
        if (tess_rehearsal_compare(tess_runtime_team(rt), &mine) != TESS_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", runs[i].overrides, tess_error_message());
        tess_rehearsal_free(&mine);
        tess_config_free(&config);
    }
}

/* ---- Shards on a device ---- */
static void a_device_takes_what_the_dry_rank_counted(void)
{
    static const char *const overrides[] = {
        "",
        "offload.params=true",
        "offload.grads=true parallelism.shard_strategy=none",
        "offload.optimizer=true training.global_batch_size=26",
        "offload.params=true offload.grads=true offload.optimizer=true",
        "offload.params=true offload.grads=true offload.optimizer=true training.mixed_precision_param=float32",
        "offload.params=true offload.grads=true parallelism.fsdp_reshard_after_forward=0 training.passes=2",
    };
    char text[256];
    tess_runtime_observe(test_stay_joined(), &(comm_observer){.submit = count});
    for (int i = 0; i < (int)(sizeof(overrides) / sizeof(overrides[0])); i++) {
        snprintf(text, sizeof(text), "job.device=far job.shards=device %s", overrides[i]);
        run_layout(text, i % 2 > 0);
    }
}

/* The host keeps two generations of weights only if the shards are in the memory of the device. */
static void only_shards_on_a_device_are_kept_twice(void)
{
    for (int resides = 0; resides < 2; resides++) {
        tess_config config = {0};
        tess_model_config model;
        tess_dry_report dry;
        tess_memory_of_rank predicted;
        test_model(small, &model);
        test_configure(&config, 1,
                       "training.local_batch_size=2 training.seq_len=16 training.steps=10 training.threads=1 "
                       "lr_scheduler.warmup_steps=1 recovery.enable=true recovery.hot=true job.device=far "
                       "job.shards=%s",
                       resides ? "device" : "host");
        const tess_memory_plan plan = tess_memory_plan_of(&config, 1);
        EXPECT_OK(tess_dry_rank(&plan, &model, 0, &dry));
        EXPECT_OK(tess_memory_predict_rank(&model, &plan, 0, &predicted));
        EXPECT_INT(dry.resides, resides);
        EXPECT(dry.device[TESS_POOL_PARAMS] > 0 && dry.host[TESS_POOL_PARAMS] > 0);
        EXPECT(predicted.pool[TESS_POOL_PARAMS] ==
               dry.host[TESS_POOL_PARAMS] + resides * dry.engine_host[TESS_POOL_PARAMS]);
        tess_config_free(&config);
    }
}

/* ---- A large job ---- */
static int64_t most_bytes(void)
{
    struct rusage usage;
    EXPECT_INT(getrusage(RUSAGE_SELF, &usage), 0);
    return (int64_t)usage.ru_maxrss * 1024;
}

static double sum_of(const double pools[TESS_POOL_COUNT])
{
    double sum = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        sum += pools[pool];
    return sum;
}

/* 16 bytes of state an element, shared by all ranks, and at least one gathered layer. */
static void a_rank_of_4096_with_405_billion_parameters_is_small(void)
{
    enum { WORLD = 4096, MIB = 1 << 20 };
    static const char *const overrides[] = {
        "",
        "parallelism.tensor_parallel_degree=8 parallelism.pipeline_parallel_degree=16 training.global_batch_size=2048"};
    static const int ranks[] = {0, 1237, WORLD - 1};
    tess_model_config model;
    tess_config config = {0};
    tess_dry_report dry;
    test_model(large, &model);
    for (int i = 0; i < 2; i++) {
        tess_config_free(&config);
        test_configure(&config, WORLD,
                       "training.local_batch_size=1 training.seq_len=8192 training.threads=4 validation.enable=false "
                       "activation_checkpoint.mode=full %s",
                       overrides[i]);
        const tess_memory_plan plan = tess_memory_plan_of(&config, 8);
        for (int k = 0; k < 3; k++) {
            const int64_t before = most_bytes();
            const double begin_s = tess_os_now_s();
            EXPECT_OK(tess_dry_rank(&plan, &model, ranks[k], &dry));
            const double seconds = tess_os_now_s() - begin_s, grown = (double)(most_bytes() - before);
            fprintf(stderr, "rank %d of %d, layout %d: %.3f s, %.1f MiB; the rank would take %.1f GiB\n", ranks[k],
                    WORLD, i, seconds, grown / MIB, sum_of(dry.host) / 0x1p30);
            EXPECT(seconds < 20);
            EXPECT(grown < 200.0 * MIB);
            EXPECT(sum_of(dry.host) > 16 * 405e9 / WORLD);
        }
    }
    tess_config_free(&config);
}

static const test_case cases[] = {
    {"a_step_of_2_ranks_moves_what_the_dry_rank_recorded", a_step_moves_what_the_dry_rank_recorded, 2, 0},
    {"a_step_of_3_ranks_moves_what_the_dry_rank_recorded", a_step_moves_what_the_dry_rank_recorded, 3, 0},
    {"axes_of_2_ranks_move_what_the_dry_rank_recorded", every_axis_moves_what_the_dry_rank_recorded, 2, 0},
    {"axes_of_4_ranks_move_what_the_dry_rank_recorded", every_axis_moves_what_the_dry_rank_recorded, 4, 0},
    {"a_device_of_2_ranks_takes_what_the_dry_rank_counted", a_device_takes_what_the_dry_rank_counted, 2, 0},
    {"a_device_of_3_ranks_takes_what_the_dry_rank_counted", a_device_takes_what_the_dry_rank_counted, 3, 0},
    {"dry_ranks_of_valid_runs_of_4_agree", dry_ranks_of_a_valid_run_agree, 4, 0},
    {"dry_ranks_of_valid_runs_of_8_agree", dry_ranks_of_a_valid_run_agree, 8, 0},
    {"dry_ranks_of_valid_runs_of_12_agree", dry_ranks_of_a_valid_run_agree, 12, 0},
    CASE(only_shards_on_a_device_are_kept_twice),
    CASE(a_rank_of_4096_with_405_billion_parameters_is_small),
};
TEST_MAIN(cases)
