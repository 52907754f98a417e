/* Every collective against a serial computation, for every dtype and reduction, at sizes around the inline limit and
 * the stage, in private memory and in windows. */
#include <math.h>
#include <stdlib.h>

#include "arithmetic.h"
#include "support/join.h"
#include "tessera/comm.h"

/* The last does not fit in one stage of 512 KiB where a rank shows a block for each of several ranks, or in 8 bytes
 * each. */
static const size_t sizes[] = {0, 1, 7, 509, 4099, 70001};
enum { N_SIZES = 6, LARGE = 70001 };

static uint64_t mix(uint64_t x) /* splitmix64: every rank computes all ranks' inputs, so it must be quick */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Elements [first, first + n) of rank r's input. They are small, so that sums of integers and of bf16 change visibly
 * when a rank is missing. */
static void fill(void *memory, tess_dtype dtype, size_t first, size_t n, int rank, uint64_t stream)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = mix(stream * 1000003 + (uint64_t)rank * 97 + ((first + i) << 20));
        float x = (float)((double)(int64_t)bits * 0x1p-60);
        switch (dtype) {
        case TESS_F32:
            ((float *)memory)[i] = x;
            break;
        case TESS_BF16:
        case TESS_F16:
            convert_values(&x, TESS_F32, (uint16_t *)memory + i, dtype, 1);
            break;
        case TESS_I32:
            ((int32_t *)memory)[i] = (int32_t)(bits % 100001) - 50000;
            break;
        case TESS_I64:
            ((int64_t *)memory)[i] = (int64_t)bits >> 8;
            break;
        default:
            ((uint8_t *)memory)[i] = (uint8_t)bits;
        }
    }
}

static void *take(tess_team *team, bool window, size_t bytes)
{
    void *memory;
    if (window)
        EXPECT_OK(tess_window_alloc(team, TESS_POOL_COMM, bytes, "test", &memory));
    else
        EXPECT_OK(tess_mem_alloc(tess_runtime_mem(tess_team_runtime(team)), TESS_POOL_COMM, bytes, "test", &memory));
    return memory;
}

static void give(tess_team *team, bool window, void *memory)
{
    if (window)
        tess_window_free(team, memory);
    else
        tess_mem_free(tess_runtime_mem(tess_team_runtime(team)), memory);
}

/* The definition in scalar code: level by level, neighbours first, an odd one carried up. */
static float serial_tree(float *x, int n)
{
    while (n > 1) {
        int m = 0;
        for (int i = 0; i < n; i += 2)
            x[m++] = i + 1 < n ? x[i] + x[i + 1] : x[i];
        n = m;
    }
    return x[0];
}

static void serial_reduce(const uint8_t *all, size_t stride, int W, tess_dtype dtype, tess_op op, size_t i, void *out)
{
    size_t size = tess_dtype_size(dtype);
    if (dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16) {
        float x[16], y;
        for (int r = 0; r < W; r++)
            convert_values(all + (size_t)r * stride + i * size, dtype, &x[r], TESS_F32, 1);
        y = x[0];
        if (op == TESS_SUM || op == TESS_AVG)
            y = serial_tree(x, W);
        if (op == TESS_AVG)
            y = y / (float)W;
        for (int r = 1; r < W && op == TESS_MAX; r++)
            y = fmaxf(y, x[r]);
        for (int r = 1; r < W && op == TESS_MIN; r++)
            y = fminf(y, x[r]);
        convert_values(&y, TESS_F32, out, dtype, 1);
        return;
    }
    int64_t y = 0;
    for (int r = 0; r < W; r++) {
        int64_t x = 0;
        const uint8_t *at = all + (size_t)r * stride + i * size;
        if (dtype == TESS_I32) {
            int32_t v;
            memcpy(&v, at, 4);
            x = v;
        } else if (dtype == TESS_I64) {
            memcpy(&x, at, 8);
        } else {
            x = *at;
        }
        if (r == 0)
            y = x;
        else if (op == TESS_MAX)
            y = x > y ? x : y;
        else if (op == TESS_MIN)
            y = x < y ? x : y;
        else
            y = (int64_t)((uint64_t)y + (uint64_t)x);
    }
    if (op == TESS_AVG)
        y /= W;
    memcpy(out, &y, size); /* little-endian: the low bytes wrap as they should */
}

