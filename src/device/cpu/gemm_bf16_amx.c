/* The walk over C. Threads own tiles of C; K runs inside a tile, ascending, in parts that only decide where a tile's
 * float32 sums rest in between, so neither sizes nor threads change a bit.
 *
 *   for each slab of columns (its packed B fits the last-level cache; packed once, by all threads)
 *     for each block of rows, for each run of columns of this thread
 *       for each stretch of K (of A, a block by a stretch is packed and stays in L2)
 *         for each panel of B, for each part of the stretch (L1), for each panel of A: one tile
 *
 * When one block holds all rows nothing of B is met twice: each thread packs a few panels of its own at a time. */
#include "device/cpu/gemm_amx_impl.h"

enum { LINE = 64, STREAM_BYTES = 1 << 20, SLAB_BYTES = 8 << 20, OWN_BYTES = 512 << 10, REST_BYTES = 1 << 20 };
enum { BLOCK_BYTES = 1 << 20, MOST_ROWS = 512, STRETCH = 4096, PART_STEPS = 16 };
static const double PARALLEL_FLOPS = 4e6; /* below this a product is not worth waking threads for */

typedef struct plan {
    const tess_gemm *g;
    int64_t steps, n_stretches, stretch; /* steps of k: all, of a stretch */
    int64_t block_panels, n_blocks;      /* panels of A in a block of rows */
    int64_t slab_begin, slab_panels;     /* panels of B in the present slab */
    int64_t run_panels;                  /* panels of B a thread takes at a time */
    bool shared;                         /* B is packed before, for all */
    bool streamed;                       /* see gemm_chores */
    uint16_t *slab;                      /* packed B */
    char *work;                          /* of all workers, each: */
    size_t a_bytes, b_bytes, work_bytes; /* packed A, packed B when not shared, sums */
} plan;

/* One worker at one block of rows. */
typedef struct share {
    const plan *p;
    int64_t row, rows, panels; /* of A */
    uint16_t *a, *b;
    float *bias;  /* (32) of the present panel */
    float *live;  /* (panels) tiles between the parts of a stretch and on their way to C */
    float *rests; /* (run_panels, panels) tiles between stretches */
    gemm_chores chores;
} share;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static size_t round_bytes(size_t bytes)
{
    return (bytes + LINE - 1) & ~(size_t)(LINE - 1);
}

/* Panels [begin, end) of B, counted from the slab's first. Where a panel's k are far apart in memory, k goes outside,
 * so that neighbouring panels share its pages. */
static void pack_panels(const plan *p, int64_t begin, int64_t end, uint16_t *to)
{
    const tess_gemm *g = p->g;
    int64_t chunk = g->trans_b ? g->k : 2 * GEMM_STEP;
    for (int64_t k = 0; k < g->k; k += chunk) {
        for (int64_t panel = begin; panel < end; panel++) {
            int64_t j = (p->slab_begin + panel) * GEMM_SPAN;
            tess_gemm_pack_b_amx(g, j, min64(GEMM_SPAN, g->n - j), k, min64(chunk, g->k - k),
                                 to + ((panel - begin) * p->steps + k / GEMM_STEP) * GEMM_STEP_ELEMENTS);
        }
    }
}

static void pack_slab(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const plan *p = context;
    pack_panels(p, begin, end, p->slab + begin * p->steps * GEMM_STEP_ELEMENTS);
}

static void pack_block(const share *s, int64_t first_step, int64_t steps)
{
    const tess_gemm *g = s->p->g;
    int64_t chunk = g->trans_a ? 2 : steps, end = min64(g->k, (first_step + steps) * GEMM_STEP);
    for (int64_t step = 0; step < steps; step += chunk)
        for (int64_t t = 0; t < s->panels; t++) {
            int64_t i = t * GEMM_SPAN, k = (first_step + step) * GEMM_STEP;
            tess_gemm_pack_a_amx(g, s->row + i, min64(GEMM_SPAN, s->rows - i), k, min64(chunk * GEMM_STEP, end - k),
                                 s->a + (t * steps + step) * GEMM_STEP_ELEMENTS);
        }
}

