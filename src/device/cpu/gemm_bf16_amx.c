/* The walk over C. Threads own tiles of C. K is summed inside a tile, in ascending order, in parts that only decide
 * where the tile's float32 sums are stored in between. So neither sizes nor threads change a bit.
 *
 *   for each slab of columns, for each stretch of K
 *     pack that part of B, all threads together (it fits the last-level cache)
 *     for each block of rows (of packed A, a block by a stretch stays in L2)
 *       for each panel of B, for each part of the stretch (L1), for each panel of A: one tile
 *
 * If one block contains all rows, each part of B is used only once. Each thread then packs a few panels of its own at a
 * time. */
#include "device/cpu/gemm_amx_impl.h"
#include "device/cpu/sizes.h"

enum { LINE = 64, PANEL_STEP_BYTES = GEMM_STEP_ELEMENTS * sizeof(uint16_t) };
enum { STREAM_BYTES = 1 << 20, SLAB_BYTES = 32 << 20, OWN_BYTES = 512 << 10, BLOCK_BYTES = 3 << 19 };
enum { MOST_ROWS = 512, MOST_SUM_TILES = 512, STRETCH_STEPS = 128, PART_STEPS = 16, PACK_STEPS = 2, PANELS_AHEAD = 6 };
static const double PARALLEL_FLOPS = 4e6; /* smaller products are not worth waking threads for */

typedef struct amx_plan {
    const tess_gemm *g;       /* C, and the first term */
    const tess_gemm_fused *f; /* NULL: a plain product */
    bool alone;               /* one thread computes at most MOST_ROWS rows, with little work space */
    tess_gemm terms[1 + TESS_GEMM_TERMS];
    int64_t term_begin[2 + TESS_GEMM_TERMS]; /* first step of k of each term; each term has whole steps */
    int n_terms;
    bool shared;   /* whether B is packed in advance, for all threads */
    bool streamed; /* see gemm_chores */
    int64_t steps, stretch, block_panels;
    int64_t n_panels_a, n_panels_b;
    int64_t slab_most, run_most; /* counted in panels */
    /* The position of the walk: */
    int64_t k_step, k_steps; /* first step and number of steps of the stretch */
    bool first, last;        /* whether it is the first or last stretch */
    int64_t slab_begin, slab_panels;
    /* The place of sums between stretches: C itself if it is float32, otherwise a scratch matrix of the slab's whole
     * tiles. */
    float *sums;
    int64_t sums_ld, sums_column;
    uint16_t *slab; /* packed B */
    char *work;     /* work space of all workers */
    size_t slab_bytes, sums_bytes;
    /* Per worker: size of packed A; size of all work space, with packed B, tiles and a bias */
    size_t a_bytes, work_bytes;
} amx_plan;

/* The state of one worker. */
typedef struct share {
    const amx_plan *p;
    int64_t block, panels; /* first panel of A in the block; number of its panels */
    uint16_t *a, *own_b;   /* the packed block; where the worker packs B if it is not shared */
    float *bias, *live;    /* (32); (panels) tiles between the parts of a stretch, and until they are written to C */
    gemm_chores chores;
} share;

typedef void (*pack_fn)(const tess_gemm *g, int64_t at, int64_t width, int64_t k_begin, int64_t k, uint16_t *panel,
                        gemm_pack_ahead ahead);

/* The packing of panels [begin, end) of an operand of `width` rows (columns), for steps [first, last) of the stretch.
 * If a panel's k are far apart in memory, the loop over k is the outer one, so that neighbouring panels share pages. */
typedef struct packing {
    pack_fn fn;
    bool k_outside;
    int64_t width, ld, begin, end, first, last;
    uint16_t *to; /* the stretch of the first panel */
} packing;

/* Returns the distances for PANELS_AHEAD panels later along the same rows or, at their end, at the beginning of the
 * next rows. */
static gemm_pack_ahead ahead_of(const packing *x, int64_t panel, int64_t n_k, int64_t k_steps)
{
    int64_t later = min64(PANELS_AHEAD, x->end - x->begin), wraps = panel + later >= x->end;
    int64_t from = later * GEMM_SPAN + wraps * (n_k * x->ld - (x->end - x->begin) * GEMM_SPAN);
    return (gemm_pack_ahead){from, panel + 1 < x->end ? k_steps * GEMM_STEP_ELEMENTS : 0};
}

