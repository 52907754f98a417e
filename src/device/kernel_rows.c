/* The description of every row, and what follows from it. A row without a description does not compile. */
#include "device/kernel_rows.h"

#include <string.h>

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* ---- The words of the descriptions. ARGS is the type of the arguments that are described ---- */
#define AT(member) TESS_MEMBER(ARGS, member)
#define BY(...)               \
    {                         \
        .of = { __VA_ARGS__ } \
    }
#define SEVERAL(n) \
    {              \
        .times = n \
    }
#define ONE SEVERAL(1)
#define HALF_OF(member)               \
    {                                 \
        .of = {AT(member)}, .over = 2 \
    }
#define MATRIX(rows_, columns_) .rows = rows_, .columns = columns_
#define OPERAND(member, access_, ...)                                     \
    {                                                                     \
        .name = #member, .at = AT(member), .access = access_, __VA_ARGS__ \
    }
#define READS(member, ...) OPERAND(member, TESS_READS, __VA_ARGS__)
#define WRITES(member, ...) OPERAND(member, TESS_WRITES, __VA_ARGS__)
#define UPDATES(member, ...) OPERAND(member, TESS_UPDATES, __VA_ARGS__)
/* The dtype of the elements: the call's own one, that of another member, or a fixed one. */
#define OWN .dtype_of = AT(dtype)
#define LIKE(member) .dtype_of = AT(member)
#define FLOATS .dtype = TESS_F32
#define INDICES .dtype = TESS_I32
#define BYTES .dtype = TESS_U8

#define DESCRIBE(row, ...)                         \
    static const tess_kernel_shape row##_shape = { \
        .operands = row##_operands, .n_operands = COUNT(row##_operands), __VA_ARGS__}

/* ---- Products ---- */
static void add_product(tess_kernel_work *work, const tess_gemm *g, int64_t k)
{
    double m = (double)g->m, n = (double)g->n, terms = (double)k;
    work->flops += 2 * m * n * terms;
    work->bytes += (m * terms + terms * n) * (double)tess_dtype_size(g->ab_dtype);
}

static void work_of_gemm(const void *args, tess_kernel_work *work)
{
    const tess_gemm *g = args;
    double c = (double)g->m * (double)g->n * (double)tess_dtype_size(g->c_dtype);
    add_product(work, g, g->k);
    work->bytes += g->accumulate ? 2 * c : c;
    work->bytes += g->bias != NULL ? (double)g->n * (double)tess_dtype_size(g->ab_dtype) : 0;
}

static void work_of_gemm_fused(const void *args, tess_kernel_work *work)
{
    const tess_gemm_fused *f = args;
    double c = (double)f->g.m * (double)f->g.n * (double)tess_dtype_size(f->g.c_dtype);
    work_of_gemm(&f->g, work);
    for (int i = 0; i < f->n_terms; i++)
        add_product(work, &f->g, f->terms[i].k);
    if (f->then == TESS_THEN_ACT) /* C and y are written, and the gate is read */
        work->bytes += f->gate != NULL ? 2 * c : c;
    if (f->then == TESS_THEN_ACT_BACKWARD) /* up, gate and y instead of C */
        work->bytes += (f->gate != NULL ? 4 : 2) * c + (f->y != NULL ? c : 0) - c;
}

/* Rows and columns trade places in memory if trans_a or trans_b is set. */
#define PRODUCT(g)                                                                           \
    READS(g a, MATRIX(BY(AT(g m)), BY(AT(g k))), LIKE(g ab_dtype), .stride = AT(g lda)),     \
        READS(g b, MATRIX(BY(AT(g k)), BY(AT(g n))), LIKE(g ab_dtype), .stride = AT(g ldb)), \
        READS(g bias, MATRIX(ONE, BY(AT(g n))), LIKE(g ab_dtype)),                           \
        UPDATES(g c, MATRIX(BY(AT(g m)), BY(AT(g n))), LIKE(g c_dtype), .stride = AT(g ldc))

#define ARGS tess_gemm
static const tess_operand gemm_operands[] = {PRODUCT()};
DESCRIBE(gemm, .dtype_of = AT(ab_dtype), .items = AT(m), .work = work_of_gemm);
#undef ARGS