static void check_reductions(tess_team *team, tess_dtype dtype, tess_op op, size_t n, bool window, bool in_place)
{
    int W = tess_team_size(team), me = tess_team_rank(team);
    size_t size = tess_dtype_size(dtype), block = n * size;
    uint8_t *blocks = malloc(block * (size_t)W + 8), *want = malloc(block + 8);
    uint8_t *in = take(team, window, block * (size_t)W), *out = take(team, window, block);
    fill(in, dtype, 0, n * (size_t)W, me, n);
    EXPECT_OK(tess_reduce_scatter(team, in, out, n, dtype, op, NULL));
    for (int r = 0; r < W; r++)
        fill(blocks + block * (size_t)r, dtype, (size_t)me * n, n, r, n);
    for (size_t i = 0; i < n; i++)
        serial_reduce(blocks, block, W, dtype, op, i, want + i * size);
    test_expect_same(__FILE__, __LINE__, "reduce_scatter", out, want, n, size);

    const uint8_t *from = in;
    if (in_place) {
        memcpy(out, in, block);
        from = out;
    }
    EXPECT_OK(tess_all_reduce(team, from, out, n, dtype, op, NULL));
    for (int r = 0; r < W; r++)
        fill(blocks + block * (size_t)r, dtype, 0, n, r, n);
    for (size_t i = 0; i < n; i++)
        serial_reduce(blocks, block, W, dtype, op, i, want + i * size);
    test_expect_same(__FILE__, __LINE__, "all_reduce", out, want, n, size);
    give(team, window, in);
    give(team, window, out);
    free(blocks);
    free(want);
}

static void reductions_are_the_serial_tree(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    for (int dtype = 0; dtype < TESS_DTYPE_COUNT; dtype++)
        for (int op = 0; op < 4; op++)
            for (int s = 0; s < N_SIZES - 1; s++)
                if (test_takes()) /* all ranks take the same ones */
                    check_reductions(team, (tess_dtype)dtype, (tess_op)op, sizes[s], s % 2 == 0, (dtype + s) % 2 == 0);
    for (int window = 0; window < 2; window++) {
        check_reductions(team, TESS_F32, TESS_SUM, LARGE, window, window);
        check_reductions(team, TESS_BF16, TESS_SUM, LARGE, window, !window);
    }
    tess_runtime_destroy(&rt);
}

static void nan_wins_extrema(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    float x = tess_team_rank(team) == tess_team_size(team) / 2 ? NAN : 1, y;
    EXPECT_OK(tess_all_reduce(team, &x, &y, 1, TESS_F32, TESS_MAX, NULL));
    EXPECT(isnan(y));
    EXPECT_OK(tess_all_reduce(team, &x, &y, 1, TESS_F32, TESS_MIN, NULL));
    EXPECT(isnan(y));
    tess_runtime_destroy(&rt);
}

