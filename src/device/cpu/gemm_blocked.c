/* C in blocks of rows times slabs of columns. Threads own tiles of C; K runs inside a tile, ascending, in blocks that
 * only decide when a tile's float32 sums rest in memory, so neither sizes nor threads change a bit.
 *
 *   for each slab of columns (its packed B fits the last-level cache; packed once, by all threads)
 *     for each block of rows, for each run of columns of this thread
 *       for each block of k:  pack A (L2), then for each panel of B (L1), for each panel of A: one tile
 *
 * With a single block of rows nobody shares B, so each panel is packed when it is needed and never leaves the cache. */
#include "device/cpu/gemm_impl.h"

enum {
    SLAB_BYTES = 8 << 20, /* packed B */
    RUN_BYTES = 1 << 20,  /* sums of a run of tiles, kept between blocks of k */
};

typedef struct plan {
    const tess_gemm *g;
    const gemm_engine *e;
    int64_t k_padded, n_k_blocks;
    int64_t block_rows, n_blocks;    /* blocks of rows */
    int64_t block_panels;            /* panels of A in a block of rows */
    int64_t slab_begin, slab_panels; /* panels of B in the present slab */
    int64_t run_panels;              /* panels of B a thread takes at a time */
    bool shared;                     /* B is packed before, for all */
    char *slab;                      /* packed B: panels of k_padded * tile_columns */
    char *work;                      /* per worker: packed A, a panel of B when not shared, sums */
    size_t work_bytes, a_bytes, b_bytes;
} plan;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static size_t round_bytes(int64_t elements, size_t size)
{
    return ((size_t)elements * size + 63) & ~(size_t)63;
}

/* k blocks outside, panels inside: where a panel's k are far apart in memory, neighbouring panels share its pages. */
static void pack_slab(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const plan *p = context;
    const gemm_engine *e = p->e;
    int64_t k_chunk = p->g->trans_b ? e->k_block : 64;
    for (int64_t k = 0; k < p->g->k; k += k_chunk) {
        for (int64_t panel = begin; panel < end; panel++) {
            int64_t j = (p->slab_begin + panel) * e->tile_columns;
            char *to = p->slab + (size_t)((panel * p->k_padded + k) * e->tile_columns) * e->packed_size;
            e->pack_b(p->g, j, min64(e->tile_columns, p->g->n - j), k, min64(k_chunk, p->g->k - k), to);
        }
    }
}

static void pack_rows(const plan *p, int64_t row, int64_t rows, int64_t k_begin, int64_t k, char *to)
{
    const gemm_engine *e = p->e;
    int64_t k_rows = divide_up(k, e->k_step) * e->k_step, k_chunk = p->g->trans_a ? 64 : e->k_block;
    for (int64_t q = 0; q < k; q += k_chunk)
        for (int64_t i = 0; i < rows; i += e->tile_rows)
            e->pack_a(p->g, row + i, min64(e->tile_rows, rows - i), k_begin + q, min64(k_chunk, k - q),
                      to + (size_t)(i * k_rows + q * e->tile_rows) * e->packed_size);
}

/* Asks for what the next tiles need while this one is summed: its part of C, and part `index` of `n` of the panel of B
 * that follows. */
static void prefetch(const tess_gemm *g, int64_t i, int64_t j, int64_t rows, const char *next_b, size_t bytes,
                     int64_t index, int64_t n)
{
    size_t size = tess_dtype_size(g->c_dtype);
    for (int64_t r = 0; r < rows; r++)
        __builtin_prefetch((char *)g->c + (size_t)((i + r) * g->ldc + j) * size, 1);
    for (size_t at = bytes * (size_t)index / (size_t)n; at < bytes * (size_t)(index + 1) / (size_t)n; at += 64)
        __builtin_prefetch(next_b + at, 0, 2);
}

/* Tiles of one block of rows and panels [begin, end) of the slab. `a_packed` says that A's only block of k is there. */
static void multiply_run(const plan *p, int64_t block, int64_t begin, int64_t end, bool a_packed, char *work)
{
    const gemm_engine *e = p->e;
    const tess_gemm *g = p->g;
    int64_t row = block * p->block_rows, rows = min64(p->block_rows, g->m - row);
    char *a = work, *own_b = work + p->a_bytes;
    float *sums = (float *)(work + p->a_bytes + p->b_bytes);
    for (int64_t kb = 0; kb < p->n_k_blocks; kb++) {
        int64_t k_begin = kb * e->k_block, k = min64(e->k_block, g->k - k_begin);
        int64_t k_padded = divide_up(k, e->k_step) * e->k_step;
        size_t b_bytes = (size_t)(k_padded * e->tile_columns) * e->packed_size;
        bool last = kb == p->n_k_blocks - 1, add = kb > 0 || g->accumulate;
        if (!a_packed)
            pack_rows(p, row, rows, k_begin, k, a);
        for (int64_t panel = begin; panel < end; panel++) {
            int64_t j = (p->slab_begin + panel) * e->tile_columns, columns = min64(e->tile_columns, g->n - j);
            char *b = p->slab + (size_t)((panel * p->k_padded + k_begin) * e->tile_columns) * e->packed_size;
            if (!p->shared) {
                b = own_b;
                if (k > 0)
                    e->pack_b(g, j, columns, k_begin, k, b);
            }
            for (int64_t t = 0; t < p->block_panels && t * e->tile_rows < rows; t++) {
                int64_t i = t * e->tile_rows, tile_rows = min64(e->tile_rows, rows - i);
                int64_t tile = p->n_k_blocks > 1 ? (panel - begin) * p->block_panels + t : 0;
                float *sum = sums + tile * e->tile_rows * e->tile_columns;
                if (kb == 0 && g->accumulate)
                    e->load(g, row + i, j, tile_rows, columns, sum);
                if (last)
                    prefetch(g, row + i, j, tile_rows, b + p->k_padded * e->tile_columns * e->packed_size,
                             p->shared && panel + 1 < end ? b_bytes : 0, t, divide_up(rows, e->tile_rows));
                e->multiply(a + (size_t)(i * k_padded) * e->packed_size, b, k_padded, tile_rows, columns, add, sum);
                if (last)
                    e->store(g, row + i, j, tile_rows, columns, sum);
            }
        }
    }
}