#define ARGS tess_gemm_fused
#define TERM(i)                                                                                               \
    READS(terms[i].a, MATRIX(BY(AT(g.m)), BY(AT(terms[i].k))), LIKE(g.ab_dtype), .stride = AT(terms[i].lda)), \
        READS(terms[i].b, MATRIX(BY(AT(terms[i].k)), BY(AT(g.n))), LIKE(g.ab_dtype), .stride = AT(terms[i].ldb))
static const tess_operand gemm_fused_operands[] = {
    PRODUCT(g.),
    TERM(0),
    TERM(1),
    UPDATES(gate, MATRIX(BY(AT(g.m)), BY(AT(g.n))), LIKE(g.c_dtype)),
    UPDATES(up, MATRIX(BY(AT(g.m)), BY(AT(g.n))), LIKE(g.c_dtype)),
    WRITES(y, MATRIX(BY(AT(g.m)), BY(AT(g.n))), LIKE(g.c_dtype)),
    OPERAND(work, TESS_WORKS, MATRIX(ONE, ONE), BYTES),
};
_Static_assert(TESS_GEMM_TERMS == 2, "each further term is described");
DESCRIBE(gemm_fused, .dtype_of = AT(g.ab_dtype), .items = AT(g.m), .work = work_of_gemm_fused);
#undef TERM
#undef ARGS

/* ---- Attention ---- */
static int64_t count_sequences(const void *args)
{
    return ((const tess_attention *)args)->n_seqs;
}

static int64_t count_pages(const void *item)
{
    const tess_attention_seq *s = item;
    return s->pages != NULL ? (s->k_len + TESS_ATTENTION_BLOCK - 1) / TESS_ATTENTION_BLOCK : 0;
}

/* Counts the pairs of a query and a key that it sees. */
static double count_pairs(const tess_attention_seq *s, int64_t window)
{
    const int64_t first = s->k_len - s->q_len + 1; /* keys of the first query; each further one sees one more */
    int64_t n = s->q_len;                          /* number of queries that see fewer keys than the window has */
    if (window > 0 && s->k_len > window)
        n = window > first ? window - first : 0;
    return (double)n * (double)(2 * first + n - 1) / 2 + (double)(s->q_len - n) * (double)window;
}

/* Adds two products of queries and seen keys a head, forward, and the keys and values that are read. */
static void work_of_attention(const void *args, tess_kernel_work *work)
{
    const tess_attention *a = args;
    double size = (double)tess_dtype_size(a->dtype), D = (double)a->head_size;
    for (int64_t i = 0; i < a->n_seqs; i++) {
        const tess_attention_seq *s = &a->seqs[i];
        work->flops += 2 * 2 * count_pairs(s, a->window) * D * (double)a->n_heads;
        work->bytes +=
            2 * ((double)s->q_len * (double)a->n_heads + (double)s->k_len * (double)a->n_kv_heads) * D * size;
        work->bytes += a->lse != NULL ? (double)s->q_len * (double)a->n_heads * sizeof(float) : 0;
    }
}

/* The backward pass computes five products, and reads and writes a gradient for every value of the forward pass. */
static void work_of_attention_grad(const void *args, tess_kernel_work *work)
{
    const tess_attention_grad *g = args;
    work_of_attention(&g->forward, work);
    work->flops *= 2.5;
    work->bytes *= 2;
}

static const tess_operand_list attention_lists[] = {{
    .name = "seqs",
    .at = TESS_MEMBER(tess_attention, seqs),
    .count = count_sequences,
    .item_bytes = sizeof(tess_attention_seq),
    .pointers = {{TESS_MEMBER(tess_attention_seq, k), TESS_READS}, {TESS_MEMBER(tess_attention_seq, v), TESS_READS}},
    .inner = {TESS_MEMBER(tess_attention_seq, pages), count_pages, sizeof(int32_t)},
}};
_Static_assert(offsetof(tess_attention_grad, forward) == 0, "the lists of both directions are the same");

/* The number of rows of q is that of the sequences together, which no member counts. */
#define TOKENS(member, access, heads, ...)                                                            \
    OPERAND(member, access, MATRIX(ONE, BY(AT(heads), AT(HEADS_OF head_size))), LIKE(HEADS_OF dtype), \
            .gathered = true, __VA_ARGS__)

