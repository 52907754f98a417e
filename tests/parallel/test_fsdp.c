/* fsdp without its bits: which rank owns which rows, memory, misuse, failures on all ranks. */
#include <sys/resource.h>

#include "base/os/machine.h"
#include "fsdp_mesh.h"
#include "fsdp_model.h"
#include "parallel/fsdp/fsdp_impl.h"

/* ---- Rows ---- */
static void count_primary_rows(tess_strategy strategy)
{
    model m;
    model_create(&m, mesh, policy_of(strategy, TESS_F32, TESS_F32, 1, 0));
    EXPECT_INT(tess_fsdp_shards(m.fsdp), MODEL_PARAMS);
    int64_t held = 0;
    for (int p = 0; p < MODEL_PARAMS; p++) {
        tess_shard shard;
        EXPECT_OK(tess_fsdp_shard(m.fsdp, p, &shard));
        EXPECT(tess_shape_equal(&shard.shape, &model_params[p].desc.shape));
        EXPECT(shard.primary.size[0] >= 0);
        if (shard.primary.size[0] > 0)
            EXPECT(shard.primary.begin[0] >= shard.box.begin[0] &&
                   shard.primary.begin[0] + shard.primary.size[0] <= shard.box.begin[0] + shard.box.size[0]);
        int32_t owners[64] = {0};
        for (int64_t r = 0; r < shard.primary.size[0]; r++)
            owners[shard.primary.begin[0] + r]++;
        EXPECT_OK(tess_all_reduce(tess_runtime_team(runtime), owners, owners, 64, TESS_I32, TESS_SUM, NULL));
        for (int64_t r = 0; r < 64; r++)
            EXPECT_INT(owners[r], r < tess_shape_rows(&shard.shape) ? 1 : 0);
        held += shard.box.size[0] * tess_shape_row_count(&shard.shape);
    }
    EXPECT_INT(m.n_filled, held); /* deferred initialisation fills own rows only */
    tess_fsdp_destroy(&m.fsdp);
}

static void every_row_is_primary_on_exactly_one_rank(void)
{
    open_flat();
    count_primary_rows(TESS_STRATEGY_FULL);
    count_primary_rows(TESS_STRATEGY_NONE);
    count_primary_rows(TESS_STRATEGY_ZERO1);
    close_mesh();
}

static void every_row_is_primary_on_exactly_one_rank_of_a_hybrid_mesh(void)
{
    open_mesh((tess_axis[]){{"dp_replicate", 2}, {"dp_shard", 4}}, 2);
    count_primary_rows(TESS_STRATEGY_HYBRID);
    count_primary_rows(TESS_STRATEGY_NONE);
    close_mesh();
}

/* ---- Memory ---- */
static void all_ranks_together_hold_the_memory_of_one(void)
{
    enum { N_MICRO = 8 };
    open_flat();
    tess_mem *mem = tess_runtime_mem(runtime);
    if (N_MICRO % tess_runtime_world(runtime) != 0) {
        close_mesh();
        return;
    }
    model m;
    static model_reference ref;
    reference_init(&ref);
    model_create(&m, mesh, full_f32);
    tess_optimizer *adamw = NULL;
    EXPECT_OK(tess_fsdp_optimizer_create(m.fsdp, &model_adamw, &adamw));
    model_step(&m, &ref, 1, N_MICRO);

    int64_t all = 0, trainable = 0;
    for (int p = 0; p < MODEL_PARAMS; p++) {
        all += model_count(p);
        trainable += model_params[p].desc.trainable ? model_count(p) : 0;
    }
    /* One rank with eight micro-batches: s = 6 finds two sums waiting and brings a third. */
    const int64_t one_rank = 4 * (all + 3 * trainable + 2 * trainable);
    int64_t params = sum_over_ranks((int64_t)tess_mem_stats(mem, TESS_POOL_PARAMS).peak_bytes);
    int64_t grads = sum_over_ranks((int64_t)tess_mem_stats(mem, TESS_POOL_GRADS).peak_bytes);
    int64_t optimizer = sum_over_ranks((int64_t)tess_mem_stats(mem, TESS_POOL_OPTIMIZER).peak_bytes);
    EXPECT_INT(params, 4 * all);
    EXPECT_INT(optimizer, 8 * trainable);
    if (m.world == 1)
        EXPECT_INT(params + grads + optimizer, one_rank);
    if (m.world == 8)
        EXPECT_INT(grads, 4 * trainable);
    EXPECT((double)(params + grads + optimizer) <= 1.03 * (double)one_rank);
    tess_optimizer_destroy(&adamw);
    tess_fsdp_destroy(&m.fsdp);
    close_mesh();
}

static tess_status fill_zero(void *context, const char *name, const tess_shape *shape, const tess_box *box, float *dst)
{
    (void)context, (void)name, (void)shape, (void)box, (void)dst;
    return TESS_OK;
}

enum { DEEP = 10, DEEP_ROWS = 64, DEEP_ROW = 32 };

static int64_t deep_gathered; /* bytes that this rank read and wrote to gather, in the newest deep_comm_bytes */