static void pack_term(const amx_plan *p, const tess_gemm *term, int64_t term_begin, const packing *x)
{
    int64_t chunk = x->k_outside ? PACK_STEPS : x->last - x->first;
    for (int64_t step = x->first; step < x->last; step += chunk) {
        int64_t k = (p->k_step + step - term_begin) * GEMM_STEP, n_k = min64(chunk, x->last - step) * GEMM_STEP;
        for (int64_t panel = x->begin; panel < x->end; panel++)
            x->fn(term, panel * GEMM_SPAN, min64(GEMM_SPAN, x->width - panel * GEMM_SPAN), k, min64(n_k, term->k - k),
                  x->to + ((panel - x->begin) * p->k_steps + step) * GEMM_STEP_ELEMENTS,
                  ahead_of(x, panel, n_k, p->k_steps));
    }
}

static void pack(const amx_plan *p, packing x)
{
    for (int i = 0; i < p->n_terms; i++) {
        x.first = max64(p->term_begin[i] - p->k_step, 0);
        x.last = min64(p->term_begin[i + 1] - p->k_step, p->k_steps);
        if (x.first < x.last)
            pack_term(p, &p->terms[i], p->term_begin[i], &x);
    }
}

static void pack_b(const amx_plan *p, int64_t begin, int64_t end, uint16_t *to)
{
    pack(p, (packing){.fn = tess_gemm_pack_b_amx,
                      .k_outside = !p->g->trans_b,
                      .width = p->g->n,
                      .ld = p->g->ldb,
                      .begin = p->slab_begin + begin,
                      .end = p->slab_begin + end,
                      .to = to});
}

static void pack_slab(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const amx_plan *p = context;
    pack_b(p, begin, end, p->slab + begin * p->k_steps * GEMM_STEP_ELEMENTS);
}

/* Packs panels [begin, end) of A. */
static void pack_a(const amx_plan *p, int64_t begin, int64_t end, uint16_t *to)
{
    pack(p, (packing){.fn = tess_gemm_pack_a_amx,
                      .k_outside = p->g->trans_a,
                      .width = p->g->m,
                      .ld = p->g->lda,
                      .begin = begin,
                      .end = end,
                      .to = to});
}

/* A tile of C, and where its sums are stored until K is complete. */
typedef struct tile_place {
    int64_t i, j, rows, columns;
    bool whole; /* whether sums can be loaded from and stored to `sums` directly */
    gemm_sums sums, live;
} tile_place;

static tile_place place_of(const share *s, int64_t panel, int64_t t)
{
    const amx_plan *p = s->p;
    const tess_gemm *g = p->g;
    tile_place x = {.i = (s->block + t) * GEMM_SPAN, .j = panel * GEMM_SPAN};
    x.rows = min64(GEMM_SPAN, g->m - x.i);
    x.columns = min64(GEMM_SPAN, g->n - x.j);
    x.whole = g->c_dtype != TESS_F32 || (x.columns == GEMM_SPAN && x.rows % GEMM_TILE == 0);
    x.sums = (gemm_sums){p->sums + x.i * p->sums_ld + x.j - p->sums_column, p->sums_ld};
    x.live = (gemm_sums){s->live + t * GEMM_SUMS, GEMM_SPAN};
    return x;
}

/* The position of a tile in a run: panel of B (up to `end`), part of the stretch, panel of A in the block. */
typedef struct tile_walk {
    int64_t panel, end, part, n_parts, t;
} tile_walk;

/* Whether an activation follows the tile. */
static bool fuses(const amx_plan *p)
{
    return p->f != NULL && p->f->then != TESS_THEN_NOTHING && p->last;
}

/* Plans how the sums of a tile are written: complete sums to C in its final form, sums of an earlier stretch as
 * float32. */
static void plan_writing(share *s, const tile_place *x)
{
    const tess_gemm *g = s->p->g;
    size_t size = tess_dtype_size(g->c_dtype);
    s->chores.sums = x->live.at;
    s->chores.bias = g->bias != NULL && s->p->last ? s->bias : NULL;
    s->chores.c_stride = g->ldc * (int64_t)size;
    s->chores.n_rows = x->rows;
    s->chores.columns = tess_gemm_columns(x->columns);
    s->chores.end = g->c_dtype == TESS_BF16 ? GEMM_END_BF16 : GEMM_END_F32;
    s->chores.streamed = s->p->streamed && x->columns == GEMM_SPAN;
    if (fuses(s->p)) {
        s->chores.end = GEMM_END_FUSED;
        s->chores.fused = s->p->f;
        s->chores.at = x->i * g->ldc + x->j;
    } else {
        s->chores.c = (char *)g->c + (size_t)(x->i * g->ldc + x->j) * size;
    }
}

