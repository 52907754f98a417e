/* The table of operations of a device. The rows are functions. The table is filled with the reference kernels
 * (device/ref: scalar C, the definition). Then rows are replaced by faster ones for the machine (device/cpu). No row is
 * NULL.
 *
 * Rules for all rows:
 * - An output row depends on its own inputs alone, and neither the number of rows nor the threads change the order of
 *   its operations.
 * - Sums are added in the order that is stated here (along a row: device/elementwise.h). FMA is used only where stated,
 *   in row sums and in activations.
 * - Every row but gemm and attention gives the same bits on every table.
 * - Matrices are row-major; `ld*` is the number of elements from one row to the next.
 * - Float means float32. An "x" dtype is TESS_F32 or TESS_BF16 (the same for both operands). Rounding to bf16 is to
 *   nearest even. On the host it may be TESS_F16, too: its bits are those of the float32 rows with operands widened and
 *   results rounded, on every table.
 * - Sizes may be 0.
 * - Errors: TESS_E_NOMEM for scratch memory, TESS_E_UNSUPPORTED for a dtype, TESS_E_INVALID for a temperature.
 *
 * Letters: T tokens, C channels, H query heads, G key/value heads, D head size, V vocabulary, F feed-forward channels.
 *
 * Arguments are descriptors or values. Descriptors are memory of the host, read before the call returns: the structures
 * below, the sequences of attention, runs, and the arrays `x` and `y` of a reduction. Values are memory of the stream's
 * device: everything that descriptors and other arguments point to, such as matrices, ids, positions, targets, tables
 * of angles, work space, and results about them (`finite`, `first`, sums). No row returns a value of a tensor. The one
 * exception is AdamW's `undo`, which is in the host's memory; rows of other devices refuse it. On a device a call only
 * enqueues, so errors about sizes are returned by the next wait (device/device.h). */
#ifndef TESS_DEVICE_KERNELS_H
#define TESS_DEVICE_KERNELS_H

#include "base/core/exact_sum.h"
#include "device/fp8.h"
#include "tessera/types.h"

typedef struct tess_stream tess_stream;
typedef struct tess_undo tess_undo;         /* device/undo.h */
typedef struct tess_code_map tess_code_map; /* device/moments.h */
typedef struct tess_moment_random tess_moment_random;

/* C (m,n) = op(A) op(B) + bias [+ C]. Each element starts from C (accumulate, C float only) or from 0. It adds
 * a(i,k) * b(k,j) for k ascending in float32 (F32: one FMA each; BF16: the ISA's pairwise dot product, pairs
 * ascending), then the bias, and is converted. trans_a: A is stored (k,m). trans_b: B is stored (n,k).
 *
 * K is split only if there is a `leaf`. Then K is cut every `leaf` elements, and the last leaf may be shorter. Each
 * leaf is a sum as above that starts from 0. The leaves are added in float32 as a binary tree: neighbours first, and an
 * unpaired node is carried up, so leaves that are missing at the end change nothing. Then the bias is added, and the
 * element is converted. A run of 2^i leaves that begins at a multiple of 2^i is a subtree, and may be computed
 * elsewhere. */
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
    /* 0: there are no leaves; otherwise a multiple of TESS_LEAF_UNIT, without `accumulate` */
    int64_t leaf;
} tess_gemm;

/* Returns the leaf that cuts k in n_leaves leaves of whole units, like torch.chunk. The last leaf may be shorter, and
 * if there are few units the last leaves are missing. 0: there is one leaf. */
static inline int64_t tess_leaf_of(int64_t k, int64_t n_leaves)
{
    int64_t units = (k + TESS_LEAF_UNIT - 1) / TESS_LEAF_UNIT;
    return n_leaves == 1 ? 0 : (units + n_leaves - 1) / n_leaves * TESS_LEAF_UNIT;
}

typedef enum tess_activation { TESS_ACT_SILU, TESS_ACT_GELU_TANH, TESS_ACT_GELU_ERF } tess_activation;

