/* Rows for float16, computed by the rows for float32. Inputs are widened first and results are rounded afterwards;
 * everything in between is float32. So float16 has the same bits on all tables, as float32 has. It saves memory, not
 * time: no arithmetic here is faster in float16, and each operand is converted when it is used. Most rows need no more
 * than their description (kernel_rows.h). They are computed in parts, which bounds the work space. */
#include "device/gemm_check.h"

#include <string.h>

#include "device/kernel_rows.h"
#include "device/stream_impl.h"

enum { ALIGNED = 16, PART = 1 << 20, FEWEST_COLUMNS = 64, MOST_ROOMS = 16 }; /* floats */

static const tess_kernels *plain(const tess_stream *s)
{
    return s->kernels->plain;
}

static int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Reserves work space for n arrays of size[i] floats. */
static tess_status open_room(tess_stream *s, int n, const int64_t *size, float **room)
{
    int64_t at[MOST_ROOMS + 1] = {0};
    void *block;
    for (int i = 0; i < n; i++)
        at[i + 1] = at[i] + (size[i] + ALIGNED - 1) / ALIGNED * ALIGNED;
    TESS_TRY_CTX(tess_stream_wide_scratch(s, (size_t)most_of(at[n], ALIGNED) * sizeof(float), &block), "float16");
    for (int i = 0; i < n; i++)
        room[i] = (float *)block + at[i];
    return TESS_OK;
}

static const uint16_t *half(const void *x, int64_t i)
{
    return (const uint16_t *)x + i;
}

static tess_status convert(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, int64_t n)
{
    return plain(s)->convert(s, &(tess_convert_args){.x = x, .from = from, .y = y, .to = to, .n = n});
}

/* widen converts rows of x, `stride` elements apart, to contiguous floats. The next function converts floats to such
 * rows. */
static tess_status widen(tess_stream *s, const void *x, int64_t stride, int64_t rows, int64_t columns, float *y)
{
    if (stride == columns)
        return convert(s, x, TESS_F16, y, TESS_F32, rows * columns);
    for (int64_t r = 0; r < rows; r++)
        TESS_TRY(convert(s, half(x, r * stride), TESS_F16, y + r * columns, TESS_F32, columns));
    return TESS_OK;
}

static tess_status narrow(tess_stream *s, const float *x, int64_t rows, int64_t columns, void *y, int64_t stride)
{
    if (stride == columns)
        return convert(s, x, TESS_F32, y, TESS_F16, rows * columns);
    for (int64_t r = 0; r < rows; r++)
        TESS_TRY(convert(s, x + r * columns, TESS_F32, (uint16_t *)y + r * stride, TESS_F16, columns));
    return TESS_OK;
}

/* ---- Any row ---- */
/* A call in float16, and the same call in float32, whose operands are in the stream's work space. */
typedef struct wide_call {
    tess_stream *s;
    const tess_kernel_row *row;
    tess_kernel_args half, wide;
    int64_t tokens; /* rows of attention's operands, which no member counts */
    int64_t keys;   /* rows of dk and dv */
    bool keeps;     /* results that the call does not write keep their values */
} wide_call;

typedef struct half_matrix {
    void *at;
    int64_t rows, columns, stride;
} half_matrix;

static bool is_backward(const tess_kernel_row *row)
{
    return row == tess_kernel_row_of(TESS_ROW_attention_backward);
}

/* Returns the number of rows of an operand of attention. */
static int64_t gathered_rows(const wide_call *c, const tess_operand *o)
{
    const bool of_keys = o->at == TESS_MEMBER(tess_attention_grad, dk) || o->at == TESS_MEMBER(tess_attention_grad, dv);
    return is_backward(c->row) && of_keys ? c->keys : c->tokens;
}

