/* Shared by the tests of the far device: every row of a table as a call on operands that any device may hold. */
#ifndef TESS_TESTS_DEVICE_FAR_TEST_H
#define TESS_TESTS_DEVICE_FAR_TEST_H

#include "base/core/rng.h"
#include "device/bf16.h"
#include "device/device.h"
#include "support/test.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Operands: 0..6 of the dtype, 7..10 float32 in (0, 1), 11..13 int32 in [0, SMALLEST), 14 bytes for results. */
enum { OPERANDS = 15, FIRST_FLOATS = 7, FIRST_INTEGERS = 11, BYTES = 14, OPERAND_BYTES = 1 << 16, SMALLEST = 3 };

typedef struct far_shape {
    int64_t T, C; /* rows, columns; other sizes follow from these */
    tess_dtype dtype;
} far_shape;

typedef struct far_row {
    const char *name;
    tess_status (*call)(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p);
} far_row;

static tess_status call_gemm(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    tess_gemm g = {.m = p->T,
                   .n = p->C,
                   .k = 19,
                   .a = x[0],
                   .lda = 19,
                   .b = x[1],
                   .ldb = p->C,
                   .c = x[2],
                   .ldc = p->C,
                   .bias = x[3],
                   .ab_dtype = p->dtype,
                   .c_dtype = p->dtype};
    tess_status status = k->gemm(s, &g);
    memset(&g, 0xff, sizeof(g)); /* a descriptor is consumed */
    return status;
}

static tess_status call_gemm_fused(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    tess_gemm_fused f = {.g = {.m = p->T,
                               .n = p->C,
                               .k = 19,
                               .a = x[0],
                               .lda = 19,
                               .b = x[1],
                               .ldb = p->C,
                               .c = x[2],
                               .ldc = p->C,
                               .ab_dtype = p->dtype,
                               .c_dtype = p->dtype},
                         .n_terms = 1,
                         .terms = {{x[3], 5, x[4], p->C, 5}},
                         .work = x[BYTES]};
    TESS_TRY(k->gemm_fused(s, &f));
    f.n_terms = 0;
    f.then = TESS_THEN_ACT_BACKWARD;
    f.act = TESS_ACT_SILU;
    f.gate = x[4], f.up = x[5], f.y = x[6];
    return k->gemm_fused(s, &f);
}

static tess_status call_gemm_grouped(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    const tess_gemm g = {.m = p->T,
                         .n = p->C,
                         .k = 19,
                         .a = x[0],
                         .lda = 19,
                         .b = x[1],
                         .ldb = p->C,
                         .c = x[2],
                         .ldc = p->C,
                         .ab_dtype = p->dtype,
                         .c_dtype = p->dtype};
    tess_gemm_fused products[3] = {
        {.g = g}, {.g = g, .then = TESS_THEN_ACT_BACKWARD, .gate = x[4], .up = x[5], .y = x[6]}, {.g = g}};
    products[1].g.c = NULL;
    products[2].g.m = 0;
    tess_status status = k->gemm_grouped(
        s, &(tess_gemm_grouped){.products = products, .n_products = 3, .ab_dtype = p->dtype, .work = x[BYTES]});
    memset(products, 0xff, sizeof(products));
    return status;
}

static tess_status call_attention(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    enum { H = 4, G = 2, D = 16 };
    int64_t half = p->T / 2;
    size_t size = tess_dtype_size(p->dtype);
    tess_attention_seq seqs[2];
    for (int i = 0; i < 2; i++) {
        int64_t begin = i * half, n = i == 0 ? half : p->T - half;
        seqs[i] = (tess_attention_seq){
            begin, n, n, (char *)x[1] + (size_t)(begin * G * D) * size, (char *)x[2] + (size_t)(begin * G * D) * size,
            NULL};
    }
    const tess_attention a = {.n_seqs = 2,
                              .seqs = seqs,
                              .n_heads = H,
                              .n_kv_heads = G,
                              .head_size = D,
                              .scale = 0.25f,
                              .q = x[0],
                              .out = x[3],
                              .q_stride = H * D,
                              .k_stride = G * D,
                              .v_stride = G * D,
                              .out_stride = H * D,
                              .lse = x[7],
                              .dtype = p->dtype};
    const tess_attention_grad g = {.forward = a,
                                   .dout = x[4],
                                   .dq = x[5],
                                   .dk = x[6],
                                   .dv = x[BYTES],
                                   .dout_stride = H * D,
                                   .dq_stride = H * D,
                                   .dk_stride = G * D,
                                   .dv_stride = G * D};
    TESS_TRY(k->attention_forward(s, &a));
    tess_status status = k->attention_backward(s, &g);
    memset(seqs, 0xff, sizeof(seqs));
    return status;
}

