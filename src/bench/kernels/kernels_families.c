/* Families of kernels: attention, which is limited by arithmetic, and kernels limited by memory: rows of tokens,
 * vocabulary and parameters. Their operands and their work follow from the rows' descriptions. */
#include "bench/kernels/kernels_impl.h"
#include "nn/layers/model_ends.h"

enum { HEAD_SIZE = 64, WIDTH = 4096 };

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define AT(member) TESS_MEMBER(tess_kernel_args, member)
/* A subject's row, and those of its arguments that the shape does not give. */
#define ROW(row_, ...) .row = TESS_ROW_##row_, .args = {.row_ = {__VA_ARGS__}}
#define T_AND_C(row_) .T = AT(row_.T), .C = AT(row_.C)

static const char *dtype_name(const kernel_shape *s)
{
    return s->dtype == TESS_BF16 ? "bf16" : "fp32";
}

/* ---- Operands ---- */
static int64_t queries_of(const kernel_operands *o)
{
    return o->subject->decodes ? 1 : o->shape->T;
}

/* Returns the rows of memory from which a call chooses some: embeddings, positions, or tokens of sequences. */
static int64_t rows_of_memory(const kernel_operands *o)
{
    const kernel_shape *s = o->shape;
    return s->V > 0 ? s->V : s->seqs > 0 ? s->seqs * queries_of(o) : s->T;
}

static bool is_without(const kernel_subject *subject, const tess_operand *of)
{
    for (size_t i = 0; i < COUNT(subject->without); i++)
        if (of->at == subject->without[i])
            return true;
    return of->access == TESS_HOST_ONLY;
}

static tess_status create_operand(const kernels_bench *bench, kernel_operands *o, const tess_operand *of)
{
    tess_dtype dtype = tess_operand_dtype(&o->args, of);
    int64_t columns = tess_kernel_size_of(&o->args, of->columns);
    int64_t rows = of->gathered ? rows_of_memory(o) : tess_kernel_size_of(&o->args, of->rows);
    void **x = &o->x[o->n++];
    if (of->stride != 0 && o->shape->V > 0) /* gradients of logits take the place of the logits */
        columns = tess_head_row(columns) * (int64_t)(sizeof(float) / tess_dtype_size(dtype));
    if (of->stride != 0)
        tess_kernel_set_size(&o->args, of->stride, columns);
    if (dtype == TESS_I32)
        TESS_TRY(kernels_bench_integers(bench, rows * columns, o->shape->V > 0 ? 7919 : 1,
                                        tess_operand_below(&o->args, of, rows_of_memory(o)), x));
    else if (of->positive)
        TESS_TRY(kernels_bench_integers(bench, rows * columns, 0, 1, x));
    else
        TESS_TRY(kernels_bench_operand(bench, rows * columns, dtype, x));
    tess_operand_point(&o->args, of->at, *x);
    return TESS_OK;
}

tess_status kernels_bench_create(const kernels_bench *bench, kernel_operands *o)
{
    const kernel_subject *u = o->subject;
    const kernel_shape *s = o->shape;
    const tess_kernel_row *row = tess_kernel_row_of(u->row);
    const tess_member at[] = {u->T, u->C, u->V, u->TC, u->H, u->H_kv};
    const int64_t sizes[] = {s->T, s->C, s->V, s->T * s->C, s->H, s->H_kv};
    o->args = u->args;
    for (size_t i = 0; i < COUNT(at); i++)
        if (at[i] != 0)
            tess_kernel_set_size(&o->args, at[i], sizes[i]);
    if (row->dtype_of != 0)
        tess_kernel_set_dtype(&o->args, row->dtype_of, s->dtype);
    for (int i = 0; i < row->n_operands; i++)
        if (!is_without(u, &row->operands[i]))
            TESS_TRY(create_operand(bench, o, &row->operands[i]));
    return u->finish != NULL ? u->finish(bench, o) : TESS_OK;
}

