/* The table of operations of a device. Filled with the reference kernels (device/ref: scalar C, the definition), then
 * overridden row by row for the machine at hand (device/cpu); never holds NULL.
 *
 * Laws for every row: an output row depends on its own inputs alone, in an order of operations that neither the number
 * of rows nor the threads change; sums run in the order stated here (along a row: device/elementwise.h); FMA only where
 * stated, in row sums and in activations. Every row but gemm and attention gives the same bits on every table. Matrices
 * are row-major, `ld*` count elements between rows. Float means float32; "x" dtype is TESS_F32 or TESS_BF16 (both
 * operands alike), rounding to bf16 is to nearest even; on the host it may be TESS_F16 too, whose bits are those of the
 * float32 rows with operands widened and results rounded, on every table. Letters: T tokens, C channels, H query heads,
 * G key/value heads, D head size, V vocabulary, F feed-forward channels. Sizes may be 0. Errors: TESS_E_NOMEM for
 * scratch, TESS_E_UNSUPPORTED for a dtype, TESS_E_INVALID for a temperature.
 *
 * One rule for arguments: descriptors are memory of the host, consumed before the call returns; values are memory of
 * the stream's device. Descriptors are the structures below, the sequences of attention, runs, and the arrays `x` and
 * `y` of a reduction. Values are whatever these and the other arguments point at: matrices, ids, positions, targets,
 * tables of angles, work space, and what a row says of them (`finite`, `first`, sums). No row returns a value of a
 * tensor. The one exception is AdamW's `undo`, which the host keeps: rows of other devices refuse it. On a device a
 * call enqueues, so what a row finds wrong with its sizes comes from the next wait (device/device.h). */
#ifndef TESS_DEVICE_KERNELS_H
#define TESS_DEVICE_KERNELS_H

#include "base/core/exact_sum.h"
#include "device/fp8.h"
#include "tessera/types.h"

typedef struct tess_stream tess_stream;
typedef struct tess_undo tess_undo;         /* device/undo.h */
typedef struct tess_code_map tess_code_map; /* device/moments.h */
typedef struct tess_moment_random tess_moment_random;

/* C (m,n) = op(A) op(B) + bias [+ C]. Each element starts from C (accumulate, C float only) or from 0, adds
 * a(i,k) * b(k,j) for k ascending in float32 (F32: one FMA each; BF16: the ISA's pairwise dot product, pairs
 * ascending), then the bias, then converts. trans_a: A is stored (k,m); trans_b: B is stored (n,k).
 *
 * K is not split unless there is a `leaf`. With one, K is cut every `leaf` elements, and the last leaf may be shorter.
 * Each leaf is such a sum from 0; the leaves are added in float32 as a binary tree, neighbours first, where an odd one
 * out is carried up (so leaves that are missing after the last change nothing); then the bias, then converts. A run of
 * 2^i leaves from a multiple of 2^i on is a subtree, and may be computed elsewhere. */
enum { TESS_LEAF_UNIT = 32 };
typedef struct tess_gemm {
    int64_t m, n, k;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    void *c;
    int64_t ldc;
    const void *bias; /* (n) of ab_dtype, or NULL */
    bool trans_a, trans_b, accumulate;
    tess_dtype ab_dtype, c_dtype; /* (F32,F32), (BF16,BF16), (BF16,F32), (F16,F16), (F16,F32) */
    int64_t leaf;                 /* 0: none; else a multiple of TESS_LEAF_UNIT, without `accumulate` */
} tess_gemm;

/* The leaf that cuts k in n_leaves, whole units each, as torch.chunk deals them out: the last one may be shorter, and
 * with few units the last ones are missing. 0: one leaf. */
static inline int64_t tess_leaf_of(int64_t k, int64_t n_leaves)
{
    int64_t units = (k + TESS_LEAF_UNIT - 1) / TESS_LEAF_UNIT;
    return n_leaves == 1 ? 0 : (units + n_leaves - 1) / n_leaves * TESS_LEAF_UNIT;
}

