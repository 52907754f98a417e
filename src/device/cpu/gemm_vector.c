/* C in parts, one a thread. In each:
 *
 *   for each block of columns, for each block of rows, for each block of k, for each chunk of the columns:
 *     pack B
 *     for each group of rows:  pack A, then one tile for each pair of a panel of rows and a panel of columns
 *
 * The engine says which panel stays in L1 while it meets the others: one of A, with B in L2, or one of B, with A in L2.
 * Where the rows are one group, B is packed in small chunks that are used at once, and A once for all chunks.
 *
 * K runs inside an element of C, ascending, in blocks that only decide when a float32 sum rests in memory (in C itself
 * when that is float32), so neither sizes nor threads change a bit. Threads share nothing: each packs the A and B of
 * its part, which costs less than waiting for each other.
 *
 * With leaves (kernels.h) and further terms K is walked leaf by leaf, in each leaf term by term: that is the K that is
 * packed and cut in blocks. Sums rest in the levels of a binary counter: level i of a tile is empty, or the sum of 2^i
 * leaves. A leaf adds up in the level that it will end in, and takes those below with it while it is in registers, so
 * it moves as many sums as a block of K does without leaves. What begins and ends in a block of K rests in L1. */
#include "device/cpu/gemm_impl.h"
#include "device/cpu/sizes.h"

enum {
    LINE_BYTES = 64,
    ROW_BLOCK = 1024, /* rows whose sums rest in work space where they cannot in C */
    FEW_ROWS = 64, /* most rows of a part for which the next lines of B are prefetched, because it waits for memory */
    FEW_ROWS_K = 256,    /* packed k of a block of few rows: a panel of B then fits in L1 */
    FEW_ROWS_LINES = 2,  /* lines of a row of B stored (k,n) that are packed together, if rows of C are few */
    CHUNK_COLUMNS = 128, /* columns that are packed together for one group of rows, if B is stored (k,n) */
    /* Panels whose neighbouring k are rows apart in memory are packed together, a few k at a time: each page is
     * visited once and read along. */
    STRIDED_K = 16,
    STRIDED_PANELS = 8, /* panels of A */
    /* Packing an element takes as long as this number of products. */
    PACK_A_COST = 12,
    PACK_B_COST = 32,
    MOST_VISITS = 64,
};

typedef struct vector_plan {
    const tess_gemm_fused *f;
    const tess_gemm *g; /* the first of the terms */
    const gemm_engine *e;
    int64_t row_parts, column_parts;
    int64_t part_rows, part_columns;
    int64_t row_block, column_block, k_block, group_rows, chunk_columns; /* multiples of tiles */
    int64_t n_ahead;                                                     /* addresses of gemm_tile.ahead */
    /* K as it is walked, in whole packed elements: all of it, and a leaf of it (all, where there are none). */
    tess_gemm terms[1 + TESS_GEMM_TERMS];
    int n_terms;
    int64_t turn; /* k of a term that are walked before the next term has its turn */
    int64_t depth, leaf, n_leaves;
    int n_levels;
    int64_t level_elements;
    bool few_rows;  /* the part has at most FEW_ROWS rows, which are one group */
    bool one_group; /* a block has one group of rows */
    bool sums_in_c; /* else in work space */
    char *work;     /* per part: packed A, packed B, sums, those of one tile, addresses */
    size_t work_bytes, a_bytes, b_bytes, sum_bytes, near_bytes;
} vector_plan;

/* The part of a leaf in a block. */
typedef struct leaf_visit {
    int64_t leaf, k; /* packed */
    size_t a, b;     /* bytes from the panels' beginnings */
    int64_t ahead;   /* index of the first of the block's addresses */
    int level;       /* the level of its sums */
    uint64_t before; /* a bit for each level that is added as it ends */
    bool add;        /* the sums are added to those that are there */
} leaf_visit;

