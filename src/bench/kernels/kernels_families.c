/* Families of kernels: attention, which is limited by arithmetic, and kernels limited by memory: rows of tokens,
 * vocabulary and parameters. */
#include "bench/kernels/kernels_impl.h"
#include "nn/layers/layers.h"

enum { MAX_INPUTS = 8, HEAD_SIZE = 64, ROW = 4096 };

static const float EPS = 1e-5f;

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static const char *dtype_name(const kernel_shape *s)
{
    return s->dtype == TESS_BF16 ? "bf16" : "fp32";
}

typedef struct operand {
    int64_t count;
    tess_dtype dtype;
} operand;

static tess_status create_all(const kernels_bench *bench, const operand *list, size_t n, kernel_operands *o)
{
    for (size_t i = 0; i < n; i++)
        TESS_TRY(kernels_bench_operand(bench, list[i].count, list[i].dtype, &o->x[i]));
    return TESS_OK;
}

/* ---- Causal attention of one layer: half of the T x T products count, two in forward and five in backward ---- */

enum { Q, OUT, DOUT, DQ, K, V, DK, DV, LSE };

static tess_status attention_forward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->attention_forward(o->stream, &o->attention);
}

static tess_status attention_backward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->attention_backward(o->stream, &o->attention, &o->grad);
}

static const kernel_subject attention[] = {
    {"forward", attention_forward, .products = 2}, {"backward", attention_backward, .products = 5}, {.name = NULL}};

static const kernel_shape attention_shapes[] = {
    {attention, "gpt2", TESS_BF16, .seqs = 4, .T = 1024, .H = 12, .H_kv = 12, .C = 64},
    {attention, "gpt2", TESS_BF16, .seqs = 1, .T = 128, .H = 12, .H_kv = 12, .C = 64, .quick = true},
    {attention, "llama-1b", TESS_BF16, .seqs = 1, .T = 2048, .H = 32, .H_kv = 8, .C = 64},
    {attention, "llama-8b", TESS_BF16, .seqs = 1, .T = 2048, .H = 32, .H_kv = 8, .C = 128},
    {attention, "gpt2", TESS_F32, .seqs = 1, .T = 1024, .H = 12, .H_kv = 12, .C = 64},
    {attention, "llama-1b", TESS_F32, .seqs = 1, .T = 1024, .H = 32, .H_kv = 8, .C = 64},
};

static void name_attention(const kernel_subject *subject, const kernel_shape *s, char *name, size_t size)
{
    snprintf(name, size, "attention %s %s %s %lldx%lldx%lldx%lld", dtype_name(s), subject->name, s->model,
             (long long)s->seqs, (long long)s->T, (long long)s->H, (long long)s->C);
}

/* Describes `queries` and `keys` of each sequence. */
static void describe_attention(kernel_operands *o, int64_t queries, int64_t keys)
{
    const kernel_shape *s = o->shape;
    const int64_t wide = s->H * s->C, narrow = s->H_kv * s->C;
    for (int64_t i = 0; i < s->seqs; i++) {
        size_t first = (size_t)(i * keys * narrow) * tess_dtype_size(s->dtype);
        o->seqs[i] =
            (tess_attention_seq){i * queries, queries, keys, (char *)o->x[K] + first, (char *)o->x[V] + first, NULL};
    }
    o->attention = (tess_attention){.n_seqs = s->seqs,
                                    .seqs = o->seqs,
                                    .n_heads = s->H,
                                    .n_kv_heads = s->H_kv,
                                    .head_size = s->C,
                                    .scale = 0.125f,
                                    .q = o->x[Q],
                                    .out = o->x[OUT],
                                    .q_stride = wide,
                                    .k_stride = narrow,
                                    .v_stride = narrow,
                                    .out_stride = wide,
                                    .lse = o->x[LSE],
                                    .dtype = s->dtype};
}