#define ARGS tess_attention
#define HEADS_OF
static const tess_operand attention_forward_operands[] = {
    TOKENS(q, TESS_READS, n_heads, .stride = AT(q_stride)),
    TOKENS(out, TESS_WRITES, n_heads, .stride = AT(out_stride)),
    OPERAND(lse, TESS_WRITES, MATRIX(ONE, BY(AT(n_heads))), FLOATS, .gathered = true),
};
DESCRIBE(attention_forward, .dtype_of = AT(dtype), .lists = attention_lists, .n_lists = 1, .work = work_of_attention);
#undef HEADS_OF
#undef ARGS

#define ARGS tess_attention_grad
#define HEADS_OF forward.
static const tess_operand attention_backward_operands[] = {
    TOKENS(forward.q, TESS_READS, forward.n_heads, .stride = AT(forward.q_stride)),
    TOKENS(forward.out, TESS_READS, forward.n_heads, .stride = AT(forward.out_stride)),
    OPERAND(forward.lse, TESS_READS, MATRIX(ONE, BY(AT(forward.n_heads))), FLOATS, .gathered = true),
    TOKENS(dout, TESS_READS, forward.n_heads, .stride = AT(dout_stride)),
    TOKENS(dq, TESS_WRITES, forward.n_heads, .stride = AT(dq_stride)),
    TOKENS(dk, TESS_WRITES, forward.n_kv_heads, .stride = AT(dk_stride)),
    TOKENS(dv, TESS_WRITES, forward.n_kv_heads, .stride = AT(dv_stride)),
};
DESCRIBE(attention_backward, .dtype_of = AT(forward.dtype), .lists = attention_lists, .n_lists = 1,
         .work = work_of_attention_grad);
#undef HEADS_OF
#undef ARGS

/* ---- Norms ---- */
#define ARGS tess_norm_args
#define ROWS MATRIX(BY(AT(T)), BY(AT(C))), OWN
#define NORM_OPERANDS READS(x, ROWS), READS(residual, ROWS), WRITES(h_out, ROWS), READS(w, MATRIX(ONE, BY(AT(C))), OWN)
static const tess_operand rmsnorm_forward_operands[] = {
    NORM_OPERANDS,
    WRITES(y, ROWS),
    WRITES(rstd, MATRIX(BY(AT(T)), ONE), FLOATS),
};
static const tess_operand layernorm_forward_operands[] = {
    NORM_OPERANDS,
    READS(b, MATRIX(ONE, BY(AT(C))), OWN),
    WRITES(y, ROWS),
    WRITES(mean, MATRIX(BY(AT(T)), ONE), FLOATS),
    WRITES(rstd, MATRIX(BY(AT(T)), ONE), FLOATS),
};
DESCRIBE(rmsnorm_forward, .dtype_of = AT(dtype), .items = AT(T), .flops = 5);
DESCRIBE(layernorm_forward, .dtype_of = AT(dtype), .items = AT(T), .flops = 8);
#undef NORM_OPERANDS
#undef ARGS

#define ARGS tess_norm_grad_args
#define NORM_OPERANDS                                                                                   \
    READS(h, ROWS), READS(w, MATRIX(ONE, BY(AT(C))), OWN), READS(rstd, MATRIX(BY(AT(T)), ONE), FLOATS), \
        READS(dy, ROWS), READS(dresidual, ROWS), WRITES(dx, ROWS), WRITES(dw, MATRIX(ONE, BY(AT(C))), FLOATS)
static const tess_operand rmsnorm_backward_operands[] = {NORM_OPERANDS};
static const tess_operand layernorm_backward_operands[] = {
    NORM_OPERANDS,
    READS(mean, MATRIX(BY(AT(T)), ONE), FLOATS),
    WRITES(db, MATRIX(ONE, BY(AT(C))), FLOATS),
};
DESCRIBE(rmsnorm_backward, .dtype_of = AT(dtype), .items = AT(T), .flops = 11);
DESCRIBE(layernorm_backward, .dtype_of = AT(dtype), .items = AT(T), .flops = 14);
#undef NORM_OPERANDS
#undef ROWS
#undef ARGS