/* Prefetches a line of each of x's rows in two matrices. With one matrix, pass it twice: that costs nothing. */
static void ask_for_rows(share *s, const tile_place *x, const void *one, const void *other, size_t size)
{
    int64_t at = (x->i * s->p->g->ldc + x->j) * (int64_t)size;
    s->chores.rows_ahead[0] = (const char *)one + at;
    s->chores.rows_ahead[1] = (const char *)other + at;
    s->chores.rows_ahead_stride = s->p->g->ldc * (int64_t)size;
    s->chores.n_rows_ahead = x->rows;
}

static void ask_for_sums(share *s, const tile_place *x)
{
    s->chores.rows_ahead[0] = (const char *)x->sums.at;
    s->chores.rows_ahead[1] = (const char *)(x->sums.at + GEMM_TILE);
    s->chores.rows_ahead_stride = x->sums.stride * (int64_t)sizeof(float);
    s->chores.n_rows_ahead = x->rows;
}

/* Whether the tile after this one begins its stretch. It must be in this run. */
static bool next_enters(const tile_walk *w, int64_t panels, int64_t *panel, int64_t *t)
{
    bool wraps = w->t + 1 == panels;
    *t = wraps ? 0 : w->t + 1;
    *panel = w->panel + wraps;
    return (wraps ? w->part + 1 == w->n_parts : w->part == 0) && *panel < w->end;
}

/* Prefetches the sums to which the next tile adds; or the lines that this tile's end reads, or writes through the
 * caches. */
static void ask_ahead(share *s, const tile_place *x, const tile_walk *w, bool adds)
{
    const amx_plan *p = s->p;
    int64_t panel, t;
    if (adds && next_enters(w, s->panels, &panel, &t)) {
        tile_place next = place_of(s, panel, t);
        ask_for_sums(s, &next);
    } else if (w->part + 1 < w->n_parts) {
        return;
    } else if (fuses(p) && (p->f->gate != NULL || p->f->then == TESS_THEN_ACT_BACKWARD)) {
        const void *up = p->f->then == TESS_THEN_ACT_BACKWARD ? p->f->up : p->f->gate;
        ask_for_rows(s, x, up, p->f->gate != NULL ? p->f->gate : up, sizeof(uint16_t));
    } else if (!adds && !p->last) {
        ask_for_sums(s, x);
    } else if (!adds && !p->streamed) {
        const char *c = p->g->c;
        size_t size = tess_dtype_size(p->g->c_dtype);
        ask_for_rows(s, x, c, c + (size == sizeof(float) ? LINE : 0), size);
    }
}

/* Computes one tile. `b` is the stretch of the walk's panel. */
static void one_tile(share *s, const tile_walk *w, const uint16_t *b)
{
    const amx_plan *p = s->p;
    int64_t panel = w->panel, t = w->t, part = w->part, n_parts = w->n_parts;
    int64_t begin = p->k_steps * part / n_parts, steps = p->k_steps * (part + 1) / n_parts - begin;
    bool enters = part == 0, leaves = part == n_parts - 1, adds = !p->first || p->g->accumulate;
    tile_place x = place_of(s, panel, t);
    gemm_sums from = x.live, to = x.live;
    if (enters && !adds) {
        from.at = NULL;
    } else if (enters && x.whole) {
        from = x.sums;
    } else if (enters) {
        tess_gemm_finish_amx(&s->chores);
        tess_gemm_load_sums_amx(p->g, x.i, x.j, x.rows, x.columns, x.live.at);
    }
    bool ends_in_c = p->last && (p->g->c_dtype != TESS_F32 || p->g->bias != NULL);
    bool in_place = leaves && x.whole && !ends_in_c && (adds || !p->last || !p->streamed);
    if (in_place)
        to = x.sums;

    b += begin * GEMM_STEP_ELEMENTS;
    int64_t lines = steps * PANEL_STEP_BYTES / LINE;
    s->chores.ahead = (const char *)(b + steps * GEMM_STEP_ELEMENTS) + lines * t / s->panels * LINE;
    s->chores.n_ahead = p->shared ? lines * (t + 1) / s->panels - lines * t / s->panels : 0;
    ask_ahead(s, &x, w, adds);
    tess_gemm_tile_amx(s->a + (t * p->k_steps + begin) * GEMM_STEP_ELEMENTS, b, steps, x.rows, from, to, &s->chores);
    if (!leaves)
        return;
    if (p->g->bias != NULL && t == 0) /* the previous panel has been written by now */
        tess_gemm_load_bias_amx(p->g, x.j, x.columns, s->bias);
    if (!in_place)
        plan_writing(s, &x);
}