/* Creates the operands of attention. Backward needs the results of forward. */
static tess_status create_attention(const kernels_bench *bench, kernel_operands *o)
{
    const kernel_shape *s = o->shape;
    int64_t T = s->seqs * s->T, wide = s->H * s->C, narrow = s->H_kv * s->C;
    operand list[] = {[LSE] = {T * s->H, TESS_F32}};
    for (int i = Q; i < LSE; i++)
        list[i] = (operand){T * (i < K ? wide : narrow), s->dtype};
    TESS_TRY(create_all(bench, list, COUNT(list), o));
    describe_attention(o, s->T, s->T);
    o->grad = (tess_attention_grad){.dout = o->x[DOUT],
                                    .dq = o->x[DQ],
                                    .dk = o->x[DK],
                                    .dv = o->x[DV],
                                    .dout_stride = wide,
                                    .dq_stride = wide,
                                    .dk_stride = narrow,
                                    .dv_stride = narrow};
    return attention_forward(o);
}

const kernel_family kernels_attention = {"attention: sequences x tokens x heads x size",
                                         true,
                                         attention_shapes,
                                         COUNT(attention_shapes),
                                         name_attention,
                                         create_attention};

/* ---- Attention in generation: a token of each sequence, whose T keys and values of 8 heads are read once ---- */
static const kernel_subject decode_of_one[] = {{"decode", attention_forward, .by_TC = 2 * 8}, {.name = NULL}};
static const kernel_subject decode_of_eight[] = {{"decode", attention_forward, .by_TC = 2 * 8 * 8}, {.name = NULL}};

static const kernel_shape decode_shapes[] = {
    {decode_of_one, "llama-1b", TESS_BF16, .seqs = 1, .T = 4096, .H = 32, .H_kv = 8, .C = 64},
    {decode_of_eight, "llama-1b", TESS_BF16, .seqs = 8, .T = 4096, .H = 32, .H_kv = 8, .C = 64},
    {decode_of_eight, "llama-8b", TESS_BF16, .seqs = 8, .T = 4096, .H = 32, .H_kv = 8, .C = 128},
    {decode_of_one, "llama-8b", TESS_BF16, .seqs = 1, .T = 300, .H = 32, .H_kv = 8, .C = 128, .quick = true},
};

static tess_status create_decode(const kernels_bench *bench, kernel_operands *o)
{
    const kernel_shape *s = o->shape;
    int64_t wide = s->seqs * s->H * s->C, narrow = s->seqs * s->T * s->H_kv * s->C;
    operand list[] = {[LSE] = {s->seqs * s->H, TESS_F32}};
    for (int i = Q; i < LSE; i++)
        list[i] = (operand){i == Q || i == OUT ? wide : i == K || i == V ? narrow : 1, s->dtype};
    TESS_TRY(create_all(bench, list, COUNT(list), o));
    describe_attention(o, 1, s->T);
    return attention_forward(o);
}

const kernel_family kernels_decode = {"attention in generation: sequences x keys x heads x size",
                                      false,
                                      decode_shapes,
                                      COUNT(decode_shapes),
                                      name_attention,
                                      create_decode};

/* ---- Rows of tokens: x[0 .. 4] are (T, C); weights and their gradients (C), statistics (T) next to them ---- */

enum { W = 5, B, DW, DB, MEAN, RSTD, COS, SIN, POSITIONS };

static tess_status layernorm_forward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->layernorm_forward(o->stream, o->x[0], o->x[1], o->x[2], o->x[W], o->x[B], o->x[3], o->x[MEAN],
                                         o->x[RSTD], o->shape->T, o->shape->C, EPS, o->shape->dtype);
}

static tess_status layernorm_backward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->layernorm_backward(o->stream, o->x[0], o->x[W], o->x[MEAN], o->x[RSTD], o->x[1], o->x[2],
                                          o->x[3], o->x[DW], o->x[DB], o->shape->T, o->shape->C, o->shape->dtype);
}

static tess_status rmsnorm_forward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->rmsnorm_forward(o->stream, o->x[0], o->x[1], o->x[2], o->x[W], o->x[3], o->x[RSTD], o->shape->T,
                                       o->shape->C, EPS, o->shape->dtype);
}

static tess_status rmsnorm_backward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->rmsnorm_backward(o->stream, o->x[0], o->x[W], o->x[RSTD], o->x[1], o->x[2], o->x[3], o->x[DW],
                                        o->shape->T, o->shape->C, o->shape->dtype);
}