static tess_status call_rmsnorm(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->rmsnorm_forward(s, &(tess_norm_args){.x = x[0],
                                                     .residual = x[1],
                                                     .h_out = x[2],
                                                     .w = x[3],
                                                     .y = x[4],
                                                     .rstd = x[7],
                                                     .T = p->T,
                                                     .C = p->C,
                                                     .eps = 1e-5f,
                                                     .dtype = p->dtype}));
    return k->rmsnorm_backward(s, &(tess_norm_grad_args){.h = x[2],
                                                         .w = x[3],
                                                         .rstd = x[7],
                                                         .dy = x[5],
                                                         .dresidual = x[6],
                                                         .dx = x[6],
                                                         .dw = x[8],
                                                         .T = p->T,
                                                         .C = p->C,
                                                         .dtype = p->dtype});
}

static tess_status call_layernorm(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->layernorm_forward(s, &(tess_norm_args){.x = x[0],
                                                       .residual = x[1],
                                                       .h_out = x[2],
                                                       .w = x[3],
                                                       .b = x[3],
                                                       .y = x[4],
                                                       .mean = x[7],
                                                       .rstd = x[8],
                                                       .T = p->T,
                                                       .C = p->C,
                                                       .eps = 1e-5f,
                                                       .dtype = p->dtype}));
    return k->layernorm_backward(s, &(tess_norm_grad_args){.h = x[2],
                                                           .w = x[3],
                                                           .mean = x[7],
                                                           .rstd = x[8],
                                                           .dy = x[5],
                                                           .dx = x[6],
                                                           .dw = x[9],
                                                           .db = x[10],
                                                           .T = p->T,
                                                           .C = p->C,
                                                           .dtype = p->dtype});
}

static tess_status call_rope(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    return k->rope(s, &(tess_rope_args){.x = x[0],
                                        .stride = 3 * 16 + 5,
                                        .pos = x[11],
                                        .cos_table = x[7],
                                        .sin_table = x[8],
                                        .T = p->T,
                                        .n_heads = 3,
                                        .D = 16,
                                        .R = 12,
                                        .inverse = p->C % 2 == 1,
                                        .dtype = p->dtype});
}

static tess_status call_glu(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->glu_forward(s, &(tess_glu_args){.gate = x[0],
                                                .up = x[1],
                                                .stride = p->C + 3,
                                                .y = x[2],
                                                .T = p->T,
                                                .F = p->C,
                                                .act = TESS_ACT_GELU_TANH,
                                                .dtype = p->dtype}));
    return k->glu_backward(s, &(tess_glu_grad_args){.gate = x[0],
                                                    .up = x[1],
                                                    .stride = p->C + 3,
                                                    .dy = x[3],
                                                    .dgate = x[4],
                                                    .dup = x[5],
                                                    .dstride = p->C + 1,
                                                    .T = p->T,
                                                    .F = p->C,
                                                    .act = TESS_ACT_SILU,
                                                    .dtype = p->dtype});
}

static tess_status call_act(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->act_forward(
        s, &(tess_act_args){.x = x[0], .y = x[1], .n = p->T * p->C, .act = TESS_ACT_GELU_ERF, .dtype = p->dtype}));
    return k->act_backward(
        s, &(tess_act_grad_args){
               .x = x[0], .dy = x[2], .dx = x[3], .n = p->T * p->C, .act = TESS_ACT_GELU_TANH, .dtype = p->dtype});
}

static tess_status call_scale(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    return k->scale(s, &(tess_scale_args){.x = x[0], .factor = 0.7f, .y = x[0], .n = p->T * p->C, .dtype = p->dtype});
}

static tess_status call_add(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    return k->add(s, &(tess_add_args){.a = x[0], .b = x[1], .y = x[0], .n = p->T * p->C, .dtype = p->dtype});
}

static tess_status call_embedding(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->embedding_forward(s, &(tess_embedding_args){.table = x[0],
                                                            .positions = x[1],
                                                            .ids = x[11],
                                                            .pos = x[12],
                                                            .out = x[2],
                                                            .T = p->T,
                                                            .C = p->C,
                                                            .dtype = p->dtype}));
    return k->embedding_backward(s, &(tess_embedding_grad_args){.ids = x[11],
                                                                .dout = x[3],
                                                                .dtable = x[7],
                                                                .rows = SMALLEST,
                                                                .T = p->T,
                                                                .C = p->C,
                                                                .accumulate = p->C % 2 == 1,
                                                                .dtype = p->dtype});
}

