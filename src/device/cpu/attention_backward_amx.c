/* Attention backward in bf16 on AMX. A step handles 128 queries by 128 keys, with five products of tiles (Dao,
 * arXiv:2307.08691):
 *   S^T = K Q^T    dP^T = V dO^T    dV += P^T dO    dK += dS^T Q    dQ^T += K^T dS^T
 * with P^T = exp(scale S^T - lse) and dS^T = P^T (dP^T - delta), one query per lane; a soft cap multiplies by its
 * slope. P and dS are stored as bf16 when
 * they are computed: as rows of A tiles for dV and dK, and dS also in pairs of keys as B tiles for dQ. dK and dQ are
 * scaled at the end.
 *
 * L2 is the limit: loading a tile from it takes 21 cycles, and loading and storing a tile of sums takes 64, against 16
 * cycles for a TDPBF16PS. So sums run over 128 queries or keys between a load and a store. */
#include "device/cpu/attention_products_amx.h"
#include "device/cpu/attention_sinks_vec.h"
#include "device/cpu/attention_unit_amx.h"

#include "device/ref/ref_attention.h"
#include "device/stream_impl.h"

enum {
    QUADRANTS = STEPS * STEPS, /* quadrants of 32 keys by 32 queries */
    RUN = 4 /* number of key blocks whose gradients are summed before the next ones, so that they stay in L2 */
};

/* How much of a quadrant of 32 keys by 32 queries is visible. */
typedef enum quadrant { QUADRANT_NONE, QUADRANT_SOME, QUADRANT_ALL } quadrant;

static quadrant quadrant_of(const attention_unit *u, int64_t query, int64_t key)
{
    const int64_t last_query = min64(query + TILE_K, u->seq->q_len) - 1, last_key = key + TILE_K - 1;
    if (query > last_query || key >= u->n_keys || key > attention_last_seen(u, last_query) ||
        last_key < attention_first_seen(u, query))
        return QUADRANT_NONE;
    return last_key < u->n_keys && last_key <= attention_last_seen(u, query) &&
                   key >= attention_first_seen(u, last_query)
               ? QUADRANT_ALL
               : QUADRANT_SOME;
}

typedef struct scores {
    float s[4 * TILE_FLOATS], dp[4 * TILE_FLOATS]; /* C tiles of a quadrant (2 of keys by 2 of queries) */
} scores;

typedef struct backward_memory_amx {
    uint16_t p[PARTS * STEPS * TILE_BF16], ds[PARTS * STEPS * TILE_BF16]; /* A tiles (keys, steps of queries) */
    uint16_t ds_pairs[STEPS * PARTS * TILE_BF16];                         /* B tiles (steps of keys, queries) */
    scores scores[STEPS];                                                 /* scores of one row of quadrants */
    float nowhere[4 * TILE_FLOATS];
    char rest[]; /* dk and dv of RUN blocks as C tiles (PARTS, D / 16), then the list of products */
} backward_memory_amx;

/* The sums to compute: dk and dv of blocks, dq of tiles, or both. */
typedef enum sums { SUM_KEYS = 1, SUM_QUERIES = 2 } sums;

/* The range of steps, in order: query heads, tiles, blocks. */
typedef struct step_range {
    const attention_unit *u;
    int64_t rep_begin, rep_end, tile_begin, tile_end, block_begin, block_end;
    sums sums;
    backward_memory_amx *m;
} step_range;

typedef struct step {
    int64_t rep, tile, block;
    quadrant seen[QUADRANTS]; /* (keys, queries) how much of each quadrant is visible */
    query_tile_amx t;
    unit_layout k;
    float *dk, *dv;
} step;

static int64_t gradient_floats(const attention_unit *u)
{
    return BLOCK * padded_head(u->a);
}

static int64_t last_block(const step_range *r, int64_t tile)
{
    const int64_t query = min64((tile + 1) * BLOCK, r->u->seq->q_len) - 1, key = attention_last_seen(r->u, query);
    return key < 0 ? -1 : min64(r->block_end - 1, key / BLOCK);
}

static int64_t first_block(const step_range *r, int64_t tile)
{
    return max64(r->block_begin, attention_first_seen(r->u, tile * BLOCK) / BLOCK);
}