/* Multiplies the current block with panels [begin, end) of the slab. */
static void multiply_run(share *s, int64_t begin, int64_t end)
{
    const amx_plan *p = s->p;
    const uint16_t *b = p->slab + begin * p->k_steps * GEMM_STEP_ELEMENTS;
    if (!p->shared) {
        pack_b(p, begin, end, s->own_b);
        b = s->own_b;
    }
    tile_walk w = {.end = p->slab_begin + end, .n_parts = max64(1, divide_up(p->k_steps, PART_STEPS))};
    for (w.panel = p->slab_begin + begin; w.panel < w.end; w.panel++, b += p->k_steps * GEMM_STEP_ELEMENTS)
        for (w.part = 0; w.part < w.n_parts; w.part++)
            for (w.t = 0; w.t < s->panels; w.t++)
                one_tile(s, &w, b);
    tess_gemm_finish_amx(&s->chores);
}

static void enter_block(share *s, int64_t block)
{
    const amx_plan *p = s->p;
    int64_t begin = block * p->block_panels;
    s->block = begin;
    s->panels = min64(p->block_panels, p->n_panels_a - begin);
    pack_a(p, s->block, s->block + s->panels, s->a);
}

/* Multiplies a range of panels of B, counted block of rows by block of rows. */
static void multiply_share(void *context, int64_t begin, int64_t end, int worker)
{
    const amx_plan *p = context;
    char *work = p->work + (size_t)worker * p->work_bytes;
    share s = {.p = p, .bias = (float *)(void *)work, .live = (float *)(void *)work + GEMM_SPAN};
    s.a = (uint16_t *)(void *)(s.live + p->block_panels * GEMM_SUMS);
    s.own_b = s.a + p->a_bytes / sizeof(uint16_t);
    int64_t block = -1;
    tess_tiles_enter();
    while (begin < end) {
        int64_t panel = begin % p->slab_panels;
        int64_t run = min64(min64(end - begin, p->slab_panels - panel), p->run_most);
        if (block != begin / p->slab_panels) {
            block = begin / p->slab_panels;
            enter_block(&s, block);
        }
        multiply_run(&s, panel, panel + run);
        begin += run;
    }
    tess_tiles_leave();
    if (p->streamed)
        _mm_sfence();
}

/* Plans blocks of equal height, with as many rows as keep A in L2. There are more blocks if B has fewer panels than
 * there are threads. */
static void plan_rows(amx_plan *p, int64_t n_threads)
{
    int64_t most = min64(MOST_ROWS / GEMM_SPAN, BLOCK_BYTES / (p->stretch * PANEL_STEP_BYTES));
    int64_t n_blocks = divide_up(p->n_panels_a, most);
    if (n_blocks * p->n_panels_b < n_threads)
        n_blocks = min64(divide_up(n_threads, p->n_panels_b), p->n_panels_a);
    p->block_panels = divide_up(p->n_panels_a, n_blocks);
    p->shared = p->block_panels < p->n_panels_a;
}

static bool can_stream(const amx_plan *p)
{
    const tess_gemm *g = p->g;
    size_t size = tess_dtype_size(g->c_dtype), row = (size_t)g->ldc * size;
    uintptr_t all = (uintptr_t)g->c;
    if (p->f != NULL && p->f->then != TESS_THEN_NOTHING)
        all =
            (p->f->then == TESS_THEN_ACT ? all : 0) | (uintptr_t)p->f->gate | (uintptr_t)p->f->up | (uintptr_t)p->f->y;
    return (size_t)g->m * row >= STREAM_BYTES && row % LINE == 0 && all % LINE == 0;
}

static size_t panels_bytes(const amx_plan *p, int64_t panels)
{
    return (size_t)(panels * p->stretch) * PANEL_STEP_BYTES;
}