/* Where the sums of a tile are while K is not at its end. */
typedef struct tile_place {
    int64_t i, j, rows, columns;
    bool direct; /* sums go to and from C itself */
    gemm_sums c, live, rest;
} tile_place;

static tile_place place_of(const share *s, int64_t panel_in_run, int64_t panel, int64_t t)
{
    const tess_gemm *g = s->p->g;
    tile_place x = {.i = s->row + t * GEMM_SPAN, .j = (s->p->slab_begin + panel) * GEMM_SPAN};
    x.rows = min64(GEMM_SPAN, s->rows - t * GEMM_SPAN);
    x.columns = min64(GEMM_SPAN, g->n - x.j);
    x.direct = g->c_dtype == TESS_F32 && x.columns == GEMM_SPAN && x.rows % GEMM_TILE == 0;
    x.c = (gemm_sums){(float *)g->c + x.i * g->ldc + x.j, g->ldc};
    x.live = (gemm_sums){s->live + t * GEMM_SUMS, GEMM_SPAN};
    x.rest = x.c;
    if (!x.direct)
        x.rest = (gemm_sums){s->rests + (panel_in_run * s->panels + t) * GEMM_SUMS, GEMM_SPAN};
    return x;
}

static void plan_writing(share *s, const tile_place *x)
{
    const tess_gemm *g = s->p->g;
    size_t size = tess_dtype_size(g->c_dtype);
    gemm_chores *w = &s->chores;
    w->sums = x->live.at;
    w->bias = g->bias != NULL ? s->bias : NULL;
    w->c = (char *)g->c + (size_t)(x->i * g->ldc + x->j) * size;
    w->c_stride = g->ldc * (int64_t)size;
    w->n_rows = x->rows;
    w->columns = tess_gemm_columns(x->columns);
    w->end = g->c_dtype == TESS_BF16 ? GEMM_END_BF16 : GEMM_END_F32;
    w->streamed = s->p->streamed && x->columns == GEMM_SPAN;
}

/* Lines of C that are written or added to through the caches. */
static void ask_for_c(share *s, const tile_place *x, bool first)
{
    const tess_gemm *g = s->p->g;
    if (s->p->streamed && !(first && g->accumulate))
        return;
    size_t size = tess_dtype_size(g->c_dtype);
    s->chores.rows_ahead = (const char *)g->c + (size_t)(x->i * g->ldc + x->j) * size;
    s->chores.rows_ahead_stride = g->ldc * (int64_t)size;
    s->chores.n_rows_ahead = x->rows;
}

typedef struct stretch {
    int64_t first_step, steps, n_parts;
    bool first, last;
} stretch;

static void one_tile(share *s, const stretch *k, int64_t part, const tile_place *x, int64_t t, const uint16_t *b)
{
    const tess_gemm *g = s->p->g;
    int64_t begin = k->steps * part / k->n_parts, steps = k->steps * (part + 1) / k->n_parts - begin;
    bool enters = part == 0, leaves = part == k->n_parts - 1, starts = enters && k->first, ends = leaves && k->last;
    gemm_sums from = !enters ? x->live : !k->first ? x->rest : (gemm_sums){NULL, 0};
    gemm_sums to = leaves && !k->last ? x->rest : x->live;
    if (starts && g->accumulate && x->direct) {
        from = x->c;
    } else if (starts && g->accumulate) {
        tess_gemm_finish_amx(&s->chores);
        tess_gemm_load_sums_amx(g, x->i, x->j, x->rows, x->columns, x->live.at);
        from = x->live;
    }
    bool in_place = ends && x->direct && g->bias == NULL && !(s->p->streamed && !g->accumulate && k->first);
    if (in_place)
        to = x->c;

    int64_t lines = steps * GEMM_STEP_ELEMENTS * (int64_t)sizeof(uint16_t) / LINE;
    s->chores.ahead = (const char *)(b + steps * GEMM_STEP_ELEMENTS) + lines * t / s->panels * LINE;
    s->chores.n_ahead = s->p->shared ? lines * (t + 1) / s->panels - lines * t / s->panels : 0;
    if (ends)
        ask_for_c(s, x, k->first);
    tess_gemm_tile_amx(s->a + (t * k->steps + begin) * GEMM_STEP_ELEMENTS, b, steps, x->rows, from, to, &s->chores);
    if (ends && !in_place)
        plan_writing(s, x);
}