/* Bytes of gathered copies and windows, on all ranks together, after a step of ten equal units. */
static int64_t deep_comm_bytes(tess_fsdp_policy policy)
{
    tess_mem *mem = tess_runtime_mem(runtime);
    int64_t before = (int64_t)tess_mem_stats(mem, TESS_POOL_COMM).bytes;
    tess_fsdp *fsdp = NULL;
    tess_unit *units[DEEP];
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    fsdp->topology.ranks_a_host = model_ranks_a_host;
    for (int u = 0; u < DEEP; u++) {
        char name[16];
        snprintf(name, sizeof(name), "w%d", u);
        tess_param_desc desc = {name, {2, {DEEP_ROWS, DEEP_ROW}}, true, true};
        EXPECT_OK(tess_fsdp_add_unit(fsdp, name, &desc, 1, &units[u]));
    }
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_zero, NULL));
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 2));
    for (int s = 0; s < 2; s++) {
        EXPECT_OK(tess_fsdp_micro_begin(fsdp, s));
        for (int u = 0; u < DEEP; u++) {
            EXPECT_OK(tess_unit_pre_forward(units[u]));
            EXPECT_OK(tess_unit_post_forward(units[u]));
        }
        for (int u = DEEP - 1; u >= 0; u--) {
            EXPECT_OK(tess_unit_pre_backward(units[u]));
            memset(tess_unit_grad(units[u], 0), 0, DEEP_ROWS * DEEP_ROW * sizeof(float));
            EXPECT_OK(tess_unit_post_backward(units[u]));
        }
    }
    EXPECT_OK(tess_fsdp_step_end(fsdp));
    int64_t after = (int64_t)tess_mem_stats(mem, TESS_POOL_COMM).bytes;
    deep_gathered = (int64_t)tess_fsdp_get_traffic(fsdp).gathered_bytes;
    tess_fsdp_destroy(&fsdp);
    return sum_over_ranks(after - before);
}

static uint64_t bytes_of_a_forward(const model *m)
{
    uint64_t before = tess_fsdp_get_traffic(m->fsdp).gathered_bytes;
    for (int u = 0; u < MODEL_UNITS; u++) {
        EXPECT_OK(tess_unit_pre_forward(m->units[u]));
        EXPECT_OK(tess_unit_post_forward(m->units[u]));
    }
    return tess_fsdp_get_traffic(m->fsdp).gathered_bytes - before;
}

/* `lasting`: copies stay from use to use. On one host the optimizer updates them; over several hosts they become stale.
 */
static void gathers_after_an_update(tess_fsdp_policy policy, bool lasting)
{
    static model_reference ref;
    model m;
    tess_optimizer *adamw = NULL;
    tess_shard shard;
    model_create(&m, mesh, policy);
    reference_init(&ref);
    EXPECT_OK(tess_fsdp_optimizer_create(m.fsdp, &model_adamw, &adamw));
    model_step(&m, &ref, 1, m.world);
    EXPECT_OK(tess_fsdp_optimizer_step(m.fsdp, adamw, 1, model_lr, model_scale));
    EXPECT_OK(tess_fsdp_shard(m.fsdp, 0, &shard));
    EXPECT(shard.copy == NULL); /* between steps only readers use it */
    uint64_t bytes = bytes_of_a_forward(&m);
    bool on_one_host = tess_runtime_hosts(runtime) == 1;
    EXPECT_INT(bytes > 0, !lasting || !on_one_host);
    EXPECT_INT(bytes_of_a_forward(&m) > 0, !lasting);
    EXPECT_OK(tess_fsdp_params_changed(m.fsdp));
    uint64_t all = bytes_of_a_forward(&m); /* the first units may still be there on one host, if slots rotate */
    EXPECT(on_one_host ? all > bytes : all == bytes);
    EXPECT_OK(tess_fsdp_update_begin(m.fsdp)); /* no update_end: the optimizer failed */
    EXPECT(bytes_of_a_forward(&m) > 0);
    tess_optimizer_destroy(&adamw);
    tess_fsdp_destroy(&m.fsdp);
}

static void where_copies_last_an_update_leaves_nothing_to_gather(void)
{
    open_flat();
    bool alone = tess_runtime_world(runtime) == 1;
    static const tess_strategy strategies[] = {TESS_STRATEGY_NONE, TESS_STRATEGY_ZERO1, TESS_STRATEGY_ZERO2};
    for (int i = 0; i < 3; i++)
        gathers_after_an_update(policy_of(strategies[i], TESS_BF16, TESS_F32, 1, 1), true);
    gathers_after_an_update(policy_of(TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 0), alone);
    close_mesh();
}

/* Over hosts teams also have areas, which grow with the largest transfer. */
static void expect_comm_bytes(tess_fsdp_policy policy, int64_t want)
{
    int64_t got = deep_comm_bytes(policy);
    int64_t areas = tess_runtime_hosts(runtime) > 1 ? tess_runtime_world(runtime) * (64 << 10) : 0;
    EXPECT(got >= want && got <= want + areas);
}