/* ---- Causal attention of one layer ---- */
/* Adds keys and values. The backward pass needs the results of the forward pass, whose arguments come first. */
static tess_status add_sequences(const kernels_bench *bench, kernel_operands *o)
{
    const kernel_shape *s = o->shape;
    tess_attention *a = &o->args.attention_forward;
    const int64_t row = s->H_kv * s->C, text = s->T * row, queries = queries_of(o);
    void **keys = &o->x[o->n++], **values = &o->x[o->n++];
    TESS_TRY(kernels_bench_operand(bench, s->seqs * text, s->dtype, keys));
    TESS_TRY(kernels_bench_operand(bench, s->seqs * text, s->dtype, values));
    for (int64_t i = 0; i < s->seqs; i++) {
        size_t first = (size_t)(i * text) * tess_dtype_size(s->dtype);
        o->seqs[i] = (tess_attention_seq){.q_begin = i * queries,
                                          .q_len = queries,
                                          .k_len = s->T,
                                          .k = (char *)*keys + first,
                                          .v = (char *)*values + first};
    }
    a->n_seqs = s->seqs;
    a->seqs = o->seqs;
    a->k_stride = a->v_stride = row;
    return o->kernels->attention_forward(o->stream, a);
}

#define ATTENTION                                                             \
    .C = AT(attention_forward.head_size), .H = AT(attention_forward.n_heads), \
    .H_kv = AT(attention_forward.n_kv_heads), .finish = add_sequences
/* Calls that are not one of several. */
#define WHOLE AT(attention_forward.state), AT(attention_backward.delta)
#define NO_SINKS .without = {WHOLE, AT(attention_forward.sinks), AT(attention_backward.dsinks)}

static const kernel_subject attention[] = {
    {"forward", ROW(attention_forward, .scale = 0.125f), ATTENTION, NO_SINKS},
    {"backward", ROW(attention_backward, .forward.scale = 0.125f), ATTENTION, NO_SINKS},
    {.name = NULL}};
static const kernel_subject capped[] = {
    {"forward, soft cap", ROW(attention_forward, .scale = 0.0625f, .soft_cap = 50), ATTENTION, NO_SINKS},
    {"backward, soft cap", ROW(attention_backward, .forward = {.scale = 0.0625f, .soft_cap = 50}), ATTENTION, NO_SINKS},
    {.name = NULL}};
static const kernel_subject with_sinks[] = {
    {"forward, sinks", ROW(attention_forward, .scale = 0.125f), ATTENTION, .without = {WHOLE}},
    {"backward, sinks", ROW(attention_backward, .forward.scale = 0.125f), ATTENTION, .without = {WHOLE}},
    {.name = NULL}};

static const kernel_shape attention_shapes[] = {
    {attention, "gpt2", TESS_BF16, .seqs = 4, .T = 1024, .H = 12, .H_kv = 12, .C = 64},
    {attention, "gpt2", TESS_BF16, .seqs = 1, .T = 128, .H = 12, .H_kv = 12, .C = 64, .quick = true},
    {attention, "llama-1b", TESS_BF16, .seqs = 1, .T = 2048, .H = 32, .H_kv = 8, .C = 64},
    {attention, "llama-8b", TESS_BF16, .seqs = 1, .T = 2048, .H = 32, .H_kv = 8, .C = 128},
    {capped, "gemma2-2b", TESS_BF16, .seqs = 1, .T = 2048, .H = 8, .H_kv = 4, .C = 256},
    {with_sinks, "gpt-oss", TESS_BF16, .seqs = 1, .T = 1024, .H = 64, .H_kv = 8, .C = 64},
    {attention, "gpt2", TESS_F32, .seqs = 1, .T = 1024, .H = 12, .H_kv = 12, .C = 64},
    {attention, "llama-1b", TESS_F32, .seqs = 1, .T = 1024, .H = 32, .H_kv = 8, .C = 64},
};

static void name_attention(const kernel_subject *subject, const kernel_shape *s, char *name, size_t size)
{
    snprintf(name, size, "attention %s %s %s %lldx%lldx%lldx%lld", dtype_name(s), subject->name, s->model,
             (long long)s->seqs, (long long)s->T, (long long)s->H, (long long)s->C);
}

const kernel_family kernels_attention = {"attention: sequences x tokens x heads x size", true, attention_shapes,
                                         COUNT(attention_shapes), name_attention};

/* ---- Attention in generation: a token of each sequence, whose T keys and values are read once ---- */
static const kernel_subject decode[] = {
    {"decode", ROW(attention_forward, .scale = 0.125f), ATTENTION, NO_SINKS, .decodes = true}, {.name = NULL}};

static const kernel_shape decode_shapes[] = {
    {decode, "llama-1b", TESS_BF16, .seqs = 1, .T = 4096, .H = 32, .H_kv = 8, .C = 64},
    {decode, "llama-1b", TESS_BF16, .seqs = 8, .T = 4096, .H = 32, .H_kv = 8, .C = 64},
    {decode, "llama-8b", TESS_BF16, .seqs = 8, .T = 4096, .H = 32, .H_kv = 8, .C = 128},
    {decode, "llama-8b", TESS_BF16, .seqs = 1, .T = 300, .H = 32, .H_kv = 8, .C = 128, .quick = true},
};

