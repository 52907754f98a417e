/* Ranks that have parts of a micro-batch: gradients have the bits of one rank that has the whole micro-batch, although
 * they are rounded, or added over passes, before the sum of the parts travels. */
#include "fsdp_mesh.h"
#include "fsdp_model.h"

enum { STEPS = 2 };

static int n_ranks(void)
{
    return tess_team_size(tess_mesh_all(mesh));
}

static void open_parts(int n)
{
    tess_team *all = tess_mesh_all(mesh);
    EXPECT_OK(tess_team_split(all, tess_team_rank(all) / n, tess_team_rank(all), "parts", &model_parts_team));
}

/* Compares gradients with the reference. Elements that are not a number there must not be one here. */
static void check_gradients(const model *m, const model_reference *ref)
{
    for (int p = 0; p < MODEL_PARAMS; p++) {
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(m->fsdp, p, &shard));
        for (int64_t i = 0; shard.trainable && i < model_box_count(p, &shard.box); i++) {
            const float want = ref->grad[p][model_element(p, &shard.box, i)];
            if (isnan(want) ? !isnan(shard.grad[i]) : memcmp(&shard.grad[i], &want, sizeof(want)) != 0)
                test_fail(__FILE__, __LINE__, "gradient %s[%lld] is %a, expected %a (%d parts, part %d)",
                          model_params[p].desc.name, (long long)i, (double)shard.grad[i], (double)want, model_parts(),
                          m->part);
        }
    }
}

static void train(tess_strategy strategy, tess_dtype reduce, int n_passes, int n_micro)
{
    static model_reference ref;
    model m;
    model_passes = n_passes;
    model_create(&m, mesh, policy_of(strategy, TESS_F32, reduce, 1, 1));
    reference_init(&ref);
    for (int step = 1; step <= STEPS; step++) {
        model_bad_element = step == STEPS ? 1 : -1;
        model_step(&m, &ref, step, n_micro);
        reference_gradients(&ref, step, n_micro, reduce);
        check_gradients(&m, &ref);
    }
    model_bad_element = -1;
    model_passes = 1;
    tess_fsdp_destroy(&m.fsdp);
}

static void train_all(void)
{
    static const tess_strategy strategies[] = {TESS_STRATEGY_NONE, TESS_STRATEGY_ZERO1, TESS_STRATEGY_ZERO2,
                                               TESS_STRATEGY_FULL, TESS_STRATEGY_HYBRID};
    const int n_shards = tess_mesh_axis_size(mesh, tess_mesh_axis(mesh, "dp_shard"));
    for (int n = 2; n <= n_shards; n *= 2) {
        if (n_shards % n != 0)
            continue;
        const int groups = n_ranks() / n;
        open_parts(n);
        for (int i = 0; i < 5; i++) {
            train(strategies[i], TESS_BF16, 1, groups + 1); /* the last micro-batch of some ranks is empty */
            train(strategies[i], TESS_F32, 2, groups);
            train(strategies[i], TESS_BF16, 2, 2 * groups);
            train(strategies[i], TESS_F32, 1, 2 * groups + 1);
        }
        tess_team_destroy(&model_parts_team);
    }
}

static void parts_of_micro_batches_give_the_bits_of_whole_ones(void)
{
    open_flat();
    train_all();
    close_mesh();
}

static void with_replicas(void)
{
    open_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", -1}}, 2);
    train_all();
    close_mesh();
}

/* ---- Errors ---- */
static void expect_refused(int color, int key, const char *needle)
{
    tess_fsdp *fsdp = NULL;
    tess_team *team = NULL;
    EXPECT_OK(tess_team_split(tess_mesh_all(mesh), color, key, "parts", &team));
    EXPECT_OK(tess_fsdp_create(mesh, &full_f32, &fsdp));
    EXPECT_FAILS(tess_fsdp_set_parts(fsdp, team), TESS_E_INVALID, needle);
    tess_fsdp_destroy(&fsdp);
    tess_team_destroy(&team);
}

static void three_ranks_are_refused(void)
{
    open_flat();
    expect_refused(0, tess_runtime_rank(runtime),
                   "3 ranks of team 'parts' divide a micro-batch; their number must be a "
                   "power of two");
    close_mesh();
}

static void ranks_that_are_no_aligned_block_are_refused(void)
{
    open_flat();
    const int rank = tess_runtime_rank(runtime);
    const char *needle =
        "they must be neighbours in \"dp_shard\" (4 ranks), in its order, and begin at a multiple of 2";
    expect_refused(rank % 2, rank, needle);           /* 0 2, 1 3 */
    expect_refused((rank + 1) / 2 % 2, rank, needle); /* 0 3, 1 2 */
    expect_refused(rank / 2, -rank, needle);          /* 1 0, 3 2 */
    close_mesh();
}

/* Each of two neighbours has other experts, so neither has a gradient to which the other could add a part. */
static void experts_that_these_ranks_divide_are_refused(void)
{
    const tess_param_desc expert = {"expert.weight", {2, {5, 3}}, true, true};
    open_flat();
    open_parts(2);
    for (int reduce = TESS_F32; reduce <= TESS_BF16; reduce++)
        for (int n_passes = 1; n_passes <= 2; n_passes++) {
            const tess_fsdp_policy policy = policy_of(TESS_STRATEGY_FULL, TESS_F32, (tess_dtype)reduce, 1, 1);
            tess_fsdp *fsdp = NULL;
            tess_fsdp_family *experts = NULL;
            tess_unit *unit = NULL;
            int64_t n_filled = 0;
            EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
            EXPECT_OK(tess_fsdp_set_passes(fsdp, n_passes));
            EXPECT_OK(tess_fsdp_set_parts(fsdp, model_parts_team));
            EXPECT_OK(tess_fsdp_add_family(fsdp, "experts", n_ranks() / 2, 2, &experts));
            EXPECT_OK(tess_fsdp_add_unit_to(experts, "experts", &expert, 1, &unit));
            if (reduce != TESS_F32 || n_passes > 1)
                EXPECT_FAILS(tess_fsdp_materialize(fsdp, model_fill, &n_filled), TESS_E_UNSUPPORTED,
                             "family 'experts' has other parameters on each of 2 data ranks");
            else
                EXPECT_FAILS(tess_fsdp_materialize(fsdp, model_fill, &n_filled), TESS_E_NOT_FOUND, "no parameter");
            tess_fsdp_destroy(&fsdp);
        }
    tess_team_destroy(&model_parts_team);
    close_mesh();
}

static const test_case cases[] = {
    CASE(three_ranks_are_refused, 3),
    CASE(ranks_that_are_no_aligned_block_are_refused, 4),
    CASE(experts_that_these_ranks_divide_are_refused, 4),
    {"parts_on_2_ranks", parts_of_micro_batches_give_the_bits_of_whole_ones, 2, 0},
    {"parts_on_4_ranks", parts_of_micro_batches_give_the_bits_of_whole_ones, 4, 0},
    {"parts_on_6_ranks", parts_of_micro_batches_give_the_bits_of_whole_ones, 6, 0},
    {"parts_on_8_ranks", parts_of_micro_batches_give_the_bits_of_whole_ones, 8, 0},
    {"parts_on_2_replicas_of_4_ranks", with_replicas, 8, 0},
};
TEST_MAIN(cases)