typedef enum tess_then {
    TESS_THEN_NOTHING,
    TESS_THEN_ACT,         /* y = act(C), or act(gate) * C with a gate; C is kept for the backward pass */
    TESS_THEN_ACT_BACKWARD /* C is the gradient of y and is not kept. `up` and, if there is one, `gate` are replaced by
                              their gradients, and y by the activation. */
} tess_then;

/* A further product op(A) (m,k) op(B) (k,n) to add, stored in the same way as the first one. */
typedef struct tess_gemm_term {
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb, k;
} tess_gemm_term;

/* A product with the operations that usually follow it, which avoids passing C through memory. The bits are those of
 * the separate rows: gemm with `accumulate` for every further term, convert, act_forward, glu_forward, act_backward,
 * glu_backward. With a `leaf` all terms have the same k, and leaf i is one sum from 0 over its part of each term, in
 * order. */
enum { TESS_GEMM_TERMS = 2, TESS_FUSED_ROWS = 256 };
typedef struct tess_gemm_fused {
    /* `accumulate` is false. There is no bias if there are further terms. With `then`, A is not transposed, ldc = n,
     * and there is no leaf. */
    tess_gemm g;
    int n_terms; /* number of further terms, at most TESS_GEMM_TERMS */
    tess_gemm_term terms[TESS_GEMM_TERMS];
    tess_then then;
    tess_activation act;
    void *gate, *up, *y; /* (m,n) contiguous, of c_dtype; gate NULL: there is no gate; y NULL: not wanted (backward) */
    void *work;          /* tess_gemm_fused_work bytes, aligned to 64 */
} tess_gemm_fused;

/* Returns the bytes of work space that a call needs: float32 sums (m,n) for further terms in bf16, and TESS_FUSED_ROWS
 * rows of C in the backward pass. */
size_t tess_gemm_fused_work(int64_t m, int64_t n, bool terms, tess_then then, tess_dtype c_dtype);

/* One sequence of a batch. Queries q_begin .. q_begin+q_len of the batch's rows see keys 0 .. k_len of k/v. Query i has
 * key position k_len - q_len + i (causal, aligned at the end). In training k_len == q_len, and k/v point to the
 * sequence's first row. In generation keys and values are in pages of a cache, TESS_ATTENTION_BLOCK rows each: key j is
 * row j % TESS_ATTENTION_BLOCK of page pages[j / TESS_ATTENTION_BLOCK], and k/v point to page 0. Pages are descriptors,
 * like the sequence. */
typedef struct tess_attention_seq {
    int64_t q_begin, q_len, k_len;
    const void *k, *v;    /* (k_len, G, D), rows k_stride / v_stride elements apart, pages page_stride */
    const int32_t *pages; /* (one for each block of keys), or NULL: all rows are contiguous */
} tess_attention_seq;

/* out[t,h] = sum_j softmax_j(scale * q[t,h].k[j,h*G/H]) v[j]. It is an online softmax over blocks of
 * TESS_ATTENTION_BLOCK keys, counted from the sequence's first key. So a row's bits depend only on its own keys, not on
 * the number of queries that run with it. With window > 0 a query at position p sees keys p-window+1 .. p. No T x T
 * matrix is stored. lse[t,h] = log sum exp (float). BF16: probabilities (and dS in the backward pass) are rounded to
 * bf16 before they are multiplied with another matrix. Keys and values must be finite: a NaN in a later row of a
 * sequence may reach earlier ones. */
enum { TESS_ATTENTION_BLOCK = 64 };
typedef struct tess_attention {
    int64_t n_seqs;
    const tess_attention_seq *seqs;
    int64_t n_heads, n_kv_heads, head_size; /* head_size: any; multiples of 32 up to 256 are fast */
    int64_t window;                         /* 0: there is no window */
    float scale;                            /* > 0 */
    const void *q;
    void *out;
    int64_t q_stride, k_stride, v_stride, out_stride; /* elements between rows (tokens) */
    int64_t page_stride; /* elements between pages of k, and of v; 0: no sequence has pages */
    float *lse;          /* (T, H); may be NULL in forward */
    tess_dtype dtype;
} tess_attention;

