/* Law 1 on fsdp: gathered parameters, gradients, norms and weights have the bits of a plain loop in one process, for
 * any world size, strategy, resharding, prefetching, mesh and number of micro-batches. */
#include <dirent.h>
#include <unistd.h>

#include "base/os/os.h"
#include "fsdp_model.h"
#include "parallel/fsdp/fsdp_impl.h"

enum { STEPS = 3 };

static void train(tess_mesh *mesh, tess_fsdp_policy policy, int n_micro)
{
    static model_reference ref;
    model m;
    if (!test_takes()) /* all ranks take the same ones */
        return;
    model_create(&m, mesh, policy);
    reference_init(&ref);
    tess_optimizer *adamw = NULL;
    EXPECT_OK(tess_fsdp_optimizer_create(m.fsdp, &model_adamw, &adamw));
    tess_stream *stream = NULL;
    EXPECT_OK(tess_stream_create(tess_runtime_mem(tess_fsdp_runtime(m.fsdp)), 1, NULL, &stream));
    for (int step = 1; step <= STEPS; step++) {
        /* The last step has fewer micro-batches than there are sums for. */
        int n = step == STEPS ? m.world : n_micro;
        model_step(&m, &ref, step, n);
        reference_gradients(&ref, step, n, policy.reduce_dtype);
        model_check_shards(&m, &ref);
        double norm = 0;
        EXPECT_OK(tess_fsdp_grad_norm(m.fsdp, &norm));
        if (memcmp(&norm, &ref.norm, sizeof(norm)) != 0)
            test_fail(__FILE__, __LINE__, "grad_norm is %a, expected %a (world %d)", norm, ref.norm, m.world);
        reference_update(&ref, step, stream);
        EXPECT_OK(tess_fsdp_optimizer_step(m.fsdp, adamw, step, model_lr, model_scale));
        model_check_shards(&m, &ref);
        model_forward(&m, &ref, (uint64_t)step); /* an evaluation between steps */
    }
    tess_stream_destroy(&stream);
    tess_optimizer_destroy(&adamw);
    tess_fsdp_destroy(&m.fsdp);
}

static int n_threads = 1; /* threads of the runtime */

static void with_mesh(const tess_axis *axes, int n_axes, void (*body)(tess_mesh *mesh))
{
    tess_runtime *runtime = NULL;
    tess_mesh *mesh = NULL;
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = n_threads}, &runtime));
    EXPECT_OK(tess_mesh_create(runtime, axes, n_axes, &mesh));
    body(mesh);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
}

static int world_of(tess_mesh *mesh)
{
    return tess_team_size(tess_mesh_all(mesh));
}

static int shards_of(tess_mesh *mesh)
{
    return tess_mesh_axis_size(mesh, tess_mesh_axis(mesh, "dp_shard"));
}

static void all_policies(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_NONE, TESS_STRATEGY_ZERO1, TESS_STRATEGY_ZERO2,
                                               TESS_STRATEGY_FULL, TESS_STRATEGY_HYBRID};
    for (int i = 0; i < 5; i++)
        for (int dtype = TESS_F32; dtype <= TESS_BF16; dtype++)
            for (int reshard = 0; reshard <= 2; reshard++) {
                bool sharded = strategies[i] == TESS_STRATEGY_FULL || strategies[i] == TESS_STRATEGY_HYBRID;
                bool divides = reshard < 2 || shards_of(mesh) % reshard == 0;
                if ((!sharded && reshard != 1) || !divides)
                    continue;
                tess_fsdp_policy policy = {.strategy = strategies[i],
                                           .param_dtype = (tess_dtype)dtype,
                                           .reduce_dtype = TESS_F32,
                                           .reshard_after_forward = reshard,
                                           .prefetch = 1};
                train(mesh, policy, 2 * world_of(mesh));
            }
}

static void every_strategy_gives_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, all_policies);
}

static void some_accumulation(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_NONE, TESS_STRATEGY_ZERO1, TESS_STRATEGY_FULL};
    static const int n_locals[] = {1, 3, 4, 5, 7};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 5; k++) {
            tess_fsdp_policy policy = {strategies[i], TESS_F32, k % 2 ? TESS_BF16 : TESS_F32, 1, 1};
            train(mesh, policy, n_locals[k] * world_of(mesh));
        }
}

static void any_number_of_micro_batches(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, some_accumulation);
}