static void plan_terms(amx_plan *p)
{
    const tess_gemm_fused *f = p->f;
    p->n_terms = 1 + (f != NULL ? f->n_terms : 0);
    for (int i = 0; i < p->n_terms; i++) {
        tess_gemm *term = &p->terms[i];
        *term = *p->g;
        if (i > 0) {
            term->a = f->terms[i - 1].a;
            term->lda = f->terms[i - 1].lda;
            term->b = f->terms[i - 1].b;
            term->ldb = f->terms[i - 1].ldb;
            term->k = f->terms[i - 1].k;
        }
        p->term_begin[i + 1] = p->term_begin[i] + divide_up(term->k, GEMM_STEP);
    }
    p->steps = p->term_begin[p->n_terms];
}

/* Plans sizes. Returns the bytes of work space. A product that is computed alone has all its rows in one block. */
static size_t plan_all(amx_plan *p, int64_t n_threads)
{
    const tess_gemm *g = p->g;
    plan_terms(p);
    p->streamed = can_stream(p);
    p->n_panels_a = divide_up(g->m, GEMM_SPAN);
    p->n_panels_b = divide_up(g->n, GEMM_SPAN);
    int64_t longest = p->alone ? min64(STRETCH_STEPS, BLOCK_BYTES / (p->n_panels_a * PANEL_STEP_BYTES)) : STRETCH_STEPS;
    p->stretch = max64(1, divide_up(p->steps, max64(1, divide_up(p->steps, longest))));
    const bool sums_rest = p->steps > p->stretch && g->c_dtype != TESS_F32;
    plan_rows(p, n_threads);
    p->slab_most = min64(p->n_panels_b, max64(1, SLAB_BYTES / (p->stretch * PANEL_STEP_BYTES)));
    if (p->alone && sums_rest)
        p->slab_most = min64(p->slab_most, MOST_SUM_TILES / p->n_panels_a);
    p->run_most = p->slab_most;
    if (!p->shared)
        p->run_most = min64(p->slab_most, max64(1, OWN_BYTES / (p->stretch * PANEL_STEP_BYTES)));

    p->slab_bytes = p->shared ? panels_bytes(p, p->slab_most) : 0;
    p->sums_bytes = sums_rest ? (size_t)(p->n_panels_a * p->slab_most) * GEMM_SUMS * sizeof(float) : 0;
    p->a_bytes = panels_bytes(p, p->block_panels);
    p->work_bytes = (size_t)(GEMM_SPAN + p->block_panels * GEMM_SUMS) * sizeof(float) + p->a_bytes +
                    (p->shared ? 0 : panels_bytes(p, p->run_most));
    return p->slab_bytes + p->sums_bytes + p->work_bytes * (size_t)n_threads;
}

static void place(amx_plan *p, char *work)
{
    p->slab = (uint16_t *)(void *)work;
    p->sums = (float *)(void *)(work + p->slab_bytes);
    p->sums_ld = p->slab_most * GEMM_SPAN;
    p->work = work + p->slab_bytes + p->sums_bytes;
    if (p->g->c_dtype == TESS_F32) {
        p->sums = p->g->c;
        p->sums_ld = p->g->ldc;
    }
}

typedef struct threads {
    tess_stream *stream;
    bool parallel;
} threads;

static void run(const threads *t, tess_loop_fn fn, amx_plan *p, int64_t n)
{
    tess_threads_run(t->stream->threads, fn, p, n, t->parallel ? 1 : n);
}

/* Multiplies a slab. The slab and the stretch must be set. */
static void multiply_slab(const threads *t, amx_plan *p)
{
    if (p->shared)
        run(t, pack_slab, p, p->slab_panels);
    run(t, multiply_share, p, divide_up(p->n_panels_a, p->block_panels) * p->slab_panels);
}

static void multiply_slabs(const threads *t, amx_plan *p)
{
    for (p->slab_begin = 0; p->slab_begin < p->n_panels_b; p->slab_begin += p->slab_most) {
        p->slab_panels = min64(p->slab_most, p->n_panels_b - p->slab_begin);
        p->sums_column = p->g->c_dtype == TESS_F32 ? 0 : p->slab_begin * GEMM_SPAN;
        p->k_step = 0;
        do { /* runs once even if k is 0, because C must be written */
            p->k_steps = min64(p->stretch, p->steps - p->k_step);
            p->first = p->k_step == 0;
            p->last = p->k_step + p->k_steps == p->steps;
            multiply_slab(t, p);
            p->k_step += p->k_steps;
        } while (p->k_step < p->steps);
    }
}