/* Returns the elements from a sequence's k or v (of this stride) to the block of keys that begins with key `base`. */
static inline int64_t tess_attention_block(const tess_attention *a, const tess_attention_seq *s, int64_t base,
                                           int64_t stride)
{
    return s->pages == NULL ? base * stride : s->pages[base / TESS_ATTENTION_BLOCK] * a->page_stride;
}

/* Gradients of the same call, in training (k_len == q_len, no pages). Rows of dk and dv correspond to the batch's rows
 * (q_begin). The gradient of a shared key head is the sum over its query heads, in ascending order. */
typedef struct tess_attention_grad {
    const void *dout; /* (T, H, D) */
    void *dq, *dk, *dv;
    int64_t dout_stride, dq_stride, dk_stride, dv_stride;
    /* If set, only dq of heads [head_begin, head_end), and dk and dv of the batch's rows [key_begin, key_end), are
     * wanted. An implementation may write everything, or leave the rest undefined. The wanted values are the same in
     * each case. */
    bool in_part;
    int64_t head_begin, head_end, key_begin, key_end;
} tess_attention_grad;

/* Rows of logits and their targets, with p[v] = softmax(logits[i] / T)[v]:
 *
 *     logprob[i] = log p[target]        entropy[i] = -(sum over v of p[v] log p[v])
 *     dlogits[i,v] = (g ([v == target] - p[v]) - h p[v] (log p[v] + entropy[i])) / T
 *
 * g and h are the loss's derivatives by the row's logprob and entropy. A masked logit is -inf. All results of a row are
 * 0 if its target is below 0. dlogits may be the logits' own memory, with each row in the same place (BF16: ldd = 2
 * ld). */
typedef struct tess_cross_entropy {
    int64_t n, V;
    const float *logits; /* (n, V), rows ld elements apart */
    int64_t ld;
    const int32_t *targets;   /* (n) */
    float inv_temperature;    /* 1 / T, finite and above 0; 1 needs no extra work */
    const float *dlogprob;    /* (n) g; NULL: -1 each, for the loss -log p */
    const float *dentropy;    /* (n) h; NULL: 0 each; a row where it is 0 needs no extra work */
    float *logprob, *entropy; /* (n) each, or NULL: not wanted */
    void *dlogits;            /* (n, V) of `dtype`, rows ldd elements apart, or NULL: not wanted */
    int64_t ldd;
    tess_dtype dtype;
} tess_cross_entropy;

/* Each y (n) = op over r of x[r] (n). A sum is the binary tree over r: neighbours first, and an unpaired node is
 * carried up. Floats (F32, BF16, F16) are added in float32; the sum is divided by `divisor`, then rounded to y_dtype,
 * which is F32 or the dtype of x. Integers are added as int64, which wraps around, divided, truncated towards zero, and
 * stored as any integer y_dtype. TESS_MAX and TESS_MIN of floats return NaN if there is one, and y_dtype is the dtype
 * of x. A y may be one of the x. */
typedef struct tess_reduction {
    const void *const *x;
    int n_inputs; /* 0: the sum is 0 */
    tess_dtype dtype;
    tess_op op;  /* TESS_AVG is the same as TESS_SUM; `divisor` makes it an average */
    int divisor; /* divisor of sums; 1: none */
    void *const *y;
    int n_outputs;
    tess_dtype y_dtype;
    int64_t n;
    bool accumulate; /* y = sum + y, for a single y of F32 */
    bool streams;    /* write past the caches, for results that are not read soon */
} tess_reduction;

/* A run of n contiguous values, from x to y. */
typedef struct tess_value_run {
    const void *x;
    void *y;
    int64_t n;
} tess_value_run;

