/* C in parts, one a thread. In each:
 *
 *   for each block of columns, for each block of rows, for each block of k:
 *     pack B (L2)
 *     for each group of rows:  pack A (L1), then for each panel of rows, for each panel of columns: one tile
 *
 * K runs inside an element of C, ascending, in blocks that only decide when a float32 sum rests in memory (in C itself
 * when that is float32), so neither sizes nor threads change a bit. Threads share nothing: each packs the A and B of
 * its part, which costs less than waiting for each other. */
#include "device/cpu/gemm_impl.h"
#include "device/cpu/sizes.h"

enum {
    LINE_BYTES = 64,
    ROW_BLOCK = 1024, /* rows whose sums rest in work space where they cannot in C */
    /* Where neighbouring k are rows apart in memory, panels are packed together, a few k at a time: each page is
     * visited once and read along. */
    STRIDED_K = 16,
    STRIDED_PANELS = 8, /* of A */
    /* Packing an element takes as long as so many products. */
    PACK_A_COST = 12,
    PACK_B_COST = 32,
};

typedef struct vector_plan {
    const tess_gemm *g;
    const gemm_engine *e;
    int64_t row_parts, column_parts;
    int64_t part_rows, part_columns;
    int64_t row_block, column_block, k_block, group_rows; /* multiples of tiles */
    int64_t n_ahead;                                      /* addresses of gemm_tile.ahead */
    bool one_panel;                                       /* a part has one panel of A: packed once, for all k */
    bool sums_in_c;                                       /* else in work space */
    char *work;                                           /* per part: packed A, packed B, sums, addresses */
    size_t work_bytes, a_bytes, b_bytes, sum_bytes;
} vector_plan;

/* A block of rows, columns and k, and where its things are. */
typedef struct vector_block {
    int64_t i, j, k, rows, columns, depth;
    char *a, *b; /* packed */
    float *sums; /* (rows, columns), rows ld_sums apart */
    int64_t ld_sums;
    const void **ahead; /* as in gemm_tile */
} vector_block;

/* A walk over the lines of a rectangle of memory. */
typedef struct line_walk {
    const char *row;
    size_t row_bytes;
    int64_t rows, row_lines; /* rows that are left */
    int64_t line;            /* of the row */
} line_walk;

static int64_t packed_k(const vector_plan *p, int64_t k)
{
    return divide_up(k, p->e->k_step);
}

static size_t panel_bytes(const vector_plan *p, int64_t k, int64_t tile_size)
{
    return (size_t)(packed_k(p, k) * tile_size) * sizeof(float);
}

static void pack_b(const vector_plan *p, const vector_block *b)
{
    const gemm_engine *e = p->e;
    int64_t chunk = p->g->trans_b ? b->depth : STRIDED_K;
    for (int64_t k = 0; k < b->depth; k += chunk) {
        char *to = b->b + panel_bytes(p, k, e->tile_columns);
        for (int64_t j = 0; j < b->columns; j += e->tile_columns, to += panel_bytes(p, b->depth, e->tile_columns))
            e->pack_b(p->g, b->j + j, min64(e->tile_columns, b->columns - j), b->k + k, min64(chunk, b->depth - k), to);
    }
}

/* `rows` rows from the block's row i. */
static void pack_a(const vector_plan *p, const vector_block *b, int64_t i, int64_t rows)
{
    const gemm_engine *e = p->e;
    int64_t chunk = p->g->trans_a ? STRIDED_K : b->depth;
    for (int64_t k = 0; k < b->depth; k += chunk) {
        char *to = b->a + panel_bytes(p, k, e->tile_rows);
        for (int64_t r = 0; r < rows; r += e->tile_rows, to += panel_bytes(p, b->depth, e->tile_rows))
            e->pack_a(p->g, b->i + i + r, min64(e->tile_rows, rows - r), b->k + k, min64(chunk, b->depth - k), to);
    }
}

/* What pack_a reads for the group of rows from the block's row i. */
static line_walk lines_of_a(const vector_plan *p, const vector_block *b, int64_t i)
{
    const tess_gemm *g = p->g;
    size_t size = tess_dtype_size(g->ab_dtype);
    int64_t rows = min64(p->group_rows, b->rows - i), row = b->i + i;
    if (rows <= 0)
        return (line_walk){.rows = 0};
    line_walk x = {.row_bytes = (size_t)g->lda * size, .rows = g->trans_a ? b->depth : rows};
    x.row = (const char *)g->a + (size_t)(g->trans_a ? b->k * g->lda + row : row * g->lda + b->k) * size;
    x.row_lines = divide_up((g->trans_a ? rows : b->depth) * (int64_t)size, LINE_BYTES);
    return x;
}