/* Panels [begin, end) of the slab, a run. `a_packed` says that A's only stretch is there. */
static void multiply_run(share *s, int64_t begin, int64_t end, bool a_packed)
{
    const plan *p = s->p;
    const uint16_t *packed = p->shared ? p->slab + begin * p->steps * GEMM_STEP_ELEMENTS : s->b;
    if (!p->shared)
        pack_panels(p, begin, end, s->b);
    for (int64_t n = 0; n < p->n_stretches; n++) {
        stretch k = {.first_step = n * p->stretch, .first = n == 0, .last = n == p->n_stretches - 1};
        k.steps = p->g->k > 0 ? min64(p->stretch, p->steps - k.first_step) : 0;
        k.n_parts = k.steps > 0 ? divide_up(k.steps, PART_STEPS) : 1;
        if (!a_packed)
            pack_block(s, k.first_step, k.steps);
        for (int64_t panel = begin; panel < end; panel++) {
            const uint16_t *b = packed + ((panel - begin) * p->steps + k.first_step) * GEMM_STEP_ELEMENTS;
            for (int64_t part = 0; part < k.n_parts; part++)
                for (int64_t t = 0; t < s->panels; t++) {
                    tile_place x = place_of(s, panel - begin, panel, t);
                    one_tile(s, &k, part, &x, t, b + k.steps * part / k.n_parts * GEMM_STEP_ELEMENTS);
                    if (t == 0 && part == k.n_parts - 1 && p->g->bias != NULL)
                        tess_gemm_load_bias_amx(p->g, x.j, x.columns, s->bias);
                }
        }
    }
    tess_gemm_finish_amx(&s->chores);
}

/* [begin, end) counts panels of B, block of rows by block of rows. */
static void multiply_share(void *context, int64_t begin, int64_t end, int worker)
{
    const plan *p = context;
    char *work = p->work + (size_t)worker * p->work_bytes;
    share s = {.p = p, .a = (uint16_t *)(void *)work, .b = (uint16_t *)(void *)(work + p->a_bytes)};
    s.bias = (float *)(void *)(work + p->a_bytes + p->b_bytes);
    s.live = s.bias + GEMM_SPAN;
    s.rests = s.live + p->block_panels * GEMM_SUMS;
    int64_t packed_block = -1;
    tess_tiles_enter();
    while (begin < end) {
        int64_t block = begin / p->slab_panels, panel = begin % p->slab_panels;
        int64_t run = min64(min64(end - begin, p->slab_panels - panel), p->run_panels);
        s.row = block * p->block_panels * GEMM_SPAN;
        s.rows = min64(p->block_panels * GEMM_SPAN, p->g->m - s.row);
        s.panels = divide_up(s.rows, GEMM_SPAN);
        multiply_run(&s, panel, panel + run, block == packed_block);
        packed_block = p->n_stretches == 1 ? block : -1;
        begin += run;
    }
    tess_tiles_leave();
    if (p->streamed)
        _mm_sfence();
}

static void run(tess_stream *s, bool parallel, tess_loop_fn fn, plan *p, int64_t n)
{
    if (parallel)
        tess_threads_run(s->threads, fn, p, n, 1);
    else
        fn(p, 0, n, 0);
}