static void step_fill(const step_range *r, step *s)
{
    for (int i = 0; i < QUADRANTS; i++)
        s->seen[i] = quadrant_of(r->u, s->tile * BLOCK + i % STEPS * TILE_K, s->block * BLOCK + i / STEPS * TILE_K);
    s->t = query_tile_of(r->u, s->rep, s->tile);
    s->k = unit_layout_of(r->u, s->block);
    s->dk = (float *)r->m->rest + 2 * (s->block - r->block_begin) * gradient_floats(r->u);
    s->dv = s->dk + gradient_floats(r->u);
}

/* Moves to the step after s. False: there is none. */
static bool step_next(const step_range *r, step *s)
{
    s->block++;
    while (s->tile >= r->tile_end || s->block > last_block(r, s->tile)) {
        if (++s->tile >= r->tile_end) {
            if (++s->rep >= r->rep_end)
                return false;
            s->tile = r->tile_begin;
        }
        s->block = first_block(r, s->tile);
    }
    step_fill(r, s);
    return true;
}

/* Lists the products S^T = K Q^T and dP^T = V dO^T of a quadrant. */
static int64_t add_scores(const step *s, int i, int64_t ld, scores *to, product *list)
{
    const int64_t part = ld * TILE_ROWS, keys = i / STEPS * TILE_K * ld, queries = i % STEPS * TILE_K * ld;
    list[0] = (product){.a = s->k.k_rows + keys,
                        .b = s->t.q_columns + queries,
                        .a_pair = part,
                        .a_step = TILE_BF16,
                        .b_pair = part,
                        .b_step = TILE_BF16,
                        .n_steps = ld / TILE_K,
                        .c = to->s,
                        .c_row = 2 * TILE_FLOATS};
    list[1] = list[0];
    list[1].a = s->k.v_rows + keys;
    list[1].b = s->t.dout_columns + queries;
    list[1].c = to->dp;
    return 2;
}

/* Finds the visible quadrants among STEPS quadrants that are `apart` entries apart: *n of them, starting at *first. */
static void visible_steps(const quadrant *seen, int apart, int64_t *first, int64_t *n)
{
    *first = *n = 0;
    for (int i = STEPS - 1; i >= 0; i--)
        if (seen[i * apart] != QUADRANT_NONE) {
            *first = i;
            ++*n;
        }
}

/* Lists the products sum (PARTS, D / 16) += left (keys, queries) by pairs (queries, D). Unless sums have a value before
 * (`adds`), a block's first step is on the diagonal. */
static int64_t add_keys(const step *s, const uint16_t *left, const uint16_t *pairs, int64_t ld, bool adds, float *sum,
                        product *list)
{
    const int64_t columns = ld / TILE_ROWS, row = columns * TILE_FLOATS;
    int64_t n_products = 0;
    for (int kq = 0; kq < STEPS; kq++) {
        int64_t first, n;
        visible_steps(s->seen + kq * STEPS, 1, &first, &n);
        for (int64_t d = 0; d < columns && n > 0; d += 2)
            list[n_products++] = (product){.a = left + (2 * kq * STEPS + first) * TILE_BF16,
                                           .b = pairs + (first * columns + d) * TILE_BF16,
                                           .a_pair = STEPS * TILE_BF16,
                                           .a_step = TILE_BF16,
                                           .b_pair = TILE_BF16,
                                           .b_step = columns * TILE_BF16,
                                           .n_steps = n,
                                           .c = sum + 2 * kq * row + d * TILE_FLOATS,
                                           .c_row = row,
                                           .add = adds || s->rep > 0 || s->tile > s->block};
    }
    return n_products;
}

/* Lists the products dq (D / 16, PARTS) += K^T dS^T. */
static int64_t add_queries(const step_range *r, const step *s, int64_t ld, product *list)
{
    int64_t n_products = 0;
    for (int qq = 0; qq < STEPS; qq++) {
        const int64_t first_key = attention_first_key(r->u->a, s->tile * BLOCK + qq * TILE_K);
        int64_t first, n;
        visible_steps(s->seen + qq, STEPS, &first, &n);
        for (int64_t d = 0; d < ld / TILE_ROWS && n > 0; d += 2)
            list[n_products++] = (product){.a = s->k.k_turned + (d * STEPS + first) * TILE_BF16,
                                           .b = r->m->ds_pairs + (first * PARTS + 2 * qq) * TILE_BF16,
                                           .a_pair = STEPS * TILE_BF16,
                                           .a_step = TILE_BF16,
                                           .b_pair = TILE_BF16,
                                           .b_step = PARTS * TILE_BF16,
                                           .n_steps = n,
                                           .c = s->t.dq + (d * PARTS + 2 * qq) * TILE_FLOATS,
                                           .c_row = PARTS * TILE_FLOATS,
                                           .add = r->u->keeps_sums || s->block > first_key / BLOCK};
    }
    return n_products;
}