/* f NULL: computes only g. */
static tess_status gemm_tiles(tess_stream *s, const tess_gemm *g, const tess_gemm_fused *f)
{
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    threads t = {s, 2.0 * (double)g->m * (double)g->n * (double)g->k > PARALLEL_FLOPS};
    amx_plan p = {.g = g, .f = f};
    void *scratch;
    TESS_TRY_CTX(tess_stream_scratch(s, plan_all(&p, t.parallel ? tess_threads_count(s->threads) : 1), &scratch),
                 "gemm");
    place(&p, scratch);
    multiply_slabs(&t, &p);
    return TESS_OK;
}

static bool takes_few_rows(const tess_gemm *g)
{
    return g->trans_b && g->m <= GEMM_FEW_ROWS && g->k > 0;
}

static bool takes_one_row(const tess_gemm *g)
{
    return g->m == 1 && !g->trans_b && !g->accumulate;
}

static tess_status gemm_amx(tess_stream *s, const tess_gemm *g)
{
    if (g->ab_dtype == TESS_F32)
        return tess_gemm_avx512(s, g);
    if (g->leaf > 0) {
        TESS_TRY(tess_gemm_check(g));
        return tess_gemm_leaves_by_rows(s, &(tess_gemm_fused){.g = *g});
    }
    if (takes_few_rows(g))
        return tess_gemm_few_rows_amx(s, g);
    if (takes_one_row(g))
        return tess_gemm_one_row_amx(s, g);
    TESS_TRY(tess_gemm_check(g));
    return gemm_tiles(s, g, NULL);
}

static tess_status gemm_fused_amx(tess_stream *s, const tess_gemm_fused *f)
{
    bool one_by_one = takes_few_rows(&f->g) || (takes_one_row(&f->g) && f->n_terms == 0);
    if (f->g.ab_dtype == TESS_F32)
        return tess_gemm_fused_avx512(s, f);
    if (f->g.c_dtype != TESS_BF16 || one_by_one || f->g.leaf > 0)
        return tess_gemm_fused_by_rows(s, f);
    TESS_TRY(tess_gemm_fused_check(f));
    return gemm_tiles(s, &f->g, f);
}

/* ---- Parts of groups ---- */
static bool takes_part(const tess_gemm_fused *f)
{
    return f->g.leaf == 0 && (tess_gemm_is_plain(f) || f->g.c_dtype == TESS_BF16);
}

static bool takes_few_rows_of_part(const tess_gemm_fused *f)
{
    return takes_few_rows(&f->g) && f->n_terms == 0;
}

static size_t part_bytes(const tess_gemm_fused *f)
{
    if (takes_few_rows_of_part(f))
        return tess_gemm_few_rows_bytes_amx(&f->g);
    amx_plan p = {.g = &f->g, .f = f, .alone = true};
    return plan_all(&p, 1);
}

static void multiply_part(const tess_gemm_fused *f, void *work)
{
    if (takes_few_rows_of_part(f)) {
        tess_gemm_few_rows_part_amx(f, work);
        return;
    }
    amx_plan p = {.g = &f->g, .f = f, .alone = true};
    plan_all(&p, 1);
    place(&p, work);
    multiply_slabs(&(threads){.parallel = false}, &p);
}

static const gemm_parts parts = {
    .tile_rows = GEMM_SPAN,
    .tile_columns = GEMM_SPAN,
    .most_rows = MOST_ROWS,
    .sum_bytes = MOST_SUM_TILES * GEMM_SUMS * sizeof(float),
    .few_rows_bytes = GEMM_FEW_ROWS * sizeof(uint16_t),
    .parallel_flops = 4e6,
    .takes = takes_part,
    .bytes = part_bytes,
    .multiply = multiply_part,
};

static tess_status gemm_grouped_amx(tess_stream *s, const tess_gemm_grouped *x)
{
    return x->ab_dtype == TESS_F32 ? tess_gemm_grouped_avx512(s, x) : tess_gemm_in_parts(s, x, &parts);
}

static double peak_loop(int64_t rounds)
{
    tess_tiles_enter();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    tess_tiles_leave();
    return (double)rounds * 4 * 16 * 16 * 32 * 2;
}

void tess_kernels_amx_gemm(tess_kernels *k)
{
    k->gemm = gemm_amx;
    k->gemm_fused = gemm_fused_amx;
    k->gemm_grouped = gemm_grouped_amx;
    k->peak_bf16 = peak_loop;
}