/* The tile of sums at (i, j) of the block. */
static line_walk lines_of_sums(const vector_plan *p, const vector_block *b, int64_t i, int64_t j)
{
    return (line_walk){.row = (const char *)(b->sums + i * b->ld_sums + j),
                       .row_bytes = (size_t)b->ld_sums * sizeof(float),
                       .rows = min64(p->e->tile_rows, b->rows - i),
                       .row_lines = p->e->tile_columns * (int64_t)sizeof(float) / LINE_BYTES};
}

/* Lists the next `n` lines, or what is left of them, or what there is room for; returns the end of the list. */
static const void **list_lines(line_walk *x, int64_t n, const void **list, const void *const *end)
{
    for (; n > 0 && x->rows > 0 && list < end; n--) {
        *list++ = x->row + x->line * LINE_BYTES;
        if (++x->line == x->row_lines) {
            x->line = 0;
            x->row += x->row_bytes;
            x->rows--;
        }
    }
    return list;
}

/* What is wanted after the tile at (i, j) of the block: the next tile's sums and `n` lines of the next group's A.
 * Behind them stay addresses of earlier tiles, which are in the cache. */
static void list_ahead(const vector_plan *p, const vector_block *b, int64_t i, int64_t j, line_walk *next_a, int64_t n)
{
    bool last = j + p->e->tile_columns >= b->columns;
    line_walk sums = lines_of_sums(p, b, last ? i + p->e->tile_rows : i, last ? 0 : j + p->e->tile_columns);
    const void **end = b->ahead + divide_up(packed_k(p, b->depth), GEMM_AHEAD_STEP);
    const void **rest = list_lines(&sums, INT64_MAX, b->ahead, end);
    list_lines(next_a, n, rest, end);
}

/* The block's rows from i, packed at `a`. */
static void multiply_group(const vector_plan *p, const vector_block *b, const char *a, int64_t i)
{
    const tess_gemm *g = p->g;
    const gemm_engine *e = p->e;
    int64_t end = min64(i + p->group_rows, b->rows);
    int64_t n_tiles = divide_up(end - i, e->tile_rows) * divide_up(b->columns, e->tile_columns);
    bool finish = b->k + b->depth == g->k && (g->bias != NULL || !p->sums_in_c);
    line_walk next_a = lines_of_a(p, b, end);
    int64_t lines_a_tile = divide_up(next_a.rows * next_a.row_lines, n_tiles);
    gemm_tile tile = {.k = packed_k(p, b->depth), .ldc = b->ld_sums, .ahead = b->ahead};
    tile.add = b->k > 0 || g->accumulate;
    for (; i < end; i += e->tile_rows, a += panel_bytes(p, b->depth, e->tile_rows)) {
        tile.a = a;
        tile.rows = min64(e->tile_rows, end - i);
        const char *panel = b->b;
        for (int64_t j = 0; j < b->columns; j += e->tile_columns) {
            tile.b = panel;
            tile.c = b->sums + i * b->ld_sums + j;
            tile.columns = min64(e->tile_columns, b->columns - j);
            list_ahead(p, b, i, j, &next_a, lines_a_tile);
            e->multiply(&tile);
            if (finish)
                e->finish(g, b->i + i, b->j + j, tile.rows, tile.columns, tile.c, tile.ldc);
            panel += panel_bytes(p, b->depth, e->tile_columns);
        }
    }
}

/* The block's rows and columns for all k. */
static void multiply_block(const vector_plan *p, vector_block *b)
{
    b->k = 0;
    do {
        b->depth = min64(p->k_block, p->g->k - b->k);
        pack_b(p, b);
        if (p->one_panel)
            multiply_group(p, b, b->a + panel_bytes(p, b->k, p->e->tile_rows), 0);
        for (int64_t i = 0; i < b->rows && !p->one_panel; i += p->group_rows) {
            pack_a(p, b, i, min64(p->group_rows, b->rows - i));
            multiply_group(p, b, b->a, i);
        }
        b->k += b->depth;
    } while (b->k < p->g->k);
}