/* ---- Elements ---- */
#define ARGS tess_rope_args
#define ANGLES MATRIX(BY(AT(T)), HALF_OF(R)), FLOATS, .gathered = true
static const tess_operand rope_operands[] = {
    UPDATES(x, MATRIX(BY(AT(T)), BY(AT(n_heads), AT(D))), OWN, .stride = AT(stride)),
    READS(pos, MATRIX(BY(AT(T)), ONE), INDICES),
    READS(cos_table, ANGLES),
    READS(sin_table, ANGLES),
};
DESCRIBE(rope, .dtype_of = AT(dtype), .items = AT(T), .flops = 3);
#undef ANGLES
#undef ARGS

#define ARGS tess_glu_args
#define ROWS MATRIX(BY(AT(T)), BY(AT(F))), OWN
static const tess_operand glu_forward_operands[] = {
    READS(gate, ROWS, .stride = AT(stride)),
    READS(up, ROWS, .stride = AT(stride)),
    WRITES(y, ROWS),
};
DESCRIBE(glu_forward, .dtype_of = AT(dtype), .items = AT(T), .flops = 12);
#undef ARGS

#define ARGS tess_glu_grad_args
static const tess_operand glu_backward_operands[] = {
    READS(gate, ROWS, .stride = AT(stride)),    READS(up, ROWS, .stride = AT(stride)),    READS(dy, ROWS),
    WRITES(dgate, ROWS, .stride = AT(dstride)), WRITES(dup, ROWS, .stride = AT(dstride)),
};
DESCRIBE(glu_backward, .dtype_of = AT(dtype), .items = AT(T), .flops = 17);
#undef ROWS
#undef ARGS

#define ELEMENTS MATRIX(BY(AT(n)), ONE), OWN

#define ARGS tess_act_args
static const tess_operand act_forward_operands[] = {READS(x, ELEMENTS), WRITES(y, ELEMENTS)};
DESCRIBE(act_forward, .dtype_of = AT(dtype), .items = AT(n), .flops = 11);
#undef ARGS

#define ARGS tess_act_grad_args
static const tess_operand act_backward_operands[] = {READS(x, ELEMENTS), READS(dy, ELEMENTS), WRITES(dx, ELEMENTS)};
DESCRIBE(act_backward, .dtype_of = AT(dtype), .items = AT(n), .flops = 15);
#undef ARGS

#define ARGS tess_add_args
static const tess_operand add_operands[] = {READS(a, ELEMENTS), READS(b, ELEMENTS), WRITES(y, ELEMENTS)};
DESCRIBE(add, .dtype_of = AT(dtype), .items = AT(n), .flops = 1);
#undef ARGS

#define ARGS tess_scale_args
static const tess_operand scale_operands[] = {READS(x, ELEMENTS), WRITES(y, ELEMENTS)};
DESCRIBE(scale, .dtype_of = AT(dtype), .items = AT(n), .flops = 1);
#undef ARGS

#define ARGS tess_round_fp8_args
static const tess_operand round_fp8_operands[] = {
    READS(x, MATRIX(BY(AT(rows)), BY(AT(C))), OWN, .stride = AT(stride)),
    WRITES(y, MATRIX(BY(AT(rows)), BY(AT(C))), OWN),
};
DESCRIBE(round_fp8, .dtype_of = AT(dtype), .items = AT(rows), .flops = 4);
#undef ARGS

#define ARGS tess_fp8_encode_args
static const tess_operand fp8_encode_operands[] = {
    READS(x, MATRIX(BY(AT(rows)), BY(AT(C))), FLOATS),
    WRITES(codes, MATRIX(BY(AT(rows)), BY(AT(row_bytes))), BYTES),
};
DESCRIBE(fp8_encode, .dtype_of = AT(dtype), .items = AT(rows), .flops = 4);
#undef ARGS

#define ARGS tess_fp8_decode_args
static const tess_operand fp8_decode_operands[] = {
    READS(codes, MATRIX(BY(AT(rows)), BY(AT(row_bytes))), BYTES),
    WRITES(y, MATRIX(BY(AT(rows)), BY(AT(C))), OWN),
};
DESCRIBE(fp8_decode, .dtype_of = AT(dtype), .items = AT(rows), .flops = 2);
#undef ARGS