/* A block of rows, columns and k, and where its things are. */
typedef struct vector_block {
    int64_t i, j, k, rows, columns, depth;
    int64_t chunk, chunk_columns; /* columns that are packed: the first of them, counted from the block's first */
    char *a, *b;                  /* packed */
    leaf_visit visits[MOST_VISITS];
    int n_visits;
    uint64_t levels;                 /* a bit for each that the visits find or leave; the others are in `near` */
    float *sums;                     /* level 0: C, or tiles that follow each other */
    float *near;                     /* level 0 of one tile, contiguous */
    const void **ahead, **ahead_end; /* gemm_tile.ahead */
    int64_t line_bytes;              /* bytes of a packed row of A, or column of B */
} vector_block;

/* Neighbouring k of one term in a block. */
typedef struct term_run {
    const tess_gemm *term;
    int64_t k, n;
} term_run;

/* A walk over the lines of a rectangle of memory. */
typedef struct line_walk {
    const char *row;
    size_t row_bytes;
    int64_t rows, row_lines; /* rows that are left */
    int64_t line;            /* index in the row */
} line_walk;

static int64_t packed_k(const vector_plan *p, int64_t k)
{
    return divide_up(k, p->e->k_step);
}

static size_t panel_bytes(const vector_plan *p, int64_t k, int64_t tile_size)
{
    return (size_t)(packed_k(p, k) * tile_size) * sizeof(float);
}

static int64_t whole_packed(const vector_plan *p, int64_t k)
{
    return packed_k(p, k) * p->e->k_step;
}

/* The run that begins at k, at most n long. */
static term_run run_at(const vector_plan *p, int64_t k, int64_t n)
{
    int64_t round = p->n_terms * whole_packed(p, p->turn), first = k / round * p->turn, in = k % round;
    int64_t turn = min64(p->turn, p->g->k - first), width = whole_packed(p, turn), skipped = in % width;
    return (term_run){&p->terms[in / width], first + skipped, min64(turn - skipped, n)};
}

/* The depth of the block that begins at k. It has whole leaves, or is in one. */
static int64_t depth_at(const vector_plan *p, int64_t k)
{
    int64_t span = max64(p->leaf, p->k_block);
    return min64(min64(p->k_block, span - k % span), p->depth - k);
}

/* The level in which a leaf adds up. */
static int level_of(int64_t leaf)
{
    return __builtin_ctzll(~(uint64_t)leaf);
}

/* A bit for each level that a leaf takes with it: those below its own, and the last one all that are left. */
static uint64_t levels_before(const vector_plan *p, int64_t leaf)
{
    return leaf + 1 == p->n_leaves ? (uint64_t)leaf : (UINT64_C(1) << level_of(leaf)) - 1;
}

/* Levels that live longer than the block: those that hold sums before or after its leaves. A part of a leaf uses one
 * that lives longer, and C is not near. */
static uint64_t lasting_levels(const vector_plan *p, const vector_block *b)
{
    int64_t first = b->k / p->leaf, last = b->visits[b->n_visits - 1].leaf;
    bool whole = b->k % p->leaf == 0 && (b->k + b->depth) % p->leaf == 0, ends = b->k + b->depth == p->depth;
    if (p->sums_in_c || !(whole || (ends && b->k % p->leaf == 0)))
        return UINT64_MAX;
    return (uint64_t)first | (ends ? 0 : (uint64_t)last + 1);
}

/* Sets the visits of the block, which has one though it has no k, and the levels that they need. */
static void list_visits(const vector_plan *p, vector_block *b)
{
    const gemm_engine *e = p->e;
    int64_t at = 0;
    b->n_visits = 0;
    b->levels = 0;
    do {
        int64_t leaf = (b->k + at) / p->leaf, begin = leaf * p->leaf, end = min64(begin + p->leaf, p->depth);
        int64_t n = min64(end - b->k, b->depth) - at;
        bool ends = b->k + at + n == end;
        leaf_visit *v = &b->visits[b->n_visits++];
        *v = (leaf_visit){.leaf = leaf,
                          .k = packed_k(p, n),
                          .a = panel_bytes(p, at, e->tile_rows),
                          .b = panel_bytes(p, at, e->tile_columns),
                          .ahead = packed_k(p, at) / GEMM_AHEAD_STEP,
                          .level = level_of(leaf),
                          .before = ends ? levels_before(p, leaf) : 0,
                          .add = b->k + at > begin || p->g->accumulate};
        b->levels |= UINT64_C(1) << v->level | v->before;
        at += n;
    } while (at < b->depth);
    b->levels &= lasting_levels(p, b);
}