static tess_status rope(void *self)
{
    kernel_operands *o = self;
    return o->kernels->rope(o->stream, o->x[0], o->shape->C, o->x[POSITIONS], o->x[COS], o->x[SIN], o->shape->T,
                            o->shape->C / HEAD_SIZE, HEAD_SIZE, HEAD_SIZE, false, o->shape->dtype);
}

static tess_status glu_forward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->glu_forward(o->stream, o->x[0], o->x[1], o->shape->C, o->x[2], o->shape->T, o->shape->C,
                                   TESS_ACT_SILU, o->shape->dtype);
}

static tess_status glu_backward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->glu_backward(o->stream, o->x[0], o->x[1], o->shape->C, o->x[2], o->x[3], o->x[4], o->shape->C,
                                    o->shape->T, o->shape->C, TESS_ACT_SILU, o->shape->dtype);
}

static tess_status act_forward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->act_forward(o->stream, o->x[0], o->x[1], o->shape->T * o->shape->C, TESS_ACT_GELU_TANH,
                                   o->shape->dtype);
}

static tess_status act_backward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->act_backward(o->stream, o->x[0], o->x[1], o->x[2], o->shape->T * o->shape->C, TESS_ACT_GELU_TANH,
                                    o->shape->dtype);
}

static tess_status column_sum(void *self)
{
    kernel_operands *o = self;
    return o->kernels->column_sum(o->stream, o->x[0], o->shape->C, o->x[DB], o->shape->T, o->shape->C, o->shape->dtype);
}

/* The field by_TC is the number of operands of (T, C) that are read or written. */
static const kernel_subject layernorm[] = {{"layernorm forward", layernorm_forward, .by_TC = 4},
                                           {"layernorm backward", layernorm_backward, .by_TC = 4},
                                           {.name = NULL}};
static const kernel_subject rmsnorm[] = {{"rmsnorm forward", rmsnorm_forward, .by_TC = 4},
                                         {"rmsnorm backward", rmsnorm_backward, .by_TC = 4},
                                         {.name = NULL}};
static const kernel_subject rotation[] = {{"rope", rope, .by_TC = 2}, {.name = NULL}};
static const kernel_subject gated[] = {
    {"silu glu forward", glu_forward, .by_TC = 3}, {"silu glu backward", glu_backward, .by_TC = 5}, {.name = NULL}};
static const kernel_subject activation[] = {
    {"gelu forward", act_forward, .by_TC = 2}, {"gelu backward", act_backward, .by_TC = 3}, {.name = NULL}};
static const kernel_subject sum[] = {{"column sum", column_sum, .by_TC = 1}, {.name = NULL}};

static const kernel_shape row_shapes[] = {
    {layernorm, "gpt2", TESS_BF16, .T = 4096, .C = 768},
    {layernorm, "gpt2", TESS_F32, .T = 4096, .C = 768},
    {rmsnorm, "llama-1b", TESS_BF16, .T = 2048, .C = 2048},
    {rmsnorm, "llama-8b", TESS_BF16, .T = 2048, .C = 4096},
    {rotation, "llama-1b", TESS_BF16, .T = 2048, .C = 2048},
    {gated, "llama-1b", TESS_BF16, .T = 2048, .C = 8192},
    {gated, "llama-8b", TESS_BF16, .T = 1024, .C = 14336},
    {activation, "gpt2", TESS_BF16, .T = 4096, .C = 3072},
    {activation, "gpt2", TESS_F32, .T = 4096, .C = 3072},
    {sum, "gpt2", TESS_BF16, .T = 4096, .C = 3072},
    {layernorm, "gpt2", TESS_BF16, .T = 64, .C = 768, .quick = true},
};

static void name_row(const kernel_subject *subject, const kernel_shape *s, char *name, size_t size)
{
    snprintf(name, size, "%s %s %s %lldx%lld", subject->name, dtype_name(s), s->model, (long long)s->T,
             (long long)s->C);
}