typedef enum tess_activation { TESS_ACT_SILU, TESS_ACT_GELU_TANH, TESS_ACT_GELU_ERF } tess_activation;

typedef enum tess_then {
    TESS_THEN_NOTHING,
    TESS_THEN_ACT,         /* y = act(C), with a gate act(gate) * C; C is kept for backward */
    TESS_THEN_ACT_BACKWARD /* C is the gradient of y and is not kept: `up`, and `gate` where there is one, become their
                              own gradients, and y the activation again */
} tess_then;

/* op(A) (m,k) op(B) (k,n) to be added, stored as the first term's factors are. */
typedef struct tess_gemm_term {
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb, k;
} tess_gemm_term;

/* A product with what usually follows it, so that neither passes through memory. Bits are those of the separate rows:
 * gemm with `accumulate` for every further term, convert, act_forward, glu_forward, act_backward, glu_backward. With a
 * `leaf` all terms have the same k, and leaf i is one sum from 0 over its part of each term in turn. */
enum { TESS_GEMM_TERMS = 2, TESS_FUSED_ROWS = 256 };
typedef struct tess_gemm_fused {
    tess_gemm g; /* accumulate false; no bias when there are further terms; A not transposed, ldc = n and no leaf with
                    `then` */
    int n_terms; /* further ones, at most TESS_GEMM_TERMS */
    tess_gemm_term terms[TESS_GEMM_TERMS];
    tess_then then;
    tess_activation act;
    void *gate, *up, *y; /* (m,n) contiguous, of c_dtype; gate NULL: none; y NULL: not wanted (backward) */
    void *work;          /* tess_gemm_fused_work bytes, aligned to 64 */
} tess_gemm_fused;

/* Work space of a call: float32 sums of (m,n) for further terms in bf16; backward TESS_FUSED_ROWS rows of C. */
size_t tess_gemm_fused_work(int64_t m, int64_t n, bool terms, tess_then then, tess_dtype c_dtype);

/* One sequence of a batch: queries q_begin .. q_begin+q_len of the batch's rows see keys 0..k_len of k/v; query i
 * stands at key position k_len - q_len + i (causal, aligned at the end). In training k_len == q_len and k/v point at
 * the sequence's first row. In generation keys and values lie in pages of a cache, TESS_ATTENTION_BLOCK rows each: key
 * j is row j % TESS_ATTENTION_BLOCK of page pages[j / TESS_ATTENTION_BLOCK], and k/v point at page 0. Pages are
 * descriptors, as the sequence is. */
typedef struct tess_attention_seq {
    int64_t q_begin, q_len, k_len;
    const void *k, *v;    /* (k_len, G, D), rows k_stride / v_stride elements apart, pages page_stride */
    const int32_t *pages; /* (one for each block of keys) or NULL: all rows follow each other */
} tess_attention_seq;

/* out[t,h] = sum_j softmax_j(scale * q[t,h].k[j,h*G/H]) v[j]: online softmax over key blocks of TESS_ATTENTION_BLOCK
 * keys counted from the sequence's first key, so a row's bits depend on its own keys only, not on how many queries run
 * with it. With window > 0 a query at position p sees keys p-window+1 .. p. No T x T matrix exists. lse[t,h] = log sum
 * exp (float). BF16: probabilities (backward: dS too) are rounded to bf16 before they meet another matrix. Keys and
 * values are finite: a NaN in a later row of a sequence may reach earlier ones. */