static void gathered_copies_and_windows_are_few(void)
{
    open_flat();
    int64_t world = tess_runtime_world(runtime), elements = DEEP_ROWS * DEEP_ROW;
    bool alone = world == 1; /* all copies last, and one window is enough, because no peer reads it later */
    int64_t windows = alone ? elements * 4 : world * 2 * elements * 4;
    int64_t copy = elements * 2 * tess_runtime_hosts(runtime); /* bfloat16, one copy per host */
    tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 1};
    expect_comm_bytes(policy, (alone ? DEEP : 3) * copy + windows);
    policy.prefetch = 0;
    expect_comm_bytes(policy, (alone ? DEEP : 2) * copy + windows);
    policy.reshard_after_forward = 0;
    expect_comm_bytes(policy, DEEP * copy + windows);
    policy.strategy = TESS_STRATEGY_ZERO2;
    expect_comm_bytes(policy, DEEP * copy + windows);
    policy.strategy = TESS_STRATEGY_ZERO1;
    expect_comm_bytes(policy, DEEP * copy + (alone ? windows : DEEP * world * elements * 4));
    policy.param_dtype = TESS_F32;
    policy.strategy = TESS_STRATEGY_NONE;
    expect_comm_bytes(policy, windows); /* the weights are whole on every rank: no copy */
    close_mesh();
}

/* Two slots rotate: of four passes over ten units, the first gathers ten, and each other eight. Only the first reads
 * master weights; a rank of a pair then reads and writes half a copy for each stash and each gather. */
static void groups_move_and_keep_the_bytes_of_their_ranks(void)
{
    open_flat();
    const int64_t elements = DEEP_ROWS * DEEP_ROW, copy = 2 * elements, windows = 4 * 2 * elements * 4;
    const int64_t own = elements / 4 * (4 + 2);
    tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 0};
    model_ranks_a_host = 1;
    deep_comm_bytes(policy);
    EXPECT_INT(deep_gathered, (10 + 3 * 8) * own);
    policy.reshard_after_forward = 4; /* all ranks: nothing else to keep than their shards */
    deep_comm_bytes(policy);
    EXPECT_INT(deep_gathered, (10 + 3 * 8) * own);
    policy.reshard_after_forward = 2;
    expect_comm_bytes(policy, 2 * 2 * copy + 4 * DEEP * copy / 2 + windows);
    EXPECT_INT(deep_gathered, 10 * own + (10 + 3 * 8) * copy);
    model_ranks_a_host = 2; /* a pair a host: its copies are kept */
    expect_comm_bytes(policy, tess_runtime_hosts(runtime) * DEEP * copy + windows);
    EXPECT_INT(deep_gathered, 10 * own);
    model_ranks_a_host = 0;
    close_mesh();
}

static void a_group_that_does_not_divide_the_shards_is_refused(void)
{
    tess_fsdp *fsdp;
    tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 2, 0};
    open_flat();
    EXPECT_FAILS(tess_fsdp_create(mesh, &policy, &fsdp), TESS_E_INVALID,
                 "reshard_after_forward is 2; choose 1 (free), 0 (keep) or a number that divides the 3 ranks");
    policy.strategy = TESS_STRATEGY_ZERO2; /* keeps all copies */
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

/* ---- Sums ---- */
/* Returns the bytes of gradients that this rank keeps in a step of 16 micro-batches a rank. *part: elements of a sum.
 */
static int64_t bytes_of_sums(bool expected, size_t *part)
{
    tess_fsdp *fsdp = NULL;
    tess_unit *unit;
    const int n = 16 * tess_runtime_world(runtime);
    const tess_param_desc desc = {"w", {2, {DEEP_ROWS, DEEP_ROW}}, true, true};
    const tess_fsdp_policy policy = policy_of(TESS_STRATEGY_HYBRID, TESS_BF16, TESS_F32, 1, 1);
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    if (expected)
        EXPECT_OK(tess_fsdp_set_step_size(fsdp, n));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "w", &desc, 1, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_zero, NULL));
    EXPECT_OK(tess_fsdp_reserve(fsdp, n));
    int64_t bytes = (int64_t)tess_mem_stats(tess_runtime_mem(runtime), TESS_POOL_GRADS).bytes;
    *part = unit->sums.elements;
    tess_fsdp_destroy(&fsdp);
    return bytes;
}

/* Five sums of 2^0 .. 2^4 leaves, whole or in parts, and then the finished gradient. */
static void replicas_that_divide_sums_keep_fewer_bytes(void)
{
    open_mesh((tess_axis[]){{"dp_replicate", -1}, {"dp_shard", 2}}, 2);
    const int64_t n_replicas = tess_runtime_world(runtime) / 2, shard = DEEP_ROWS * DEEP_ROW / 2 * 4;
    size_t part;
    EXPECT_INT(bytes_of_sums(false, &part), 5 * shard);
    EXPECT_INT(part * 4, shard);
    EXPECT_INT(bytes_of_sums(true, &part), shard + 5 * shard / n_replicas);
    EXPECT_INT(part * 4, shard / n_replicas);
    close_mesh();
}

/* ---- Norm ---- */
/* The norm of a parameter so large that tp ranks exchange its columns in several parts. Next to the square of a row's
 * first element small ones are lost, in the sum of a whole row more of them than in sums of its parts. */