/* Returns whether operand i is in float16, and its memory and sizes. */
static bool find_half(const wide_call *c, int i, half_matrix *m)
{
    const tess_operand *o = &c->row->operands[i];
    *m = (half_matrix){.at = tess_operand_pointer(&c->half, o->at),
                       .rows = o->gathered ? gathered_rows(c, o) : tess_kernel_size_of(&c->half, o->rows),
                       .columns = tess_kernel_size_of(&c->half, o->columns),
                       .stride = tess_operand_stride(&c->half, o)};
    return m->at != NULL && o->dtype_of == c->row->dtype_of;
}

/* Makes the call in float32, with widened inputs. It also reserves `more` floats, and returns them. */
static tess_status open_call(wide_call *c, int64_t more, float **more_room)
{
    const tess_kernel_row *row = c->row;
    int64_t sizes[MOST_ROOMS] = {more};
    float *room[MOST_ROOMS];
    half_matrix m;
    for (int i = 0; i < row->n_operands; i++)
        sizes[i + 1] = find_half(c, i, &m) ? m.rows * m.columns : 0;
    TESS_TRY(open_room(c->s, row->n_operands + 1, sizes, room));
    *more_room = room[0];
    memcpy(&c->wide, &c->half, c->row->args_bytes);
    tess_kernel_set_dtype(&c->wide, row->dtype_of, TESS_F32);
    for (int i = 0; i < row->n_operands; i++) {
        const tess_operand *o = &row->operands[i];
        if (!find_half(c, i, &m))
            continue;
        tess_operand_point(&c->wide, o->at, room[i + 1]);
        if (o->stride != 0)
            tess_kernel_set_size(&c->wide, o->stride, m.columns);
        if (o->access & TESS_READS || c->keeps)
            TESS_TRY(widen(c->s, m.at, m.stride, m.rows, m.columns, room[i + 1]));
    }
    return TESS_OK;
}

/* Computes, and rounds the results. */
static tess_status run_call(const wide_call *c)
{
    half_matrix m;
    TESS_TRY(c->row->call(plain(c->s), c->s, &c->wide));
    for (int i = 0; i < c->row->n_operands; i++) {
        const tess_operand *o = &c->row->operands[i];
        if (find_half(c, i, &m) && o->access & TESS_WRITES)
            TESS_TRY(narrow(c->s, tess_operand_pointer(&c->wide, o->at), m.rows, m.columns, m.at, m.stride));
    }
    return TESS_OK;
}

static bool by_items(const tess_kernel_row *row, const tess_operand *o)
{
    return row->items != 0 && o->rows.of[0] == row->items;
}

/* Returns how many items a part has. If a result depends on several items, there is one part. */
static int64_t items_of_part(const tess_kernel_row *row, const void *args)
{
    int64_t columns = 1;
    for (int i = 0; i < row->n_operands; i++) {
        const tess_operand *o = &row->operands[i];
        if (tess_operand_pointer(args, o->at) == NULL)
            continue;
        if (by_items(row, o))
            columns = most_of(columns, tess_kernel_size_of(args, o->columns));
        else if (o->rows.of[0] != 0 || o->access != TESS_READS)
            return INT64_MAX;
    }
    return most_of(PART / columns, 1);
}

/* Makes `part` the call for n items, beginning with item `begin`. */
static void take_items(const tess_kernel_row *row, const void *args, int64_t begin, int64_t n, void *part)
{
    memcpy(part, args, row->args_bytes);
    for (int i = 0; i < row->n_operands; i++) {
        const tess_operand *o = &row->operands[i];
        char *at = tess_operand_pointer(args, o->at);
        size_t element = tess_dtype_size(tess_operand_dtype(args, o));
        if (at != NULL && by_items(row, o) && !o->gathered)
            tess_operand_point(part, o->at, at + (size_t)(begin * tess_operand_stride(args, o)) * element);
    }
    if (row->items != 0)
        tess_kernel_set_size(part, row->items, n);
}

/* Results may overwrite operands: each part has been read before its results are rounded. */
static tess_status by_description(tess_stream *s, const tess_kernel_row *row, const void *args)
{
    wide_call c = {.s = s, .row = row};
    float *none;
    int64_t begin = 0, all = tess_kernel_size_of(args, (tess_kernel_size){.of = {row->items}});
    int64_t n = least_of(items_of_part(row, args), all);
    do {
        take_items(row, args, begin, least_of(n, all - begin), &c.half);
        TESS_TRY(open_call(&c, 0, &none));
        TESS_TRY(run_call(&c));
        begin += n;
    } while (begin < all);
    return TESS_OK;
}