#define ARGS tess_convert_args
static const tess_operand convert_operands[] = {
    READS(x, MATRIX(BY(AT(n)), ONE), LIKE(from)),
    WRITES(y, MATRIX(BY(AT(n)), ONE), LIKE(to)),
};
DESCRIBE(convert, .items = AT(n));
#undef ARGS

#define ARGS tess_adamw_update
static const tess_operand adamw_operands[] = {
    UPDATES(p, MATRIX(BY(AT(n)), ONE), FLOATS),
    UPDATES(m, MATRIX(BY(AT(n)), ONE), FLOATS),
    UPDATES(v, MATRIX(BY(AT(n)), ONE), FLOATS),
    READS(g, MATRIX(BY(AT(n)), ONE), FLOATS),
    WRITES(copy, MATRIX(BY(AT(n)), ONE), LIKE(copy_dtype)),
    OPERAND(undo, TESS_HOST_ONLY, MATRIX(ONE, ONE), BYTES),
};
DESCRIBE(adamw, .items = AT(n), .flops = 16);
#undef ARGS

/* ---- Tables and the head ---- */
#define ARGS tess_embedding_args
#define ROWS MATRIX(BY(AT(T)), BY(AT(C))), OWN
static const tess_operand embedding_forward_operands[] = {
    READS(table, ROWS, .gathered = true),
    READS(positions, ROWS, .gathered = true),
    READS(ids, MATRIX(BY(AT(T)), ONE), INDICES),
    READS(pos, MATRIX(BY(AT(T)), ONE), INDICES),
    WRITES(out, ROWS),
};
DESCRIBE(embedding_forward, .dtype_of = AT(dtype), .items = AT(T), .flops = 1);
#undef ARGS

#define ARGS tess_embedding_grad_args
static const tess_operand embedding_backward_operands[] = {
    READS(dout, ROWS),
    READS(ids, MATRIX(BY(AT(T)), ONE), INDICES),
    UPDATES(dtable, MATRIX(BY(AT(rows)), BY(AT(C))), FLOATS),
};
/* The whole table is set to 0, unless gradients are added to it, and each token's row is read and written. */
static void work_of_embedding_grad(const void *args, tess_kernel_work *work)
{
    const tess_embedding_grad_args *a = args;
    double elements = (double)a->T * (double)a->C;
    work->flops = elements;
    work->bytes = elements * ((double)tess_dtype_size(a->dtype) + 2 * sizeof(float));
    work->bytes += a->accumulate ? 0 : (double)a->rows * (double)a->C * sizeof(float);
}
DESCRIBE(embedding_backward, .dtype_of = AT(dtype), .items = AT(rows), .work = work_of_embedding_grad);
#undef ROWS
#undef ARGS

#define ARGS tess_cross_entropy
static const tess_operand cross_entropy_operands[] = {
    READS(logits, MATRIX(BY(AT(n)), BY(AT(V))), FLOATS, .stride = AT(ld)),
    READS(targets, MATRIX(BY(AT(n)), ONE), INDICES),
    READS(dlogprob, MATRIX(BY(AT(n)), ONE), FLOATS),
    READS(dentropy, MATRIX(BY(AT(n)), ONE), FLOATS),
    WRITES(logprob, MATRIX(BY(AT(n)), ONE), FLOATS),
    WRITES(entropy, MATRIX(BY(AT(n)), ONE), FLOATS),
    WRITES(dlogits, MATRIX(BY(AT(n)), BY(AT(V))), OWN, .stride = AT(ldd)),
};
DESCRIBE(cross_entropy, .dtype_of = AT(dtype), .items = AT(n), .flops = 14);
#undef ARGS

/* ---- Sums ---- */
#define ARGS tess_column_sum_args
static const tess_operand column_sum_operands[] = {
    READS(dy, MATRIX(BY(AT(T)), BY(AT(C))), OWN, .stride = AT(stride)),
    WRITES(db, MATRIX(ONE, BY(AT(C))), FLOATS),
};
DESCRIBE(column_sum, .dtype_of = AT(dtype), .items = AT(C), .flops = 1);
#undef ARGS