static void check_moves(tess_team *team, tess_dtype dtype, size_t n, bool window)
{
    int W = tess_team_size(team), me = tess_team_rank(team), root = (int)(n % (size_t)W);
    size_t size = tess_dtype_size(dtype), block = n * size, all_bytes = block * (size_t)W;
    uint8_t *first = malloc(all_bytes + 8), *mine = malloc(all_bytes + 8); /* block 0, block `me` of every rank */
    uint8_t *in = take(team, window, all_bytes), *out = take(team, window, all_bytes);
    fill(in, dtype, 0, n * (size_t)W, me, n + 3);
    for (int r = 0; r < W; r++) {
        fill(first + block * (size_t)r, dtype, 0, n, r, n + 3);
        fill(mine + block * (size_t)r, dtype, (size_t)me * n, n, r, n + 3);
    }

    EXPECT_OK(tess_all_gather(team, in, out, n, dtype, NULL));
    test_expect_same(__FILE__, __LINE__, "all_gather", out, first, n * (size_t)W, size);

    memset(out, 0, all_bytes);
    EXPECT_OK(tess_all_to_all(team, in, out, n, dtype, NULL));
    test_expect_same(__FILE__, __LINE__, "all_to_all", out, mine, n * (size_t)W, size);

    memset(out, 0, all_bytes);
    EXPECT_OK(tess_gather(team, in, me == root ? out : NULL, n, dtype, root, NULL));
    if (me == root)
        test_expect_same(__FILE__, __LINE__, "gather", out, first, n * (size_t)W, size);

    EXPECT_OK(tess_scatter(team, me == root ? in : NULL, out, n, dtype, root, NULL));
    test_expect_same(__FILE__, __LINE__, "scatter", out, mine + block * (size_t)root, n, size);

    memcpy(out, in, block);
    EXPECT_OK(tess_broadcast(team, out, n, dtype, root, NULL));
    test_expect_same(__FILE__, __LINE__, "broadcast", out, first + block * (size_t)root, n, size);
    give(team, window, in);
    give(team, window, out);
    free(first);
    free(mine);
}

static void moves_bring_every_element_home(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    for (int s = 0; s < N_SIZES; s++)
        for (int dtype = 0; dtype < TESS_DTYPE_COUNT; dtype++)
            if ((sizes[s] < LARGE || dtype == TESS_F16 || dtype == TESS_I64) && test_takes())
                check_moves(team, (tess_dtype)dtype, sizes[s], (s + dtype) % 2 == 0);
    tess_runtime_destroy(&rt);
}

/* Rank r sends (r * 3 + q * unit) % most elements to q, from gaps of its own. */
static void check_uneven(tess_team *team, size_t unit, size_t most, bool window)
{
    int W = tess_team_size(team), me = tess_team_rank(team);
    size_t in_counts[16], in_offsets[16], out_counts[16], out_offsets[16], in_n = 3, out_n = 1;
    for (int r = 0; r < W; r++) {
        in_counts[r] = ((size_t)me * 3 + (size_t)r * unit) % most;
        out_counts[r] = ((size_t)r * 3 + (size_t)me * unit) % most;
        in_offsets[r] = in_n;
        out_offsets[r] = out_n;
        in_n += in_counts[r] + 2;
        out_n += out_counts[r];
    }
    /* Windows are equal on all ranks; private memory is not. */
    size_t room = window ? (most + 2) * (size_t)W + 3 : 0;
    int32_t *in = take(team, window, (window ? room : in_n) * 4),
            *out = take(team, window, (window ? room : out_n) * 4);
    for (int r = 0; r < W; r++)
        for (size_t i = 0; i < in_counts[r]; i++)
            in[in_offsets[r] + i] = me * 100000000 + r * 10000000 + (int)i;
    EXPECT_OK(tess_all_to_all_v(team, in, in_counts, in_offsets, out, out_counts, out_offsets, TESS_I32, NULL));
    for (int r = 0; r < W; r++)
        for (size_t i = 0; i < out_counts[r]; i++)
            EXPECT_INT(out[out_offsets[r] + i], r * 100000000 + me * 10000000 + (int)i);
    EXPECT_INT(out[0], 0);
    give(team, window, in);
    give(team, window, out);
}

static void all_to_all_v_moves_uneven_blocks(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    for (int window = 0; window < 2; window++) {
        check_uneven(team, 5, 11, window);
        check_uneven(team, 0, 2, window);
        check_uneven(team, 37777, 60000, window);
    }
    tess_runtime_destroy(&rt);
}