static void all_numbers(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_FULL, TESS_STRATEGY_ZERO1, TESS_STRATEGY_NONE,
                                               TESS_STRATEGY_HYBRID};
    const int W = world_of(mesh), n_micro[] = {1, W + 1, 2 * W - 1, 3 * W + 1, 6 * W + 2};
    for (int i = 0; i < 5; i++)
        train(mesh, policy_of(strategies[i % 4], TESS_F32, i % 2 ? TESS_F32 : TESS_BF16, 1, 1), n_micro[i]);
}

static void micro_batches_that_ranks_share_unevenly(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, all_numbers);
}

static void replicas_share_unevenly(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}}, 2, all_numbers);
}

static void three_replicas(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 3}, {"dp_shard", -1}}, 2, all_numbers);
}

static void shard_teams_over_hosts_gather_anew_and_change_no_bit(void)
{
    model_ranks_a_host = 1;
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, all_policies);
}

static void all_prefetch_depths(tess_mesh *mesh)
{
    for (int prefetch = 0; prefetch <= 7; prefetch = prefetch < 3 ? prefetch + 1 : prefetch + 4) {
        train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, prefetch), 3 * world_of(mesh));
        train(mesh, policy_of(TESS_STRATEGY_ZERO2, TESS_BF16, TESS_F32, 1, prefetch), 2 * world_of(mesh));
    }
}

static void prefetching_changes_no_bit(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, all_prefetch_depths);
}

static void some_hybrids(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_HYBRID, TESS_STRATEGY_FULL, TESS_STRATEGY_ZERO1,
                                               TESS_STRATEGY_ZERO2, TESS_STRATEGY_NONE};
    static const int n_locals[] = {4, 3, 2, 1, 5};
    for (int i = 0; i < 5; i++)
        train(mesh, policy_of(strategies[i], i % 2 ? TESS_F32 : TESS_BF16, TESS_F32, i % 2, 1),
              n_locals[i] * world_of(mesh));
}

/* Ranks that differ only in another axis do the same work, without collectives between them. */
static void some_columns(tess_mesh *mesh)
{
    train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 1), 6);
    train(mesh, policy_of(TESS_STRATEGY_NONE, TESS_F32, TESS_F32, 1, 1), 4);
}

static void hybrid_2x2_gives_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 2}}, 2, some_hybrids);
}

static void hybrid_2x4_gives_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 4}}, 2, some_hybrids);
}

static void hybrid_4x2_gives_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 4}, {"dp_shard", 2}}, 2, some_hybrids);
}

static void replicas_of_whole_shards_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 1}}, 2, some_hybrids);
}

static void hybrid_over_hosts_gives_the_bits_of_a_plain_loop(void)
{
    model_ranks_a_host = 1;
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 2}}, 2, some_hybrids);
}

static void another_axis_of_the_mesh_is_left_alone(void)
{
    with_mesh((tess_axis[]){{"dp_shard", 2}, {"other", 2}}, 2, some_columns);
}

/* Every element is primary on exactly one rank, and filled where it is held. */
static void count_primaries(tess_mesh *mesh, tess_strategy strategy)
{
    model m;
    int64_t held = 0;
    model_create(&m, mesh, policy_of(strategy, TESS_F32, TESS_F32, 1, 0));
    for (int p = 0; p < MODEL_PARAMS; p++) {
        int32_t owners[MODEL_LARGEST] = {0};
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(m.fsdp, p, &shard));
        int n_dims = tess_shape_atleast_1d(&shard.shape).n_dims;
        EXPECT(tess_box_count(n_dims, &shard.primary) == 0 || tess_box_contains(n_dims, &shard.box, &shard.primary));
        for (int64_t i = 0; i < model_box_count(p, &shard.primary); i++)
            owners[model_element(p, &shard.primary, i)]++;
        EXPECT_OK(tess_all_reduce(tess_mesh_all(mesh), owners, owners, MODEL_LARGEST, TESS_I32, TESS_SUM, NULL));
        for (int64_t i = 0; i < MODEL_LARGEST; i++)
            EXPECT_INT(owners[i], i < model_count(p) ? 1 : 0);
        held += model_box_count(p, &shard.box);
    }
    EXPECT_INT(m.n_filled, held);
    tess_fsdp_destroy(&m.fsdp);
}