/* The chunk's columns. */
static void pack_b(const vector_plan *p, const vector_block *b)
{
    const gemm_engine *e = p->e;
    int64_t first = b->j + b->chunk;
    for (int64_t at = 0; at < b->depth;) {
        term_run x = run_at(p, b->k + at, b->depth - at);
        int64_t chunk = p->g->trans_b ? x.n : STRIDED_K;
        for (int64_t k = 0; k < x.n; k += chunk) {
            char *to = b->b + panel_bytes(p, at + k, e->tile_columns);
            for (int64_t j = 0; j < b->chunk_columns; j += e->tile_columns)
                e->pack_b(x.term, first + j, min64(e->tile_columns, b->chunk_columns - j), x.k + k,
                          min64(chunk, x.n - k), to + j * b->line_bytes);
        }
        at += whole_packed(p, x.n);
    }
}

/* `rows` rows from the block's row i. */
static void pack_a(const vector_plan *p, const vector_block *b, int64_t i, int64_t rows)
{
    const gemm_engine *e = p->e;
    for (int64_t at = 0; at < b->depth;) {
        term_run x = run_at(p, b->k + at, b->depth - at);
        int64_t chunk = p->g->trans_a ? STRIDED_K : x.n;
        for (int64_t k = 0; k < x.n; k += chunk) {
            char *to = b->a + panel_bytes(p, at + k, e->tile_rows);
            for (int64_t r = 0; r < rows; r += e->tile_rows)
                e->pack_a(x.term, b->i + i + r, min64(e->tile_rows, rows - r), x.k + k, min64(chunk, x.n - k),
                          to + r * b->line_bytes);
        }
        at += whole_packed(p, x.n);
    }
}

/* The lines of `rows` rows of x and of `columns` of their columns. */
static line_walk lines_of(const void *x, size_t size, int64_t ld, int64_t row, int64_t rows, int64_t column,
                          int64_t columns)
{
    return (line_walk){.row = (const char *)x + (size_t)(row * ld + column) * size,
                       .row_bytes = (size_t)ld * size,
                       .rows = rows,
                       .row_lines = divide_up(columns * (int64_t)size, LINE_BYTES)};
}

/* The lines that pack_a reads first for the group of rows from the block's row i. */
static line_walk lines_of_a(const vector_plan *p, const vector_block *b, int64_t i)
{
    size_t size = tess_dtype_size(p->g->ab_dtype);
    int64_t rows = min64(p->group_rows, b->rows - i), row = b->i + i;
    if (rows <= 0 || b->depth == 0)
        return (line_walk){.rows = 0};
    term_run run = run_at(p, b->k, b->depth);
    const tess_gemm *g = run.term;
    return g->trans_a ? lines_of(g->a, size, g->lda, run.k, run.n, row, rows)
                      : lines_of(g->a, size, g->lda, row, rows, run.k, run.n);
}

/* The lines that pack_b reads first for the chunk after the block's present one. */
static line_walk lines_of_b(const vector_plan *p, const vector_block *b)
{
    size_t size = tess_dtype_size(p->g->ab_dtype);
    int64_t chunk = b->chunk + b->chunk_columns, k = b->k;
    if (chunk >= b->columns) {
        chunk = 0;
        k += b->depth;
    }
    if (k >= p->depth)
        return (line_walk){.rows = 0};
    int64_t first = b->j + chunk, columns = min64(p->chunk_columns, b->columns - chunk);
    term_run run = run_at(p, k, depth_at(p, k));
    const tess_gemm *g = run.term;
    return g->trans_b ? lines_of(g->b, size, g->ldb, first, columns, run.k, run.n)
                      : lines_of(g->b, size, g->ldb, run.k, run.n, first, columns);
}

