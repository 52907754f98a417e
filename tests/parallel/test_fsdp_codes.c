/* Units that are gathered as bytes: fp8 codes, and frozen weights that lie in the compute dtype alone. */
#include "comm/dry/dry_runtime.h"
#include "device/bf16.h"
#include "device/device.h"
#include "device/fp8_rows.h"
#include "fsdp_mesh.h"
#include "fsdp_model.h"
#include "parallel/fsdp/wire_form.h"
#include "tessera/fsdp.h"

static tess_status fill_nothing(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                float *dst)
{
    (void)context, (void)name, (void)shape, (void)box, (void)dst;
    return TESS_OK;
}

typedef struct dry_bytes {
    size_t params, copies;
} dry_bytes;

/* Returns the bytes of the first of n_shards dry ranks while it uses a unit of this parameter. */
static dry_bytes bytes_of(int n_shards, const tess_fsdp_policy *policy, const tess_param_desc *desc)
{
    tess_runtime *rt;
    tess_mesh *grid;
    tess_fsdp *fsdp;
    tess_unit *unit;
    EXPECT_OK(
        tess_dry_runtime_create(&(tess_dry_options){.world = n_shards, .ranks_a_host = n_shards, .n_threads = 1}, &rt));
    EXPECT_OK(tess_mesh_create(rt, &(tess_axis){"dp_shard", n_shards}, 1, &grid));
    EXPECT_OK(tess_fsdp_create(grid, policy, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "layer", desc, 1, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_nothing, NULL));
    EXPECT_OK(tess_unit_pre_forward(unit));
    const tess_mem *mem = tess_runtime_mem(rt);
    const dry_bytes bytes = {tess_mem_stats(mem, TESS_POOL_PARAMS).bytes, tess_mem_stats(mem, TESS_POOL_COMM).bytes};
    EXPECT_OK(tess_unit_post_forward(unit));
    tess_fsdp_destroy(&fsdp);
    tess_mesh_destroy(&grid);
    tess_dry_runtime_destroy(&rt);
    return bytes;
}

/* A known relation: 16 bits are half of what float32 gathers, fp8 a quarter, but for a byte of scale for 128. */
static size_t gathered_copies(tess_dtype dtype, int codes)
{
    const tess_fsdp_policy policy = {TESS_STRATEGY_FULL, dtype, TESS_F32, 1, 0};
    const tess_param_desc desc = {
        .name = "w", .shape = {2, {256, 1024}}, .trainable = true, .hidden = true, .codes = codes};
    const dry_bytes bytes = bytes_of(4, &policy, &desc);
    EXPECT_INT(bytes.params, 256 * 1024 + (codes > 0 ? 64 * (1024 + 8) : 0)); /* own weights, and their codes */
    return bytes.copies;
}

static void narrow_copies_are_smaller(void)
{
    const size_t n = 256 * 1024;
    EXPECT_INT(gathered_copies(TESS_F32, 0), 4 * n);
    EXPECT_INT(gathered_copies(TESS_BF16, 0), 2 * n);
    EXPECT_INT(gathered_copies(TESS_F16, 0), 2 * n);
    EXPECT_INT(gathered_copies(TESS_BF16, TESS_CODES_FP8), n + n / 128);
    EXPECT_INT(gathered_copies(TESS_F32, TESS_CODES_FP8), n + n / 128);
}

/* Decoded weights are those that products read of weights gathered in bfloat16. */
static tess_status fill_weights(void *context, const char *name, const tess_shape *shape, const tess_box *box,
                                float *dst)
{
    (void)context, (void)shape;
    for (int64_t i = 0; i < tess_box_count(2, box); i++)
        dst[i] =
            (float)tess_rng_normal(3, TESS_RNG_TEST, (uint64_t)name[0], (uint64_t)(box->begin[0] * box->size[1] + i));
    return TESS_OK;
}

enum { CODE_ROWS = 13, CODE_ROW = 300 };

