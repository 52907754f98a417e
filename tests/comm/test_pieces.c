/* Coalesced gather and reduce-scatter: pieces whose rows divide, do not divide, and are fewer than the ranks. */
#include <stdlib.h>

#include "arithmetic.h"
#include "support/join.h"
#include "tessera/comm.h"

enum { N_PIECES = 5, GAP = 3 };

/* Rows and row sizes; `scale` makes the payload larger than a stage. */
typedef struct layout {
    tess_piece pieces[N_PIECES];
    size_t full, shard; /* elements */
} layout;

static layout make_layout(int W, int rank, size_t scale)
{
    static const size_t rows[N_PIECES] = {16, 7, 1, 0, 13}, row[N_PIECES] = {5, 3, 11, 4, 1};
    layout l = {.full = 2, .shard = 1};
    for (int i = 0; i < N_PIECES; i++) {
        int64_t begin, count;
        size_t n_rows = rows[i] * (i == 1 ? scale : 1), width = row[i] * (i == 0 ? scale : 1);
        tess_shard_rows((int64_t)n_rows, W, rank, &begin, &count);
        l.pieces[i] = (tess_piece){.offset = l.full, .n_rows = n_rows, .row = width, .shard_offset = l.shard};
        l.full += n_rows * width + GAP;
        l.shard += (size_t)count * width;
    }
    return l;
}

static float value(int rank, size_t element)
{
    return (float)((element * 7919 + (size_t)rank * 104729) % 20011) * 0x1.234p-7f - 90;
}

typedef enum memory_kind { PRIVATE, WINDOW, SHARED, APART } memory_kind;

static tess_team *lone; /* APART: shared memory of a team of this rank alone, in which nobody else writes */

static void *take(tess_team *team, memory_kind kind, size_t bytes)
{
    void *memory;
    if (kind == WINDOW)
        EXPECT_OK(tess_window_alloc(team, TESS_POOL_COMM, bytes, "test", &memory));
    else if (kind == SHARED || kind == APART)
        EXPECT_OK(tess_shared_alloc(kind == APART ? lone : team, TESS_POOL_COMM, bytes, "test", &memory));
    else
        EXPECT_OK(tess_mem_alloc(tess_runtime_mem(tess_team_runtime(team)), TESS_POOL_COMM, bytes, "test", &memory));
    return memory;
}

static void give(tess_team *team, memory_kind kind, void *memory)
{
    if (kind == WINDOW)
        tess_window_free(team, memory);
    else if (kind == SHARED || kind == APART)
        tess_shared_free(kind == APART ? lone : team, memory);
    else
        tess_mem_free(tess_runtime_mem(tess_team_runtime(team)), memory);
}

/* Elements of the pieces have their value converted from float32, gaps stay zero. */
static void check_gather(tess_team *team, memory_kind kind, tess_dtype in_dtype, tess_dtype out_dtype, size_t scale)
{
    int W = tess_team_size(team), me = tess_team_rank(team);
    if (!test_takes()) /* all ranks take the same ones */
        return;
    layout l = make_layout(W, me, scale);
    size_t in_size = tess_dtype_size(in_dtype), size = tess_dtype_size(out_dtype);
    uint8_t *shard = malloc(l.shard * in_size), *full = take(team, kind, l.full * size), *want = calloc(l.full, size);
    for (int i = 0; i < N_PIECES; i++) {
        const tess_piece *p = &l.pieces[i];
        int64_t begin, count;
        tess_shard_rows((int64_t)p->n_rows, W, me, &begin, &count);
        for (size_t e = 0; e < p->n_rows * p->row; e++) {
            float x = value(0, p->offset + e);
            convert_values(&x, TESS_F32, want + (p->offset + e) * size, out_dtype, 1);
            if (e >= (size_t)begin * p->row && e < (size_t)(begin + count) * p->row)
                convert_values(&x, TESS_F32, shard + (p->shard_offset + e - (size_t)begin * p->row) * in_size, in_dtype,
                               1);
        }
    }
    EXPECT_OK(tess_all_gather_pieces(team, shard, in_dtype, full, out_dtype, l.pieces, N_PIECES, NULL));
    test_expect_same(__FILE__, __LINE__, "full", full, want, l.full, size);
    EXPECT_OK(tess_barrier(team, NULL));
    give(team, kind, full);
    free(shard);
    free(want);
}

static void gathered_pieces_are_converted_rows(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    EXPECT_OK(tess_team_split(team, tess_team_rank(team), 0, "lone", &lone));
    for (int kind = PRIVATE; kind <= APART; kind++) {
        for (size_t scale = 1; scale <= 2500; scale += 2499) {
            check_gather(team, (memory_kind)kind, TESS_F32, TESS_F32, scale);
            check_gather(team, (memory_kind)kind, TESS_F32, TESS_BF16, scale);
            check_gather(team, (memory_kind)kind, TESS_BF16, TESS_BF16, scale);
        }
        check_gather(team, (memory_kind)kind, TESS_F32, TESS_F16, 3);
    }
    tess_team_destroy(&lone);
    tess_runtime_destroy(&rt);
}

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