static void rows_that_many_tp_ranks_share_are_put_together_for_the_norm(void)
{
    enum { ROWS = 1411, ROW = 1021 };
    tess_fsdp *fsdp = NULL;
    tess_unit *unit = NULL;
    tess_param_desc desc = {"w", {2, {ROWS, ROW}}, true, true, {TESS_SHARD, 1}};
    EXPECT_OK(tess_runtime_create(&(tess_runtime_options){.n_threads = 1}, &runtime));
    EXPECT_OK(tess_mesh_create(runtime, (tess_axis[]){{"tp", -1}, {"dp_shard", 1}}, 2, &mesh));
    EXPECT_OK(tess_fsdp_create(mesh, &full_f32, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "w", &desc, 1, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_zero, NULL));
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(fsdp, 0));
    EXPECT_OK(tess_unit_pre_forward(unit));
    EXPECT_OK(tess_unit_post_forward(unit));
    EXPECT_OK(tess_unit_pre_backward(unit));
    tess_shard shard;
    EXPECT_OK(tess_fsdp_shard(fsdp, 0, &shard));
    float *grad = tess_unit_grad(unit, 0), row[ROW];
    tess_exact_sum squares;
    tess_exact_clear(&squares);
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t c = 0; c < ROW; c++)
            row[c] = (float)(1 + r % 7) * (c == 0 ? 0x1p27f : (float)(1 + (r * ROW + c) % 3));
        tess_exact_add(&squares, reference_row_sumsq(row, ROW));
        memcpy(grad + r * shard.box.size[1], row + shard.box.begin[1], (size_t)shard.box.size[1] * sizeof(float));
    }
    EXPECT_OK(tess_unit_post_backward(unit));
    EXPECT_OK(tess_fsdp_step_end(fsdp));
    double norm = 0;
    EXPECT_OK(tess_fsdp_grad_norm(fsdp, &norm));
    tess_exact_normalize(&squares);
    if (norm != sqrt(tess_exact_value(&squares)))
        test_fail(__FILE__, __LINE__, "grad_norm is %a, expected %a", norm, sqrt(tess_exact_value(&squares)));
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

/* The norm of a step in which element `at` of the gradient (5, 3) of `rank` is `value`, and all others are 0. */
static double norm_with(tess_fsdp *fsdp, tess_unit *unit, int rank, int at, float value)
{
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(fsdp, 0));
    EXPECT_OK(tess_unit_pre_forward(unit));
    EXPECT_OK(tess_unit_post_forward(unit));
    EXPECT_OK(tess_unit_pre_backward(unit));
    float *grad = tess_unit_grad(unit, 0);
    memset(grad, 0, 15 * sizeof(float));
    if (tess_runtime_rank(runtime) == rank)
        grad[at] = value;
    EXPECT_OK(tess_unit_post_backward(unit));
    EXPECT_OK(tess_fsdp_step_end(fsdp));
    double norm = -1;
    EXPECT_OK(tess_fsdp_grad_norm(fsdp, &norm));
    return norm;
}

static void make_one_unit(const tess_axis *axes, int n_axes, tess_fsdp **fsdp, tess_unit **unit)
{
    static const tess_param_desc desc = {"w", {2, {5, 3}}, true, true};
    open_mesh(axes, n_axes);
    EXPECT_OK(tess_fsdp_create(mesh, &full_f32, fsdp));
    EXPECT_OK(tess_fsdp_add_unit(*fsdp, "w", &desc, 1, unit));
    EXPECT_OK(tess_fsdp_materialize(*fsdp, fill_zero, NULL));
}