/* ---- Products ---- */
/* Computes columns [j, j + n) of C. wide: A, and work space for B, the bias and C. */
static tess_status gemm_columns(tess_stream *s, const tess_gemm *g, int64_t j, int64_t n, float *const *wide)
{
    tess_gemm w = *g;
    bool narrows = g->c_dtype == TESS_F16;
    w.n = n;
    w.a = wide[0];
    w.lda = g->trans_a ? g->m : g->k;
    w.b = wide[1];
    w.ldb = g->trans_b ? g->k : n;
    w.ab_dtype = w.c_dtype = TESS_F32;
    TESS_TRY(g->trans_b ? widen(s, half(g->b, j * g->ldb), g->ldb, n, g->k, wide[1])
                        : widen(s, half(g->b, j), g->ldb, g->k, n, wide[1]));
    if (g->bias != NULL) {
        w.bias = wide[2];
        TESS_TRY(widen(s, half(g->bias, j), n, 1, n, wide[2]));
    }
    w.c = narrows ? wide[3] : (float *)g->c + j;
    w.ldc = narrows ? n : g->ldc;
    TESS_TRY(plain(s)->gemm(s, &w));
    return narrows ? narrow(s, wide[3], g->m, n, (uint16_t *)g->c + j, g->ldc) : TESS_OK;
}

static tess_status gemm(tess_stream *s, TESS_UNUSED const tess_kernel_row *row, const void *args)
{
    const tess_gemm *g = args;
    TESS_TRY(tess_gemm_check(g));
    int64_t n = most_of(PART / most_of(g->k, 1) / FEWEST_COLUMNS, 1) * FEWEST_COLUMNS;
    n = n < g->n ? n : g->n;
    const int64_t sizes[] = {g->m * g->k, n * g->k, n, g->c_dtype == TESS_F16 ? g->m * n : 0};
    float *wide[4];
    TESS_TRY(open_room(s, 4, sizes, wide));
    TESS_TRY(g->trans_a ? widen(s, g->a, g->lda, g->k, g->m, wide[0]) : widen(s, g->a, g->lda, g->m, g->k, wide[0]));
    for (int64_t j = 0; j < g->n; j += n)
        TESS_TRY(gemm_columns(s, g, j, g->n - j < n ? g->n - j : n, wide));
    return TESS_OK;
}

static tess_status gemm_fused(tess_stream *s, TESS_UNUSED const tess_kernel_row *row, const void *args)
{
    return tess_gemm_fused_by_rows(s, args);
}

static tess_status gemm_grouped(tess_stream *s, TESS_UNUSED const tess_kernel_row *row, const void *args)
{
    return tess_gemm_grouped_by_rows(s, args);
}

/* ---- Attention ---- */
/* Returns how many keys of a sequence a call has. */
static int64_t keys_of(const tess_attention *a, const tess_attention_seq *s, tess_attention_wanted wanted)
{
    return wanted == TESS_ATTENTION_SINKS ? 0 : tess_attention_key_end(a, s) - (a->state != NULL ? s->k_begin : 0);
}

/* Widens the keys and values of all sequences, one after another, and describes them in seqs. */
static tess_status widen_keys(const wide_call *c, tess_attention_wanted wanted, int64_t columns, float *room,
                              tess_attention_seq *seqs)
{
    const tess_attention *a = &c->half.attention_forward;
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const tess_attention_seq *from = &a->seqs[i];
        const int64_t rows = keys_of(a, from, wanted);
        float *k = room, *v = k + rows * columns;
        room = v + rows * columns;
        seqs[i] = *from;
        seqs[i].k = k;
        seqs[i].v = v;
        TESS_TRY(widen(c->s, from->k, a->k_stride, rows, columns, k));
        TESS_TRY(widen(c->s, from->v, a->v_stride, rows, columns, v));
    }
    return TESS_OK;
}