static float stored(int rank, size_t element, tess_dtype dtype)
{
    float x = value(rank, element);
    uint8_t kept[4];
    convert_values(&x, TESS_F32, kept, dtype, 1);
    convert_values(kept, dtype, &x, TESS_F32, 1);
    return x;
}

static void check_reduce(tess_team *team, memory_kind kind, tess_dtype dtype, bool accumulate, size_t scale)
{
    int W = tess_team_size(team), me = tess_team_rank(team);
    if (!test_takes()) /* all ranks take the same ones */
        return;
    layout l = make_layout(W, me, scale);
    size_t size = tess_dtype_size(dtype);
    uint8_t *full = take(team, kind, l.full * size);
    float *shard = malloc(l.shard * 4), *want = malloc(l.shard * 4);
    for (size_t e = 0; e < l.full; e++) {
        float x = value(me, e);
        convert_values(&x, TESS_F32, full + e * size, dtype, 1);
    }
    for (size_t e = 0; e < l.shard; e++)
        shard[e] = want[e] = (float)e * 0.37f;
    for (int i = 0; i < N_PIECES; i++) {
        const tess_piece *p = &l.pieces[i];
        int64_t begin, count;
        tess_shard_rows((int64_t)p->n_rows, W, me, &begin, &count);
        for (size_t e = 0; e < (size_t)count * p->row; e++) {
            float x[16];
            for (int r = 0; r < W; r++)
                x[r] = stored(r, p->offset + (size_t)begin * p->row + e, dtype);
            float sum = serial_tree(x, W);
            want[p->shard_offset + e] = accumulate ? sum + want[p->shard_offset + e] : sum;
        }
    }
    tess_work *work;
    EXPECT_OK(tess_reduce_scatter_pieces(team, full, dtype, shard, l.pieces, N_PIECES, accumulate, &work));
    EXPECT_OK(tess_work_wait(&work, 0));
    memset(full, 0xff, l.full * size); /* it is ours again: nobody may still read it */
    EXPECT_SAME(shard, want, l.shard);
    give(team, kind, full);
    free(shard);
    free(want);
}

static void reduced_pieces_are_the_serial_tree(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    for (int kind = PRIVATE; kind <= WINDOW; kind++)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            for (size_t scale = 1; scale <= 2500; scale += 2499) {
                check_reduce(team, (memory_kind)kind, TESS_F32, accumulate, scale);
                check_reduce(team, (memory_kind)kind, TESS_BF16, accumulate, scale);
            }
    tess_runtime_destroy(&rt);
}

/* One rank has private memory where the others have windows: all take the staged path. */
static void mixed_memory_gives_the_same_bits(void)
{
    tess_runtime *rt = test_join();
    tess_team *team = tess_runtime_team(rt);
    int W = tess_team_size(team), me = tess_team_rank(team);
    layout l = make_layout(W, me, 100);
    float *window = take(team, WINDOW, l.full * 4), *private = take(team, PRIVATE, l.full * 4);
    float *a = malloc(l.shard * 4), *b = malloc(l.shard * 4);
    memset(a, 0, l.shard * 4);
    memset(b, 0, l.shard * 4);
    for (size_t e = 0; e < l.full; e++)
        window[e] = private[e] = value(me, e);
    EXPECT_OK(tess_reduce_scatter_pieces(team, window, TESS_F32, a, l.pieces, N_PIECES, false, NULL));
    EXPECT_OK(
        tess_reduce_scatter_pieces(team, me == W - 1 ? private : window, TESS_F32, b, l.pieces, N_PIECES, false, NULL));
    EXPECT_SAME(b, a, l.shard);
    give(team, WINDOW, window);
    give(team, PRIVATE, private);
    free(a);
    free(b);
    tess_runtime_destroy(&rt);
}

static void lying_pieces_are_refused(void)
{
    tess_runtime *rt = test_join();
    float x[4] = {0};
    tess_piece huge = {.n_rows = SIZE_MAX / 2, .row = 5};
    EXPECT_FAILS(tess_all_gather_pieces(tess_runtime_team(rt), x, TESS_F32, x, TESS_F32, &huge, 1, NULL),
                 TESS_E_INVALID, "piece 0");
    EXPECT_FAILS(tess_all_gather_pieces(tess_runtime_team(rt), x, TESS_BF16, x, TESS_F32, NULL, 0, NULL),
                 TESS_E_INVALID, "must be float32");
    EXPECT_OK(tess_all_gather_pieces(tess_runtime_team(rt), NULL, TESS_F32, NULL, TESS_BF16, NULL, 0, NULL));
    tess_runtime_destroy(&rt);
}

static const test_case cases[] = {
    CASE(gathered_pieces_are_converted_rows, -1),
    CASE(reduced_pieces_are_the_serial_tree, -1),
    CASE(mixed_memory_gives_the_same_bits, -1),
    CASE(lying_pieces_are_refused, 2),
};
TEST_MAIN(cases)