const kernel_family kernels_decode = {"attention in generation: sequences x keys x heads x size", false, decode_shapes,
                                      COUNT(decode_shapes), name_attention};

/* ---- Rows of tokens ---- */
static const kernel_subject layernorm[] = {
    {"layernorm forward", ROW(layernorm_forward, .eps = 1e-5f), T_AND_C(layernorm_forward)},
    {"layernorm backward", ROW(layernorm_backward), T_AND_C(layernorm_backward),
     .without = {AT(layernorm_backward.dbranch)}},
    {.name = NULL}};
static const kernel_subject rmsnorm[] = {
    {"rmsnorm forward", ROW(rmsnorm_forward, .eps = 1e-5f), T_AND_C(rmsnorm_forward)},
    {"rmsnorm backward", ROW(rmsnorm_backward), T_AND_C(rmsnorm_backward), .without = {AT(rmsnorm_backward.dbranch)}},
    {.name = NULL}};
static const kernel_subject rotation_of_2048[] = {
    {"rope", ROW(rope, .n_heads = 2048 / HEAD_SIZE, .D = HEAD_SIZE, .R = HEAD_SIZE), .T = AT(rope.T)}, {.name = NULL}};
static const kernel_subject gated[] = {
    {"silu glu forward", ROW(glu_forward, .act = TESS_ACT_SILU), .T = AT(glu_forward.T), .C = AT(glu_forward.F)},
    {"silu glu backward", ROW(glu_backward, .act = TESS_ACT_SILU), .T = AT(glu_backward.T), .C = AT(glu_backward.F)},
    {.name = NULL}};
static const kernel_subject activation[] = {
    {"gelu forward", ROW(act_forward, .act = TESS_ACT_GELU_TANH), .TC = AT(act_forward.n)},
    {"gelu backward", ROW(act_backward, .act = TESS_ACT_GELU_TANH), .TC = AT(act_backward.n)},
    {.name = NULL}};
static const kernel_subject exact_gelu[] = {
    {"gelu (erf) forward", ROW(act_forward, .act = TESS_ACT_GELU_ERF), .TC = AT(act_forward.n)},
    {"gelu (erf) backward", ROW(act_backward, .act = TESS_ACT_GELU_ERF), .TC = AT(act_backward.n)},
    {.name = NULL}};
static const kernel_subject sum[] = {{"column sum", ROW(column_sum), T_AND_C(column_sum)}, {.name = NULL}};

static const kernel_shape row_shapes[] = {
    {layernorm, "gpt2", TESS_BF16, .T = 4096, .C = 768},
    {layernorm, "gpt2", TESS_F32, .T = 4096, .C = 768},
    {rmsnorm, "llama-1b", TESS_BF16, .T = 2048, .C = 2048},
    {rmsnorm, "llama-8b", TESS_BF16, .T = 2048, .C = 4096},
    {rotation_of_2048, "llama-1b", TESS_BF16, .T = 2048, .C = 2048},
    {gated, "llama-1b", TESS_BF16, .T = 2048, .C = 8192},
    {gated, "llama-8b", TESS_BF16, .T = 1024, .C = 14336},
    {activation, "gpt2", TESS_BF16, .T = 4096, .C = 3072},
    {activation, "gpt2", TESS_F32, .T = 4096, .C = 3072},
    {exact_gelu, "pythia-1b", TESS_BF16, .T = 2048, .C = 8192},
    {sum, "gpt2", TESS_BF16, .T = 4096, .C = 3072},
    {layernorm, "gpt2", TESS_BF16, .T = 64, .C = 768, .quick = true},
};

static void name_row(const kernel_subject *subject, const kernel_shape *s, char *name, size_t size)
{
    snprintf(name, size, "%s %s %s %lldx%lld", subject->name, dtype_name(s), s->model, (long long)s->T,
             (long long)s->C);
}

const kernel_family kernels_rows = {"rows of tokens: tokens x channels", false, row_shapes, COUNT(row_shapes),
                                    name_row};