static int64_t add_gradients(const step_range *r, const step *s, int64_t ld, product *list)
{
    int64_t n = 0;
    if (r->sums & SUM_KEYS) {
        n += add_keys(s, r->m->p, s->t.dout_pairs, ld, r->u->keeps_sums, s->dv, list);
        n += add_keys(s, r->m->ds, s->t.q_pairs, ld, r->u->keeps_sums, s->dk, list + n);
    }
    if (r->sums & SUM_QUERIES)
        n += add_queries(r, s, ld, list + n);
    return n;
}

/* Computes P and dS of quadrant i, two keys by 32 queries at a time. In P and dS, queries that are 16 apart share a
 * dword; in the pairs, neighbouring keys do. */
static inline __attribute__((always_inline)) void softmax_rows(const step *s, int i, __m512 scale,
                                                               const lane_keys *keys, const tess_score_cap *cap,
                                                               backward_memory_amx *m)
{
    const int kq = i / STEPS, qq = i % STEPS;
    const scores *from = &m->scores[qq];
    const int64_t base = s->block * BLOCK + kq * TILE_K;
    __m512 lse[2], delta[2];
    for (int g = 0; g < 2; g++) {
        lse[g] = _mm512_load_ps(s->t.lse + qq * TILE_K + g * 16);
        delta[g] = _mm512_load_ps(s->t.delta + qq * TILE_K + g * 16);
    }
    for (int j = 0; j < TILE_K; j += 2) {
        const int half = j / TILE_ROWS, row = j % TILE_ROWS;
        __m512i p[2][2], ds[2][2];
        for (int k = 0; k < 2; k++)
            for (int g = 0; g < 2; g++) {
                const int64_t at = (half * 2 + g) * TILE_FLOATS + (row + k) * 16;
                __m512 score = _mm512_load_ps(from->s + at);
                if (cap != NULL)
                    score = v_soft_cap(score, cap->cap, cap->inverse);
                if (keys != NULL)
                    score = hide(score, &keys[g], base + j + k);
                const __m512 x = exp2_bf16(_mm512_fmsub_ps(score, scale, lse[g]));
                __m512 d = _mm512_mul_ps(x, _mm512_sub_ps(_mm512_load_ps(from->dp + at), delta[g]));
                if (cap != NULL)
                    d = _mm512_mul_ps(d, v_soft_cap_slope(score, cap->inverse));
                p[k][g] = round_bits(x);
                ds[k][g] = round_bits(d);
            }
        const int64_t to = ((2 * kq + half) * STEPS + qq) * TILE_BF16 + row * TILE_K;
        for (int k = 0; k < 2; k++) {
            _mm512_store_si512((void *)(m->p + to + k * TILE_K), pair_bits(p[k][0], p[k][1]));
            _mm512_store_si512((void *)(m->ds + to + k * TILE_K), pair_bits(ds[k][0], ds[k][1]));
        }
        for (int g = 0; g < 2; g++)
            _mm512_store_si512((void *)(m->ds_pairs + (kq * PARTS + 2 * qq + g) * TILE_BF16 + j / 2 * TILE_K),
                               pair_bits(ds[0][g], ds[1][g]));
    }
}

static void softmax_quadrant(const attention_unit *u, const step *s, int i, backward_memory_amx *m)
{
    const __m512 scale = _mm512_set1_ps(u->a->scale * 0x1.715476p+0f);
    const tess_score_cap cap = tess_score_cap_of(u->a);
    if (s->seen[i] == QUADRANT_ALL && cap.cap == 0) {
        softmax_rows(s, i, scale, NULL, NULL, m);
        return;
    }
    lane_keys keys[2];
    for (int g = 0; g < 2; g++) {
        int32_t first[16], last[16];
        for (int lane = 0; lane < 16; lane++) {
            const int64_t query = s->tile * BLOCK + i % STEPS * TILE_K + g * 16 + lane;
            first[lane] = (int32_t)attention_first_seen(u, query);
            last[lane] = query < u->seq->q_len ? (int32_t)min64(attention_last_seen(u, query), u->n_keys - 1) : -1;
        }
        keys[g] = (lane_keys){_mm512_loadu_si512(first), _mm512_loadu_si512(last)};
    }
    if (cap.cap == 0)
        softmax_rows(s, i, scale, keys, NULL, m);
    else
        softmax_rows(s, i, scale, keys, &cap, m);
}