static tess_status call_column_sum(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    const int64_t whole = p->C / 4 * 4; /* GPUs read several columns at a time if they can */
    TESS_TRY(k->column_sum(
        s,
        &(tess_column_sum_args){.dy = x[0], .stride = p->C + 2, .db = x[7], .T = p->T, .C = p->C, .dtype = p->dtype}));
    return k->column_sum(s, &(tess_column_sum_args){
                                .dy = x[0], .stride = whole + 4, .db = x[8], .T = p->T, .C = whole, .dtype = p->dtype});
}

static tess_status call_cross_entropy(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    int64_t V = p->C + SMALLEST;
    const tess_cross_entropy rows = {.n = p->T,
                                     .V = V,
                                     .logits = x[7],
                                     .ld = V,
                                     .targets = x[11],
                                     .inv_temperature = 0.5f,
                                     .soft_cap = p->T % 3 == 1 ? 2.5f : 0,
                                     .dlogprob = x[10],
                                     .dentropy = p->C % 2 == 1 ? x[10] : NULL,
                                     .logprob = x[8],
                                     .entropy = x[9],
                                     .dlogits = x[0],
                                     .ldd = V + 1,
                                     .dtype = p->dtype};
    return k->cross_entropy(s, &rows);
}

static tess_status call_adamw(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    const tess_adamw_update u = {.n = p->T * p->C,
                                 .p = x[7],
                                 .m = x[8],
                                 .v = x[9],
                                 .g = x[10],
                                 .lr = 1e-3f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .eps = 1e-8f,
                                 .weight_decay = 0.1f,
                                 .grad_scale = 0.5f,
                                 .bias1 = 0.1f,
                                 .bias2 = 0.05f,
                                 .copy = x[0],
                                 .copy_dtype = p->dtype};
    return k->adamw(s, &u);
}

static tess_status call_convert(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->convert(
        s, &(tess_convert_args){.x = x[0], .from = p->dtype, .y = x[BYTES], .to = TESS_F16, .n = p->T * p->C}));
    return k->convert(s,
                      &(tess_convert_args){.x = x[7], .from = TESS_F32, .y = x[1], .to = p->dtype, .n = p->T * p->C});
}

static tess_status call_round_fp8(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->round_fp8(
        s, &(tess_round_fp8_args){
               .x = x[0], .stride = p->C, .y = x[1], .rows = p->T, .C = p->C, .format = TESS_E4M3, .dtype = p->dtype}));
    return k->round_fp8(
        s, &(tess_round_fp8_args){
               .x = x[2], .stride = p->C, .y = x[3], .rows = p->T, .C = p->C, .format = TESS_E5M2, .dtype = p->dtype});
}

static tess_status call_fp8_codes(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    const int64_t row_bytes = tess_fp8_row_bytes(p->C);
    TESS_TRY(k->fp8_encode(s, &(tess_fp8_encode_args){x[7], x[BYTES], p->T, p->C, row_bytes, p->dtype}));
    return k->fp8_decode(s, &(tess_fp8_decode_args){x[BYTES], x[1], p->T, p->C, row_bytes, p->dtype});
}

static tess_status call_reduce(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    const void *in[3] = {x[0], x[1], x[2]};
    void *out[2] = {x[3], x[4]};
    const tess_reduction r = {.x = in,
                              .n_inputs = 3,
                              .dtype = p->dtype,
                              .op = TESS_AVG,
                              .divisor = 3,
                              .y = out,
                              .n_outputs = 2,
                              .y_dtype = p->dtype,
                              .n = p->T * p->C,
                              .finite = x[BYTES]};
    tess_status status = k->reduce(s, &r);
    memset(in, 0xff, sizeof(in));
    memset(out, 0xff, sizeof(out));
    return status;
}

/* Runs of 0, 1 and more elements, more of them than a GPU takes in a launch. */
static tess_status call_runs(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    enum { RUNS = 70 };
    size_t size = tess_dtype_size(p->dtype);
    int64_t at = 0, all = p->T * p->C;
    tess_value_run values[RUNS], copies[RUNS];
    tess_reduce_run sums[RUNS];
    for (int i = 0; i < RUNS; i++) {
        int64_t n = i == 40 ? all : i % 5 * 3;
        values[i] = (tess_value_run){(char *)x[7] + 4 * at, (char *)x[0] + size * (size_t)at, n};
        copies[i] = (tess_value_run){(char *)x[1] + size * (size_t)at, (char *)x[2] + size * (size_t)at, n};
        sums[i] = (tess_reduce_run){at, all + 600 - at - n, n};
        at += n;
    }
    const void *in[3] = {x[3], x[4], x[5]};
    void *out = x[8];
    const tess_reduction r = {.x = in,
                              .n_inputs = 3,
                              .dtype = p->dtype,
                              .divisor = 1,
                              .y = &out,
                              .n_outputs = 1,
                              .y_dtype = TESS_F32,
                              .accumulate = p->C % 2 == 1,
                              .finite = x[BYTES]};
    TESS_TRY(k->convert_runs(
        s, &(tess_convert_runs_args){.runs = values, .n_runs = RUNS, .from = TESS_F32, .to = p->dtype}));
    TESS_TRY(k->convert_runs(
        s, &(tess_convert_runs_args){.runs = copies, .n_runs = RUNS, .from = p->dtype, .to = p->dtype}));
    tess_status status = k->reduce_runs(s, &(tess_reduce_runs_args){.of = r, .runs = sums, .n_runs = RUNS});
    memset(values, 0xff, sizeof(values));
    memset(sums, 0xff, sizeof(sums));
    memset(in, 0xff, sizeof(in));
    return status;
}