/* ---- The vocabulary, for T tokens (cross-entropy: one chunk of the head) ---- */
static const kernel_subject vocabulary[] = {
    {"cross-entropy", ROW(cross_entropy, .inv_temperature = 1), .T = AT(cross_entropy.n), .V = AT(cross_entropy.V),
     .without = {AT(cross_entropy.dlogprob), AT(cross_entropy.dentropy), AT(cross_entropy.entropy)}},
    {"cross-entropy, soft cap", ROW(cross_entropy, .inv_temperature = 1, .soft_cap = 30), .T = AT(cross_entropy.n),
     .V = AT(cross_entropy.V),
     .without = {AT(cross_entropy.dlogprob), AT(cross_entropy.dentropy), AT(cross_entropy.entropy)}},
    {"embedding forward", ROW(embedding_forward), T_AND_C(embedding_forward),
     .without = {AT(embedding_forward.positions), AT(embedding_forward.pos)}},
    {"embedding backward", ROW(embedding_backward), T_AND_C(embedding_backward), .V = AT(embedding_backward.rows)},
    {.name = NULL}};

static const kernel_shape vocab_shapes[] = {
    {vocabulary, "gpt2", TESS_BF16, .V = 50257, .C = 768, .T = 512},
    {vocabulary, "llama-1b", TESS_BF16, .V = 128256, .C = 2048, .T = 256},
    {vocabulary, "tiny", TESS_BF16, .V = 512, .C = 64, .T = 64, .quick = true},
};

static void name_vocab(const kernel_subject *subject, const kernel_shape *s, char *name, size_t size)
{
    snprintf(name, size, "%s %s %lld of %lldx%lld", subject->name, s->model, (long long)s->T, (long long)s->V,
             (long long)s->C);
}

const kernel_family kernels_vocab = {"vocabulary: tokens of V x C", false, vocab_shapes, COUNT(vocab_shapes),
                                     name_vocab};

/* ---- Parameters, as (T, C) floats ---- */
/* Adds the inputs and the output of a reduction. */
static tess_status add_inputs(const kernels_bench *bench, kernel_operands *o)
{
    tess_reduction *r = &o->args.reduce;
    for (int i = 0; i <= r->n_inputs; i++)
        TESS_TRY(kernels_bench_operand(bench, r->n, i < r->n_inputs ? r->dtype : r->y_dtype, &o->x[i]));
    r->x = (const void *const *)o->x;
    r->y = &o->x[r->n_inputs];
    return TESS_OK;
}

#define ADAMW                                                                                                   \
    ROW(adamw, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .grad_scale = 1, \
        .bias1 = 0.1f, .bias2 = 0.05f, .copy_dtype = TESS_BF16),                                                \
        .TC = AT(adamw.n)
#define REDUCE(inputs, ...)                                                                          \
    ROW(reduce, .n_inputs = inputs, .divisor = 1, .n_outputs = 1, .y_dtype = TESS_F32, __VA_ARGS__), \
        .TC = AT(reduce.n), .without = {AT(reduce.finite)}, .finish = add_inputs

static const kernel_subject parameters[] = {
    {"adamw", ADAMW, .without = {AT(adamw.copy)}},
    {"adamw, copy in bf16", ADAMW},
    {"convert fp32 to bf16", ROW(convert, .from = TESS_F32, .to = TESS_BF16), .TC = AT(convert.n)},
    {"convert bf16 to fp32", ROW(convert, .from = TESS_BF16, .to = TESS_F32), .TC = AT(convert.n)},
    {"reduce tree of 2", REDUCE(2)},
    {"reduce tree of 2, accumulate", REDUCE(2, .accumulate = true)},
    {"reduce tree of 4", REDUCE(4)},
    {"reduce tree of 8", REDUCE(8)},
    {"reduce tree of 2 in bf16", REDUCE(2, .dtype = TESS_BF16)},
    {"sums of squares", ROW(row_sumsq), .T = AT(row_sumsq.rows), .C = AT(row_sumsq.C)},
    {.name = NULL},
};

static const kernel_shape parameter_shapes[] = {
    {parameters, "", TESS_F32, .T = 4096, .C = WIDTH},
    {parameters, "", TESS_F32, .T = 1, .C = WIDTH, .quick = true},
};

static void name_parameters(const kernel_subject *subject, const kernel_shape *s, char *name, size_t size)
{
    snprintf(name, size, "%s %lld", subject->name, (long long)(s->T * s->C));
}

const kernel_family kernels_parameters = {"parameters", false, parameter_shapes, COUNT(parameter_shapes),
                                          name_parameters};

const kernel_family kernels_others = {.title = "other rows, at multiples of their examples", .name = name_parameters};