/* Compares the codes of a forward with those that these weights should have. */
static void expect_codes(tess_unit *unit, const float *weights)
{
    enum { N = CODE_ROWS * CODE_ROW };
    static uint16_t wide[N], want[N], seen[N];
    tess_stream *s;
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &s));
    EXPECT_OK(tess_stream_kernels(s)->convert(
        s, &(tess_convert_args){.x = weights, .from = TESS_F32, .y = wide, .to = TESS_BF16, .n = N}));
    EXPECT_OK(tess_stream_kernels(s)->round_fp8(s, &(tess_round_fp8_args){.x = wide,
                                                                          .stride = CODE_ROW,
                                                                          .y = want,
                                                                          .rows = CODE_ROWS,
                                                                          .C = CODE_ROW,
                                                                          .format = TESS_E4M3,
                                                                          .dtype = TESS_BF16}));
    EXPECT_OK(tess_unit_pre_forward(unit));
    EXPECT_OK(tess_fp8_decode_rows(s, tess_unit_param(unit, 0), CODE_ROWS, CODE_ROW, TESS_BF16, seen));
    EXPECT_OK(tess_unit_post_forward(unit));
    EXPECT_INT(memcmp(seen, want, sizeof(want)), 0);
    tess_stream_destroy(&s);
}

static void codes_are_gathered(void)
{
    enum { CHANGED = 2 * CODE_ROW + 200 };
    static float weights[CODE_ROWS * CODE_ROW];
    const tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 0};
    const tess_box whole = {.size = {CODE_ROWS, CODE_ROW}};
    const tess_param_desc descs[] = {{"codes", {2, {CODE_ROWS, CODE_ROW}}, true, true, .codes = TESS_CODES_FP8},
                                     {"plain", {2, {5, 3}}, true, true}};
    tess_fsdp *fsdp;
    tess_unit *unit;
    tess_shard shard;
    int64_t at, changed;
    open_flat();
    EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
    EXPECT_OK(tess_fsdp_add_unit(fsdp, "layer", descs, 2, &unit));
    EXPECT_OK(tess_fsdp_materialize(fsdp, fill_weights, NULL));
    EXPECT_OK(fill_weights(NULL, "codes", &descs[0].shape, &whole, weights));
    expect_codes(unit, weights);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tess_fsdp_copy_differs(fsdp, i, &at));
        EXPECT_INT(at, -1);
    }
    EXPECT_OK(tess_fsdp_shard(fsdp, 0, &shard));
    changed = CHANGED - shard.box.begin[0] * CODE_ROW;
    bool is_mine = changed >= 0 && changed < tess_shard_count(&shard);
    weights[CHANGED] += 1;
    if (is_mine)
        shard.master[changed] += 1;
    EXPECT_OK(tess_fsdp_copy_differs(fsdp, 0, &at));
    EXPECT_INT(at, is_mine && tess_runtime_world(runtime) > 1 ? CHANGED : -1); /* alone, the codes are the copy */
    EXPECT_OK(tess_fsdp_params_changed(fsdp));
    expect_codes(unit, weights);
    tess_fsdp_destroy(&fsdp);
    close_mesh();
}

/* A rank that has them all reads them where they are: they need no copy, whatever is held at once. */
static void narrow_weights_alone_have_no_copies(void)
{
    const tess_fsdp_policy policy = {TESS_STRATEGY_FULL, TESS_BF16, TESS_F32, 1, 1};
    const tess_param_desc descs[] = {{"narrow", {2, {13, 7}}, false, true, .narrow = true}};
    for (int n_shards = 1; n_shards <= 2; n_shards++)
        EXPECT_INT(bytes_of(n_shards, &policy, descs).copies > 0, n_shards > 1);
}

static void a_device_refuses_narrow_weights(void)
{
    static const tess_dtype dtypes[] = {TESS_BF16, TESS_F32}; /* float32 ones are not narrow */
    const tess_param_desc desc = {"narrow", {2, {13, 7}}, false, true, .narrow = true};
    tess_device *device;
    tess_stream *stream;
    open_flat();
    EXPECT_OK(tess_device_open(tess_runtime_mem(runtime), "far", 0, &device));
    EXPECT_OK(tess_device_stream(device, 1, NULL, &stream));
    for (int i = 0; i < 2; i++) {
        const tess_fsdp_policy policy = {TESS_STRATEGY_FULL, dtypes[i], TESS_F32, 1, 1};
        tess_fsdp *fsdp;
        tess_unit *unit;
        EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
        EXPECT_OK(tess_fsdp_set_stream(fsdp, stream));
        if (i == 0)
            EXPECT_FAILS(tess_fsdp_add_unit(fsdp, "layer", &desc, 1, &unit), TESS_E_UNSUPPORTED, "leave `narrow` out");
        else
            EXPECT_OK(tess_fsdp_add_unit(fsdp, "layer", &desc, 1, &unit));
        tess_fsdp_destroy(&fsdp);
    }
    tess_stream_destroy(&stream);
    EXPECT_INT(tess_device_close(&device), 0);
    close_mesh();
}