/* Leaves out the operands that the kind of gradient does not need: they have other numbers of rows. */
static void leave_out(tess_attention_grad *g)
{
    if (g->wanted == TESS_ATTENTION_QUERIES || g->wanted == TESS_ATTENTION_SINKS)
        g->dk = g->dv = NULL;
    if (g->wanted == TESS_ATTENTION_KEYS || g->wanted == TESS_ATTENTION_SINKS) {
        g->dq = NULL;
        g->forward.out = NULL;
    }
    if (g->wanted == TESS_ATTENTION_SINKS)
        g->forward.q = g->dout = NULL;
}

/* The arguments of the backward pass begin with those of the forward pass. */
static tess_status attention(tess_stream *s, const tess_kernel_row *row, const void *args)
{
    const tess_attention *a = args;
    const tess_attention_grad *g = is_backward(row) ? args : NULL;
    const tess_attention_wanted wanted = g != NULL ? g->wanted : TESS_ATTENTION_ALL;
    wide_call c = {.s = s, .row = row, .keeps = a->state != NULL || (g != NULL && g->in_part)};
    tess_attention *wide = &c.wide.attention_forward;
    int64_t columns = a->n_kv_heads * a->head_size, floats = 0, covered = 0;
    const int64_t floats_of_seq = (int64_t)(sizeof(tess_attention_seq) / sizeof(float));
    float *room;
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const tess_attention_seq *seq = &a->seqs[i];
        TESS_CHECK(seq->pages == NULL, TESS_E_UNSUPPORTED,
                   "attention in float16: keys in pages, which generation has, are float32 or bfloat16");
        floats += 2 * keys_of(a, seq, wanted) * columns;
        covered += seq->q_len;
        c.tokens = most_of(c.tokens, seq->q_begin + seq->q_len);
        if (wanted == TESS_ATTENTION_KEYS)
            c.keys = most_of(c.keys, seq->k_row + seq->k_end - seq->k_begin);
    }
    c.keeps |= covered < c.tokens; /* rows of sequences that other calls compute */
    c.keys = wanted == TESS_ATTENTION_ALL ? c.tokens : c.keys;
    memcpy(&c.half, args, row->args_bytes);
    if (g != NULL)
        leave_out(&c.half.attention_backward);
    TESS_TRY(open_call(&c, floats + a->n_seqs * floats_of_seq, &room));
    tess_attention_seq *seqs = (void *)(room + floats);
    TESS_TRY(widen_keys(&c, wanted, columns, room, seqs));
    wide->seqs = seqs;
    wide->k_stride = wide->v_stride = columns;
    return run_call(&c);
}

/* ---- Other rows ---- */
/* The sum is rounded before it is normalised. */
static tess_status norm_forward(tess_stream *s, const tess_kernel_row *row, const void *args)
{
    tess_norm_args a = *(const tess_norm_args *)args;
    const tess_add_args sum = {
        .a = a.x, .b = a.residual, .y = a.h_out, .n = a.T * a.C, .factor = a.factor, .dtype = a.dtype};
    if (a.residual != NULL) {
        TESS_TRY(by_description(s, tess_kernel_row_of(TESS_ROW_add), &sum));
        a.x = a.h_out;
    }
    a.residual = a.h_out = NULL;
    return by_description(s, row, &a);
}

static tess_status gather(tess_stream *s, const tess_embedding_args *a, const void *table, const int32_t *index)
{
    return plain(s)->gather_rows(
        s, &(tess_gather_rows_args){
               .x = table, .index = index, .y = a->out, .n = a->T, .row_bytes = a->C * (int64_t)sizeof(uint16_t)});
}