static tess_status call_copy(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    return k->copy(s, &(tess_copy_args){.to = x[1], .from = x[0], .bytes = p->T * p->C, .streams = p->C % 2 == 1});
}

static tess_status call_row_sumsq(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    return k->row_sumsq(s, &(tess_row_sumsq_args){.x = x[7], .out = x[BYTES], .rows = p->T, .C = p->C});
}

static tess_status call_copy_rows(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    int64_t bytes = p->C * (int64_t)tess_dtype_size(p->dtype);
    TESS_TRY(k->copy_rows(
        s, &(tess_copy_rows_args){
               .x = x[0], .x_stride = bytes + 6, .y = x[1], .y_stride = bytes + 1, .n = p->T, .row_bytes = bytes}));
    return k->gather_rows(
        s, &(tess_gather_rows_args){.x = x[2], .index = x[12], .y = x[3], .n = p->T, .row_bytes = bytes});
}

static tess_status call_exact_sum(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    TESS_TRY(k->exact_sum(s, &(tess_exact_sum_args){.x = x[7], .n = p->T * p->C, .sum = x[BYTES]}));
    return k->exact_sum(s, &(tess_exact_sum_args){.x = x[8], .n = p->T, .negate = true, .sum = x[BYTES]});
}

static tess_status call_find_not_finite(tess_stream *s, const tess_kernels *k, void *const *x, const far_shape *p)
{
    return k->find_not_finite(
        s, &(tess_find_not_finite_args){.x = x[0], .dtype = p->dtype, .n = p->T * p->C, .first = x[BYTES]});
}

static const far_row far_rows_tested[] = {
    {"gemm", call_gemm},
    {"gemm_fused", call_gemm_fused},
    /* AdamW comes before rows that write its second moments: below 0 they have no root, and a GPU has another NaN. */
    {"adamw", call_adamw},
    {"gemm_grouped", call_gemm_grouped},
    {"attention", call_attention},
    {"rmsnorm", call_rmsnorm},
    {"layernorm", call_layernorm},
    {"rope", call_rope},
    {"glu", call_glu},
    {"act", call_act},
    {"add", call_add},
    {"scale", call_scale},
    {"embedding", call_embedding},
    {"column_sum", call_column_sum},
    {"cross_entropy", call_cross_entropy},
    {"convert", call_convert},
    {"round_fp8", call_round_fp8},
    {"fp8_codes", call_fp8_codes},
    {"reduce", call_reduce},
    {"runs", call_runs},
    {"copy", call_copy},
    {"row_sumsq", call_row_sumsq},
    {"copy_rows", call_copy_rows},
    {"exact_sum", call_exact_sum},
    {"find_not_finite", call_find_not_finite},
};

/* The same values for every device. */
static inline void draw_operand(int i, tess_dtype dtype, char *bytes)
{
    for (int64_t e = 0; e < OPERAND_BYTES / 4; e++) {
        float normal = tess_rng_normal(3, TESS_RNG_TEST, (uint64_t)i, (uint64_t)e);
        float uniform = tess_rng_uniform(3, TESS_RNG_TEST, (uint64_t)i, (uint64_t)e) * 0.9f + 0.05f;
        if (i >= BYTES)
            ((uint32_t *)bytes)[e] = 0x01010101u;
        else if (i >= FIRST_INTEGERS)
            ((int32_t *)bytes)[e] = (int32_t)(uniform * SMALLEST);
        else if (i >= FIRST_FLOATS)
            ((float *)bytes)[e] = uniform;
        else if (dtype == TESS_F32)
            ((float *)bytes)[e] = normal;
        else
            ((uint16_t *)bytes)[2 * e] = ((uint16_t *)bytes)[2 * e + 1] = tess_float_to_bf16(normal);
    }
}

#endif