static tess_status create_rows(const kernels_bench *bench, kernel_operands *o)
{
    int64_t T = o->shape->T, C = o->shape->C, angles = T * HEAD_SIZE / 2;
    tess_dtype dtype = o->shape->dtype;
    const operand list[] = {{T * C, dtype}, {T * C, dtype},     {T * C, dtype},    {T * C, dtype}, {T * C, dtype},
                            {C, dtype},     {C, dtype},         {C, TESS_F32},     {C, TESS_F32},  {T, TESS_F32},
                            {T, TESS_F32},  {angles, TESS_F32}, {angles, TESS_F32}};
    TESS_TRY(create_all(bench, list, COUNT(list), o));
    return kernels_bench_integers(bench, T, 1, T, &o->x[POSITIONS]);
}

const kernel_family kernels_rows = {
    "rows of tokens: tokens x channels", false, row_shapes, COUNT(row_shapes), name_row, create_rows};

/* ---- The vocabulary, for T tokens (cross-entropy: one chunk of the head). Cross-entropy reads float logits and writes
 * their gradient; embedding backward zeroes its float table and adds ---- */

enum { LOGITS, DLOGITS, LOGPROB, TABLE, DTABLE, TOKENS, IDS };

static tess_status cross_entropy(void *self)
{
    kernel_operands *o = self;
    int64_t row = tess_head_row(o->shape->V);
    tess_cross_entropy rows = {.n = o->shape->T,
                               .V = o->shape->V,
                               .logits = o->x[LOGITS],
                               .ld = row,
                               .targets = o->x[IDS],
                               .inv_temperature = 1,
                               .logprob = o->x[LOGPROB],
                               .dlogits = o->x[DLOGITS],
                               .ldd = 2 * row,
                               .dtype = TESS_BF16};
    return o->kernels->cross_entropy(o->stream, &rows);
}

static tess_status embedding_forward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->embedding_forward(o->stream, o->x[TABLE], NULL, o->x[IDS], NULL, o->x[TOKENS], o->shape->T,
                                         o->shape->C, TESS_BF16);
}

static tess_status embedding_backward(void *self)
{
    kernel_operands *o = self;
    return o->kernels->embedding_backward(o->stream, o->x[IDS], o->x[TOKENS], o->x[DTABLE], o->shape->V, o->shape->T,
                                          o->shape->C, false, TESS_BF16);
}