/* The tile of sums at (i, j) of the block, in a level. */
static gemm_sums sums_at(const vector_plan *p, const vector_block *b, int level, int64_t i, int64_t j)
{
    const gemm_engine *e = p->e;
    int64_t tile = e->tile_rows * e->tile_columns;
    if ((b->levels >> level & 1) == 0)
        return (gemm_sums){b->near + level * tile, e->tile_columns};
    if (p->sums_in_c)
        return (gemm_sums){b->sums + i * p->g->ldc + j, p->g->ldc};
    return (gemm_sums){b->sums + level * p->level_elements + i * p->column_block + j * e->tile_rows, e->tile_columns};
}

/* Lists the lines of the tile of sums at (i, j) of the block, in a level. */
static const void **list_sums(const vector_plan *p, const vector_block *b, int level, int64_t i, int64_t j,
                              const void **list)
{
    gemm_sums sums = sums_at(p, b, level, i, j);
    int64_t rows = min64(p->e->tile_rows, b->rows - i);
    int64_t row_lines = p->e->tile_columns * (int64_t)sizeof(float) / LINE_BYTES;
    for (int64_t r = 0; r < rows && list + row_lines <= b->ahead_end; r++, sums.at += sums.stride)
        for (int64_t line = 0; line < row_lines; line++)
            *list++ = (const char *)sums.at + line * LINE_BYTES;
    return list;
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

/* Lists the addresses to prefetch during a tile: the sums of the next one, at (i, j) of the block, and `n` lines of
 * what is packed next. Addresses of earlier tiles, which are in the cache, follow them. */
static void list_ahead(const vector_plan *p, const vector_block *b, int64_t i, int64_t j, line_walk *packed_next,
                       int64_t n)
{
    const void **rest = b->ahead;
    for (uint64_t levels = b->levels; levels != 0; levels &= levels - 1)
        rest = list_sums(p, b, __builtin_ctzll(levels), i, j, rest);
    list_lines(packed_next, n, rest, b->ahead_end);
}

/* If rows are few, spreads the prefetch of what is packed next over the tiles. Tile number n reads a run of pairs of
 * lines, along the longer side of the rectangle. Two lines that are neighbours in memory are read together: apart, each
 * would have to open the same row of memory. */
static void prefetch_run(const vector_plan *p, const vector_block *b, const line_walk *x, int64_t n, gemm_tile *tile)
{
    int64_t each = packed_k(p, b->depth) / p->e->next_every, first = n * each;
    const int64_t pitch = (int64_t)x->row_bytes;
    tile->next = (const char *)b->ahead;
    tile->next_step = tile->next_pair = 0;
    if (!p->few_rows || 2 * first >= x->rows * x->row_lines)
        return;
    if (x->row_lines >= x->rows) {
        tile->next = x->row + 2 * first / x->row_lines * pitch + 2 * first % x->row_lines * LINE_BYTES;
        tile->next_pair = LINE_BYTES;
        tile->next_step = 2 * LINE_BYTES;
    } else if (x->row_lines == 1) {
        tile->next = x->row + 2 * first * pitch;
        tile->next_pair = pitch;
        tile->next_step = 2 * pitch;
    } else {
        tile->next = x->row + first % x->rows * pitch + first / x->rows * 2 * LINE_BYTES;
        tile->next_pair = LINE_BYTES;
        tile->next_step = pitch;
    }
}

/* The tile at (i, j) of the block, whose size and panels `tile` has. */
static void multiply_tile(const vector_plan *p, const vector_block *b, int64_t i, int64_t j, gemm_tile tile)
{
    const gemm_engine *e = p->e;
    gemm_sums before[64], to;
    const char *panel_a = tile.a, *panel_b = tile.b;
    tile.before = before;
    for (const leaf_visit *v = b->visits; v < b->visits + b->n_visits; v++) {
        tile.a = panel_a + v->a;
        tile.b = panel_b + v->b;
        tile.k = v->k;
        tile.ahead = b->ahead + v->ahead;
        to = sums_at(p, b, v->level, i, j);
        tile.c = to.at;
        tile.ldc = to.stride;
        tile.add = v->add;
        tile.n_before = 0;
        for (uint64_t levels = v->before; levels != 0; levels &= levels - 1)
            before[tile.n_before++] = sums_at(p, b, __builtin_ctzll(levels), i, j);
        e->multiply(&tile);
    }
    if (b->k + b->depth == p->depth && (p->g->bias != NULL || !p->sums_in_c))
        e->finish(p->g, b->i + i, b->j + j, tile.rows, tile.columns, tile.c, tile.ldc);
}

/* Moves (i, j) to the next tile in the group of rows [begin, end) and the chunk. */
static inline void move_on(const vector_plan *p, const vector_block *b, int64_t begin, int64_t end, int64_t *i,
                           int64_t *j)
{
    if (p->e->a_block_rows > 0) {
        *i += p->e->tile_rows;
        if (*i < end)
            return;
        *i = begin;
        *j += p->e->tile_columns;
        return;
    }
    *j += p->e->tile_columns;
    if (*j < b->chunk + b->chunk_columns)
        return;
    *j = b->chunk;
    *i += p->e->tile_rows;
}

/* The group of the block's rows from `begin`, and the chunk. */
static void multiply_group(const vector_plan *p, const vector_block *b, int64_t begin)
{
    const gemm_engine *e = p->e;
    int64_t end = min64(begin + p->group_rows, b->rows), chunk_end = b->chunk + b->chunk_columns;
    int64_t n_tiles = divide_up(end - begin, e->tile_rows) * divide_up(b->chunk_columns, e->tile_columns);
    line_walk packed_next = p->one_group ? lines_of_b(p, b) : lines_of_a(p, b, end);
    int64_t lines_per_tile = p->few_rows ? 0 : divide_up(packed_next.rows * packed_next.row_lines, n_tiles);
    int64_t next_i = begin, next_j = b->chunk, number = 0;
    for (; n_tiles > 0; n_tiles--) {
        int64_t i = next_i, j = next_j;
        gemm_tile tile = {.a = b->a + (i - begin) * b->line_bytes,
                          .b = b->b + (j - b->chunk) * b->line_bytes,
                          .rows = min64(e->tile_rows, end - i),
                          .columns = min64(e->tile_columns, chunk_end - j)};
        move_on(p, b, begin, end, &next_i, &next_j);
        list_ahead(p, b, next_i, next_j, &packed_next, lines_per_tile);
        prefetch_run(p, b, &packed_next, number++, &tile);
        multiply_tile(p, b, i, j, tile);
    }
    if (p->f->then != TESS_THEN_NOTHING && b->k + b->depth == p->depth)
        e->follow(p->f, b->i + begin, b->j + b->chunk, end - begin, b->chunk_columns);
}

/* The block's rows and columns for all k. */
static void multiply_block(const vector_plan *p, vector_block *b)
{
    b->k = 0;
    do {
        b->depth = depth_at(p, b->k);
        b->line_bytes = (int64_t)panel_bytes(p, b->depth, 1);
        b->ahead_end = b->ahead + divide_up(packed_k(p, b->depth), GEMM_AHEAD_STEP);
        list_visits(p, b);
        if (p->one_group)
            pack_a(p, b, 0, b->rows);
        for (b->chunk = 0; b->chunk < b->columns; b->chunk += p->chunk_columns) {
            b->chunk_columns = min64(p->chunk_columns, b->columns - b->chunk);
            pack_b(p, b);
            for (int64_t i = 0; i < b->rows; i += p->group_rows) {
                if (!p->one_group)
                    pack_a(p, b, i, min64(p->group_rows, b->rows - i));
                multiply_group(p, b, i);
            }
        }
        b->k += b->depth;
    } while (b->k < p->depth);
}

static void multiply_part(const vector_plan *p, int64_t part)
{
    const tess_gemm *g = p->g;
    int64_t row = part / p->column_parts * p->part_rows, row_end = min64(row + p->part_rows, g->m);
    int64_t column = part % p->column_parts * p->part_columns, column_end = min64(column + p->part_columns, g->n);
    vector_block b = {.a = p->work + (size_t)part * p->work_bytes};
    b.b = b.a + p->a_bytes;
    float *sums = (float *)(b.b + p->b_bytes);
    b.near = (float *)((char *)sums + p->sum_bytes);
    b.ahead = (const void **)((char *)b.near + p->near_bytes);
    for (int64_t n = 0; n < p->n_ahead; n++)
        b.ahead[n] = b.ahead;
    for (b.j = column; b.j < column_end; b.j += p->column_block) {
        b.columns = min64(p->column_block, column_end - b.j);
        for (b.i = row; b.i < row_end; b.i += p->row_block) {
            b.rows = min64(p->row_block, row_end - b.i);
            b.sums = p->sums_in_c ? (float *)g->c + b.i * g->ldc + b.j : sums;
            multiply_block(p, &b);
        }
    }
}

static void multiply_parts(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
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

/* The K that is walked. */
static void plan_depth(vector_plan *p, const tess_gemm_fused *f)
{
    int64_t k = f->g.k, leaf = f->g.leaf > 0 ? min64(f->g.leaf, k) : k;
    p->g = p->terms;
    p->n_terms = 1 + f->n_terms;
    for (int i = 0; i < p->n_terms; i++) {
        p->terms[i] = f->g;
        if (f->then == TESS_THEN_ACT_BACKWARD)
            p->terms[i].c = f->y;
        if (i > 0) {
            p->terms[i].a = f->terms[i - 1].a;
            p->terms[i].lda = f->terms[i - 1].lda;
            p->terms[i].b = f->terms[i - 1].b;
            p->terms[i].ldb = f->terms[i - 1].ldb;
        }
    }
    p->turn = p->n_terms == 1 ? k : leaf;
    p->n_leaves = leaf > 0 ? divide_up(k, leaf) : 1;
    p->leaf = max64(1, p->n_terms * whole_packed(p, leaf));
    p->depth = p->n_terms * (leaf > 0 ? k / leaf * whole_packed(p, leaf) + whole_packed(p, k % leaf) : 0);
    p->n_levels = 64 - __builtin_clzll((uint64_t)p->n_leaves);
}

/* Packed k of a block: as many whole leaves as the engine wants, of which a power of two leave one sum, or an equal
 * part of one. */
static int64_t block_depth(const vector_plan *p)
{
    int64_t leaf = packed_k(p, p->n_leaves > 1 ? p->leaf : p->depth);
    int64_t most = p->few_rows ? FEW_ROWS_K : p->e->k_block;
    if (p->n_leaves == 1 || 2 * leaf > most)
        return equal_blocks(leaf, most, STRIDED_K);
    return (INT64_C(1) << (63 - __builtin_clzll((uint64_t)min64(min64(most / leaf, MOST_VISITS), p->n_leaves)))) * leaf;
}

/* Most columns that are packed together, where the rows are one group. */
static int64_t chunk_columns(const vector_plan *p)
{
    if (p->g->trans_b)
        return p->e->tile_columns;
    return p->few_rows ? FEW_ROWS_LINES * LINE_BYTES / (int64_t)tess_dtype_size(p->g->ab_dtype) : CHUNK_COLUMNS;
}

static void plan_blocks(vector_plan *p)
{
    const tess_gemm *g = p->g;
    const gemm_engine *e = p->e;
    p->few_rows = p->part_rows <= FEW_ROWS && !g->trans_a && p->n_leaves == 1;
    int64_t depth = block_depth(p);
    int64_t most_columns = (int64_t)(e->b_block_bytes / sizeof(float)) / depth;
    p->k_block = depth * e->k_step;
    p->n_ahead = divide_up(depth, GEMM_AHEAD_STEP);
    p->sums_in_c = g->c_dtype == TESS_F32 && p->n_leaves == 1;
    p->row_block = p->sums_in_c ? p->part_rows : equal_blocks(p->part_rows, ROW_BLOCK, e->tile_rows);
    if (p->few_rows)
        p->group_rows = p->row_block;
    else if (e->a_block_rows > 0)
        p->group_rows = equal_blocks(p->row_block, e->a_block_rows, e->tile_rows);
    else
        p->group_rows = g->trans_a ? min64(p->row_block, STRIDED_PANELS * e->tile_rows) : e->tile_rows;
    p->one_group = p->group_rows == p->row_block;
    if (!p->sums_in_c)
        most_columns = min64(most_columns, GEMM_SUM_BYTES / (int64_t)sizeof(float) / p->row_block / p->n_levels);
    p->column_block = equal_blocks(p->part_columns, most_columns, e->tile_columns);
    /* A panel of B is used while it is in L1, unless its rows would lie too far apart. */
    p->chunk_columns = p->column_block;
    if (p->one_group)
        p->chunk_columns = equal_blocks(p->column_block, chunk_columns(p), e->tile_columns);

    p->a_bytes = whole_lines(p->group_rows * depth, sizeof(float));
    p->b_bytes = whole_lines(p->chunk_columns * depth, sizeof(float));
    p->level_elements = p->sums_in_c ? 0 : p->row_block * p->column_block;
    p->sum_bytes = (size_t)p->n_levels * whole_lines(p->level_elements, sizeof(float));
    p->near_bytes = whole_lines(p->n_levels * e->tile_rows * e->tile_columns, sizeof(float));
    p->work_bytes =
        p->a_bytes + p->b_bytes + p->sum_bytes + p->near_bytes + whole_lines(p->n_ahead, sizeof(const void *));
}

/* Plans a part for each thread of the stream, or one if the product is small or s is NULL. Returns their number. */
static int64_t plan(vector_plan *p, const tess_gemm_fused *f, const gemm_engine *e, tess_stream *s)
{
    *p = (vector_plan){.f = f, .e = e};
    plan_depth(p, f);
    bool parallel = s != NULL && 2.0 * (double)f->g.m * (double)f->g.n * (double)p->depth > e->parallel_flops;
    int64_t n_parts = parallel ? tess_threads_count(s->threads) : 1;
    plan_parts(p, n_parts);
    plan_blocks(p);
    return n_parts;
}

bool tess_gemm_vector_takes(const tess_gemm_fused *f)
{
    for (int i = 0; i < f->n_terms; i++)
        if (f->terms[i].k != f->g.k)
            return false;
    return f->then != TESS_THEN_ACT_BACKWARD || f->y != NULL;
}

size_t tess_gemm_vector_part_bytes(const tess_gemm_fused *f, const gemm_engine *e)
{
    vector_plan p;
    plan(&p, f, e, NULL);
    return p.work_bytes;
}

void tess_gemm_vector_part(const tess_gemm_fused *f, const gemm_engine *e, void *work)
{
    vector_plan p;
    plan(&p, f, e, NULL);
    p.work = work;
    multiply_part(&p, 0);
}

static tess_status multiply(tess_stream *s, const tess_gemm_fused *f, const gemm_engine *e)
{
    vector_plan p;
    if (f->g.m == 0 || f->g.n == 0)
        return TESS_OK;
    int64_t n_parts = plan(&p, f, e, s);
    void *scratch;
    TESS_TRY_CTX(tess_stream_scratch(s, p.work_bytes * (size_t)n_parts, &scratch), "gemm");
    p.work = scratch;
    tess_threads_run(s->threads, multiply_parts, &p, n_parts, 1);
    return TESS_OK;
}

tess_status tess_gemm_vector(tess_stream *s, const tess_gemm *g, const gemm_engine *e)
{
    TESS_TRY(tess_gemm_check(g));
    return multiply(s, &(tess_gemm_fused){.g = *g}, e);
}

tess_status tess_gemm_fused_vector(tess_stream *s, const tess_gemm_fused *f, const gemm_engine *e)
{
    if (!tess_gemm_vector_takes(f))
        return tess_gemm_fused_by_rows(s, f);
    TESS_TRY(tess_gemm_fused_check(f));
    return multiply(s, f, e);
}