static void tensor_parallel(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_FULL, TESS_STRATEGY_NONE, TESS_STRATEGY_ZERO1,
                                               TESS_STRATEGY_ZERO2, TESS_STRATEGY_HYBRID};
    for (int i = 0; i < 5; i++) {
        count_primaries(mesh, strategies[i]);
        train(mesh, policy_of(strategies[i], i % 2 ? TESS_F32 : TESS_BF16, TESS_F32, i % 2, 1), 5 + world_of(mesh));
    }
}

static void tp_2(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}, {"tp", 2}}, 2, tensor_parallel);
}

static void tp_outside(void)
{
    with_mesh((tess_axis[]){{"tp", -1}, {"dp_shard", 2}}, 2, tensor_parallel);
}

static void replicas_2_x_shards_2_x_tp_2_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 2}, {"tp", -1}}, 3, tensor_parallel);
}

static void tp_over_hosts_gives_the_bits_of_a_plain_loop(void)
{
    model_ranks_a_host = 1;
    replicas_2_x_shards_2_x_tp_2_give_the_bits_of_a_plain_loop();
}

static int threads_of_this_process(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* A thread that was joined may stand in /proc for a moment longer. */
static void expect_threads(int n)
{
    double end_s = tess_os_now_s() + 30;
    while (threads_of_this_process() != n && tess_os_now_s() < end_s)
        usleep(1000);
    EXPECT_INT(threads_of_this_process(), n);
}

/* FSDP and its AdamW compute with the same threads, as many as the runtime says. */
static void with_threads(tess_mesh *mesh)
{
    model m;
    tess_optimizer *adamw = NULL;
    int before = threads_of_this_process();
    model_create(&m, mesh, (tess_fsdp_policy){.strategy = TESS_STRATEGY_FULL});
    EXPECT_OK(tess_fsdp_optimizer_create(m.fsdp, &model_adamw, &adamw));
    expect_threads(before + 2);
    EXPECT_FAILS(tess_optimizer_set_threads(adamw, 0), TESS_E_INVALID, "0 threads; it takes at least 1");
    EXPECT_OK(tess_optimizer_set_threads(adamw, 2)); /* two threads of its own */
    expect_threads(before + 3);
    tess_optimizer_destroy(&adamw);
    tess_fsdp_destroy(&m.fsdp);
    expect_threads(before);
    all_policies(mesh);
}

static void threads_change_no_bit(void)
{
    n_threads = 3;
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, with_threads);
}

/* The bits are those of a loop that adds the passes one after the other. */
static void several_passes(tess_mesh *mesh)
{
    model_passes = 2;
    all_policies(mesh);
    model_passes = 4;
    all_numbers(mesh);
    model_passes = 1;
}

static void passes_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, several_passes);
}

static void hybrid_2x2_in_passes(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}}, 2, several_passes);
}

static void hybrid_3x2_in_passes(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 3}, {"dp_shard", -1}}, 2, several_passes);
}

static void passes_over_hosts_give_the_bits_of_a_plain_loop(void)
{
    model_ranks_a_host = 1;
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, several_passes);
}

/* ---- Groups of reshard_after_forward ranks ---- */
static void train_groups(tess_mesh *mesh, int n, int a_host)
{
    const int W = world_of(mesh);
    model_ranks_a_host = a_host;
    train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, n, 1), 2 * W);
    train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_F32, TESS_BF16, n, 0), W + 1);
    train(mesh, policy_of(TESS_STRATEGY_HYBRID, TESS_BF16, TESS_F32, n, 3), 3 * W);
    model_passes = 2;
    train(mesh, policy_of(TESS_STRATEGY_HYBRID, TESS_F32, TESS_F32, n, 1), W);
    model_passes = 1;
    model_all_open = true;
    train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, n, 1), 2 * W);
    model_all_open = false;
    model_ranks_a_host = 0;
}

static void groups_of_2(tess_mesh *mesh)
{
    train_groups(mesh, 2, 1);
}

static void groups_of_2_and_3(tess_mesh *mesh)
{
    train_groups(mesh, 2, 1);
    train_groups(mesh, 3, 1);
}

static void groups_of_4(tess_mesh *mesh)
{
    train_groups(mesh, 4, 2);
    train_groups(mesh, 4, 3);
}

static void four_ranks_resharded_to_groups_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, groups_of_2);
}

static void six_ranks_resharded_to_groups_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, groups_of_2_and_3);
}

static void eight_ranks_resharded_to_groups_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, groups_of_4);
}

static void replicas_resharded_to_groups_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}}, 2, groups_of_2);
}