static void grad_norm_neither_overflows_nor_hides_what_is_not_finite(void)
{
    tess_fsdp *fsdp;
    tess_unit *unit;
    make_one_unit((tess_axis[]){{"dp_shard", -1}}, 1, &fsdp, &unit);
    EXPECT(norm_with(fsdp, unit, 0, 14, 2e19f) == (double)2e19f); /* 4e38 squared would overflow a float */
    EXPECT(!isfinite(norm_with(fsdp, unit, 0, 14, INFINITY)));
    EXPECT(!isfinite(norm_with(fsdp, unit, 0, 14, NAN)));
    EXPECT(norm_with(fsdp, unit, 0, 14, 0) == 0);
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

/* Both ranks of the axis "tp" hold the whole gradient, and each is primary for some of its rows. */
static void grad_norm_sees_what_is_not_finite_in_any_copy(void)
{
    tess_fsdp *fsdp;
    tess_unit *unit;
    make_one_unit((tess_axis[]){{"tp", -1}, {"dp_shard", 1}}, 2, &fsdp, &unit);
    for (int rank = 0; rank < 2; rank++)
        for (int at = 0; at < 15; at += 14)
            EXPECT(!isfinite(norm_with(fsdp, unit, rank, at, NAN)));
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

/* ---- Places ---- */
/* Rank (1, 1) of shards 2 x tp 2 has rows and columns in the middle of a parameter (5, 7): what is wrong there is named
 * by its place in the whole. */
static void places_are_those_of_the_whole_parameter(void)
{
    static const tess_fsdp_policy policy = {TESS_STRATEGY_ZERO2, TESS_BF16, TESS_F32, 1, 0};
    open_mesh((tess_axis[]){{"dp_shard", 2}, {"tp", 2}}, 2);
    int rank = tess_runtime_rank(runtime);
    tess_fsdp *fsdp = NULL;
    tess_unit *unit = NULL;
    tess_param_desc descs[] = {{"frozen", {2, {3, 2}}, false, true, {TESS_SHARD, 0}},
                               {"w", {2, {5, 7}}, true, true, {TESS_SHARD, 1}}};
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "u", descs, 2, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_zero, NULL));
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 1));
    EXPECT_OK(tess_fsdp_micro_begin(fsdp, 0));
    EXPECT_OK(tess_unit_pre_forward(unit));
    EXPECT_OK(tess_unit_post_forward(unit));
    EXPECT_OK(tess_unit_pre_backward(unit));
    tess_shard shard;
    EXPECT_OK(tess_fsdp_shard(fsdp, 1, &shard));
    int64_t columns = shard.box.size[1], at;
    EXPECT_INT(columns, rank % 2 == 0 ? 4 : 3);
    memset(tess_unit_grad(unit, 1), 0, (size_t)(5 * columns) * sizeof(float));
    if (rank == 3)
        tess_unit_grad(unit, 1)[4 * columns + 2] = NAN;
    EXPECT_OK(tess_unit_post_backward(unit));
    EXPECT_OK(tess_fsdp_step_end(fsdp));
    tess_fsdp_bad_gradient bad;
    bool found = tess_fsdp_find_bad_gradient(fsdp, &bad);
    if (tess_runtime_hosts(runtime) == 1) /* else it may not be known */
        EXPECT_INT(found, rank == 3);
    if (found) {
        EXPECT_TEXT(bad.param, "w");
        EXPECT_INT(bad.rank, 3);
        EXPECT_INT(bad.row, 4);
        EXPECT_INT(bad.column, 6);
    }

    /* A copy that is not what the weights round to. */
    EXPECT_OK(tess_fsdp_copy_differs(fsdp, 1, &at));
    EXPECT_INT(at, -1);
    if (rank == 3)
        shard.master[1 * columns + 1] = 1; /* an element of its rows 3 and 4 */
    EXPECT_OK(tess_fsdp_copy_differs(fsdp, 1, &at));
    EXPECT_INT(at, rank == 3 ? 4 * 7 + 5 : -1);
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

/* ---- Misuse ---- */
static void bad_policies_are_named(void)
{
    open_flat();
    tess_fsdp *fsdp = NULL;
    tess_fsdp_policy policy = full_f32;
    EXPECT_FAILS(tess_fsdp_create(NULL, &policy, &fsdp), TESS_E_INVALID, "NULL");
    EXPECT_FAILS(tess_fsdp_create(mesh, NULL, &fsdp), TESS_E_INVALID, "NULL");
    policy.param_dtype = TESS_U8;
    EXPECT_FAILS(tess_fsdp_create(mesh, &policy, &fsdp), TESS_E_INVALID, "param_dtype is uint8");
    policy = full_f32;
    policy.reduce_dtype = TESS_I32;
    EXPECT_FAILS(tess_fsdp_create(mesh, &policy, &fsdp), TESS_E_INVALID, "reduce_dtype");
    policy = full_f32;
    policy.prefetch = -1;
    EXPECT_FAILS(tess_fsdp_create(mesh, &policy, &fsdp), TESS_E_INVALID, "prefetch is -1");
    policy = full_f32;
    policy.strategy = (tess_strategy)9;
    EXPECT_FAILS(tess_fsdp_create(mesh, &policy, &fsdp), TESS_E_INVALID, "strategy");
    EXPECT(fsdp == NULL);
    tess_mesh_destroy(&mesh);
    EXPECT_OK(tess_mesh_create(runtime, (tess_axis[]){{"tp", -1}}, 1, &mesh));
    EXPECT_FAILS(tess_fsdp_create(mesh, &full_f32, &fsdp), TESS_E_INVALID, "dp_shard");
    tess_mesh_destroy(&mesh);
    EXPECT_OK(tess_mesh_create(runtime, (tess_axis[]){{"dp_shard", -1}, {"dp_replicate", 1}}, 2, &mesh));
    EXPECT_FAILS(tess_fsdp_create(mesh, &full_f32, &fsdp), TESS_E_INVALID, "put it before");
    close_mesh();
}