#define ARGS tess_row_sumsq_args
static const tess_operand row_sumsq_operands[] = {
    READS(x, MATRIX(BY(AT(rows)), BY(AT(C))), FLOATS),
    WRITES(out, MATRIX(BY(AT(rows)), SEVERAL(sizeof(double))), BYTES),
};
DESCRIBE(row_sumsq, .items = AT(rows), .flops = 2);
#undef ARGS

#define ARGS tess_exact_sum_args
static const tess_operand exact_sum_operands[] = {
    READS(x, MATRIX(BY(AT(n)), ONE), FLOATS),
    UPDATES(sum, MATRIX(ONE, SEVERAL(sizeof(tess_exact_sum))), BYTES),
};
DESCRIBE(exact_sum, .flops = 1);
#undef ARGS

#define ARGS tess_find_not_finite_args
static const tess_operand find_not_finite_operands[] = {
    READS(x, MATRIX(BY(AT(n)), ONE), OWN),
    WRITES(first, MATRIX(ONE, SEVERAL(sizeof(int64_t))), BYTES),
};
DESCRIBE(find_not_finite, .dtype_of = AT(dtype));
#undef ARGS

/* ---- Reductions ---- */
static int64_t count_inputs(const void *args)
{
    return ((const tess_reduction *)args)->n_inputs;
}

static int64_t count_outputs(const void *args)
{
    return ((const tess_reduction *)args)->n_outputs;
}

static int64_t count_reduce_runs(const void *args)
{
    return ((const tess_reduce_runs_args *)args)->n_runs;
}

static void add_reduction(tess_kernel_work *work, const tess_reduction *r, int64_t n)
{
    double inputs = (double)r->n_inputs * (double)n, outputs = (double)r->n_outputs * (double)n;
    work->flops += inputs;
    work->bytes += inputs * (double)tess_dtype_size(r->dtype);
    work->bytes += outputs * (double)tess_dtype_size(r->y_dtype) * (r->accumulate ? 2 : 1);
}

static void work_of_reduction(const void *args, tess_kernel_work *work)
{
    const tess_reduction *r = args;
    add_reduction(work, r, r->n);
}

static void work_of_reduce_runs(const void *args, tess_kernel_work *work)
{
    const tess_reduce_runs_args *a = args;
    for (int64_t i = 0; i < a->n_runs; i++)
        add_reduction(work, &a->of, a->runs[i].n);
}

#define OPERAND_POINTERS(member, count_, access)                                                                   \
    {                                                                                                              \
        .name = #member, .at = TESS_MEMBER(tess_reduction, member), .count = count_, .item_bytes = sizeof(void *), \
        .pointers = {                                                                                              \
            {1, access}                                                                                            \
        }                                                                                                          \
    }
static const tess_operand_list reduce_lists[] = {
    OPERAND_POINTERS(x, count_inputs, TESS_READS),
    OPERAND_POINTERS(y, count_outputs, TESS_WRITES),
    {.name = "runs",
     .at = TESS_MEMBER(tess_reduce_runs_args, runs),
     .count = count_reduce_runs,
     .item_bytes = sizeof(tess_reduce_run)},
};
_Static_assert(offsetof(tess_reduce_runs_args, of) == 0, "the lists of a reduction are those of its runs, too");

#define FINITE(member) OPERAND(member, TESS_UPDATES, MATRIX(ONE, SEVERAL(sizeof(bool))), BYTES)

#define ARGS tess_reduction
static const tess_operand reduce_operands[] = {FINITE(finite)};
DESCRIBE(reduce, .lists = reduce_lists, .n_lists = 2, .items = AT(n), .work = work_of_reduction);
#undef ARGS

#define ARGS tess_reduce_runs_args
static const tess_operand reduce_runs_operands[] = {FINITE(of.finite)};
DESCRIBE(reduce_runs, .lists = reduce_lists, .n_lists = 3, .work = work_of_reduce_runs);
#undef ARGS

/* ---- Rows that move values ---- */
static int64_t count_value_runs(const void *args)
{
    return ((const tess_convert_runs_args *)args)->n_runs;
}

