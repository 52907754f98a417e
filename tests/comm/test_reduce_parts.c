/* Reductions in parts, as hosts add the data of their ranks, have the bits of the tree over all ranks. */
#include "arithmetic.h"
#include "support/test.h"

#include <stdlib.h>

#include "base/core/rng.h"

enum { MOST = 13, N = 2500 };

static _Alignas(64) uint8_t inputs[MOST][N * 8], whole[N * 8], parts[N * 8], kept[MOST][N * 8];

static void fill(tess_dtype dtype, int n_inputs)
{
    for (int r = 0; r < n_inputs; r++) {
        for (size_t i = 0; i < N; i++) {
            uint64_t word = tess_hash_bytes(&(uint64_t[2]){(uint64_t)r, i}, 16, (uint64_t)dtype);
            float value = ((float)(word & 0xffffff) - 8388608.0f) / (float)(1 + (word >> 40 & 0xffff));
            if (dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16)
                convert_values(&value, TESS_F32, inputs[r] + i * tess_dtype_size(dtype), dtype, 1);
            else
                memcpy(inputs[r] + i * tess_dtype_size(dtype), &word, tess_dtype_size(dtype));
        }
    }
}

/* Hosts of the given numbers of ranks; each subtree of [begin, end) that lies on one host becomes one partial. */
static void split(const int *host_of, int begin, int end, tess_dtype dtype, tess_op op, tess_partial *partials, int *n)
{
    bool one = true;
    for (int r = begin; r < end; r++)
        one = one && host_of[r] == host_of[begin];
    if (!one) {
        int middle = begin + tess_reduce_half(end - begin);
        split(host_of, begin, middle, dtype, op, partials, n);
        split(host_of, middle, end, dtype, op, partials, n);
        return;
    }
    const void *x[MOST];
    for (int r = begin; r < end; r++)
        x[r - begin] = inputs[r];
    EXPECT_OK(tess_reduce_partial(own_stream(), x, end - begin, dtype, op, kept[*n], N));
    partials[*n] = (tess_partial){begin, end, kept[*n]};
    (*n)++;
}

static void check(const int *host_of, int n_inputs)
{
    static const tess_op ops[] = {TESS_SUM, TESS_MAX, TESS_MIN, TESS_AVG};
    for (int dtype = 0; dtype < TESS_DTYPE_COUNT; dtype++) {
        fill((tess_dtype)dtype, n_inputs);
        for (int k = 0; k < 4; k++) {
            const void *x[MOST];
            const void *values[MOST];
            tess_partial partials[MOST];
            int n = 0;
            void *to = whole;
            for (int r = 0; r < n_inputs; r++)
                x[r] = inputs[r];
            EXPECT_OK(tess_reduce(own_stream(), x, n_inputs, (tess_dtype)dtype, ops[k], &to, 1, N, false));
            split(host_of, 0, n_inputs, (tess_dtype)dtype, ops[k], partials, &n);
            EXPECT_OK(
                tess_reduce_finish(own_stream(), partials, values, n, (tess_dtype)dtype, ops[k], parts, N, false));
            EXPECT_SAME(parts, whole, N * tess_dtype_size((tess_dtype)dtype));
        }
    }
}

static void reductions_in_parts_have_the_bits_of_the_tree(void)
{
    static const int hosts[][MOST] = {{0, 1},
                                      {0, 0, 1, 1},
                                      {0, 0, 1},
                                      {0, 1, 1, 1, 1},
                                      {0, 0, 0, 1, 1, 1, 2, 2},
                                      {0, 0, 0, 0, 1, 1, 1, 1},
                                      {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2},
                                      {0}};
    static const int sizes[] = {2, 4, 3, 5, 8, 8, 13, 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check(hosts[i], sizes[i]);
}

static void sums_in_parts_are_added_to_what_is_there(void)
{
    static const int host_of[] = {0, 0, 0, 1, 1, 2};
    const void *x[6];
    const void *values[6];
    tess_partial partials[6];
    int n = 0;
    fill(TESS_BF16, 6);
    for (int r = 0; r < 6; r++)
        x[r] = inputs[r];
    float *a = (float *)(void *)whole, *b = (float *)(void *)parts;
    for (size_t i = 0; i < N; i++)
        a[i] = b[i] = (float)i / 3;
    reduce_tree(x, 6, TESS_BF16, a, N, true, false);
    split(host_of, 0, 6, TESS_BF16, TESS_SUM, partials, &n);
    EXPECT_OK(tess_reduce_finish(own_stream(), partials, values, n, TESS_F32, TESS_SUM, b, N, true));
    EXPECT_SAME(b, a, N);
}

static const test_case cases[] = {
    CASE(reductions_in_parts_have_the_bits_of_the_tree),
    CASE(sums_in_parts_are_added_to_what_is_there),
};
TEST_MAIN(cases)