static void bad_units_are_named(void)
{
    open_flat();
    tess_fsdp *fsdp = NULL;
    tess_unit *unit = NULL;
    EXPECT_OK(tess_fsdp_create(mesh, &full_f32, &fsdp));
    EXPECT_FAILS(tess_fsdp_materialize(fsdp, fill_zero, NULL), TESS_E_INVALID, "without units");
    tess_param_desc twice[] = {{"w", {1, {4}}, true, true}, {"w", {1, {4}}, true, true}};
    EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "u", twice, 2, &unit), TESS_E_INVALID, "'w' was added twice");
    EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "u", twice, 0, &unit), TESS_E_INVALID, "'u' has no parameters");
    tess_param_desc empty = {"e", {2, {4, 0}}, true, true};
    EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "u", &empty, 1, &unit), TESS_E_INVALID, "[4, 0]");
    tess_param_desc partial = {"p", {2, {4, 2}}, true, true, {TESS_PARTIAL, 0}};
    EXPECT_FAILS(
        tess_fsdp_add_unit(fsdp, "u", &partial, 1, &unit), TESS_E_INVALID,
        "'p' of shape [4, 2] on the axis \"tp\": choose TESS_REPLICATE, or TESS_SHARD of one of its dimensions");
    tess_param_desc third = {"t", {2, {4, 2}}, true, true, {TESS_SHARD, 2}};
    EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "u", &third, 1, &unit), TESS_E_INVALID, "of dimension 2 was given");
    tess_param_desc heads = {"h", {2, {6, 2}}, true, true, {TESS_SHARD, 0, 4}};
    EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "u", &heads, 1, &unit), TESS_E_INVALID,
                 "'h' of shape [6, 2]: units of 4 do not divide dimension 0");
    tess_param_desc huge = {"h", {3, {1 << 30, 1 << 30, 1 << 30}}, true, true};
    EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "u", &huge, 1, &unit), TESS_E_INVALID, "too many elements");
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "u", twice, 1, &unit));
    EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "v", twice, 1, &unit), TESS_E_INVALID, "'w' was added twice");
    EXPECT_FAILS(tess_fsdp_step_begin(fsdp, 1), TESS_E_INVALID, "before materialize");
    int64_t at;
    EXPECT_FAILS(tess_fsdp_copy_differs(fsdp, 0, &at), TESS_E_INVALID, "before materialize");
    EXPECT_FAILS(tess_fsdp_trim(fsdp), TESS_E_INVALID, "trim before materialize");
    EXPECT_FAILS(tess_fsdp_send_weights(fsdp, 0, tess_runtime_team(runtime), 0, 1), TESS_E_INVALID, "materialize");
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

static void hooks_in_the_wrong_order_are_named(void)
{
    open_flat();
    model m;
    static model_reference ref;
    reference_init(&ref);
    model_create(&m, mesh, full_f32);
    tess_unit *head = m.units[MODEL_UNITS - 1];
    double norm;
    EXPECT_FAILS(tess_fsdp_add_unit(m.fsdp, "late", &model_params[0].desc, 1, &head), TESS_E_INVALID, "'late' after");
    head = m.units[MODEL_UNITS - 1];
    EXPECT_FAILS(tess_fsdp_materialize(m.fsdp, model_fill, &m.n_filled), TESS_E_INVALID, "twice");
    EXPECT_FAILS(tess_fsdp_set_norm_team(m.fsdp, tess_runtime_team(runtime)), TESS_E_INVALID, "after materialize");
    for (int none = -1; none <= tess_fsdp_shards(m.fsdp); none += tess_fsdp_shards(m.fsdp) + 1) {
        int64_t at;
        EXPECT_FAILS(tess_fsdp_copy_differs(m.fsdp, none, &at), TESS_E_INVALID, "fsdp: parameter");
        EXPECT_FAILS(tess_fsdp_receive_weights(m.fsdp, none, tess_runtime_team(runtime), 0, 1), TESS_E_INVALID,
                     "fsdp: shard");
        EXPECT(tess_fsdp_holders(m.fsdp, none) == NULL && tess_fsdp_narrow(m.fsdp, none) == NULL);
        EXPECT(!tess_fsdp_is_coded(m.fsdp, none) && tess_fsdp_narrow_bytes(m.fsdp, none) == 0);
    }
    EXPECT_FAILS(tess_unit_post_forward(head), TESS_E_INVALID, "'head': post_forward without pre_forward");
    EXPECT_FAILS(tess_unit_pre_backward(head), TESS_E_INVALID, "'head': pre_backward outside a step");
    EXPECT_FAILS(tess_fsdp_micro_begin(m.fsdp, 0), TESS_E_INVALID, "micro_begin 0 outside a step");
    EXPECT_FAILS(tess_fsdp_step_end(m.fsdp), TESS_E_INVALID, "step_end outside a step");
    EXPECT_FAILS(tess_fsdp_grad_norm(m.fsdp, &norm), TESS_E_INVALID, "step_end first");
    EXPECT_FAILS(tess_fsdp_step_begin(m.fsdp, 0), TESS_E_INVALID, "0 micro-batches");
    EXPECT(tess_unit_param(head, 0) == NULL && tess_unit_grad(head, 0) == NULL);

    EXPECT_OK(tess_fsdp_step_begin(m.fsdp, 2));
    EXPECT_FAILS(tess_unit_pre_forward(head), TESS_E_INVALID, "'head': pre_forward before tess_fsdp_micro_begin");
    EXPECT_FAILS(tess_fsdp_micro_begin(m.fsdp, 1), TESS_E_INVALID, "in order");
    EXPECT_FAILS(tess_fsdp_params_changed(m.fsdp), TESS_E_INVALID, "inside a step");
    EXPECT_FAILS(tess_fsdp_trim(m.fsdp), TESS_E_INVALID, "trim inside a step");
    EXPECT_OK(tess_fsdp_micro_begin(m.fsdp, 0));
    EXPECT_OK(tess_unit_pre_forward(head));
    EXPECT(tess_unit_param(head, 0) != NULL && tess_unit_param(head, 99) == NULL && tess_unit_grad(head, 0) == NULL);
    EXPECT_FAILS(tess_fsdp_micro_begin(m.fsdp, 1), TESS_E_INVALID, "'head': micro_begin");
    EXPECT_OK(tess_unit_post_forward(head));
    EXPECT_FAILS(tess_unit_post_backward(head), TESS_E_INVALID, "'head': post_backward without pre_backward");
    EXPECT_OK(tess_unit_pre_backward(head));
    EXPECT_FAILS(tess_unit_pre_backward(head), TESS_E_INVALID, "'head': pre_backward twice");
    EXPECT_FAILS(tess_fsdp_micro_begin(m.fsdp, 1), TESS_E_INVALID, "post_backward is missing");
    model_write_grads(&m, MODEL_UNITS - 1, 1, 0, 0);
    EXPECT_OK(tess_unit_post_backward(head));
    EXPECT_FAILS(tess_unit_pre_backward(head), TESS_E_INVALID, "'head': pre_backward after post_backward");
    EXPECT_FAILS(tess_fsdp_micro_begin(m.fsdp, 1), TESS_E_INVALID,
                 "'embed': micro_begin, but micro-batch 0 had no backward");
    EXPECT_FAILS(tess_fsdp_step_end(m.fsdp), TESS_E_INVALID, "1 of 2 micro-batches");
    tess_fsdp_destroy(&m.fsdp);
    close_mesh();
}