enum { TESS_ATTENTION_BLOCK = 64 };
typedef struct tess_attention {
    int64_t n_seqs;
    const tess_attention_seq *seqs;
    int64_t n_heads, n_kv_heads, head_size; /* head_size: any, fast when a multiple of 32 up to 256 */
    int64_t window;                         /* 0: none */
    float scale;                            /* > 0 */
    const void *q;
    void *out;
    int64_t q_stride, k_stride, v_stride, out_stride; /* elements between rows (tokens) */
    int64_t page_stride; /* elements between pages of k, and of v; 0: no sequence has any */
    float *lse;          /* (T, H); may be NULL in forward */
    tess_dtype dtype;
} tess_attention;

/* Elements from a sequence's k or v (of this stride) to the block of keys that begins with key `base`. */
static inline int64_t tess_attention_block(const tess_attention *a, const tess_attention_seq *s, int64_t base,
                                           int64_t stride)
{
    return s->pages == NULL ? base * stride : s->pages[base / TESS_ATTENTION_BLOCK] * a->page_stride;
}

/* Gradients of the same call (training: k_len == q_len, no pages). dk, dv rows line up with the batch's rows (q_begin);
 * gradients of a shared key head are the sum over its query heads in ascending order. */
typedef struct tess_attention_grad {
    const void *dout; /* (T, H, D) */
    void *dq, *dk, *dv;
    int64_t dout_stride, dq_stride, dk_stride, dv_stride;
    /* Only dq of heads [head_begin, head_end), and dk and dv of the batch's rows [key_begin, key_end) are wanted. A row
     * may write all of them, and leave undefined what is not wanted; the values that are wanted are the same. */
    bool in_part;
    int64_t head_begin, head_end, key_begin, key_end;
} tess_attention_grad;

/* Rows of logits against their targets, p[v] = softmax(logits[i] / T)[v]:
 *
 *     logprob[i] = log p[target]        entropy[i] = -(sum over v of p[v] log p[v])
 *     dlogits[i,v] = (g ([v == target] - p[v]) - h p[v] (log p[v] + entropy[i])) / T
 *
 * g and h: the loss's derivatives by the row's logprob and entropy. A masked logit is -inf. A row whose target is below
 * 0 gives 0 everywhere. dlogits may be the logits' own memory, each row at its place (BF16: ldd = 2 ld). */
typedef struct tess_cross_entropy {
    int64_t n, V;
    const float *logits; /* (n, V), rows ld elements apart */
    int64_t ld;
    const int32_t *targets;   /* (n) */
    float inv_temperature;    /* 1 / T, finite and above 0; 1 costs nothing */
    const float *dlogprob;    /* (n) g, or NULL: -1 each, the loss -log p */
    const float *dentropy;    /* (n) h, or NULL: 0 each; a row where it is 0 costs nothing more */
    float *logprob, *entropy; /* (n) each, or NULL: not wanted */
    void *dlogits;            /* (n, V) of `dtype`, rows ldd elements apart, or NULL: not wanted */
    int64_t ldd;
    tess_dtype dtype;
} tess_cross_entropy;

/* Each y (n) = op over r of x[r] (n). A sum is the binary tree over r: neighbours first, an odd one out is carried up.
 * Floats (F32, BF16, F16) are added in float32; the sum is divided by `divisor`, then rounded to y_dtype: F32, or that
 * of x. Integers are added as int64, which wraps, divided, cut towards zero, and stored as any integer y_dtype.
 * TESS_MAX and TESS_MIN of floats give NaN when there is one, and y_dtype is that of x. A y may be one of the x. */
typedef struct tess_reduction {
    const void *const *x;
    int n_inputs; /* 0: the sum is 0 */
    tess_dtype dtype;
    tess_op op;  /* TESS_AVG is TESS_SUM: `divisor` says by how much */
    int divisor; /* divisor of sums, 1: none */
    void *const *y;
    int n_outputs;
    tess_dtype y_dtype;
    int64_t n;
    bool accumulate; /* one y, of F32: y = sum + y */
    bool streams;    /* past the caches, for results that nobody reads soon */
} tess_reduction;