/* [begin, end) counts panels of B, block of rows by block of rows. */
static void multiply_share(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    char *work = p->work + (size_t)worker * p->work_bytes;
    int64_t packed_block = -1;
    if (p->e->begin != NULL)
        p->e->begin();
    while (begin < end) {
        int64_t block = begin / p->slab_panels, panel = begin % p->slab_panels;
        int64_t run = min64(min64(end - begin, p->slab_panels - panel), p->run_panels);
        multiply_run(p, block, panel, panel + run, block == packed_block, work);
        packed_block = p->n_k_blocks == 1 ? block : -1;
        begin += run;
    }
    if (p->e->end != NULL)
        p->e->end();
}

static void run(tess_stream *s, bool parallel, tess_loop_fn fn, plan *p, int64_t n)
{
    if (parallel)
        tess_threads_run(s->threads, fn, p, n, 1);
    else
        fn(p, 0, n, 0);
}

tess_status tess_gemm_blocked(tess_stream *s, const tess_gemm *g, const gemm_engine *e)
{
    TESS_TRY(tess_gemm_check(g));
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    bool parallel = 2.0 * (double)g->m * (double)g->n * (double)g->k > e->parallel_flops;
    int64_t n_threads = parallel ? tess_threads_count(s->threads) : 1, n_panels = divide_up(g->n, e->tile_columns);

    plan p = {.g = g, .e = e};
    p.k_padded = divide_up(g->k, e->k_step) * e->k_step;
    p.n_k_blocks = g->k > e->k_block ? divide_up(g->k, e->k_block) : 1;
    int64_t k_packed = p.n_k_blocks > 1 ? e->k_block : p.k_padded;

    /* Blocks of equal height; more of them when there are fewer panels of B than threads. */
    p.n_blocks = divide_up(g->m, e->block_rows);
    if (p.n_blocks * n_panels < n_threads)
        p.n_blocks = min64(divide_up(n_threads, n_panels), divide_up(g->m, e->tile_rows));
    p.block_panels = divide_up(divide_up(g->m, p.n_blocks), e->tile_rows);
    p.block_rows = p.block_panels * e->tile_rows;
    p.n_blocks = divide_up(g->m, p.block_rows);

    size_t panel_bytes = (size_t)(p.k_padded * e->tile_columns) * e->packed_size;
    size_t tile_bytes = (size_t)(e->tile_rows * e->tile_columns) * sizeof(float);
    p.shared = p.n_blocks > 1;
    int64_t slab_panels = n_panels;
    if (p.shared && (size_t)n_panels * panel_bytes > SLAB_BYTES)
        slab_panels = min64(n_panels, (int64_t)(SLAB_BYTES / panel_bytes) + 1);
    p.run_panels = slab_panels;
    if (p.n_k_blocks > 1)
        p.run_panels = min64(slab_panels, (int64_t)(RUN_BYTES / (tile_bytes * (size_t)p.block_panels)) + 1);

    p.a_bytes = round_bytes(p.block_rows * k_packed, e->packed_size);
    p.b_bytes = p.shared ? 0 : round_bytes(e->tile_columns * k_packed, e->packed_size);
    p.work_bytes =
        p.a_bytes + p.b_bytes + (p.n_k_blocks > 1 ? (size_t)(p.run_panels * p.block_panels) : 1) * tile_bytes;
    size_t slab_bytes = p.shared ? (size_t)slab_panels * panel_bytes : 0;
    slab_bytes = (slab_bytes + 63) & ~(size_t)63;
    void *scratch;
    TESS_TRY_CTX(tess_stream_scratch(s, slab_bytes + p.work_bytes * (size_t)n_threads, &scratch), "gemm");
    p.slab = scratch;
    p.work = p.slab + slab_bytes;

    for (p.slab_begin = 0; p.slab_begin < n_panels; p.slab_begin += slab_panels) {
        p.slab_panels = min64(slab_panels, n_panels - p.slab_begin);
        if (p.shared)
            run(s, parallel, pack_slab, &p, p.slab_panels);
        run(s, parallel, multiply_share, &p, p.n_blocks * p.slab_panels);
    }
    return TESS_OK;
}