static void run_list(product_stream *products, const product *list, int64_t n)
{
    products_begin(products, list, n, 1);
    products_finish(products);
}

/* Runs the steps of a range. Each step computes all P and dS, 32 keys at a time, and then its sums: long runs of
 * products keep the tile unit busy. */
static void run_steps(const step_range *r)
{
    const int64_t ld = padded_head(r->u->a);
    backward_memory_amx *m = r->m;
    product *list = (product *)((float *)m->rest + 2 * RUN * gradient_floats(r->u));
    product_stream products = products_none(m->nowhere);
    step s = {.rep = r->rep_begin, .tile = r->tile_begin, .block = first_block(r, r->tile_begin) - 1};
    while (step_next(r, &s)) {
        for (int row = 0; row < QUADRANTS; row += STEPS) {
            int64_t n = 0;
            for (int i = row; i < row + STEPS; i++)
                if (s.seen[i] != QUADRANT_NONE)
                    n += add_scores(&s, i, ld, &m->scores[i - row], list + n);
            run_list(&products, list, n);
            for (int i = row; i < row + STEPS; i++)
                if (s.seen[i] != QUADRANT_NONE)
                    softmax_quadrant(r->u, &s, i, m);
        }
        run_list(&products, list, add_gradients(r, &s, ld, list));
    }
}

static void key_blocks(const attention_unit *u, int64_t begin, int64_t end, bool with_dq, void *memory)
{
    for (int64_t first = begin; first < end; first += RUN) {
        const step_range r = {.u = u,
                              .rep_end = u->n_rep,
                              .tile_begin = max64(u->k_first + first * BLOCK - u->q_first, 0) / BLOCK,
                              .tile_end = u->n_tiles,
                              .block_begin = first,
                              .block_end = min64(first + RUN, end),
                              .sums = with_dq ? SUM_KEYS | SUM_QUERIES : SUM_KEYS,
                              .m = memory};
        for (int64_t block = first; u->keeps_sums && block < r.block_end; block++) {
            float *dk = (float *)r.m->rest + 2 * (block - first) * gradient_floats(u);
            tess_attention_load_keys_amx(u, block, dk, dk + gradient_floats(u));
        }
        run_steps(&r);
        for (int64_t block = first; block < r.block_end; block++) {
            const float *dk = (float *)r.m->rest + 2 * (block - first) * gradient_floats(u);
            tess_attention_write_keys_amx(u, block, dk, dk + gradient_floats(u));
        }
    }
}

static void query_tile_alone(const attention_unit *u, int64_t rep, int64_t tile, void *memory)
{
    const step_range r = {.u = u,
                          .rep_begin = rep,
                          .rep_end = rep + 1,
                          .tile_begin = tile,
                          .tile_end = tile + 1,
                          .block_end = u->n_blocks,
                          .sums = SUM_QUERIES,
                          .m = memory};
    run_steps(&r);
}

static tess_status backward(tess_stream *stream, const tess_attention_grad *g)
{
    const tess_attention *a = &g->forward;
    if (a->dtype != TESS_BF16)
        return tess_attention_backward_avx512(stream, g);
    TESS_TRY(tess_attention_check(a, g));
    const attention_backward_steps steps = {
        .tile_rows = BLOCK,
        .block_keys = BLOCK,
        .worker_bytes = sizeof(backward_memory_amx) + sizeof(float) * (size_t)(2 * RUN * BLOCK * padded_head(a)) +
                        attention_align(sizeof(product) * (size_t)(2 + 3 * STEPS * padded_head(a) / TILE_K)),
        .unit_bytes = unit_bytes,
        .enter = tess_tiles_enter,
        .leave = tess_tiles_leave,
        .pack_keys = tess_attention_pack_keys_amx,
        .pack_queries = tess_attention_pack_queries_amx,
        .key_blocks = key_blocks,
        .query_tile = query_tile_alone,
        .write_dq = tess_attention_write_dq_amx,
        .sinks = sink_gradients};
    return tess_attention_run_backward(stream, g, &steps);
}

void tess_kernels_amx_attention(tess_kernels *k)
{
    k->attention_forward = tess_attention_forward_amx;
    k->attention_backward = backward;
}