/* A run of n contiguous values, from x to y. */
typedef struct tess_value_run {
    const void *x;
    void *y;
    int64_t n;
} tess_value_run;

/* Elements x .. x + n of every input of a reduction go to elements y .. y + n of its output. */
typedef struct tess_reduce_run {
    int64_t x, y, n;
} tess_reduce_run;

/* torch.optim.AdamW with g * grad_scale as gradient: p -= lr*wd*p; m = m + (1-b1)(g-m); v = b2 v + (1-b2) g g;
 * p -= lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps). device/adamw.h has the order of operations. */
typedef struct tess_adamw_update {
    int64_t n;
    float *p, *m, *v; /* (n), updated in place */
    const float *g;   /* (n) */
    float lr, beta1, beta2, eps, weight_decay, grad_scale;
    float bias1, bias2; /* 1 - beta1^step, 1 - beta2^step */
    void *copy;         /* (n) of copy_dtype ("x"), gets the new p too; NULL: none */
    tess_dtype copy_dtype;
    tess_undo *undo; /* every block is recorded there before it changes, and the caller's thread alone works, so that
                        threads with records of their own may call at the same time; NULL: none */
} tess_adamw_update;

enum { TESS_NORM_BLOCK = 32 };

typedef struct tess_kernels {
    const char *name;                 /* "ref", "avx2", "avx512", "avx512_bf16", "amx" */
    const struct tess_kernels *plain; /* the rows of float32 and bfloat16 by which those of float16 work (widen.c) */

    tess_status (*gemm)(tess_stream *s, const tess_gemm *g);
    tess_status (*gemm_fused)(tess_stream *s, const tess_gemm_fused *f);

    tess_status (*attention_forward)(tess_stream *s, const tess_attention *a);
    tess_status (*attention_backward)(tess_stream *s, const tess_attention *a, const tess_attention_grad *g);

    /* h = x + residual (rounded to dtype; skipped when residual is NULL, then h is x); y = h * rstd * w with rstd =
     * 1/sqrt(mean(h^2) + eps) in float32: y = round(round(h * rstd) * w), as HF does. x, residual, h_out, y (T,C)
     * contiguous; w (C); rstd (T) or NULL; h_out may be x or residual; NULL when residual is NULL. */
    tess_status (*rmsnorm_forward)(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                   void *y, float *rstd, int64_t T, int64_t C, float eps, tess_dtype dtype);
    /* dx = gradient wrt h plus dresidual (NULL: none; may be dx itself). dw (C) float, overwritten; NULL: skipped. The
     * sum over tokens runs in blocks of TESS_NORM_BLOCK tokens, blocks ascending. */
    tess_status (*rmsnorm_backward)(tess_stream *s, const void *h, const void *w, const float *rstd, const void *dy,
                                    const void *dresidual, void *dx, float *dw, int64_t T, int64_t C, tess_dtype dtype);

    /* The same with mean and bias: y = (h - mean) * rstd * w + b. b, db may be NULL. */
    tess_status (*layernorm_forward)(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                     const void *b, void *y, float *mean, float *rstd, int64_t T, int64_t C, float eps,
                                     tess_dtype dtype);
    tess_status (*layernorm_backward)(tess_stream *s, const void *h, const void *w, const float *mean,
                                      const float *rstd, const void *dy, const void *dresidual, void *dx, float *dw,
                                      float *db, int64_t T, int64_t C, tess_dtype dtype);

    /* Rotates pairs (i, i + R/2) of each head in place, half-split as HF: x' = x cos - y sin, y' = y cos + x sin, for
     * the first R (rotary) of D channels. x (T, n_heads, D) with row stride; cos/sin (max position, R/2) float; pos
     * (T). inverse: the transposed rotation (backward). */
    tess_status (*rope)(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                        const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse,
                        tess_dtype dtype);

    /* y = act(gate) * up; gate/up rows of `stride` elements, y (T,F) contiguous. */
    tess_status (*glu_forward)(tess_stream *s, const void *gate, const void *up, int64_t stride, void *y, int64_t T,
                               int64_t F, tess_activation act, tess_dtype dtype);
    /* dgate, dup rows of `dstride`; they may be gate and up themselves. */
    tess_status (*glu_backward)(tess_stream *s, const void *gate, const void *up, int64_t stride, const void *dy,
                                void *dgate, void *dup, int64_t dstride, int64_t T, int64_t F, tess_activation act,
                                tess_dtype dtype);

    /* y = act(x), dx = dy * act'(x); n elements; in place allowed. */
    tess_status (*act_forward)(tess_stream *s, const void *x, void *y, int64_t n, tess_activation act,
                               tess_dtype dtype);
    tess_status (*act_backward)(tess_stream *s, const void *x, const void *dy, void *dx, int64_t n, tess_activation act,
                                tess_dtype dtype);

    /* y = a + b (rounded), n elements; in place allowed. */
    tess_status (*add)(tess_stream *s, const void *a, const void *b, void *y, int64_t n, tess_dtype dtype);
    /* y = factor * x (rounded), n elements; in place allowed. */
    tess_status (*scale)(tess_stream *s, const void *x, float factor, void *y, int64_t n, tess_dtype dtype);

    /* y = x as it comes back from fp8: each row of x (rows, C), `stride` elements apart, in blocks of TESS_FP8_BLOCK
     * from its begin on that have a scale each (tess_fp8_scale of the largest magnitude); the last one may be shorter.
     * A block with an infinity or a NaN stays as it is. y (rows, C) contiguous, apart from x. */
    tess_status (*round_fp8)(tess_stream *s, const void *x, int64_t stride, void *y, int64_t rows, int64_t C,
                             tess_fp8 format, tess_dtype dtype);

    /* out[t] = table[ids[t]] (+ positions[pos[t]] when positions is not NULL). Ids are in range (the caller checked).
     */
    tess_status (*embedding_forward)(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                     const int32_t *pos, void *out, int64_t T, int64_t C, tess_dtype dtype);
    /* dtable[ids[t]] += dout[t] for t ascending, float32; first zeroes (rows, C) unless accumulate. */
    tess_status (*embedding_backward)(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                      int64_t T, int64_t C, bool accumulate, tess_dtype dtype);

    /* db[c] = sum over t of dy[t,c], in blocks of TESS_NORM_BLOCK tokens, blocks ascending (bias gradients). */
    tess_status (*column_sum)(tess_stream *s, const void *dy, int64_t stride, float *db, int64_t T, int64_t C,
                              tess_dtype dtype);

    tess_status (*cross_entropy)(tess_stream *s, const tess_cross_entropy *rows);

    /* The same bits on every table. */
    tess_status (*adamw)(tess_stream *s, const tess_adamw_update *u);

    /* y = (to) x, n elements; any of F32, BF16, F16 each way. */
    tess_status (*convert)(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, int64_t n);

    /* finite: set false when a sum of floats is NaN or infinite, else left alone; NULL: not looked at. */
    tess_status (*reduce)(tess_stream *s, const tess_reduction *r, bool *finite);

    /* Many runs in one call. convert_runs: as `convert`, or bytes of any dtype where `from` is `to`; the runs' y are
     * apart from each other and from every x. reduce_runs: as `reduce` of floats to one sum, whose x[r] and y[0] are
     * where the runs count from; r->n says nothing. */
    tess_status (*convert_runs)(tess_stream *s, const tess_value_run *runs, int64_t n_runs, tess_dtype from,
                                tess_dtype to);
    tess_status (*reduce_runs)(tess_stream *s, const tess_reduction *r, const tess_reduce_run *runs, int64_t n_runs,
                               bool *finite);

    /* memcpy. streams: past the caches, and in the memory once the call returns. */
    tess_status (*copy)(tess_stream *s, void *to, const void *from, size_t bytes, bool streams);

    /* y[i] = x[i] for n rows of row_bytes that start a stride (bytes) apart; x and y are apart. */
    tess_status (*copy_rows)(tess_stream *s, const void *x, size_t x_stride, void *y, size_t y_stride, int64_t n,
                             size_t row_bytes);
    /* y[i] = x[index[i]], n contiguous rows of row_bytes; x and y are apart. Indices are in range (the caller checked).
     */
    tess_status (*gather_rows)(tess_stream *s, const void *x, const int32_t *index, void *y, int64_t n,
                               size_t row_bytes);

    /* *sum += x[i], with `negate` -x[i]: exact, so that neither order nor ranks change it. x (n). The sum is
     * normalised afterwards: equal values have equal limbs. */
    tess_status (*exact_sum)(tess_stream *s, const float *x, int64_t n, bool negate, tess_exact_sum *sum);

    /* *first = the smallest i with x[i] NaN or infinite, -1: none. x (n) of F32 or BF16. */
    tess_status (*find_not_finite)(tess_stream *s, const void *x, tess_dtype dtype, int64_t n, int64_t *first);

    /* out[r] = sum of squares of row r of float x (rows, C), in double: 16 partial sums (element i in sum i % 16,
     * ascending), then folded in halves: i + (i + 8), then 4, 2, 1. */
    tess_status (*row_sumsq)(tess_stream *s, const float *x, double *out, int64_t rows, int64_t C);

    /* Converts host memory, on every device, in the caller's thread: a block of a moment of an optimizer, n elements,
     * to its stored form and back (device/moments.h). The same bits on every table. *most: the largest magnitude. */
    void (*encode_8bit)(const tess_code_map *map, const float *x, int n, uint8_t *codes, float *most);
    void (*decode_8bit)(const tess_code_map *map, const uint8_t *codes, float most, int n, float *x);
    void (*round_randomly)(const tess_moment_random *random, const float *x, int n, uint16_t *y);

    /* Loops that keep one core's arithmetic busy from registers; they return the floating-point operations done. */
    double (*peak_f32)(int64_t rounds);
    double (*peak_bf16)(int64_t rounds);
} tess_kernels;