static void tp_resharded_to_groups_gives_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}, {"tp", 2}}, 2, groups_of_2);
}

static void all_open(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_NONE, TESS_STRATEGY_ZERO1, TESS_STRATEGY_ZERO2,
                                               TESS_STRATEGY_FULL, TESS_STRATEGY_FULL,  TESS_STRATEGY_HYBRID};
    model_passes = 1;
    model_all_open = true;
    for (int i = 0; i < 6; i++)
        train(mesh, policy_of(strategies[i], i % 2 ? TESS_BF16 : TESS_F32, TESS_F32, i != 4, i), 2 * world_of(mesh));
    all_numbers(mesh);
    model_all_open = false;
}

/* Hooks around each block, and one gather and one reduction for all blocks of a unit. */
static void joined_blocks(tess_mesh *mesh)
{
    static const int joined[][MODEL_UNITS] = {{0, 1, 1, 2, 3, 3}, {0, 0, 0, 1, 1, 1}, {0, 0, 0, 0, 0, 0}};
    const int W = world_of(mesh);
    for (int i = 0; i < 3; i++) {
        model_unit_of = joined[i];
        train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, i), 2 * W);
        train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_F32, TESS_BF16, 0, 1), W + 1);
        train(mesh, policy_of(TESS_STRATEGY_ZERO1, TESS_F32, TESS_F32, 1, 1), 2 * W);
        model_passes = 2;
        train(mesh, policy_of(TESS_STRATEGY_NONE, TESS_F32, TESS_F32, 1, 1), W);
        model_passes = 1;
        model_all_open = i < 2; /* the last has blocks of both chunks */
        train(mesh, policy_of(TESS_STRATEGY_HYBRID, TESS_BF16, TESS_F32, 1, 1), 2 * W);
        model_all_open = false;
    }
    model_unit_of = NULL;
}

static void blocks_that_share_units_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, joined_blocks);
}

/* ---- The savings of joining ---- */
enum { SMALL = 100 };

static tess_status fill_one(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)context, (void)name, (void)shape;
    for (int64_t i = 0; i < box->size[0]; i++)
        dst[i] = 1;
    return TESS_OK;
}

/* 100 small layers in units as the policy deals them: a step of one micro-batch a rank, with a hook around each. */
static void step_of_small_layers(tess_fsdp *fsdp, tess_unit **units)
{
    EXPECT_OK(tess_fsdp_params_changed(fsdp));
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(fsdp, 0));
    for (int i = 0; i < SMALL; i++) {
        EXPECT_OK(tess_unit_pre_forward(units[i]));
        EXPECT_OK(tess_unit_post_forward(units[i]));
    }
    for (int i = SMALL - 1; i >= 0; i--) {
        EXPECT_OK(tess_unit_pre_backward(units[i]));
        for (int k = 0; k < tess_unit_params(units[i]); k++)
            memset(tess_unit_grad(units[i], k), 0, sizeof(float) * (size_t)tess_unit_count(units[i], k));
        EXPECT_OK(tess_unit_post_backward(units[i]));
    }
    EXPECT_OK(tess_fsdp_step_end(fsdp));
}

static void count_collectives(tess_mesh *mesh, const tess_unit_policy *policy, uint64_t want)
{
    char names[SMALL][8];
    tess_unit_block blocks[SMALL];
    tess_param_desc descs[SMALL];
    int unit_of[SMALL];
    tess_unit *units[SMALL];
    tess_fsdp *fsdp;
    for (int i = 0; i < SMALL; i++) {
        snprintf(names[i], sizeof(names[i]), "w%d", i);
        blocks[i] = (tess_unit_block){0, 5};
        descs[i] = (tess_param_desc){.name = names[i], .shape = {1, {5}}, .trainable = true};
    }
    const tess_fsdp_policy kept = policy_of(TESS_STRATEGY_FULL, TESS_F32, TESS_F32, 0, 1);
    EXPECT_OK(tess_fsdp_create(mesh, &kept, &fsdp));
    int n_units = tess_unit_policy_deal(policy, blocks, SMALL, unit_of);
    for (int i = 0, end; i < SMALL; i = end) {
        for (end = i + 1; end < SMALL && unit_of[end] == unit_of[i]; end++)
            ;
        EXPECT_OK(tess_fsdp_add_unit(fsdp, names[i], descs + i, end - i, &units[i]));
        EXPECT_OK(tess_unit_set_blocks(units[i], end - i));
        for (int k = i + 1; k < end; k++)
            units[k] = units[i];
    }
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_one, NULL));
    step_of_small_layers(fsdp, units);
    uint64_t before = fsdp->families[0]->sequence.issued;
    step_of_small_layers(fsdp, units);
    EXPECT_INT(fsdp->families[0]->sequence.issued - before, want);
    int64_t largest;
    EXPECT_INT(tess_fsdp_units(fsdp, &largest), n_units);
    tess_fsdp_destroy(&fsdp);
}

