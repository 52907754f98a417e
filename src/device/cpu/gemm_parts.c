/* Groups of products as one job. Their costs lie end to end on a line, which is cut in equal shares, one a thread. A
 * share has parts of products: whole columns of tiles or, of products that are higher than wide, whole rows of tiles.
 * Threads share nothing, so they do not wait for each other. An element of C does not depend on the parts. */
#include <math.h>

#include "device/cpu/gemm_impl.h"
#include "device/cpu/sizes.h"

enum {
    EXTRA_K = 32,           /* the cost of writing C, counted in k */
    EXTRA_LINES = 64,       /* the cost of reading the other operand, counted in rows or columns of a part */
    PACKED_BYTES = 3 << 19, /* the most work space for packed A, and for packed B, of a part */
    ROOM_UNIT = 64,         /* the largest unit to which sizes of parts are rounded up */
    LINE = 64,
    FEW_ROWS_FLOATS = 72000 /* sums of a part with few rows */
};

typedef struct grouped_job {
    const tess_gemm_grouped *x;
    const gemm_parts *parts;
    int64_t n_shares;
    double cost; /* the sum over all products */
    char *work;  /* NULL: the job is only measured */
    size_t work_bytes;
} grouped_job;

/* How a product is cut: in units of a row or a column of tiles. */
typedef struct product_cut {
    bool by_rows;
    int64_t n_units;
    double cost; /* the cost of one unit */
} product_cut;

/* Returns the k of all terms. */
static int64_t whole_k(const tess_gemm_fused *f)
{
    int64_t k = f->g.k;
    for (int i = 0; i < f->n_terms; i++)
        k += f->terms[i].k;
    return k;
}

static product_cut cut_of(const gemm_parts *parts, const tess_gemm_fused *f)
{
    const int64_t rows = divide_up(f->g.m, parts->tile_rows), columns = divide_up(f->g.n, parts->tile_columns);
    const bool by_rows = f->g.m > f->g.n;
    const double k = EXTRA_K + (double)whole_k(f);
    if (rows == 0 || columns == 0)
        return (product_cut){.n_units = 0};
    const double other = by_rows ? (double)(columns * parts->tile_columns) : (double)(rows * parts->tile_rows);
    return (product_cut){by_rows, by_rows ? rows : columns,
                         k * (other + EXTRA_LINES) * (double)(by_rows ? parts->tile_rows : parts->tile_columns)};
}

/* Returns the first unit at or after a position of the line. */
static int64_t first_unit(const product_cut *cut, double from)
{
    const double unit = ceil(from / cut->cost);
    return unit <= 0 ? 0 : unit >= (double)cut->n_units ? cut->n_units : (int64_t)unit;
}

static void *shift(const void *x, int64_t elements, tess_dtype dtype)
{
    return x != NULL ? (char *)(uintptr_t)x + elements * (int64_t)tess_dtype_size(dtype) : NULL;
}

/* Returns rows [i, i + rows) and columns [j, j + columns) of a product. */
static tess_gemm_fused part_of(const tess_gemm_fused *f, int64_t i, int64_t rows, int64_t j, int64_t columns)
{
    tess_gemm_fused part = *f;
    tess_gemm *g = &part.g;
    const int64_t at = i * g->ldc + j;
    g->m = rows;
    g->n = columns;
    g->a = shift(g->a, g->trans_a ? i : i * g->lda, g->ab_dtype);
    g->b = shift(g->b, g->trans_b ? j * g->ldb : j, g->ab_dtype);
    g->c = shift(g->c, at, g->c_dtype);
    g->bias = shift(g->bias, j, g->ab_dtype);
    for (int t = 0; t < f->n_terms; t++) {
        tess_gemm_term *term = &part.terms[t];
        term->a = shift(term->a, g->trans_a ? i : i * term->lda, g->ab_dtype);
        term->b = shift(term->b, g->trans_b ? j * term->ldb : j, g->ab_dtype);
    }
    part.gate = shift(part.gate, at, g->c_dtype);
    part.up = shift(part.up, at, g->c_dtype);
    part.y = shift(part.y, at, g->c_dtype);
    return part;
}

/* Computes these rows and columns, or returns the bytes that this needs. */
static size_t compute(const grouped_job *job, const tess_gemm_fused *f, int64_t i, int64_t rows, int64_t j,
                      int64_t columns, char *work)
{
    const int64_t tile = job->parts->tile_rows;
    const int64_t n_blocks = divide_up(rows, job->parts->most_rows / tile * tile);
    const int64_t block = divide_up(divide_up(rows, n_blocks), tile) * tile;
    size_t bytes = 0;
    for (int64_t r = 0; r < rows; r += block) {
        const tess_gemm_fused part = part_of(f, i + r, min64(block, rows - r), j, columns);
        const size_t needs = work == NULL ? job->parts->bytes(&part) : 0;
        bytes = needs > bytes ? needs : bytes;
        if (work != NULL)
            job->parts->multiply(&part, work);
    }
    return bytes;
}