static void passes_come_in_order(void)
{
    open_flat();
    model m;
    static model_reference ref;
    reference_init(&ref);
    model_passes = 2;
    model_create(&m, mesh, full_f32);
    tess_unit *head = m.units[MODEL_UNITS - 1];
    EXPECT_FAILS(tess_fsdp_set_passes(m.fsdp, 0), TESS_E_INVALID, "0 passes");
    EXPECT_FAILS(tess_fsdp_set_passes(m.fsdp, 3), TESS_E_INVALID, "after materialize");
    EXPECT_FAILS(tess_fsdp_pass_begin(m.fsdp, 1), TESS_E_INVALID, "outside a micro-batch");
    EXPECT_OK(tess_fsdp_step_begin(m.fsdp, 2));
    EXPECT_FAILS(tess_fsdp_pass_begin(m.fsdp, 1), TESS_E_INVALID, "outside a micro-batch");
    EXPECT_OK(tess_fsdp_micro_begin(m.fsdp, 0));
    EXPECT_FAILS(tess_fsdp_pass_begin(m.fsdp, 1), TESS_E_INVALID, "had no backward");
    model_run_pass(&m, &ref, 1, 0, 0, 0);
    EXPECT_FAILS(tess_fsdp_pass_begin(m.fsdp, 0), TESS_E_INVALID, "in order");
    EXPECT_FAILS(tess_fsdp_micro_begin(m.fsdp, 1), TESS_E_INVALID, "micro_begin after 1 of 2 passes of micro-batch 0");
    EXPECT_OK(tess_fsdp_pass_begin(m.fsdp, 1));
    EXPECT_OK(tess_unit_pre_backward(head));
    EXPECT_FAILS(tess_fsdp_micro_begin(m.fsdp, 1), TESS_E_INVALID, "the backward of micro-batch 0 is open");
    tess_fsdp_destroy(&m.fsdp); /* a pass is still open */
    close_mesh();
}

static void all_micro_batches_open_in_order(void)
{
    open_flat();
    model m;
    static model_reference ref;
    reference_init(&ref);
    model_passes = 1;
    model_create(&m, mesh, full_f32);
    tess_unit *head = m.units[MODEL_UNITS - 1];
    EXPECT_FAILS(tess_fsdp_micro_begin_all(m.fsdp), TESS_E_INVALID, "micro_begin_all outside a step");
    EXPECT_OK(tess_fsdp_step_begin(m.fsdp, 2));
    EXPECT_OK(tess_fsdp_micro_begin_all(m.fsdp));
    EXPECT_FAILS(tess_fsdp_micro_begin_all(m.fsdp), TESS_E_INVALID, "micro_begin_all inside a micro-batch");
    for (int s = 0; s < 2; s++) {
        EXPECT_OK(tess_unit_pre_backward(head));
        model_write_grads(&m, MODEL_UNITS - 1, 1, s, 0);
        EXPECT_OK(tess_unit_post_backward(head));
    }
    EXPECT_FAILS(tess_unit_pre_backward(head), TESS_E_INVALID, "'head': pre_backward after post_backward");
    EXPECT_FAILS(tess_fsdp_step_end(m.fsdp), TESS_E_INVALID, "'embed'");
    tess_fsdp_destroy(&m.fsdp);
    model_passes = 2;
    model_create(&m, mesh, full_f32);
    EXPECT_OK(tess_fsdp_step_begin(m.fsdp, 2));
    EXPECT_FAILS(tess_fsdp_micro_begin_all(m.fsdp), TESS_E_INVALID, "micro_begin_all with 2 passes");
    tess_fsdp_destroy(&m.fsdp);
    model_passes = 1;
    close_mesh();
}

static tess_status fill_fails_on_last(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                      float *dst)
{
    (void)name, (void)shape, (void)box, (void)dst;
    const int *rank = context;
    if (*rank == 2)
        return TESS_FAIL(TESS_E_IO, "the disk is gone");
    return TESS_OK;
}