static void work_of_convert_runs(const void *args, tess_kernel_work *work)
{
    const tess_convert_runs_args *a = args;
    for (int64_t i = 0; i < a->n_runs; i++)
        work->bytes += (double)a->runs[i].n * (double)(tess_dtype_size(a->from) + tess_dtype_size(a->to));
}

static const tess_operand_list convert_runs_lists[] = {{
    .name = "runs",
    .at = TESS_MEMBER(tess_convert_runs_args, runs),
    .count = count_value_runs,
    .item_bytes = sizeof(tess_value_run),
    .pointers = {{TESS_MEMBER(tess_value_run, x), TESS_READS}, {TESS_MEMBER(tess_value_run, y), TESS_WRITES}},
}};
static const tess_kernel_shape convert_runs_shape = {
    .lists = convert_runs_lists, .n_lists = 1, .work = work_of_convert_runs};

#define ARGS tess_copy_args
static const tess_operand copy_operands[] = {
    READS(from, MATRIX(ONE, BY(AT(bytes))), BYTES),
    WRITES(to, MATRIX(ONE, BY(AT(bytes))), BYTES),
};
DESCRIBE(copy, .items = AT(bytes));
#undef ARGS

#define ARGS tess_copy_rows_args
static const tess_operand copy_rows_operands[] = {
    READS(x, MATRIX(BY(AT(n)), BY(AT(row_bytes))), BYTES, .stride = AT(x_stride)),
    WRITES(y, MATRIX(BY(AT(n)), BY(AT(row_bytes))), BYTES, .stride = AT(y_stride)),
};
DESCRIBE(copy_rows, .items = AT(n));
#undef ARGS

#define ARGS tess_gather_rows_args
static const tess_operand gather_rows_operands[] = {
    READS(x, MATRIX(BY(AT(n)), BY(AT(row_bytes))), BYTES, .gathered = true),
    READS(index, MATRIX(BY(AT(n)), ONE), INDICES),
    WRITES(y, MATRIX(BY(AT(n)), BY(AT(row_bytes))), BYTES),
};
DESCRIBE(gather_rows, .items = AT(n));
#undef ARGS

/* ---- The table ---- */
#define CALL(name, type)                                                                        \
    static tess_status call_##name(const tess_kernels *table, tess_stream *s, const void *args) \
    {                                                                                           \
        return table->name(s, args);                                                            \
    }
TESS_KERNEL_ROWS(CALL)

#define ROW(name, type) [TESS_ROW_##name] = {#name, sizeof(type), call_##name, &name##_shape},
const tess_kernel_row tess_kernel_rows[TESS_KERNEL_ROW_COUNT] = {TESS_KERNEL_ROWS(ROW)};

/* ---- Members ---- */
static const void *member_at(const void *args, tess_member at)
{
    return (const char *)args + at - 1;
}

int64_t tess_kernel_size_of(const void *args, tess_kernel_size size)
{
    int64_t n = size.times > 0 ? size.times : 1;
    for (int i = 0; i < TESS_SIZE_FACTORS && size.of[i] != 0; i++)
        n *= *(const int64_t *)member_at(args, size.of[i]);
    return size.over > 0 ? n / size.over : n;
}

void tess_kernel_set_size(void *args, tess_member at, int64_t size)
{
    memcpy((char *)args + at - 1, &size, sizeof(size));
}

void tess_kernel_set_dtype(void *args, tess_member at, tess_dtype dtype)
{
    memcpy((char *)args + at - 1, &dtype, sizeof(dtype));
}

void *tess_operand_pointer(const void *args, tess_member at)
{
    void *pointer;
    memcpy(&pointer, member_at(args, at), sizeof(pointer));
    return pointer;
}

void tess_operand_point(void *args, tess_member at, const void *memory)
{
    memcpy((char *)args + at - 1, &memory, sizeof(memory));
}

tess_dtype tess_operand_dtype(const void *args, const tess_operand *operand)
{
    return operand->dtype_of == 0 ? operand->dtype : *(const tess_dtype *)member_at(args, operand->dtype_of);
}

int64_t tess_operand_elements(const void *args, const tess_operand *operand)
{
    return tess_kernel_size_of(args, operand->rows) * tess_kernel_size_of(args, operand->columns);
}