/* A known example: 100 layers wrapped one each make 200 collectives a step, by tens 20. */
static void collectives_of_units(tess_mesh *mesh)
{
    count_collectives(mesh, &(tess_unit_policy){0}, 200);
    count_collectives(mesh, &(tess_unit_policy){.min_blocks = 10}, 20);
    count_collectives(mesh, &(tess_unit_policy){.min_elements = 46}, 20); /* 10 layers of 5 */
}

static void a_hundred_small_layers_cost_200_collectives_and_by_tens_20(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, collectives_of_units);
}

static void micro_batches_under_way_at_once_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, all_open);
}

static void hybrid_2x2_with_micro_batches_under_way_at_once(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}}, 2, all_open);
}

static void micro_batches_under_way_at_once_over_hosts(void)
{
    model_ranks_a_host = 1;
    micro_batches_under_way_at_once_give_the_bits_of_a_plain_loop();
}

/* Ranks in reverse, with replicas if their number is even. */
static void a_list_of_ranks_gives_the_bits_of_a_plain_loop(void)
{
    tess_runtime *runtime = NULL;
    tess_mesh *mesh = NULL;
    int ranks[8];
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime));
    const int world = tess_runtime_world(runtime);
    const tess_axis axes[] = {{"dp_replicate", world % 2 == 0 ? 2 : 1}, {"dp_shard", -1}};
    for (int place = 0; place < world; place++)
        ranks[place] = world - 1 - place;
    EXPECT_OK(tess_mesh_create_ranks(tess_runtime_team(runtime), axes, 2, ranks, &mesh));
    all_numbers(mesh);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
}

/* ---- Sums that the replicas divide ---- */
static void divided_sums(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_HYBRID, TESS_STRATEGY_FULL, TESS_STRATEGY_ZERO1,
                                               TESS_STRATEGY_ZERO2, TESS_STRATEGY_NONE};
    const int W = world_of(mesh), n_micro[] = {1, W, W + 1, 2 * W - 1, 3 * W + 1, 6 * W + 5, 7 * W};
    model_step_size = 16 * W;
    for (int i = 0; i < 7; i++)
        train(mesh, policy_of(strategies[i % 5], i % 2 ? TESS_BF16 : TESS_F32, TESS_F32, i % 2, 1), n_micro[i]);
    train(mesh, policy_of(TESS_STRATEGY_HYBRID, TESS_F32, TESS_BF16, 1, 1), 5 * W + 1);
    model_passes = 2;
    train(mesh, policy_of(TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 1), 3 * W - 1);
    model_passes = 1;
    model_all_open = true;
    train(mesh, policy_of(TESS_STRATEGY_HYBRID, TESS_BF16, TESS_F32, 1, 1), 4 * W + 1);
    model_all_open = false;
    model_step_size = 0;
}

static void sums_of_one_rank(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, divided_sums);
}

static void sums_of_2_replicas(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}}, 2, divided_sums);
}

static void sums_of_3_replicas(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 3}, {"dp_shard", -1}}, 2, divided_sums);
}

static void sums_of_4_replicas(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 4}, {"dp_shard", -1}}, 2, divided_sums);
}

static void sums_of_8_replicas(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 8}, {"dp_shard", -1}}, 2, divided_sums);
}

static void sums_of_replicas_over_hosts(void)
{
    model_ranks_a_host = 1;
    sums_of_2_replicas();
}

static void sums_of_replicas_with_tp(void)
{
    model_step_size = 1000;
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 2}, {"tp", -1}}, 3, tensor_parallel);
}

static void sums_of_two_families(void)
{
    model_second_family = 4; /* not divided: all ranks have shards */
    sums_of_2_replicas();
}