/* The best table of this machine that the environment's TESSERA_CPU_MOST allows, or the one named ("ref", "avx2",
 * "avx512", "avx512_bf16", "amx"). NULL: the environment's TESSERA_CPU, else the best. TESS_E_UNSUPPORTED names what
 * the CPU lacks. The table is static. Threads must have asked for AMX first: this call does. */
tess_status tess_kernels_select(const char *name, const tess_kernels **kernels);

/* "avx512f avx512bw ... amx_bf16": what this CPU has that matters here. Returns text. */
const char *tess_cpu_features(char *text, size_t size);

/* `table` with rows that know float16 too. Borrows it. */
void tess_kernels_widen(const tess_kernels *table, tess_kernels *k);

/* Overriders, one a file; each fills the rows that it has (only called when the CPU can run them). */
void tess_kernels_ref(tess_kernels *k);
void tess_kernels_ref_gemm(tess_kernels *k);
void tess_kernels_gemm_fused(tess_kernels *k); /* made of the other rows of the stream's table */
void tess_kernels_ref_attention(tess_kernels *k);
void tess_kernels_avx2(tess_kernels *k);
void tess_kernels_avx2_gemm(tess_kernels *k);
void tess_kernels_avx2_attention(tess_kernels *k);
void tess_kernels_avx512(tess_kernels *k);
void tess_kernels_avx512_gemm(tess_kernels *k);
void tess_kernels_avx512_attention(tess_kernels *k);
void tess_kernels_avx512_bf16_gemm(tess_kernels *k);
void tess_kernels_amx_gemm(tess_kernels *k);
void tess_kernels_amx_attention(tess_kernels *k);

#endif