int64_t tess_operand_stride(const void *args, const tess_operand *operand)
{
    return operand->stride != 0 ? *(const int64_t *)member_at(args, operand->stride)
                                : tess_kernel_size_of(args, operand->columns);
}

/* ---- Work ---- */
tess_kernel_work tess_kernel_work_of(const tess_kernel_row *row, const void *args)
{
    const tess_kernel_shape *shape = row->shape;
    tess_kernel_work work = {0};
    if (shape->work != NULL) {
        shape->work(args, &work);
        return work;
    }
    work.flops = shape->flops * (double)tess_operand_elements(args, &shape->operands[0]);
    for (int i = 0; i < shape->n_operands; i++) {
        const tess_operand *o = &shape->operands[i];
        int64_t times = (o->access & TESS_READS ? 1 : 0) + (o->access & TESS_WRITES ? 1 : 0);
        if (tess_operand_pointer(args, o->at) != NULL)
            work.bytes +=
                (double)(times * tess_operand_elements(args, o)) * (double)tess_dtype_size(tess_operand_dtype(args, o));
    }
    return work;
}

/* ---- Copies of arguments ---- */
enum { ALIGNMENT = 16 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t bytes_of_items(int64_t n, size_t item_bytes)
{
    return n > 0 ? aligned((size_t)n * item_bytes) : 0;
}

/* Returns the bytes of the further arrays of a list's items. */
static size_t inner_bytes(const tess_operand_list *list, const char *items, int64_t n)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < n && list->inner.at != 0; i++)
        bytes += bytes_of_items(list->inner.count(items + (size_t)i * list->item_bytes), list->inner.item_bytes);
    return bytes;
}

size_t tess_kernel_args_bytes(const tess_kernel_row *row, const void *args)
{
    size_t bytes = aligned(row->args_bytes);
    for (int l = 0; l < row->shape->n_lists; l++) {
        const tess_operand_list *list = &row->shape->lists[l];
        int64_t n = list->count(args);
        bytes += bytes_of_items(n, list->item_bytes) + inner_bytes(list, tess_operand_pointer(args, list->at), n);
    }
    return bytes;
}

/* Replaces a pointer of `args` by what `move` returns. */
static void move_pointer(void *args, tess_member at, tess_access access, tess_move_fn move, void *self)
{
    const void *pointer = tess_operand_pointer(args, at);
    if (pointer != NULL)
        tess_operand_point(args, at, move(self, pointer, access));
}

/* Copies the further array of an item to `to`, and returns the end of the copy. */
static char *copy_inner(const tess_operand_list *list, char *item, char *to)
{
    int64_t n = list->inner.count(item);
    if (n > 0)
        memcpy(to, tess_operand_pointer(item, list->inner.at), (size_t)n * list->inner.item_bytes);
    tess_operand_point(item, list->inner.at, n > 0 ? to : NULL);
    return to + bytes_of_items(n, list->inner.item_bytes);
}

/* Copies a list to `to`, and returns the end of the copy. */
static char *copy_list(const tess_operand_list *list, void *args, tess_move_fn move, void *self, char *to)
{
    int64_t n = list->count(args);
    char *items = to;
    to += bytes_of_items(n, list->item_bytes);
    if (n > 0)
        memcpy(items, tess_operand_pointer(args, list->at), (size_t)n * list->item_bytes);
    for (int64_t i = 0; i < n; i++) {
        char *item = items + (size_t)i * list->item_bytes;
        for (int p = 0; p < TESS_ITEM_POINTERS && list->pointers[p].at != 0; p++)
            move_pointer(item, list->pointers[p].at, list->pointers[p].access, move, self);
        if (list->inner.at != 0)
            to = copy_inner(list, item, to);
    }
    tess_operand_point(args, list->at, items);
    return to;
}

void tess_kernel_args_copy(const tess_kernel_row *row, const void *args, tess_move_fn move, void *self, void *copy)
{
    char *to = (char *)copy + aligned(row->args_bytes);
    memcpy(copy, args, row->args_bytes);
    for (int i = 0; i < row->shape->n_operands; i++)
        move_pointer(copy, row->shape->operands[i].at, row->shape->operands[i].access, move, self);
    for (int l = 0; l < row->shape->n_lists; l++)
        to = copy_list(&row->shape->lists[l], copy, move, self, to);
}