/* ---- Families ---- */
/* Every second unit is divided by all data ranks, by none, or by a part of them. */
static void a_second_family(tess_mesh *mesh)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_FULL, TESS_STRATEGY_HYBRID, TESS_STRATEGY_NONE,
                                               TESS_STRATEGY_ZERO1, TESS_STRATEGY_ZERO2};
    const int replicate = tess_mesh_axis(mesh, "dp_replicate");
    const int W = shards_of(mesh) * (replicate >= 0 ? tess_mesh_axis_size(mesh, replicate) : 1);
    for (int n = 1; n <= W; n++)
        for (int i = 0; i < 5 && W % n == 0; i++) {
            model_second_family = n;
            train(mesh, policy_of(strategies[i], i % 2 ? TESS_BF16 : TESS_F32, TESS_F32, i % 2, i % 3),
                  i % 2 ? 3 * W : 2 * W + 1);
            model_second_family = 0;
        }
}

static void two_families_give_the_bits_of_a_plain_loop(void)
{
    with_mesh((tess_axis[]){{"dp_shard", -1}}, 1, a_second_family);
}

static void two_families_over_replicas(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}}, 2, a_second_family);
}

static void two_families_with_tp(void)
{
    with_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}, {"tp", 2}}, 3, a_second_family);
}

static void two_families_over_hosts(void)
{
    model_ranks_a_host = 2;
    two_families_give_the_bits_of_a_plain_loop();
}

static void two_families_with_passes(void)
{
    model_passes = 2;
    two_families_give_the_bits_of_a_plain_loop();
}

static void a_family_that_does_not_divide_the_ranks_is_refused(void)
{
    tess_runtime *runtime = NULL;
    tess_mesh *mesh = NULL;
    tess_fsdp *fsdp = NULL;
    tess_fsdp_family *family;
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime));
    EXPECT_OK(tess_mesh_create(runtime, (tess_axis[]){{"dp_shard", -1}}, 1, &mesh));
    const tess_fsdp_policy policy = policy_of(TESS_STRATEGY_FULL, TESS_F32, TESS_F32, 1, 1);
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    EXPECT_FAILS(
        tess_fsdp_add_family(fsdp, "experts", 2, 0, &family), TESS_E_INVALID,
        "family 'experts': fsdp: a family of units in 2 shards; choose a number that divides the 3 data ranks");
    tess_fsdp_destroy(&fsdp);
    tess_mesh_destroy(&mesh);
    tess_runtime_destroy(&runtime);
}