static void arguments_are_checked_on_the_caller_alone(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int me = tess_team_rank(team);
    float x[64] = {0};
    EXPECT_FAILS(tess_all_reduce(team, NULL, x, 3, TESS_F32, TESS_SUM, NULL), TESS_E_INVALID, "`in` is NULL");
    EXPECT_FAILS(tess_all_reduce(team, x, x + 1, 3, TESS_F32, TESS_SUM, NULL), TESS_E_INVALID, "overlap");
    EXPECT_FAILS(tess_all_gather(team, x + 1, x, 3, TESS_F32, NULL), TESS_E_INVALID, "overlap");
    EXPECT_FAILS(tess_scatter(team, x, x + 1, 3, TESS_F32, me, NULL), TESS_E_INVALID, "overlap");
    EXPECT_FAILS(tess_broadcast(team, x, 3, TESS_F32, 99, NULL), TESS_E_INVALID, "rank 99 is not in team 'world'");
    EXPECT_FAILS(tess_all_gather(team, x, x, SIZE_MAX / 2, TESS_F32, NULL), TESS_E_INVALID, "do not fit");
    EXPECT_FAILS(tess_all_reduce(team, x, x, 3, TESS_F32, (tess_op)9, NULL), TESS_E_INVALID, "no reduction");
    EXPECT_OK(tess_barrier(team, NULL)); /* the team is well */
    tess_runtime_destroy(&rt);
}

static void a_rank_may_give_its_own_block_of_the_result(void)
{
    enum { MOST = 40000, MOST_RANKS = 8 };
    static const size_t sizes[] = {1, 1000, 3000, 7000, MOST};
    static float x[MOST_RANKS * MOST];
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int W = tess_team_size(team), me = tess_team_rank(team);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s];
        memset(x, 0, sizeof(x));
        for (size_t i = 0; i < n; i++)
            x[(size_t)me * n + i] = (float)(me * MOST) + (float)i;
        EXPECT_OK(tess_all_gather(team, x + (size_t)me * n, x, n, TESS_F32, NULL));
        for (size_t i = 0; i < (size_t)W * n; i++)
            EXPECT(x[i] == (float)(i / n * MOST + i % n));
    }
    tess_runtime_destroy(&rt);
}

/* More than 4 GiB and more than 2^32 elements; needs 5 GB a rank. */
static void counts_beyond_32_bits_work(void)
{
    if (getenv("TESSERA_BIG_TESTS") == NULL)
        return;
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    size_t n = ((size_t)1 << 32) + 12345;
    uint8_t *x = malloc(n);
    EXPECT(x != NULL);
    memset(x, tess_team_rank(team) == 1 ? 0xab : 0, n);
    if (tess_team_rank(team) == 1)
        x[n - 1] = 0xcd;
    EXPECT_OK(tess_broadcast(team, x, n, TESS_U8, 1, NULL));
    EXPECT_INT(x[n - 1], 0xcd);
    EXPECT_INT(x[(size_t)1 << 32], 0xab);
    free(x);
    tess_runtime_destroy(&rt);
}

/* ---- The arithmetic itself ---- */
enum { TREE_ELEMENTS = 1500, TREE_ROWS = 128 };

/* rows (W, TREE_ELEMENTS) of a 16-bit dtype. */
static void check_tree_of_halves(const void *const *rows, int W, tess_dtype dtype)
{
    static float out[TREE_ELEMENTS], leaves[TREE_ROWS];
    reduce_tree(rows, W, dtype, out, TREE_ELEMENTS, false, W % 2 == 0);
    for (int i = 0; i < TREE_ELEMENTS; i += 37) {
        for (int r = 0; r < W; r++)
            convert_values((const uint16_t *)rows[r] + i, dtype, &leaves[r], TESS_F32, 1);
        float want = serial_tree(leaves, W);
        EXPECT_SAME(&out[i], &want, 1);
    }
}