static tess_status embedding_forward(tess_stream *s, TESS_UNUSED const tess_kernel_row *row, const void *args)
{
    const tess_embedding_args *a = args;
    int64_t n = a->T * a->C;
    float *wide[2];
    const tess_scale_args scale = {.x = a->out, .factor = a->factor, .y = a->out, .n = n, .dtype = a->dtype};
    if (a->positions == NULL) {
        TESS_TRY(gather(s, a, a->table, a->ids));
        return a->factor != 0 ? by_description(s, tess_kernel_row_of(TESS_ROW_scale), &scale) : TESS_OK;
    }
    TESS_TRY(open_room(s, 2, (int64_t[]){n, n}, wide));
    TESS_TRY(gather(s, a, a->positions, a->pos));
    TESS_TRY(widen(s, a->out, n, 1, n, wide[1]));
    TESS_TRY(gather(s, a, a->table, a->ids));
    TESS_TRY(widen(s, a->out, n, 1, n, wide[0]));
    TESS_TRY(plain(s)->add(
        s, &(tess_add_args){.a = wide[0], .b = wide[1], .y = wide[0], .n = n, .factor = a->factor, .dtype = TESS_F32}));
    return narrow(s, wide[0], 1, n, a->out, n);
}

static tess_status find_not_finite(tess_stream *s, const tess_kernel_row *row, const void *args)
{
    const tess_find_not_finite_args *a = args;
    *a->first = -1;
    for (int64_t i = 0; i < a->n && *a->first < 0; i += PART) {
        tess_find_not_finite_args part = *a;
        part.x = half(a->x, i);
        part.n = least_of(a->n - i, PART);
        TESS_TRY(by_description(s, row, &part));
        *a->first += *a->first >= 0 ? i : 0;
    }
    return TESS_OK;
}

/* The row itself takes float16, or refuses it. */
static tess_status itself(tess_stream *s, const tess_kernel_row *row, const void *args)
{
    return row->call(plain(s), s, args);
}

/* ---- The table ---- */
static tess_status call(tess_stream *s, tess_kernel_row_id id, const void *args)
{
    typedef tess_status (*way)(tess_stream * s, const tess_kernel_row *row, const void *args);
    static const way own_ways[TESS_KERNEL_ROW_COUNT] = {[TESS_ROW_gemm] = gemm,
                                                        [TESS_ROW_gemm_fused] = gemm_fused,
                                                        [TESS_ROW_gemm_grouped] = gemm_grouped,
                                                        [TESS_ROW_attention_forward] = attention,
                                                        [TESS_ROW_attention_backward] = attention,
                                                        [TESS_ROW_rmsnorm_forward] = norm_forward,
                                                        [TESS_ROW_layernorm_forward] = norm_forward,
                                                        [TESS_ROW_embedding_forward] = embedding_forward,
                                                        [TESS_ROW_find_not_finite] = find_not_finite,
                                                        [TESS_ROW_join_heads] = itself,
                                                        [TESS_ROW_sum_heads] = itself,
                                                        [TESS_ROW_combine_rows] = itself,
                                                        [TESS_ROW_combine_backward] = itself,
                                                        [TESS_ROW_round_fp8] = itself,
                                                        [TESS_ROW_fp8_encode] = itself,
                                                        [TESS_ROW_fp8_decode] = itself};
    const tess_kernel_row *row = tess_kernel_row_of(id);
    const tess_operand of_call = {.dtype_of = row->dtype_of};
    if (tess_operand_dtype(args, &of_call) != TESS_F16)
        return row->call(plain(s), s, args);
    return own_ways[id] != NULL ? own_ways[id](s, row, args) : by_description(s, row, args);
}

#define WIDEN(name, type, ...)                                        \
    static tess_status widen_##name(tess_stream *s, const type *args) \
    {                                                                 \
        return call(s, TESS_ROW_##name, args);                        \
    }
TESS_KERNEL_ROWS(WIDEN)

void tess_kernels_widen(const tess_kernels *table, tess_kernels *k)
{
    *k = *table;
    k->plain = table;
/* Rows without a dtype of the call take float16 themselves, or have none. */
#define REPLACE(name, ...)                                  \
    if (tess_kernel_row_of(TESS_ROW_##name)->dtype_of != 0) \
        k->name = widen_##name;
    TESS_KERNEL_ROWS(REPLACE)
}