/* Computes a share, or returns the most bytes that its parts need. */
static size_t walk_share(const grouped_job *job, int64_t share, char *work)
{
    const double begin = job->cost * (double)share / (double)job->n_shares;
    const double end = share + 1 < job->n_shares ? job->cost * (double)(share + 1) / (double)job->n_shares : INFINITY;
    double at = 0;
    size_t most = 0;
    for (const tess_gemm_fused *f = job->x->products; f < job->x->products + job->x->n_products; f++) {
        const product_cut cut = cut_of(job->parts, f);
        if (cut.n_units == 0)
            continue;
        const int64_t first = first_unit(&cut, begin - at), last = first_unit(&cut, end - at);
        at += cut.cost * (double)cut.n_units;
        if (first == last)
            continue;
        const int64_t tile = cut.by_rows ? job->parts->tile_rows : job->parts->tile_columns;
        const int64_t from = first * tile, n = min64(last * tile, cut.by_rows ? f->g.m : f->g.n) - from;
        const size_t bytes =
            cut.by_rows ? compute(job, f, from, n, 0, f->g.n, work) : compute(job, f, 0, f->g.m, from, n, work);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void run_shares(void *context, int64_t begin, int64_t end, int worker)
{
    const grouped_job *job = context;
    for (int64_t share = begin; share < end; share++)
        walk_share(job, share, job->work + (size_t)worker * job->work_bytes);
}

/* Returns at least n rounded up to any unit of at most ROOM_UNIT. */
static int64_t rounded(int64_t n)
{
    return divide_up(n + ROOM_UNIT - 1, ROOM_UNIT) * ROOM_UNIT;
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static size_t floats_within(int64_t rows, int64_t columns, size_t most)
{
    const double bytes = (double)rounded(rows) * (double)rounded(columns) * sizeof(float);
    return bytes < (double)most ? (size_t)bytes : most;
}

/* Returns the bytes that a part of such products needs at most, however the rows are distributed among them: so a
 * planner that does not know the tokens of an expert counts the same work space. Rows are m of most products, but k of
 * gradients of weights, which have no parts with few rows. */
static size_t room_of(const tess_gemm_grouped *x, const gemm_parts *parts)
{
    int64_t m = 0, n = 0, all_k = 0, longest = 0;
    for (const tess_gemm_fused *f = x->products; f < x->products + x->n_products; f++) {
        const int64_t k = whole_k(f);
        m += f->g.m;
        n = max64(n, f->g.n);
        all_k += k;
        longest = max64(longest, f->g.trans_a && !f->g.trans_b ? 0 : k);
    }
    const size_t few_rows = (size_t)rounded(longest) * parts->few_rows_bytes;
    const size_t tiles = floats_within(m, all_k, PACKED_BYTES) + floats_within(n, all_k, PACKED_BYTES) +
                         floats_within(m, n, parts->sum_bytes);
    return whole_lines((few_rows > tiles ? few_rows : tiles) + FEW_ROWS_FLOATS * sizeof(float));
}

tess_status tess_gemm_in_parts(tess_stream *s, const tess_gemm_grouped *x, const gemm_parts *parts)
{
    grouped_job job = {.x = x, .parts = parts, .n_shares = 1};
    double flops = 0;
    bool takes_all = true;
    TESS_TRY(tess_gemm_grouped_check(x));
    for (int64_t i = 0; i < x->n_products; i++) {
        const tess_gemm_fused *f = &x->products[i];
        takes_all = takes_all && parts->takes(f);
        const product_cut cut = cut_of(parts, f);
        job.cost += cut.cost * (double)cut.n_units;
        flops += 2 * (double)f->g.m * (double)f->g.n * (double)whole_k(f);
    }
    if (job.cost == 0)
        return TESS_OK;
    if (flops > parts->parallel_flops)
        job.n_shares = tess_threads_count(s->threads);
    job.work_bytes = room_of(x, parts);
    for (int64_t share = 0; takes_all && share < job.n_shares; share++) {
        const size_t bytes = whole_lines(walk_share(&job, share, NULL));
        job.work_bytes = bytes > job.work_bytes ? bytes : job.work_bytes;
    }
    void *scratch;
    TESS_TRY_CTX(tess_stream_scratch(s, job.work_bytes * (size_t)job.n_shares, &scratch), "gemm_grouped");
    if (!takes_all) /* the batches of rows are groups, and need at most this room */
        return tess_gemm_grouped_by_rows(s, x);
    job.work = scratch;
    tess_threads_run(s->threads, run_shares, &job, job.n_shares, 1);
    return TESS_OK;
}