static void trees_of_any_width_are_the_serial_tree(void)
{
    enum { N = TREE_ELEMENTS, MOST = TREE_ROWS };
    static float x[MOST][N], out[N], leaves[MOST];
    static uint16_t bf16[MOST][N], f16[MOST][N];
    const void *rows[MOST], *bf16_rows[MOST], *f16_rows[MOST];
    for (int r = 0; r < MOST; r++) {
        fill(x[r], TESS_F32, 0, N, r, 5);
        convert_values(x[r], TESS_F32, bf16[r], TESS_BF16, N);
        convert_values(x[r], TESS_F32, f16[r], TESS_F16, N);
        rows[r] = x[r];
        bf16_rows[r] = bf16[r];
        f16_rows[r] = f16[r];
    }
    for (int W = 1; W <= MOST; W++) {
        for (int i = 0; i < N; i++)
            out[i] = 3;
        reduce_tree(rows, W, TESS_F32, out, N, W % 2 == 0, W % 3 == 0);
        for (int i = 0; i < N; i += 37) {
            for (int r = 0; r < W; r++)
                leaves[r] = x[r][i];
            float want = serial_tree(leaves, W);
            want = W % 2 == 0 ? want + 3 : want;
            EXPECT_SAME(&out[i], &want, 1);
        }
        check_tree_of_halves(bf16_rows, W, TESS_BF16);
        check_tree_of_halves(f16_rows, W, TESS_F16);
    }
}

/* Every 16-bit value survives; between two neighbours the nearer one is taken, in the middle the even one. */
static void check_rounding(tess_dtype dtype, uint32_t infinity)
{
    for (uint32_t bits = 0; bits < infinity; bits++) {
        uint16_t pair[2] = {(uint16_t)bits, (uint16_t)(bits + 1)}, got[8];
        float exact[2], x[8];
        convert_values(pair, dtype, exact, TESS_F32, 2);
        if (bits + 1 == infinity) /* the step beyond the largest number is as long as the one before it */
            exact[1] = dtype == TESS_BF16 ? INFINITY : 65536;
        float middle = dtype == TESS_BF16 && bits + 1 == infinity ? 0x1.ffp127f : exact[0] + (exact[1] - exact[0]) / 2;
        x[0] = exact[0];
        x[1] = nextafterf(middle, -INFINITY);
        x[2] = middle;
        x[3] = nextafterf(middle, INFINITY);
        for (int i = 0; i < 4; i++)
            x[4 + i] = -x[i];
        convert_values(x, TESS_F32, got, dtype, 8);
        uint16_t want[4] = {pair[0], pair[0], bits % 2 == 0 ? pair[0] : pair[1], pair[1]};
        for (int i = 0; i < 8; i++)
            if (got[i] != (uint16_t)(want[i % 4] | (i >= 4 ? 0x8000 : 0)))
                test_fail(__FILE__, __LINE__, "%s of %a is %04x, expected %04x", tess_dtype_name(dtype), (double)x[i],
                          got[i], want[i % 4] | (i >= 4 ? 0x8000 : 0));
    }
    float nan[2] = {NAN, -NAN}, back[2];
    uint16_t kept[2];
    convert_values(nan, TESS_F32, kept, dtype, 2);
    convert_values(kept, dtype, back, TESS_F32, 2);
    EXPECT(isnan(back[0]) && isnan(back[1]));
}

static void halves_round_to_nearest_even(void)
{
    check_rounding(TESS_BF16, 0x7f80);
    check_rounding(TESS_F16, 0x7c00);
}

static const test_case cases[] = {
    CASE(trees_of_any_width_are_the_serial_tree),
    CASE(halves_round_to_nearest_even),
    CASE(reductions_are_the_serial_tree, -1),
    CASE(nan_wins_extrema, -1),
    CASE(moves_bring_every_element_home, -1),
    CASE(all_to_all_v_moves_uneven_blocks, -1),
    CASE(arguments_are_checked_on_the_caller_alone, -1),
    CASE(a_rank_may_give_its_own_block_of_the_result, -1),
    CASE(counts_beyond_32_bits_work, 2),
};
TEST_MAIN(cases)