static void multiply_part(const vector_plan *p, int64_t part)
{
    const tess_gemm *g = p->g;
    int64_t row = part / p->column_parts * p->part_rows, row_end = min64(row + p->part_rows, g->m);
    int64_t column = part % p->column_parts * p->part_columns, column_end = min64(column + p->part_columns, g->n);
    vector_block b = {.a = p->work + (size_t)part * p->work_bytes};
    b.b = b.a + p->a_bytes;
    float *sums = (float *)(b.b + p->b_bytes);
    b.ahead = (const void **)((char *)sums + p->sum_bytes);
    for (int64_t n = 0; n < p->n_ahead; n++)
        b.ahead[n] = b.ahead;
    if (p->one_panel && row < row_end)
        p->e->pack_a(g, row, row_end - row, 0, g->k, b.a);
    for (b.j = column; b.j < column_end; b.j += p->column_block) {
        b.columns = min64(p->column_block, column_end - b.j);
        for (b.i = row; b.i < row_end; b.i += p->row_block) {
            b.rows = min64(p->row_block, row_end - b.i);
            b.sums = p->sums_in_c ? (float *)g->c + b.i * g->ldc + b.j : sums;
            b.ld_sums = p->sums_in_c ? g->ldc : p->column_block;
            multiply_block(p, &b);
        }
    }
}

static void multiply_parts(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t part = begin; part < end; part++)
        multiply_part(context, part);
}

/* The grid of parts whose largest takes the least time. */
static void plan_parts(vector_plan *p, int64_t n_parts)
{
    const gemm_engine *e = p->e;
    int64_t row_panels = divide_up(p->g->m, e->tile_rows), column_panels = divide_up(p->g->n, e->tile_columns);
    int64_t least = INT64_MAX;
    for (int64_t row_parts = 1; row_parts <= n_parts; row_parts++) {
        if (n_parts % row_parts != 0)
            continue;
        int64_t column_parts = n_parts / row_parts;
        int64_t rows = divide_up(row_panels, row_parts) * e->tile_rows;
        int64_t columns = divide_up(column_panels, column_parts) * e->tile_columns;
        int64_t cost = rows * columns + PACK_A_COST * rows + PACK_B_COST * columns;
        if (cost < least) {
            least = cost;
            p->row_parts = row_parts;
            p->column_parts = column_parts;
            p->part_rows = rows;
            p->part_columns = columns;
        }
    }
}

/* The size of equal blocks of n, at most `most` (and one unit at least), in units. */
static int64_t equal_blocks(int64_t n, int64_t most, int64_t unit)
{
    int64_t n_blocks = divide_up(n, most < unit ? unit : most);
    return n_blocks == 0 ? unit : divide_up(divide_up(n, n_blocks), unit) * unit;
}

static size_t whole_lines(int64_t elements, size_t size)
{
    return ((size_t)elements * size + LINE_BYTES - 1) & ~(size_t)(LINE_BYTES - 1);
}

static void plan_blocks(vector_plan *p)
{
    const tess_gemm *g = p->g;
    const gemm_engine *e = p->e;
    int64_t depth = equal_blocks(packed_k(p, g->k), e->k_block, STRIDED_K);
    int64_t most_columns = (int64_t)(e->b_block_bytes / sizeof(float)) / depth;
    p->k_block = depth * e->k_step;
    p->n_ahead = divide_up(depth, GEMM_AHEAD_STEP);
    p->one_panel = p->part_rows == e->tile_rows;
    p->sums_in_c = g->c_dtype == TESS_F32;
    p->column_block = equal_blocks(p->part_columns, p->one_panel ? e->tile_columns : most_columns, e->tile_columns);
    p->row_block = p->sums_in_c ? p->part_rows : equal_blocks(p->part_rows, ROW_BLOCK, e->tile_rows);
    p->group_rows = g->trans_a && !p->one_panel ? STRIDED_PANELS * e->tile_rows : e->tile_rows;

    p->a_bytes = whole_lines(p->group_rows * (p->one_panel ? packed_k(p, g->k) : depth), sizeof(float));
    p->b_bytes = whole_lines(p->column_block * depth, sizeof(float));
    p->sum_bytes = p->sums_in_c ? 0 : whole_lines(p->row_block * p->column_block, sizeof(float));
    p->work_bytes = p->a_bytes + p->b_bytes + p->sum_bytes + whole_lines(p->n_ahead, sizeof(const void *));
}

tess_status tess_gemm_vector(tess_stream *s, const tess_gemm *g, const gemm_engine *e)
{
    TESS_TRY(tess_gemm_check(g));
    if (g->m == 0 || g->n == 0)
        return TESS_OK;
    bool parallel = 2.0 * (double)g->m * (double)g->n * (double)g->k > e->parallel_flops;
    int64_t n_parts = parallel ? tess_threads_count(s->threads) : 1;
    vector_plan p = {.g = g, .e = e};
    plan_parts(&p, n_parts);
    plan_blocks(&p);
    void *scratch;
    TESS_TRY_CTX(tess_stream_scratch(s, p.work_bytes * (size_t)n_parts, &scratch), "gemm");
    p.work = scratch;
    tess_threads_run(s->threads, multiply_parts, &p, n_parts, 1);
    return TESS_OK;
}