/* Elements x .. x + n of each input of a reduction are reduced to elements y .. y + n of its output. */
typedef struct tess_reduce_run {
    int64_t x, y, n;
} tess_reduce_run;

/* torch.optim.AdamW with g * grad_scale as gradient. device/adamw.h states the order of operations:
 *
 *     p -= lr*wd*p   m = m + (1-b1)(g-m)   v = b2 v + (1-b2) g g   p -= lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps)
 */
typedef struct tess_adamw_update {
    int64_t n;
    float *p, *m, *v; /* (n), updated in place */
    const float *g;   /* (n) */
    float lr, beta1, beta2, eps, weight_decay, grad_scale;
    float bias1, bias2; /* 1 - beta1^step, 1 - beta2^step */
    void *copy;         /* (n) of copy_dtype ("x"), also receives the new p; NULL: there is no copy */
    tess_dtype copy_dtype;
    /* Each block is recorded here before it changes. Only the caller's thread then works, so that threads with their
     * own records may call at the same time. NULL: no record. */
    tess_undo *undo;
} tess_adamw_update;

enum { TESS_NORM_BLOCK = 32 };

typedef struct tess_kernels {
    const char *name;                 /* "ref", "avx2", "avx512", "avx512_bf16", "amx" */
    const struct tess_kernels *plain; /* the float32 and bfloat16 rows that compute those of float16 (widen.c) */

    tess_status (*gemm)(tess_stream *s, const tess_gemm *g);
    tess_status (*gemm_fused)(tess_stream *s, const tess_gemm_fused *f);

    tess_status (*attention_forward)(tess_stream *s, const tess_attention *a);
    tess_status (*attention_backward)(tess_stream *s, const tess_attention *a, const tess_attention_grad *g);

    /* h = x + residual, rounded to dtype; if residual is NULL, h is x. y = h * rstd * w with rstd = 1/sqrt(mean(h^2) +
     * eps) in float32, rounded as in HF: y = round(round(h * rstd) * w). x, residual, h_out, y are (T,C), contiguous; w
     * is (C); rstd is (T) or NULL. h_out may be x or residual, and is NULL if residual is NULL. */
    tess_status (*rmsnorm_forward)(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                   void *y, float *rstd, int64_t T, int64_t C, float eps, tess_dtype dtype);
    /* dx = gradient of h plus dresidual (NULL: none; may be dx itself). dw (C) is float and is overwritten; NULL: not
     * computed. The sum over tokens is computed in blocks of TESS_NORM_BLOCK tokens, blocks ascending. */
    tess_status (*rmsnorm_backward)(tess_stream *s, const void *h, const void *w, const float *rstd, const void *dy,
                                    const void *dresidual, void *dx, float *dw, int64_t T, int64_t C, tess_dtype dtype);

    /* Like rmsnorm_forward and rmsnorm_backward, with mean and bias: y = (h - mean) * rstd * w + b. b and db may be
     * NULL. */
    tess_status (*layernorm_forward)(tess_stream *s, const void *x, const void *residual, void *h_out, const void *w,
                                     const void *b, void *y, float *mean, float *rstd, int64_t T, int64_t C, float eps,
                                     tess_dtype dtype);
    tess_status (*layernorm_backward)(tess_stream *s, const void *h, const void *w, const float *mean,
                                      const float *rstd, const void *dy, const void *dresidual, void *dx, float *dw,
                                      float *db, int64_t T, int64_t C, tess_dtype dtype);

    /* Rotates the pairs (i, i + R/2) of the first R (rotary) of D channels of each head in place, in the half-split
     * layout of HF: x' = x cos - y sin, y' = y cos + x sin. x is (T, n_heads, D) with a row stride; cos and sin are
     * (max position, R/2) float; pos is (T). inverse: the transposed rotation, for the backward pass. */
    tess_status (*rope)(tess_stream *s, void *x, int64_t stride, const int32_t *pos, const float *cos_table,
                        const float *sin_table, int64_t T, int64_t n_heads, int64_t D, int64_t R, bool inverse,
                        tess_dtype dtype);

    /* y = act(gate) * up. Rows of gate and up are `stride` elements apart; y is (T,F), contiguous. */
    tess_status (*glu_forward)(tess_stream *s, const void *gate, const void *up, int64_t stride, void *y, int64_t T,
                               int64_t F, tess_activation act, tess_dtype dtype);
    /* Rows of dgate and dup are `dstride` elements apart. They may be gate and up themselves. */
    tess_status (*glu_backward)(tess_stream *s, const void *gate, const void *up, int64_t stride, const void *dy,
                                void *dgate, void *dup, int64_t dstride, int64_t T, int64_t F, tess_activation act,
                                tess_dtype dtype);

    /* act_forward: y = act(x). act_backward: dx = dy * act'(x). n elements; in place is allowed. */
    tess_status (*act_forward)(tess_stream *s, const void *x, void *y, int64_t n, tess_activation act,
                               tess_dtype dtype);
    tess_status (*act_backward)(tess_stream *s, const void *x, const void *dy, void *dx, int64_t n, tess_activation act,
                                tess_dtype dtype);

    /* y = a + b (rounded), n elements; in place is allowed. */
    tess_status (*add)(tess_stream *s, const void *a, const void *b, void *y, int64_t n, tess_dtype dtype);
    /* y = factor * x (rounded), n elements; in place is allowed. */
    tess_status (*scale)(tess_stream *s, const void *x, float factor, void *y, int64_t n, tess_dtype dtype);

    /* y = x rounded to fp8 and converted back. Each row of x (rows, C), `stride` elements apart, is divided into blocks
     * of TESS_FP8_BLOCK elements from its begin; the last one may be shorter. Each block has a scale (tess_fp8_scale of
     * its largest magnitude). A block with an infinity or a NaN is copied unchanged. y (rows, C) is contiguous and does
     * not overlap x. */
    tess_status (*round_fp8)(tess_stream *s, const void *x, int64_t stride, void *y, int64_t rows, int64_t C,
                             tess_fp8 format, tess_dtype dtype);

    /* out[t] = table[ids[t]] (+ positions[pos[t]] if positions is not NULL). The caller has checked that ids are in
     * range. */
    tess_status (*embedding_forward)(tess_stream *s, const void *table, const void *positions, const int32_t *ids,
                                     const int32_t *pos, void *out, int64_t T, int64_t C, tess_dtype dtype);
    /* dtable[ids[t]] += dout[t] for t ascending, in float32. Sets dtable (rows, C) to 0 first, unless accumulate. */
    tess_status (*embedding_backward)(tess_stream *s, const int32_t *ids, const void *dout, float *dtable, int64_t rows,
                                      int64_t T, int64_t C, bool accumulate, tess_dtype dtype);

    /* db[c] = sum over t of dy[t,c], for gradients of biases. The sum is computed in blocks of TESS_NORM_BLOCK tokens,
     * blocks ascending. */
    tess_status (*column_sum)(tess_stream *s, const void *dy, int64_t stride, float *db, int64_t T, int64_t C,
                              tess_dtype dtype);

    tess_status (*cross_entropy)(tess_stream *s, const tess_cross_entropy *rows);

    /* Gives the same bits on every table. */
    tess_status (*adamw)(tess_stream *s, const tess_adamw_update *u);

    /* Converts n elements: y = (to) x. Each dtype is F32, BF16 or F16. */
    tess_status (*convert)(tess_stream *s, const void *x, tess_dtype from, void *y, tess_dtype to, int64_t n);

    /* *finite is set to false if a sum of floats is NaN or infinite, otherwise left unchanged; NULL: not checked. */
    tess_status (*reduce)(tess_stream *s, const tess_reduction *r, bool *finite);

    /* Rows that process many runs in one call. convert_runs: like `convert`, or copies bytes of any dtype if `from` is
     * `to`; the runs' y must not overlap each other or any x. reduce_runs: like `reduce` of floats to one sum; the runs
     * count from x[r] and y[0], and r->n is ignored. */
    tess_status (*convert_runs)(tess_stream *s, const tess_value_run *runs, int64_t n_runs, tess_dtype from,
                                tess_dtype to);
    tess_status (*reduce_runs)(tess_stream *s, const tess_reduction *r, const tess_reduce_run *runs, int64_t n_runs,
                               bool *finite);

    /* memcpy. streams: writes past the caches; the data are in memory when the call returns. */
    tess_status (*copy)(tess_stream *s, void *to, const void *from, size_t bytes, bool streams);

    /* y[i] = x[i] for n rows of row_bytes. Rows begin a stride (bytes) apart; x and y must not overlap. */
    tess_status (*copy_rows)(tess_stream *s, const void *x, size_t x_stride, void *y, size_t y_stride, int64_t n,
                             size_t row_bytes);
    /* y[i] = x[index[i]] for n contiguous rows of row_bytes; x and y must not overlap. The caller has checked that
     * indices are in range. */
    tess_status (*gather_rows)(tess_stream *s, const void *x, const int32_t *index, void *y, int64_t n,
                               size_t row_bytes);

    /* *sum += x[i] for x (n), or -x[i] with `negate`. The sum is exact, so neither order nor ranks change it. It is
     * normalised afterwards: equal values have equal limbs. */
    tess_status (*exact_sum)(tess_stream *s, const float *x, int64_t n, bool negate, tess_exact_sum *sum);

    /* *first = the smallest i with x[i] NaN or infinite; -1: there is none. x is (n) of F32 or BF16. */
    tess_status (*find_not_finite)(tess_stream *s, const void *x, tess_dtype dtype, int64_t n, int64_t *first);

    /* out[r] = sum of squares of row r of float x (rows, C), in double. There are 16 partial sums; element i is added
     * to sum i % 16, ascending. Then they are folded in halves: i + (i + 8), then 4, 2, 1. */
    tess_status (*row_sumsq)(tess_stream *s, const float *x, double *out, int64_t rows, int64_t C);

    /* Converts a block of n elements of an optimizer's moment to its stored form and back (device/moments.h). Works on
     * host memory on every device, in the caller's thread, and gives the same bits on every table. *most is the largest
     * magnitude. */
    void (*encode_8bit)(const tess_code_map *map, const float *x, int n, uint8_t *codes, float *most);
    void (*decode_8bit)(const tess_code_map *map, const uint8_t *codes, float most, int n, float *x);
    void (*round_randomly)(const tess_moment_random *random, const float *x, int n, uint16_t *y);

    /* Loops that keep one core's arithmetic units busy from registers. They return the number of floating-point
     * operations. */
    double (*peak_f32)(int64_t rounds);
    double (*peak_bf16)(int64_t rounds);
} tess_kernels;

/* Returns the best table of this machine that TESSERA_CPU_MOST allows, or the one named ("ref", "avx2", "avx512",
 * "avx512_bf16", "amx"). NULL: the table that TESSERA_CPU names, otherwise the best. TESS_E_UNSUPPORTED: the message
 * names the features that the CPU lacks. The table is static. A process must request AMX before its threads use it;
 * this call does. */
tess_status tess_kernels_select(const char *name, const tess_kernels **kernels);

/* Writes the CPU's features that matter here, such as "avx512f avx512bw ... amx_bf16". Returns text. */
const char *tess_cpu_features(char *text, size_t size);

/* Fills k with the rows of `table`, extended to float16. k borrows `table`. */
void tess_kernels_widen(const tess_kernels *table, tess_kernels *k);

/* Each of these functions fills the rows of one file. Only called if the CPU can run them. */
void tess_kernels_ref(tess_kernels *k);
void tess_kernels_ref_gemm(tess_kernels *k);
void tess_kernels_gemm_fused(tess_kernels *k); /* composed of the other rows of the stream's table */
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