/* Blocks of equal height, as many rows as keep A in L2; more blocks when there are fewer panels of B than threads. */
static void plan_rows(plan *p, int64_t n_panels, int64_t n_threads)
{
    int64_t m = p->g->m, most = BLOCK_BYTES / (p->stretch * GEMM_STEP * (int64_t)sizeof(uint16_t));
    most = min64(MOST_ROWS, most) / GEMM_SPAN * GEMM_SPAN;
    p->n_blocks = divide_up(m, most);
    if (p->n_blocks * n_panels < n_threads)
        p->n_blocks = min64(divide_up(n_threads, n_panels), divide_up(m, GEMM_SPAN));
    p->block_panels = divide_up(divide_up(m, p->n_blocks), GEMM_SPAN);
    p->n_blocks = divide_up(m, p->block_panels * GEMM_SPAN);
}

static bool can_stream(const tess_gemm *g)
{
    size_t size = tess_dtype_size(g->c_dtype), row = (size_t)g->ldc * size;
    return (size_t)g->m * row >= STREAM_BYTES && row % LINE == 0 && (uintptr_t)g->c % LINE == 0;
}

static tess_status gemm_tiles(tess_stream *s, const tess_gemm *g)
{
    TESS_TRY(tess_gemm_check(g));
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    bool parallel = 2.0 * (double)g->m * (double)g->n * (double)g->k > PARALLEL_FLOPS;
    int64_t n_threads = parallel ? tess_threads_count(s->threads) : 1, n_panels = divide_up(g->n, GEMM_SPAN);

    plan p = {.g = g, .streamed = can_stream(g), .steps = g->k > 0 ? divide_up(g->k, GEMM_STEP) : 1};
    p.n_stretches = divide_up(p.steps, STRETCH / GEMM_STEP);
    p.stretch = divide_up(p.steps, p.n_stretches);
    plan_rows(&p, n_panels, n_threads);

    size_t panel_bytes = (size_t)(p.steps * GEMM_STEP_ELEMENTS) * sizeof(uint16_t);
    size_t tile_bytes = GEMM_SUMS * sizeof(float);
    p.shared = p.n_blocks > 1;
    int64_t slab_panels = p.shared ? min64(n_panels, (int64_t)(SLAB_BYTES / panel_bytes) + 1) : n_panels;
    p.run_panels = p.shared ? slab_panels : min64(n_panels, (int64_t)(OWN_BYTES / panel_bytes) + 1);
    if (p.n_stretches > 1)
        p.run_panels = min64(p.run_panels, (int64_t)(REST_BYTES / (tile_bytes * (size_t)p.block_panels)) + 1);

    p.a_bytes = (size_t)(p.block_panels * p.stretch * GEMM_STEP_ELEMENTS) * sizeof(uint16_t);
    p.b_bytes = p.shared ? 0 : (size_t)p.run_panels * panel_bytes;
    p.work_bytes = p.a_bytes + p.b_bytes + GEMM_SPAN * sizeof(float) +
                   (size_t)(p.block_panels * (1 + (p.n_stretches > 1 ? p.run_panels : 0))) * tile_bytes;
    size_t slab_bytes = round_bytes(p.shared ? (size_t)slab_panels * panel_bytes : 0);
    void *scratch;
    TESS_TRY_CTX(tess_stream_scratch(s, slab_bytes + p.work_bytes * (size_t)n_threads, &scratch), "gemm");
    p.slab = scratch;
    p.work = (char *)scratch + slab_bytes;

    for (p.slab_begin = 0; p.slab_begin < n_panels; p.slab_begin += slab_panels) {
        p.slab_panels = min64(slab_panels, n_panels - p.slab_begin);
        if (p.shared)
            run(s, parallel, pack_slab, &p, p.slab_panels);
        run(s, parallel, multiply_share, &p, p.n_blocks * p.slab_panels);
    }
    return TESS_OK;
}

static tess_status gemm_amx(tess_stream *s, const tess_gemm *g)
{
    if (g->ab_dtype == TESS_F32)
        return tess_gemm_avx512(s, g);
    if (g->trans_b && g->m <= GEMM_FEW_ROWS && g->k > 0)
        return tess_gemm_few_rows_amx(s, g);
    return gemm_tiles(s, g);
}

void tess_kernels_amx_gemm(tess_kernels *k)
{
    k->gemm = gemm_amx;
}