static size_t bytes_held(void)
{
    size_t bytes = 0;
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++)
        bytes += tess_mem_stats(tess_runtime_mem(runtime), (tess_pool)pool).bytes;
    return bytes;
}

static void a_rank_that_cannot_fill_fails_all_ranks(void)
{
    open_flat();
    tess_fsdp *fsdp = NULL;
    tess_unit *unit = NULL;
    tess_param_desc desc = {"w", {2, {50, 3}}, true, true};
    int rank = tess_runtime_rank(runtime);
    EXPECT_OK(tess_fsdp_create(mesh, &full_f32, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "u", &desc, 1, &unit));
    size_t first = 0;
    for (int i = 0; i < 3; i++) {
        EXPECT_FAILS(tess_fsdp_materialize(fsdp, fill_fails_on_last, &rank), TESS_E_IO,
                     rank == 2 ? "parameter 'w': the disk is gone"
                               : "rank 2: materialize: parameter 'w': the disk is gone");
        first = i == 0 ? bytes_held() : first; /* teams keep the memory of their first operation */
        EXPECT_INT(bytes_held(), first);
    }
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_zero, NULL)); /* now the fill succeeds */
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

static size_t mapped_bytes(void)
{
    char text[64] = "";
    EXPECT(tess_os_read_text("/proc/self/statm", text, sizeof(text)) > 0);
    return strtoull(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Memory runs out in the middle of the accumulators: step_begin fails, also when it is repeated. */
static void a_step_without_memory_for_its_sums_never_begins(void)
{
    open_flat();
    tess_fsdp *fsdp = NULL;
    tess_unit *unit = NULL;
    struct rlimit before, tight;
    tess_param_desc desc = {"w", {2, {4096, 2048}}, true, true}; /* sums of 32 MiB, which are not touched */
    EXPECT_OK(tess_fsdp_create(mesh, &full_f32, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "u", &desc, 1, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_zero, NULL));
    EXPECT(getrlimit(RLIMIT_AS, &before) == 0);
    tight = (struct rlimit){.rlim_cur = mapped_bytes() + (56 << 20), .rlim_max = before.rlim_max};
    EXPECT(setrlimit(RLIMIT_AS, &tight) == 0);
    for (int i = 0; i < 2; i++)
        EXPECT_FAILS(tess_fsdp_step_begin(fsdp, 8), TESS_E_NOMEM, "sum");
    EXPECT(setrlimit(RLIMIT_AS, &before) == 0);
    EXPECT_OK(tess_fsdp_step_begin(fsdp, 8));
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

static void expect_odd_rank(int columns, int n_blocks)
{
    tess_fsdp *fsdp = NULL;
    tess_unit *unit = NULL;
    tess_param_desc desc = {"w", {2, {50, columns}}, true, true};
    EXPECT_OK(tess_fsdp_create(mesh, &full_f32, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "u", &desc, 1, &unit));
    EXPECT_OK(tess_unit_set_blocks(unit, n_blocks));
    EXPECT_FAILS(tess_fsdp_materialize(fsdp, fill_zero, NULL), TESS_E_MISMATCH, "rank 1 describes other parameters");
    tess_fsdp_destroy(&fsdp);
}

static void ranks_with_other_models_are_named(void)
{
    open_flat();
    const bool odd = tess_runtime_rank(runtime) == 1;
    expect_odd_rank(odd ? 4 : 3, 1);
    expect_odd_rank(3, odd ? 2 : 1);
    close_mesh();
}

static const test_case cases[] = {
    {"two_replicas_that_divide_sums_keep_fewer_bytes", replicas_that_divide_sums_keep_fewer_bytes, 4, 0},
    {"four_replicas_that_divide_sums_keep_fewer_bytes", replicas_that_divide_sums_keep_fewer_bytes, 8, 0},
    CASE(every_row_is_primary_on_exactly_one_rank, -1),
    CASE(every_row_is_primary_on_exactly_one_rank_of_a_hybrid_mesh, 8),
    CASE(all_ranks_together_hold_the_memory_of_one, -1),
    CASE(gathered_copies_and_windows_are_few, -1),
    CASE(groups_move_and_keep_the_bytes_of_their_ranks, 4),
    CASE(a_group_that_does_not_divide_the_shards_is_refused, 3),
    CASE(where_copies_last_an_update_leaves_nothing_to_gather, -1),
    CASE(grad_norm_neither_overflows_nor_hides_what_is_not_finite, 2),
    CASE(grad_norm_sees_what_is_not_finite_in_any_copy, 2),
    CASE(rows_that_many_tp_ranks_share_are_put_together_for_the_norm, -1),
    CASE(places_are_those_of_the_whole_parameter, 4),
    CASE(bad_policies_are_named, 1),
    CASE(bad_units_are_named, 1),
    CASE(hooks_in_the_wrong_order_are_named, 1),
    CASE(passes_come_in_order, 1),
    CASE(all_micro_batches_open_in_order, 1),
    CASE(a_rank_that_cannot_fill_fails_all_ranks, 4),
    CASE(a_step_without_memory_for_its_sums_never_begins, 1),
    CASE(ranks_with_other_models_are_named, 3),
};
TEST_MAIN(cases)
