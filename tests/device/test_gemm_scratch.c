/* Scratch memory of products with few rows of C: every kernel stays inside the bytes that it asks for, and reads only
 * what it has written there. The block ends where a page ends that must not be touched. */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "device/bf16.h"
#include "device/stream.h"
#include "device/stream_impl.h"
#include "support/test.h"

enum { PAGE = 4096, ALIGNMENT = 64, CANARY = 0xff };

/* Takes the place of tess_stream_scratch (the linker's --wrap): a block of exactly these bytes. All of them, and those
 * that the alignment leaves in front of the page, are NaN. */
tess_status __wrap_tess_stream_scratch(tess_stream *stream, size_t bytes, void **scratch);

static struct {
    char *map, *at;
    size_t map_bytes, bytes;
} block;

tess_status __wrap_tess_stream_scratch(tess_stream *stream, size_t bytes, void **scratch)
{
    (void)stream;
    EXPECT(block.map == NULL);
    const size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, pages = (room + PAGE - 1) / PAGE + 1;
    block.bytes = bytes;
    block.map_bytes = pages * PAGE;
    block.map = mmap(NULL, block.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(block.map != MAP_FAILED);
    EXPECT(mprotect(block.map + block.map_bytes - PAGE, PAGE, PROT_NONE) == 0);
    block.at = block.map + block.map_bytes - PAGE - room;
    memset(block.map, CANARY, block.map_bytes - PAGE);
    *scratch = block.at;
    return TESS_OK;
}

/* Bytes outside of the block that were written; the block ends. */
static size_t n_written_outside(void)
{
    size_t n = 0;
    for (const char *p = block.map; p < block.map + block.map_bytes - PAGE; p++)
        n += (p < block.at || p >= block.at + block.bytes) && (unsigned char)*p != CANARY;
    munmap(block.map, block.map_bytes);
    memset(&block, 0, sizeof(block));
    return n;
}

static void *matrix(int64_t n, tess_dtype dtype)
{
    void *x = malloc((size_t)n * tess_dtype_size(dtype));
    EXPECT(x != NULL);
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)(i * 37 % 101) / 64 - 0.75f;
        if (dtype == TESS_F32)
            ((float *)x)[i] = value;
        else
            ((uint16_t *)x)[i] = tess_float_to_bf16(value);
    }
    return x;
}

static void multiply(tess_stream *s, const char *table, int64_t m, int64_t n, int64_t k, tess_dtype dtype, bool trans_b)
{
    void *a = matrix(m * k, dtype), *b = matrix(n * k, dtype);
    float *c = malloc((size_t)(m * n) * sizeof(float));
    EXPECT(c != NULL);
    const tess_gemm g = {.m = m,
                         .n = n,
                         .k = k,
                         .a = a,
                         .lda = k,
                         .b = b,
                         .ldb = trans_b ? k : n,
                         .trans_b = trans_b,
                         .c = c,
                         .ldc = n,
                         .ab_dtype = dtype,
                         .c_dtype = TESS_F32};
    EXPECT_OK(tess_stream_kernels(s)->gemm(s, &g));
    const size_t outside = block.map != NULL ? n_written_outside() : 0;
    if (outside > 0)
        test_fail(__FILE__, __LINE__, "%s: %d x %d x %d (%s, trans_b %d): %zu bytes outside of the scratch memory",
                  table, (int)m, (int)n, (int)k, dtype == TESS_F32 ? "float32" : "bfloat16", trans_b, outside);
    for (int64_t i = 0; i < m * n; i++)
        if (!isfinite(c[i]))
            test_fail(__FILE__, __LINE__, "%s: %d x %d x %d (%s, trans_b %d): C[%d] is of memory that nobody wrote",
                      table, (int)m, (int)n, (int)k, dtype == TESS_F32 ? "float32" : "bfloat16", trans_b, (int)i);
    free(a);
    free(b);
    free(c);
}

/* Heights of every tile, and one less and one more than what strips, stretches and blocks hold. */
static void few_rows_stay_in_their_scratch(void)
{
    static const char *const tables[] = {"avx2", "avx512", "avx512_bf16", "amx"};
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 31, 33, 48, 64};
    static const int64_t columns[] = {1, 15, 16, 17, 31, 33, 64, 65, 127, 129, 200, 1030};
    static const int64_t depths[] = {1, 2, 7, 9, 16, 31, 33, 127, 129, 257, 300};
    enum { TABLES = 4, ROWS = 18, COLUMNS = 12, DEPTHS = 11 };
    for (int t = 0; t < TABLES; t++) {
        const tess_kernels *kernels;
        tess_stream *s;
        if (tess_kernels_select(tables[t], &kernels) != TESS_OK)
            continue;
        EXPECT_OK(tess_stream_create(test_mem(), 1, tables[t], &s));
        for (int i = 0; i < ROWS * COLUMNS * DEPTHS * 4; i++) {
            const int64_t m = rows[i / 4 % ROWS], n = columns[i / 4 / ROWS % COLUMNS],
                          k = depths[i / 4 / ROWS / COLUMNS];
            if (n * k < 1 << 16 || m < 5)
                multiply(s, tables[t], m, n, k, i & 1 ? TESS_BF16 : TESS_F32, i & 2);
        }
        tess_stream_destroy(&s);
    }
}

static const test_case cases[] = {CASE(few_rows_stay_in_their_scratch)};
TEST_MAIN(cases)