/* Frozen, narrow weights lie in bfloat16 alone, next to weights that train. */
static void narrow_weights_have_no_masters(void)
{
    enum { ROWS = 13, ROW = 7, N = ROWS * ROW, TRAINED = 5 * 3 };
    static float weights[N], trained[TRAINED];
    static uint16_t want[N], want_trained[TRAINED];
    const tess_box whole = {.size = {ROWS, ROW}}, whole_trained = {.size = {5, 3}};
    const tess_param_desc descs[] = {{"narrow", {2, {ROWS, ROW}}, false, true, .narrow = true},
                                     {"trained", {2, {5, 3}}, true, true, .narrow = true}};
    static const tess_strategy strategies[] = {TESS_STRATEGY_FULL, TESS_STRATEGY_NONE, TESS_STRATEGY_ZERO2};
    open_flat();
    EXPECT_OK(fill_weights(NULL, "narrow", &descs[0].shape, &whole, weights));
    EXPECT_OK(fill_weights(NULL, "trained", &descs[1].shape, &whole_trained, trained));
    for (int i = 0; i < N; i++)
        want[i] = tess_float_to_bf16(weights[i]);
    for (int i = 0; i < TRAINED; i++)
        want_trained[i] = tess_float_to_bf16(trained[i]);
    for (int k = 0; k < 3; k++) {
        const tess_fsdp_policy policy = {strategies[k], TESS_BF16, TESS_F32, 1, 1};
        tess_fsdp *fsdp;
        tess_unit *unit;
        tess_shard shard;
        int64_t at;
        EXPECT_OK(tess_fsdp_create(mesh, &policy, &fsdp));
        EXPECT_OK(tess_fsdp_add_unit(fsdp, "layer", descs, 2, &unit));
        EXPECT_OK(tess_fsdp_materialize(fsdp, fill_weights, NULL));
        EXPECT_OK(tess_fsdp_shard(fsdp, 0, &shard));
        EXPECT(shard.master == NULL && tess_fsdp_narrow(fsdp, 1) == NULL);
        EXPECT_FAILS(tess_fsdp_send_weights(fsdp, 0, tess_runtime_team(runtime), 0, 1), TESS_E_INVALID, "is narrow");
        EXPECT_INT(sum_over_ranks(tess_shard_count(&shard)), N); /* not even `none` has copies of them */
        if (tess_shard_count(&shard) > 0)
            EXPECT_INT(memcmp(tess_fsdp_narrow(fsdp, 0), want + shard.box.begin[0] * ROW,
                              (size_t)tess_shard_count(&shard) * 2),
                       0);
        for (int again = 0; again < 2; again++) {
            size_t before = tess_mem_stats(tess_runtime_mem(runtime), TESS_POOL_COMM).bytes;
            EXPECT_OK(tess_unit_prefetch(unit));
            if (tess_runtime_world(runtime) == 1) /* they are where they are read */
                EXPECT_INT(tess_mem_stats(tess_runtime_mem(runtime), TESS_POOL_COMM).bytes, before);
            EXPECT_OK(tess_unit_pre_forward(unit));
            EXPECT_INT(memcmp(tess_unit_param(unit, 0), want, sizeof(want)), 0);
            EXPECT_INT(memcmp(tess_unit_param(unit, 1), want_trained, sizeof(want_trained)), 0);
            EXPECT_OK(tess_unit_post_forward(unit));
            EXPECT_OK(tess_fsdp_copy_differs(fsdp, 0, &at));
            EXPECT_INT(at, -1);
            EXPECT_OK(tess_fsdp_params_changed(fsdp));
        }
        tess_fsdp_destroy(&fsdp);
    }
    close_mesh();
}