static const test_case cases[] = {
    {"divided_sums_of_one_rank_give_the_bits_of_a_plain_loop", sums_of_one_rank, 1, 0},
    {"divided_sums_of_2x1_give_the_bits_of_a_plain_loop", sums_of_2_replicas, 2, 0},
    {"divided_sums_of_2x2_give_the_bits_of_a_plain_loop", sums_of_2_replicas, 4, 0},
    {"divided_sums_of_2x3_give_the_bits_of_a_plain_loop", sums_of_2_replicas, 6, 0},
    {"divided_sums_of_2x4_give_the_bits_of_a_plain_loop", sums_of_2_replicas, 8, 0},
    {"divided_sums_of_3x1_give_the_bits_of_a_plain_loop", sums_of_3_replicas, 3, 0},
    {"divided_sums_of_3x2_give_the_bits_of_a_plain_loop", sums_of_3_replicas, 6, 0},
    {"divided_sums_of_4x1_give_the_bits_of_a_plain_loop", sums_of_4_replicas, 4, 0},
    {"divided_sums_of_4x2_give_the_bits_of_a_plain_loop", sums_of_4_replicas, 8, 0},
    {"divided_sums_of_8x1_give_the_bits_of_a_plain_loop", sums_of_8_replicas, 8, 0},
    {"divided_sums_over_hosts_give_the_bits_of_a_plain_loop", sums_of_replicas_over_hosts, 4, 0},
    {"divided_sums_of_a_second_family_give_the_bits_of_a_plain_loop", sums_of_two_families, 4, 0},
    {"divided_sums_with_tp_give_the_bits_of_a_plain_loop", sums_of_replicas_with_tp, 8, 0},
    CASE(two_families_give_the_bits_of_a_plain_loop, -1),
    {"two_families_on_6_ranks", two_families_give_the_bits_of_a_plain_loop, 6, 0},
    CASE(two_families_over_replicas, 4),
    {"two_families_over_2x3_replicas", two_families_over_replicas, 6, 0},
    {"two_families_over_2x4_replicas", two_families_over_replicas, 8, 0},
    CASE(two_families_with_tp, 8),
    CASE(two_families_over_hosts, 4),
    CASE(two_families_with_passes, 4),
    CASE(a_family_that_does_not_divide_the_ranks_is_refused, 3),
    CASE(a_list_of_ranks_gives_the_bits_of_a_plain_loop, -1),
    CASE(blocks_that_share_units_give_the_bits_of_a_plain_loop, -1),
    CASE(a_hundred_small_layers_cost_200_collectives_and_by_tens_20, 3),
    CASE(micro_batches_under_way_at_once_give_the_bits_of_a_plain_loop, -1),
    CASE(hybrid_2x2_with_micro_batches_under_way_at_once, 4),
    CASE(micro_batches_under_way_at_once_over_hosts, 3),
    CASE(passes_give_the_bits_of_a_plain_loop, -1),
    CASE(hybrid_2x2_in_passes, 4),
    CASE(hybrid_3x2_in_passes, 6),
    CASE(passes_over_hosts_give_the_bits_of_a_plain_loop, 3),
    CASE(every_strategy_gives_the_bits_of_a_plain_loop, -1),
    {"accumulation_gives_the_bits_of_a_plain_loop", any_number_of_micro_batches, -1, 0},
    {"accumulation_on_5_ranks_gives_the_bits_of_a_plain_loop", any_number_of_micro_batches, 5, 0},
    {"accumulation_on_6_ranks_gives_the_bits_of_a_plain_loop", any_number_of_micro_batches, 6, 0},
    {"accumulation_on_7_ranks_gives_the_bits_of_a_plain_loop", any_number_of_micro_batches, 7, 0},
    {"micro_batches_that_ranks_share_unevenly_give_the_bits_of_a_plain_loop", micro_batches_that_ranks_share_unevenly,
     -1, 0},
    {"five_ranks_share_unevenly", micro_batches_that_ranks_share_unevenly, 5, 0},
    {"hybrid_2x1_shares_unevenly", replicas_share_unevenly, 2, 0},
    {"hybrid_2x2_shares_unevenly", replicas_share_unevenly, 4, 0},
    {"hybrid_2x3_shares_unevenly", replicas_share_unevenly, 6, 0},
    {"hybrid_3x1_shares_unevenly", three_replicas, 3, 0},
    {"hybrid_3x2_shares_unevenly", three_replicas, 6, 0},
    CASE(four_ranks_resharded_to_groups_give_the_bits_of_a_plain_loop, 4),
    CASE(six_ranks_resharded_to_groups_give_the_bits_of_a_plain_loop, 6),
    CASE(eight_ranks_resharded_to_groups_give_the_bits_of_a_plain_loop, 8),
    CASE(replicas_resharded_to_groups_give_the_bits_of_a_plain_loop, 8),
    CASE(tp_resharded_to_groups_gives_the_bits_of_a_plain_loop, 8),
    CASE(threads_change_no_bit, 2),
    CASE(prefetching_changes_no_bit, -1),
    CASE(shard_teams_over_hosts_gather_anew_and_change_no_bit, 4),
    CASE(hybrid_2x2_gives_the_bits_of_a_plain_loop, 4),
    CASE(hybrid_2x4_gives_the_bits_of_a_plain_loop, 8),
    CASE(hybrid_4x2_gives_the_bits_of_a_plain_loop, 8),
    CASE(hybrid_over_hosts_gives_the_bits_of_a_plain_loop, 4),
    CASE(replicas_of_whole_shards_give_the_bits_of_a_plain_loop, 2),
    CASE(another_axis_of_the_mesh_is_left_alone, 4),
    {"tp_alone_gives_the_bits_of_a_plain_loop", tp_2, 2, 0},
    {"shards_2_x_tp_2_give_the_bits_of_a_plain_loop", tp_2, 4, 0},
    {"shards_3_x_tp_2_give_the_bits_of_a_plain_loop", tp_2, 6, 0},
    {"tp_3_x_shards_2_give_the_bits_of_a_plain_loop", tp_outside, 6, 0},
    {"tp_4_of_which_some_hold_nothing_x_shards_2", tp_outside, 8, 0},
    CASE(replicas_2_x_shards_2_x_tp_2_give_the_bits_of_a_plain_loop, 8),
    CASE(tp_over_hosts_gives_the_bits_of_a_plain_loop, 8),
};
TEST_MAIN(cases)