static const kernel_subject vocabulary[] = {{"cross-entropy", cross_entropy, .by_TV = 3},
                                            {"embedding forward", embedding_forward, .by_TC = 2},
                                            {"embedding backward", embedding_backward, .by_VC = 2, .by_TC = 5},
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

static tess_status create_vocab(const kernels_bench *bench, kernel_operands *o)
{
    int64_t T = o->shape->T, C = o->shape->C, V_ = o->shape->V, row = tess_head_row(V_);
    const operand list[] = {
        [LOGITS] = {T * row, TESS_F32}, [DLOGITS] = {T * 2 * row, TESS_BF16}, [LOGPROB] = {T, TESS_F32},
        [TABLE] = {V_ * C, TESS_BF16},  [DTABLE] = {V_ * C, TESS_F32},        [TOKENS] = {T * C, TESS_BF16}};
    TESS_TRY(create_all(bench, list, COUNT(list), o));
    return kernels_bench_integers(bench, T, 7919, V_, &o->x[IDS]);
}

const kernel_family kernels_vocab = {"vocabulary: tokens of V x C", false,      vocab_shapes,
                                     COUNT(vocab_shapes),           name_vocab, create_vocab};

/* ---- Parameters, as (T, C) floats: eight inputs and what is written ---- */

enum { Y = MAX_INPUTS };

static int64_t elements(const kernel_operands *o)
{
    return o->shape->T * o->shape->C;
}

static tess_status update(kernel_operands *o, void *copy, tess_dtype dtype)
{
    const tess_adamw_update u = {.n = elements(o),
                                 .p = o->x[0],
                                 .m = o->x[1],
                                 .v = o->x[Y],
                                 .g = o->x[2],
                                 .lr = 1e-3f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.1f,
                                 .grad_scale = 1,
                                 .bias1 = 0.1f,
                                 .bias2 = 0.05f,
                                 .copy = copy,
                                 .copy_dtype = dtype};
    return o->kernels->adamw(o->stream, &u);
}

static tess_status adamw(void *self)
{
    return update(self, NULL, TESS_F32);
}

static tess_status adamw_with_copy(void *self)
{
    kernel_operands *o = self;
    return update(o, o->x[3], TESS_BF16);
}

static tess_status narrow(void *self)
{
    kernel_operands *o = self;
    return o->kernels->convert(o->stream, o->x[0], TESS_F32, o->x[Y], TESS_BF16, elements(o));
}

static tess_status widen(void *self)
{
    kernel_operands *o = self;
    return o->kernels->convert(o->stream, o->x[0], TESS_BF16, o->x[Y], TESS_F32, elements(o));
}

static tess_status reduce(kernel_operands *o, int n_inputs, tess_dtype dtype, bool accumulate)
{
    const tess_reduction r = {.x = (const void *const *)o->x,
                              .n_inputs = n_inputs,
                              .dtype = dtype,
                              .divisor = 1,
                              .y = &o->x[Y],
                              .n_outputs = 1,
                              .y_dtype = TESS_F32,
                              .n = elements(o),
                              .accumulate = accumulate};
    return o->kernels->reduce(o->stream, &r, NULL);
}

static tess_status reduce_2(void *self)
{
    return reduce(self, 2, TESS_F32, false);
}

static tess_status reduce_2_accumulate(void *self)
{
    return reduce(self, 2, TESS_F32, true);
}

static tess_status reduce_4(void *self)
{
    return reduce(self, 4, TESS_F32, false);
}

static tess_status reduce_8(void *self)
{
    return reduce(self, MAX_INPUTS, TESS_F32, false);
}

static tess_status reduce_2_bf16(void *self)
{
    return reduce(self, 2, TESS_BF16, false);
}

/* Writes one sum per row; these bytes are not counted. */
static tess_status row_sumsq(void *self)
{
    kernel_operands *o = self;
    return o->kernels->row_sumsq(o->stream, o->x[0], o->x[Y], o->shape->T, o->shape->C);
}

/* The field by_TC is the number of floats per element; a bfloat16 counts half. */
static const kernel_subject parameters[] = {
    {"adamw", adamw, .by_TC = 7},
    {"adamw, copy in bf16", adamw_with_copy, .by_TC = 7.5},
    {"convert fp32 to bf16", narrow, .by_TC = 1.5},
    {"convert bf16 to fp32", widen, .by_TC = 1.5},
    {"reduce tree of 2", reduce_2, .by_TC = 3},
    {"reduce tree of 2, accumulate", reduce_2_accumulate, .by_TC = 4},
    {"reduce tree of 4", reduce_4, .by_TC = 5},
    {"reduce tree of 8", reduce_8, .by_TC = 9},
    {"reduce tree of 2 in bf16", reduce_2_bf16, .by_TC = 2},
    {"sums of squares", row_sumsq, .by_TC = 1},
    {.name = NULL},
};

static const kernel_shape parameter_shapes[] = {
    {parameters, "", TESS_F32, .T = 4096, .C = ROW},
    {parameters, "", TESS_F32, .T = 1, .C = ROW, .quick = true},
};

static void name_parameters(const kernel_subject *subject, const kernel_shape *s, char *name, size_t size)
{
    snprintf(name, size, "%s %lld", subject->name, (long long)(s->T * s->C));
}

static tess_status create_parameters(const kernels_bench *bench, kernel_operands *o)
{
    for (int i = 0; i < MAX_INPUTS; i++)
        TESS_TRY(kernels_bench_operand(bench, elements(o), TESS_F32, &o->x[i]));
    return tess_device_alloc(tess_stream_device(bench->stream), TESS_POOL_MISC, (size_t)elements(o) * sizeof(float),
                             "bench operand", &o->x[Y]);
}

const kernel_family kernels_parameters = {
    "parameters", false, parameter_shapes, COUNT(parameter_shapes), name_parameters, create_parameters};