/* Sums of what was encoded, against values that each type rounds to by hand: 1 + 2^-7, and 3 * 2^-9 more. */
static void forms_encode_and_sum(void)
{
    static const struct {
        tess_dtype dtype;
        size_t bytes;
        float rounded[3];
    } known[] = {{TESS_F32, 12, {1 + 0x1p-7f, 1 + 0x1p-7f + 0x3p-9f, -0x1p-10f}},
                 {TESS_F16, 6, {1 + 0x1p-7f, 1 + 0x1p-7f + 0x3p-9f, -0x1p-10f}},
                 {TESS_BF16, 6, {1 + 0x1p-7f, 1 + 0x1p-6f, -0x1p-10f}}};
    tess_stream *s;
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &s));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const tess_wire_form *form = tess_wire_form_of(known[i].dtype, 0);
        const tess_reduce_run runs[] = {{0, 0, 1}, {1, 1, 2}};
        float moved[3], sum[3] = {NAN, NAN, NAN};
        EXPECT_INT(form->row_bytes(form, 3), known[i].bytes);
        EXPECT_OK(form->encode(form, s, known[0].rounded, 1, 3, moved));
        EXPECT_OK(form->sum(form, s, moved, runs, 2, false, sum));
        EXPECT_SAME(sum, known[i].rounded, 3);
        EXPECT_OK(form->sum(form, s, moved, runs, 2, true, sum));
        for (int k = 0; k < 3; k++)
            EXPECT(sum[k] == 2 * known[i].rounded[k]);
    }
    tess_stream_destroy(&s);
    const tess_wire_form *codes = tess_wire_form_of(TESS_BF16, TESS_CODES_FP8);
    EXPECT(codes->sum == NULL && !tess_wire_form_is_plain(codes));
    EXPECT_INT(codes->row_bytes(codes, 300), 300 + 3);
    EXPECT_INT(codes->element(300, 299), 299);
    EXPECT_INT(codes->element(300, 302), 256); /* the scale of the third block of 128 */
    EXPECT(tess_wire_form_of(TESS_F16, TESS_CODES_FP8) == NULL && tess_wire_form_of(TESS_U8, 0) == NULL);
}

/* Codes of a row depend on that row alone, and stand for values near those that were encoded. Forms are found by their
 * numbers, so a new one is tested, too. */
static void codes_are_by_row(void)
{
    enum { ROWS = 3, ROW = 300, N = ROWS * ROW };
    static const tess_dtype dtypes[] = {TESS_F32, TESS_BF16};
    static float x[N], read[N];
    static uint8_t all[4 * N], one[4 * ROW];
    const tess_box whole = {.size = {ROWS, ROW}};
    tess_stream *s;
    EXPECT_OK(tess_stream_create(test_mem(), 1, "ref", &s));
    EXPECT_OK(fill_weights(NULL, "codes", NULL, &whole, x));
    for (int i = 0; i < 2; i++) {
        const tess_wire_form *form;
        int codes;
        for (codes = 1; (form = tess_wire_form_of(dtypes[i], codes)) != NULL; codes++) {
            const size_t bytes = form->row_bytes(form, ROW);
            EXPECT(form->sum == NULL && bytes <= sizeof(one));
            EXPECT_OK(form->encode(form, s, x, ROWS, ROW, all));
            if (codes == TESS_CODES_F32) { /* the values themselves */
                EXPECT(form->moves == TESS_F32 && form->decode == NULL && memcmp(all, x, sizeof(x)) == 0);
                continue;
            }
            EXPECT(form->moves == TESS_U8);
            for (int r = 0; r < ROWS; r++) {
                EXPECT_OK(form->encode(form, s, x + r * ROW, 1, ROW, one));
                EXPECT_INT(memcmp(one, all + (size_t)r * bytes, bytes), 0);
            }
            EXPECT_OK(form->decode(s, all, ROWS, ROW, dtypes[i], read));
            for (int k = 0; k < N; k++) {
                const float value = i == 0 ? read[k] : tess_bf16_to_float(((const uint16_t *)(const void *)read)[k]);
                EXPECT(fabsf(value - x[k]) <= 0.07f * fmaxf(1, fabsf(x[k])));
            }
            for (int64_t at = 0; at < (int64_t)bytes; at++)
                EXPECT(form->element(ROW, at) >= 0 && form->element(ROW, at) < ROW);
        }
        EXPECT(codes > 1);
    }
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    CASE(codes_are_by_row),
    CASE(forms_encode_and_sum),
    CASE(narrow_weights_have_no_masters, -1),
    CASE(narrow_weights_alone_have_no_copies),
    CASE(a_device_refuses_narrow_weights),
    CASE(narrow_copies_are_smaller),
    CASE(codes_are_gathered, -1),
};
TEST_MAIN(cases)
