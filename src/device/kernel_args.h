/* The arguments of each row of a kernel table (device/kernels.h), with what the row computes. The list at the end
 * describes their operands. Letters: T tokens, C channels, H query heads, G key/value heads, D head size, V vocabulary,
 * F feed-forward channels. A row of norms, activations or sums that exists forward and backward has one structure for
 * each. */
#ifndef TESS_DEVICE_KERNEL_ARGS_H
#define TESS_DEVICE_KERNEL_ARGS_H

#include "base/core/exact_sum.h"
#include "device/fp8.h"
#include "tessera/types.h"

typedef struct tess_undo tess_undo; /* device/undo.h */

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
    int n_terms;                           /* number of further terms, at most TESS_GEMM_TERMS */
    tess_gemm_term terms[TESS_GEMM_TERMS]; /* those that are not used are 0 */
    tess_then then;
    tess_activation act;
    void *gate, *up, *y; /* (m,n) contiguous, of c_dtype; gate NULL: there is no gate; y NULL: not wanted (backward) */
    void *work;          /* tess_gemm_fused_work bytes, aligned to 64 */
} tess_gemm_fused;

/* Returns the bytes of work space that a call needs: float32 sums (m,n) for further terms in bf16, and TESS_FUSED_ROWS
 * rows of C in the backward pass, which only a call without y uses. */
size_t tess_gemm_fused_work(int64_t m, int64_t n, bool terms, tess_then then, tess_dtype c_dtype);

/* Products that are computed as one job: the threads share the tiles of all of them. Each product has the bits of
 * `gemm` (without terms and `then`) or `gemm_fused` for it alone, or on a GPU with cuBLAS those of its own in a group.
 * So neither the other products nor their number matter. Products may have no rows or no k, and may differ in every
 * size. No result may overlap another product's result or operands.
 *
 * Experts of a layer: forward and for the gradient of the input, products differ in m; for the gradient of the weight
 * they differ in k. */
typedef struct tess_gemm_grouped {
    const tess_gemm_fused *products; /* descriptors; their `work` is ignored. `accumulate` as in `gemm` */
    int64_t n_products;
    tess_dtype ab_dtype; /* every product has it */
    /* tess_gemm_fused_work bytes of one product that has all rows together (m) and the largest n, aligned to 64 */
    void *work;
} tess_gemm_grouped;

/* One sequence of a batch. Queries q_begin .. q_begin+q_len of the batch's rows see keys 0 .. k_len of k/v. Query i has
 * key position k_len - q_len + i (causal, aligned at the end). In training k_len == q_len, and k/v point to the
 * sequence's first row. In generation keys and values are in pages of a cache, TESS_ATTENTION_BLOCK rows each: key j is
 * row j % TESS_ATTENTION_BLOCK of page pages[j / TESS_ATTENTION_BLOCK], and k/v point to page 0. Pages are descriptors,
 * like the sequence. */
typedef struct tess_attention_seq {
    int64_t q_begin, q_len, k_len;
    const void *k, *v;    /* (k_len, G, D), rows k_stride / v_stride elements apart, pages page_stride */
    const int32_t *pages; /* (one for each block of keys), or NULL: all rows are contiguous */
    /* Only if the call is one of several (tess_attention.state): it has keys [k_begin, k_end), k and v point to the
     * first of them, and its gradients are row k_row of dk and dv. first, last: the sums begin, and end, with this call
     */
    int64_t k_begin, k_end, k_row;
    bool first, last;
} tess_attention_seq;

/* out[t,h] = sum_j softmax_j(s[t,h,j]) v[j] with s = scale * q[t,h].k[j,h*G/H], or with a soft cap s = soft_cap *
 * tanh(scale * q.k / soft_cap). The softmax is over the keys, and with sinks over one more score, sinks[h], that has no
 * value: exp(sinks[h]) is a further term of the denominator. It is an online softmax over blocks of
 * TESS_ATTENTION_BLOCK keys, counted from the sequence's first key. So a row's bits depend only on its own keys, not on
 * the number of queries that run with it. With window > 0 a query at position p sees keys p-window+1 .. p. No T x T
 * matrix is stored. lse[t,h] = log sum exp (float). BF16: probabilities (and dS in the backward pass) are rounded to
 * bf16 before they are multiplied with another matrix. Keys and values must be finite: a NaN in a later row of a
 * sequence may reach earlier ones. */
enum { TESS_ATTENTION_BLOCK = 64 };
/* clang-format off */
/* Several calls may go through the keys of a row in ascending order. Then `state` keeps the sums of each row between
 * them, and the bits are those of one call. Only calls of the same table may share a state. A call begins at a multiple
 * of a unit, and ends at one or at the last key. The unit depends on the table and the direction:
 *   TESS_ATTENTION_CHUNK  forward, a GPU's tensor cores (bfloat16), which merge chunks of this many keys
 *   TESS_ATTENTION_PART   forward, every other table
 *   TESS_ATTENTION_PART   backward, every table */
/* clang-format on */
enum { TESS_ATTENTION_PART = 128, TESS_ATTENTION_CHUNK = 1024 };
typedef struct tess_attention {
    int64_t n_seqs;
    const tess_attention_seq *seqs;
    int64_t n_heads, n_kv_heads, head_size; /* head_size: any; multiples of 32 up to 256 are fast */
    int64_t window;                         /* 0: there is no window */
    float scale;                            /* > 0 */
    float soft_cap;                         /* 0: none */
    const void *sinks;                      /* (H), or NULL: none */
    const void *q;
    void *out;
    int64_t q_stride, k_stride, v_stride, out_stride; /* elements between rows (tokens) */
    int64_t page_stride; /* elements between pages of k, and of v; 0: no sequence has pages */
    float *lse;          /* (T, H); may be NULL in forward */
    float *state;        /* (T, H, D + 2) m, l and o, or NULL: a call has all keys of its sequences */
    int64_t most_keys;   /* the work space is that of one sequence of this many keys and queries; 0: no such limit */
    tess_dtype dtype;
    int32_t row_keys; /* backward: the work space is that of full rows of this many tokens; 0: no such limit */
} tess_attention;

/* Returns the elements from a sequence's k or v (of this stride) to the block of keys that begins with key `base`. */
static inline int64_t tess_attention_block(const tess_attention *a, const tess_attention_seq *s, int64_t base,
                                           int64_t stride)
{
    return s->pages == NULL ? (base - s->k_begin) * stride : s->pages[base / TESS_ATTENTION_BLOCK] * a->page_stride;
}

/* The end of the keys that a call has of a sequence. */
static inline int64_t tess_attention_key_end(const tess_attention *a, const tess_attention_seq *s)
{
    return a->state != NULL ? s->k_end : s->k_len;
}

/* clang-format off */
/* Backward calls that are one of several compute one kind of gradient:
 * TESS_ATTENTION_QUERIES  dq of the queries, from keys [k_begin, k_end) as in forward. state: (T, H, D). Writes delta
 * TESS_ATTENTION_KEYS     dk and dv of any keys [k_begin, k_end), from queries that end before k_len. The queries
 *                         begin at a multiple of TESS_ATTENTION_PART, and end at one unless no later query sees such
 *                         a key. Calls ascend by query head, then by query. state: (rows of dk, G, 2 D). Reads delta
 *                         instead of out
 * TESS_ATTENTION_SINKS    dsinks, from lse and delta of whole sequences */
/* clang-format on */
typedef enum tess_attention_wanted {
    TESS_ATTENTION_ALL,
    TESS_ATTENTION_QUERIES,
    TESS_ATTENTION_KEYS,
    TESS_ATTENTION_SINKS
} tess_attention_wanted;

/* Gradients of the same call, in training (k_len == q_len, no pages). Rows of dk and dv correspond to the batch's rows
 * (q_begin). The gradient of a shared key head is the sum over its query heads, in ascending order. */
typedef struct tess_attention_grad {
    tess_attention forward; /* the call whose gradients these are; out and lse are read */
    const void *dout;       /* (T, H, D) */
    void *dq, *dk, *dv;
    /* (H), or NULL: not wanted. A sum over tokens in blocks of TESS_NORM_BLOCK of a sequence, blocks ascending */
    float *dsinks;
    int64_t dout_stride, dq_stride, dk_stride, dv_stride;
    /* If set, only dq and dsinks of heads [head_begin, head_end), dq of the batch's rows [query_begin, query_end), and
     * dk and dv of rows [key_begin, key_end), are wanted. An implementation may write everything, or leave the rest
     * undefined. The wanted values are the same in each case. */
    bool in_part;
    int64_t head_begin, head_end, query_begin, query_end, key_begin, key_end;
    tess_attention_wanted wanted;
    float *delta; /* (T, H) dout.out of each row, if not all gradients are wanted */
} tess_attention_grad;

/* Rows of logits and their targets, with p[v] = softmax(z[i] / T)[v]. z = factor * logits, and with a soft cap z =
 * soft_cap * tanh(factor * logits / soft_cap), as the row `scale` computes it:
 *
 *     logprob[i] = log p[target]        entropy[i] = -(sum over v of p[v] log p[v])
 *     dlogits[i,v] = (g ([v == target] - p[v]) - h p[v] (log p[v] + entropy[i])) / T * dz/dlogits
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
    float factor, soft_cap;   /* finite; factor 0: 1; soft_cap 0: none. The defaults need no extra work */
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
    bool *finite;    /* set to false if a sum of floats is NaN or infinite, otherwise unchanged; NULL: not checked */
} tess_reduction;

/* A run of n contiguous values, from x to y. */
typedef struct tess_value_run {
    const void *x;
    void *y;
    int64_t n;
} tess_value_run;

/* Converts many runs in one call, as `convert` does, or copies bytes of any dtype if `from` is `to`. The runs' y must
 * not overlap each other or any x. */
typedef struct tess_convert_runs_args {
    const tess_value_run *runs;
    int64_t n_runs;
    tess_dtype from, to;
} tess_convert_runs_args;

/* Elements x .. x + n of each input of a reduction are reduced to elements y .. y + n of its output. */
typedef struct tess_reduce_run {
    int64_t x, y, n;
} tess_reduce_run;

/* Reduces many runs of floats to one sum in one call. The runs count from of.x[r] and of.y[0]; of.n is ignored. */
typedef struct tess_reduce_runs_args {
    tess_reduction of;
    const tess_reduce_run *runs;
    int64_t n_runs;
} tess_reduce_runs_args;

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

/* h = factor * x + residual (one FMA), rounded to dtype; if residual is NULL, h is x.
 *
 *     RMSNorm:   y = round(round(h * rstd) * w)    rstd = 1/sqrt(mean(h^2) + eps) in float32, rounded as in HF
 *     one_plus_w: y = round(h * rstd * (1 + w)), as in Gemma
 *     LayerNorm: y = (h - mean) * rstd * w + b     rstd = 1/sqrt(mean((h - mean)^2) + eps) */
typedef struct tess_norm_args {
    const void *x, *residual; /* (T,C), contiguous; residual NULL: none */
    void *h_out;              /* (T,C); may be x or residual; NULL if residual is NULL */
    const void *w, *b;        /* (C); b is read by LayerNorm alone; NULL: none */
    void *y;                  /* (T,C) */
    float *mean, *rstd;       /* (T), or NULL: not wanted; mean is written by LayerNorm alone */
    int64_t T, C;
    float eps;
    float factor;    /* 0: 1 */
    bool one_plus_w; /* ignored by LayerNorm */
    tess_dtype dtype;
} tess_norm_args;

/* dx = gradient of h plus dresidual; dbranch = factor * dx, the gradient of the forward pass's x. dw and db are
 * overwritten. Their sums over tokens are computed in blocks of TESS_NORM_BLOCK tokens, blocks ascending. */
enum { TESS_NORM_BLOCK = 32 };
typedef struct tess_norm_grad_args {
    const void *h, *w;          /* (T,C), (C) */
    const float *mean, *rstd;   /* (T); RMSNorm has no mean and ignores it */
    const void *dy, *dresidual; /* (T,C); dresidual NULL: none */
    void *dx, *dbranch;         /* (T,C); may be dy or dresidual; dbranch NULL: not wanted */
    float *dw, *db;             /* (C), or NULL: not computed; RMSNorm ignores db */
    int64_t T, C;
    float factor;    /* 0: 1 */
    bool one_plus_w; /* ignored by LayerNorm */
    tess_dtype dtype;
} tess_norm_grad_args;

/* Rotates pairs of R (rotary) of the D channels of each head in place, from channel `first` on: x' = x cos - y sin, y'
 * = y cos + x sin. Pair i < R/2 has channels (i, i + R/2) of these R, as in most models of HF, or (2i, 2i + 1) if
 * `interleaved`. */
typedef struct tess_rope_args {
    void *x; /* (T, n_heads, D), rows `stride` elements apart */
    int64_t stride;
    const int32_t *pos;                 /* (T) */
    const float *cos_table, *sin_table; /* (max position, R/2) */
    int64_t T, n_heads, D, R, first;
    bool inverse;     /* the transposed rotation, for the backward pass */
    bool interleaved; /* GLM-4, Cohere 2 */
    tess_dtype dtype;
} tess_rope_args;

/* y = act(gate) * up. */
typedef struct tess_glu_args {
    const void *gate, *up; /* (T,F), rows `stride` elements apart */
    int64_t stride;
    void *y; /* (T,F), contiguous */
    int64_t T, F;
    tess_activation act;
    tess_dtype dtype;
} tess_glu_args;

/* Gradients of the same call. */
typedef struct tess_glu_grad_args {
    const void *gate, *up; /* (T,F), rows `stride` elements apart */
    int64_t stride;
    const void *dy;    /* (T,F), contiguous */
    void *dgate, *dup; /* (T,F), rows `dstride` elements apart; may be gate and up themselves */
    void *y;           /* (T,F) the result of the call again, contiguous; may be dy; NULL: not wanted */
    int64_t dstride, T, F;
    tess_activation act;
    tess_dtype dtype;
} tess_glu_grad_args;

/* y[i] = g sigmoid(alpha g) (u + 1), with g = min(x[2i], limit) and u = x[2i+1] clamped to [-limit, limit]. */
typedef struct tess_clamped_glu_args {
    const void *x; /* (T, C) pairs of gate and up */
    void *y;       /* (T, C/2) */
    int64_t T, C;
    float alpha, limit;
    tess_dtype dtype;
} tess_clamped_glu_args;

/* Gradients of the same call; a number beyond the limit has none. */
typedef struct tess_clamped_glu_grad_args {
    const void *x;  /* (T, C) */
    const void *dy; /* (T, C/2) */
    void *dx;       /* (T, C); may be x */
    void *y;        /* (T, C/2) the result of the call again */
    int64_t T, C;
    float alpha, limit;
    tess_dtype dtype;
} tess_clamped_glu_grad_args;

/* y = act(x); in place is allowed. */
typedef struct tess_act_args {
    const void *x; /* (n) */
    void *y;       /* (n) */
    int64_t n;
    tess_activation act;
    tess_dtype dtype;
} tess_act_args;

/* dx = dy * act'(x); in place is allowed. */
typedef struct tess_act_grad_args {
    const void *x, *dy; /* (n) */
    void *dx;           /* (n) */
    void *y;            /* (n) act(x); may be dy; NULL: not wanted */
    int64_t n;
    tess_activation act;
    tess_dtype dtype;
} tess_act_grad_args;

/* y = factor * a + b (one FMA, rounded); in place is allowed. */
typedef struct tess_add_args {
    const void *a, *b; /* (n) */
    void *y;           /* (n) */
    int64_t n;
    float factor; /* 0: 1 */
    tess_dtype dtype;
} tess_add_args;

/* y = factor * x (rounded), or soft_cap * tanh(factor * x / soft_cap), where -inf remains; in place is allowed. */
typedef struct tess_scale_args {
    const void *x; /* (n) */
    float factor;
    float soft_cap; /* 0: none */
    void *y;        /* (n) */
    int64_t n;
    tess_dtype dtype;
} tess_scale_args;

/* y = x rounded to fp8 and converted back. Each row of x is divided into blocks of TESS_FP8_BLOCK elements from its
 * begin; the last one may be shorter. Each block has a scale (tess_fp8_scale of its largest magnitude). A block with an
 * infinity or a NaN is copied unchanged. */
typedef struct tess_round_fp8_args {
    const void *x; /* (rows, C), rows `stride` elements apart */
    int64_t stride;
    void *y; /* (rows, C), contiguous; does not overlap x */
    int64_t rows, C;
    tess_fp8 format;
    tess_dtype dtype;
} tess_round_fp8_args;

/* The rows of x as E4M3 codes (device/fp8_rows.h), each value rounded to `dtype` first. A block with an infinity or a
 * NaN becomes NaN throughout. */
typedef struct tess_fp8_encode_args {
    const float *x; /* (rows, C), contiguous */
    uint8_t *codes; /* (rows, row_bytes) */
    int64_t rows, C, row_bytes;
    tess_dtype dtype; /* F32 or BF16 */
} tess_fp8_encode_args;

/* y = what the codes mean. */
typedef struct tess_fp8_decode_args {
    const uint8_t *codes; /* (rows, row_bytes) */
    void *y;              /* (rows, C), contiguous */
    int64_t rows, C, row_bytes;
    tess_dtype dtype; /* F32 or BF16 */
} tess_fp8_decode_args;

/* out[t] = factor * table[ids[t]] + positions[pos[t]] (one FMA). The caller has checked that ids are in range. */
typedef struct tess_embedding_args {
    const void *table, *positions; /* (rows, C) each; positions NULL: not added */
    const int32_t *ids, *pos;      /* (T); pos is read with positions alone */
    void *out;                     /* (T, C) */
    int64_t T, C;
    float factor; /* 0: 1 */
    tess_dtype dtype;
} tess_embedding_args;

/* dtable[ids[t]] += factor * dout[t] for t ascending, in float32 (one FMA). */
typedef struct tess_embedding_grad_args {
    const int32_t *ids; /* (T) */
    const void *dout;   /* (T, C) */
    float *dtable;      /* (rows, C); set to 0 first, unless `accumulate` */
    int64_t rows, T, C;
    bool accumulate;
    float factor; /* 0: 1 */
    tess_dtype dtype;
} tess_embedding_grad_args;

/* db[c] = sum over t of dy[t,c], for gradients of biases. The sum is computed in blocks of TESS_NORM_BLOCK tokens,
 * blocks ascending. */
typedef struct tess_column_sum_args {
    const void *dy; /* (T, C), rows `stride` elements apart */
    int64_t stride;
    float *db; /* (C) */
    int64_t T, C;
    tess_dtype dtype;
} tess_column_sum_args;

/* y = (to) x. Each dtype is F32, BF16 or F16. */
typedef struct tess_convert_args {
    const void *x; /* (n) of `from` */
    tess_dtype from;
    void *y; /* (n) of `to` */
    tess_dtype to;
    int64_t n;
} tess_convert_args;

/* memcpy. streams: writes past the caches; the data are in memory when the call returns. */
typedef struct tess_copy_args {
    void *to;
    const void *from;
    int64_t bytes;
    bool streams;
} tess_copy_args;

/* y[i] = x[i] for n rows of row_bytes; x and y must not overlap. Strides are bytes. */
typedef struct tess_copy_rows_args {
    const void *x;
    int64_t x_stride;
    void *y;
    int64_t y_stride;
    int64_t n, row_bytes;
} tess_copy_rows_args;

/* y[i] = x[index[i]] for n contiguous rows of row_bytes; x and y must not overlap. The caller has checked that indices
 * are in range. */
typedef struct tess_gather_rows_args {
    const void *x;
    const int32_t *index; /* (n) */
    void *y;
    int64_t n, row_bytes;
} tess_gather_rows_args;

/* Puts the channels of heads together: y[t,h] = (a[t,h], b[t,h], shared[t], 0, ...), D channels. All heads of a token
 * have the same `shared`. y overlaps no operand. */
typedef struct tess_join_heads_args {
    const void *a, *b;     /* (T H, A), (T H, B), rows a_stride and b_stride elements apart; b NULL: B is 0 */
    const void *shared;    /* (T, S), contiguous; NULL: S is 0 */
    void *y;               /* (T H, D), contiguous */
    int64_t T, H, A, B, S; /* A + B + S <= D */
    int64_t D, a_stride, b_stride;
    tess_dtype dtype;
} tess_join_heads_args;

/* y[t] = the sum over h ascending of x[t,h] in float32, rounded once: the gradient of what heads share. */
typedef struct tess_sum_heads_args {
    const void *x; /* (T H, C), rows `stride` elements apart */
    int64_t stride;
    void *y; /* (T, C), contiguous */
    int64_t T, H, C;
    tess_dtype dtype;
} tess_sum_heads_args;

/* y = x, or the nearer of -limit and limit if x is beyond them. With dy, y is the gradient: dy, or 0 if x is beyond. */
typedef struct tess_clip_args {
    const void *x, *dy; /* (n); dy NULL: forward */
    void *y;            /* (n); may be x or dy */
    int64_t n;
    float limit;
    tess_dtype dtype;
} tess_clip_args;

/* ---- Mixtures of experts: E experts, of which each token chooses K ---- */
enum { TESS_MAX_EXPERTS = 1024, TESS_MAX_CHOICES = 64, TESS_MAX_GROUPS = 64 };

/* How a token chooses its experts. With groups, E is a multiple of `n_groups`, and at least K experts are in the
 * `n_kept` groups. A group's score is its largest p + bias, or the sum of its two largest. */
typedef struct tess_route_rule {
    int64_t n_groups, n_kept; /* experts are chosen from the n_kept groups with the largest scores; 0: from all */
    float scale;              /* factor of the weights; 0: 1 */
    bool normalize;           /* the weights of a token add up to `scale` */
    bool sigmoid;             /* p is each logit's sigmoid, and not the softmax over all experts */
    bool two_best;            /* see above */
} tess_route_rule;

/* p = softmax(logits) over all experts (sums along a row: device/elementwise.h), or sigmoid(logits). A token chooses
 * the experts with the K largest p + bias; of equal ones that with the lowest number. Its weights are `scale` times
 * their p, or with `normalize` times p / (the sum of the chosen p, experts ascending, + 1e-20). A row with a NaN has
 * weights of NaN, and chooses the first K experts of the first groups if all of its p are NaN. */
typedef struct tess_route_args {
    const float *logits; /* (T, E) */
    const void *bias;    /* (E) of bias_dtype, only for the choice; NULL: 0 */
    tess_dtype bias_dtype;
    float *probs;    /* (T, E); may be logits */
    int32_t *chosen; /* (T, K) experts, ascending */
    float *weights;  /* (T, K) */
    float *lse;      /* (T) log-sum-exp of the logits; NULL: not wanted */
    int64_t T, E, K; /* K <= E, TESS_MAX_CHOICES */
    tess_route_rule rule;
} tess_route_args;

/* The gradient of the logits, in sums over experts ascending. w, p: weight and probability of a chosen expert; g: the
 * gradient of its weight; n: number of an expert's rows.
 *
 *     dp = balance n, plus for a chosen expert scale g, or with `normalize` (scale g - sum of w g) / (the sum of the
 *          chosen p)
 *     dlogits = p (dp - sum of p dp) + z lse p, or for a sigmoid p (1 - p) dp */
typedef struct tess_route_grad_args {
    const float *probs;    /* (T, E) */
    const int32_t *chosen; /* (T, K) */
    const int32_t *place;  /* (T, K) */
    const float *weights;  /* (T, K) */
    const float *dgate;    /* (T K) g of each sorted row */
    const int32_t *ends;   /* (E) as tess_sort_rows_args writes them with one leaf; NULL: balance is 0 */
    const float *lse;      /* (T); NULL: z is 0 */
    float balance, z;
    void *dlogits; /* (T, E) */
    int64_t T, E, K;
    tess_route_rule rule; /* the rule of the forward call; groups do not matter */
    tess_dtype dtype;
} tess_route_grad_args;

/* Sorts the T K pairs of a token and an expert by (expert, token). ends[e, l] is the end of the rows of expert e whose
 * tokens are in leaf l or an earlier one. Leaves are equal parts of the tokens, ascending. */
typedef struct tess_sort_rows_args {
    const int32_t *chosen; /* (T, K) ascending */
    const float *weights;  /* (T, K) */
    int32_t *ends;         /* (E, leaves) */
    int32_t *place;        /* (T, K) the sorted row of each pair */
    int32_t *token;        /* (T K) token and weight of each sorted row */
    float *gate;           /* (T K) */
    int64_t T, E, K;       /* T K < 2^31 */
    int64_t leaves;        /* the number of leaves, 1 or more, divides T */
} tess_sort_rows_args;

/* y[t] = base[t] + the sum over k ascending of g rows[i], i = place[t,k]; FMAs in float32, and one rounding. g is
 * gate[i] or, with `sigmoid`, 1 / (1 + exp(-gate[i])). */
typedef struct tess_combine_rows_args {
    const void *rows;     /* (T K, C) */
    const float *gate;    /* (T K); NULL: 1 each */
    const int32_t *place; /* (T, K); NULL: K is 1, and i is t */
    const void *base;     /* (T, C); may be y; NULL: 0 */
    void *y;              /* (T, C) */
    int64_t T, K, C;
    bool sigmoid;
    tess_dtype dtype;
} tess_combine_rows_args;

/* Gradients of the same call for n sorted rows: dgate[i] = sum of dy[t] rows[i] (one FMA each; a sum along a row),
 * with `sigmoid` times g (1 - g), and drows[i] = g dy[t], t = token[i]. */
typedef struct tess_combine_grad_args {
    const void *dy;       /* (T, C) */
    const void *rows;     /* (n, C) */
    const float *gate;    /* (n) */
    const int32_t *token; /* (n); NULL: t is i */
    void *drows;          /* (n, C); may be rows */
    float *dgate;         /* (n); may be gate */
    int64_t n, C;
    bool sigmoid;
    tess_dtype dtype;
} tess_combine_grad_args;

/* *sum += x[i], or -x[i] with `negate`. The sum is exact, so neither order nor ranks change it. It is normalised
 * afterwards: equal values have equal limbs. */
typedef struct tess_exact_sum_args {
    const float *x; /* (n) */
    int64_t n;
    bool negate;
    tess_exact_sum *sum;
} tess_exact_sum_args;

/* *first = the smallest i with x[i] NaN or infinite; -1: there is none. */
typedef struct tess_find_not_finite_args {
    const void *x; /* (n) */
    tess_dtype dtype;
    int64_t n;
    int64_t *first;
} tess_find_not_finite_args;

/* out[r] = sum of squares of row r, in double. There are 16 partial sums; element i is added to sum i % 16, ascending.
 * Then they are folded in halves: i + (i + 8), then 4, 2, 1. */
typedef struct tess_row_sumsq_args {
    const float *x; /* (rows, C), contiguous */
    double *out;    /* (rows) */
    int64_t rows, C;
} tess_row_sumsq_args;

/* All rows of a table. A line has the row's name, the type of its arguments, and
 *
 * - VEC: a file *_vec.c of device/cpu has a function of the row for each instruction set; or REF: none has. Tables
 *   for products and attention replace those rows themselves.
 * - its operands: which memory a call reads and writes, of which sizes and dtype.
 * - an example of one item: sizes that no vector divides, and values. Tests, the invariance check and the benches take
 *   it for every row that they have no calls of their own for. Empty: there are only calls of their own.
 * - the size that counts items, the dtype of the call, and its operations (tess_kernel_row).
 *
 * A new row is a line here with its arguments above, the reference in device/ref, and a function in device/cpu if it is
 * VEC. kernel_rows.c defines the words, and what counts the lists and the work of the few rows that are composed. */
/* clang-format off */
#define TESS_KERNEL_ROWS(ROW)                                                                                          \
    ROW(gemm, tess_gemm, REF, (PRODUCT()), (), DTYPE(ab_dtype), ITEMS(m),                                              \
        .work = work_of_gemm, .variant = variant_of_gemm)                                                              \
    ROW(gemm_fused, tess_gemm_fused, REF,                                                                              \
        (PRODUCT(g.), TERM(0), TERM(1),                                                                                \
         UPDATES(gate, MATRIX(g.m, g.n), LIKE(g.c_dtype)), UPDATES(up, MATRIX(g.m, g.n), LIKE(g.c_dtype)),             \
         WRITES(y, MATRIX(g.m, g.n), LIKE(g.c_dtype)), OPERAND(work, TESS_WORKS, BLOCK(1))),                           \
        (), DTYPE(g.ab_dtype), ITEMS(g.m), .work = work_of_gemm_fused, .variant = variant_of_gemm_fused)               \
    ROW(gemm_grouped, tess_gemm_grouped, REF, (OPERAND(work, TESS_WORKS, BLOCK(1))),                                   \
        (), DTYPE(ab_dtype), LISTS(grouped_lists), .work = work_of_gemm_grouped, .variant = variant_of_gemm_grouped)   \
    ROW(attention_forward, tess_attention, REF,                                                                        \
        (TOKENS(q, TESS_READS, , n_heads, .stride = AT(q_stride)), READS(sinks, ROW_OF(n_heads), OWN),                 \
         TOKENS(out, TESS_WRITES, , n_heads, .stride = AT(out_stride)),                                                \
         OPERAND(lse, TESS_WRITES, ROW_OF(n_heads), FLOATS, .gathered = true),                                         \
         OPERAND(state, TESS_UPDATES, ROW_OF(n_heads), FLOATS, .gathered = true)),                                     \
        (), DTYPE(dtype), LISTS(attention_lists), .work = work_of_attention, .variant = variant_of_attention)          \
    ROW(attention_backward, tess_attention_grad, REF,                                                                  \
        (TOKENS(forward.q, TESS_READS, forward., n_heads, .stride = AT(forward.q_stride)),                             \
         READS(forward.sinks, ROW_OF(forward.n_heads), LIKE(forward.dtype)),                                           \
         TOKENS(forward.out, TESS_READS, forward., n_heads, .stride = AT(forward.out_stride)),                         \
         OPERAND(forward.lse, TESS_READS, ROW_OF(forward.n_heads), FLOATS, .gathered = true),                          \
         TOKENS(dout, TESS_READS, forward., n_heads, .stride = AT(dout_stride)),                                       \
         TOKENS(dq, TESS_WRITES, forward., n_heads, .stride = AT(dq_stride)),                                          \
         TOKENS(dk, TESS_WRITES, forward., n_kv_heads, .stride = AT(dk_stride)),                                       \
         TOKENS(dv, TESS_WRITES, forward., n_kv_heads, .stride = AT(dv_stride)),                                       \
         WRITES(dsinks, ROW_OF(forward.n_heads), FLOATS),                                                              \
         OPERAND(forward.state, TESS_UPDATES, ROW_OF(forward.n_heads), FLOATS, .gathered = true),                      \
         OPERAND(delta, TESS_UPDATES, ROW_OF(forward.n_heads), FLOATS, .gathered = true)),                             \
        (), DTYPE(forward.dtype), LISTS(attention_lists),                                                              \
        .work = work_of_attention_grad, .variant = variant_of_attention)                                               \
    ROW(rmsnorm_forward, tess_norm_args, VEC,                                                                          \
        (READS(x, MATRIX(T, C), OWN), READS(residual, MATRIX(T, C), OWN), WRITES(h_out, MATRIX(T, C), OWN),            \
         READS(w, ROW_OF(C), OWN), WRITES(y, MATRIX(T, C), OWN), WRITES(rstd, EACH(T), FLOATS)),                       \
        (.T = 1, .C = 203, .eps = 1e-5f), DTYPE(dtype), ITEMS(T), .flops = 5)                                          \
    ROW(rmsnorm_backward, tess_norm_grad_args, VEC,                                                                    \
        (READS(h, MATRIX(T, C), OWN), READS(w, ROW_OF(C), OWN), READS(rstd, EACH(T), FLOATS),                          \
         READS(dy, MATRIX(T, C), OWN), READS(dresidual, MATRIX(T, C), OWN), WRITES(dx, MATRIX(T, C), OWN),             \
         WRITES(dbranch, MATRIX(T, C), OWN), WRITES(dw, ROW_OF(C), FLOATS)),                                           \
        (.T = 1, .C = 203), DTYPE(dtype), ITEMS(T), .flops = 11)                                                       \
    ROW(layernorm_forward, tess_norm_args, VEC,                                                                        \
        (READS(x, MATRIX(T, C), OWN), READS(residual, MATRIX(T, C), OWN), WRITES(h_out, MATRIX(T, C), OWN),            \
         READS(w, ROW_OF(C), OWN), READS(b, ROW_OF(C), OWN), WRITES(y, MATRIX(T, C), OWN),                             \
         WRITES(mean, EACH(T), FLOATS), WRITES(rstd, EACH(T), FLOATS)),                                                \
        (.T = 1, .C = 203, .eps = 1e-5f), DTYPE(dtype), ITEMS(T), .flops = 8)                                          \
    ROW(layernorm_backward, tess_norm_grad_args, VEC,                                                                  \
        (READS(h, MATRIX(T, C), OWN), READS(w, ROW_OF(C), OWN), READS(mean, EACH(T), FLOATS),                          \
         READS(rstd, EACH(T), FLOATS), READS(dy, MATRIX(T, C), OWN), READS(dresidual, MATRIX(T, C), OWN),              \
         WRITES(dx, MATRIX(T, C), OWN), WRITES(dbranch, MATRIX(T, C), OWN), WRITES(dw, ROW_OF(C), FLOATS),             \
         WRITES(db, ROW_OF(C), FLOATS)),                                                                               \
        (.T = 1, .C = 203), DTYPE(dtype), ITEMS(T), .flops = 14)                                                       \
    ROW(rope, tess_rope_args, VEC,                                                                                     \
        (UPDATES(x, .rows = BY(AT(T)), .columns = BY(AT(n_heads), AT(D)), OWN, .stride = AT(stride)),                  \
         READS(pos, EACH(T), INDICES),                                                                                 \
         READS(cos_table, .rows = BY(AT(T)), .columns = HALF_OF(R), FLOATS, .gathered = true),                         \
         READS(sin_table, .rows = BY(AT(T)), .columns = HALF_OF(R), FLOATS, .gathered = true)),                        \
        (.T = 1, .n_heads = 3, .D = 35, .R = 32, .first = 3), DTYPE(dtype), ITEMS(T), .flops = 3)                      \
    ROW(glu_forward, tess_glu_args, VEC,                                                                               \
        (READS(gate, MATRIX(T, F), OWN, .stride = AT(stride)), READS(up, MATRIX(T, F), OWN, .stride = AT(stride)),     \
         WRITES(y, MATRIX(T, F), OWN)),                                                                                \
        (.T = 1, .F = 203), DTYPE(dtype), ITEMS(T), .flops = 12)                                                       \
    ROW(glu_backward, tess_glu_grad_args, VEC,                                                                         \
        (READS(gate, MATRIX(T, F), OWN, .stride = AT(stride)), READS(up, MATRIX(T, F), OWN, .stride = AT(stride)),     \
         READS(dy, MATRIX(T, F), OWN), WRITES(dgate, MATRIX(T, F), OWN, .stride = AT(dstride)),                        \
         WRITES(dup, MATRIX(T, F), OWN, .stride = AT(dstride)), WRITES(y, MATRIX(T, F), OWN)),                         \
        (.T = 1, .F = 203), DTYPE(dtype), ITEMS(T), .flops = 17)                                                       \
    ROW(clamped_glu_forward, tess_clamped_glu_args, VEC,                                                               \
        (READS(x, MATRIX(T, C), OWN), WRITES(y, .rows = BY(AT(T)), .columns = HALF_OF(C), OWN)),                       \
        (.T = 1, .C = 406, .alpha = 1.702f, .limit = 0.7f), DTYPE(dtype), ITEMS(T), .flops = 7)                        \
    ROW(clamped_glu_backward, tess_clamped_glu_grad_args, VEC,                                                         \
        (READS(x, MATRIX(T, C), OWN), READS(dy, .rows = BY(AT(T)), .columns = HALF_OF(C), OWN),                        \
         WRITES(dx, MATRIX(T, C), OWN), WRITES(y, .rows = BY(AT(T)), .columns = HALF_OF(C), OWN)),                     \
        (.T = 1, .C = 406, .alpha = 1.702f, .limit = 0.7f), DTYPE(dtype), ITEMS(T), .flops = 11)                       \
    ROW(act_forward, tess_act_args, VEC, (READS(x, EACH(n), OWN), WRITES(y, EACH(n), OWN)),                            \
        (.n = 203, .act = TESS_ACT_GELU_TANH), DTYPE(dtype), ITEMS(n), .flops = 11)                                    \
    ROW(act_backward, tess_act_grad_args, VEC,                                                                         \
        (READS(x, EACH(n), OWN), READS(dy, EACH(n), OWN), WRITES(dx, EACH(n), OWN), WRITES(y, EACH(n), OWN)),          \
        (.n = 203, .act = TESS_ACT_GELU_TANH), DTYPE(dtype), ITEMS(n), .flops = 15)                                    \
    ROW(add, tess_add_args, VEC, (READS(a, EACH(n), OWN), READS(b, EACH(n), OWN), WRITES(y, EACH(n), OWN)),            \
        (.n = 203), DTYPE(dtype), ITEMS(n), .flops = 1)                                                                \
    ROW(scale, tess_scale_args, VEC, (READS(x, EACH(n), OWN), WRITES(y, EACH(n), OWN)),                                \
        (.n = 203, .factor = 0.7f), DTYPE(dtype), ITEMS(n), .flops = 1)                                                \
    ROW(round_fp8, tess_round_fp8_args, VEC,                                                                           \
        (READS(x, MATRIX(rows, C), OWN, .stride = AT(stride)), WRITES(y, MATRIX(rows, C), OWN)),                       \
        (.rows = 1, .C = 203, .format = TESS_E5M2), DTYPE(dtype), ITEMS(rows), .flops = 4)                             \
    ROW(fp8_encode, tess_fp8_encode_args, REF,                                                                         \
        (READS(x, MATRIX(rows, C), FLOATS), WRITES(codes, MATRIX(rows, row_bytes), BYTES)),                            \
        (.rows = 1, .C = 203, .row_bytes = 205), DTYPE(dtype), ITEMS(rows), .flops = 4)                                \
    ROW(fp8_decode, tess_fp8_decode_args, REF,                                                                         \
        (READS(codes, MATRIX(rows, row_bytes), BYTES), WRITES(y, MATRIX(rows, C), OWN)),                               \
        (.rows = 1, .C = 203, .row_bytes = 205), DTYPE(dtype), ITEMS(rows), .flops = 2)                                \
    ROW(embedding_forward, tess_embedding_args, VEC,                                                                   \
        (READS(table, MATRIX(T, C), OWN, .gathered = true), READS(positions, MATRIX(T, C), OWN, .gathered = true),     \
         READS(ids, EACH(T), INDICES), READS(pos, EACH(T), INDICES), WRITES(out, MATRIX(T, C), OWN)),                  \
        (.T = 1, .C = 203), DTYPE(dtype), ITEMS(T), .flops = 1)                                                        \
    ROW(embedding_backward, tess_embedding_grad_args, VEC,                                                             \
        (READS(dout, MATRIX(T, C), OWN), READS(ids, EACH(T), INDICES, .below = BY(AT(rows))),                          \
         UPDATES(dtable, MATRIX(rows, C), FLOATS)),                                                                    \
        (.rows = 1, .T = 3, .C = 203), DTYPE(dtype), ITEMS(rows), .work = work_of_embedding_grad)                      \
    ROW(column_sum, tess_column_sum_args, VEC,                                                                         \
        (READS(dy, MATRIX(T, C), OWN, .stride = AT(stride)), WRITES(db, ROW_OF(C), FLOATS)),                           \
        (.T = 70, .C = 203), DTYPE(dtype), ITEMS(C), .flops = 1)                                                       \
    ROW(cross_entropy, tess_cross_entropy, VEC,                                                                        \
        (READS(logits, MATRIX(n, V), FLOATS, .stride = AT(ld)),                                                        \
         READS(targets, EACH(n), INDICES, .below = BY(AT(V))), READS(dlogprob, EACH(n), FLOATS),                       \
         READS(dentropy, EACH(n), FLOATS), WRITES(logprob, EACH(n), FLOATS), WRITES(entropy, EACH(n), FLOATS),         \
         WRITES(dlogits, MATRIX(n, V), OWN, .stride = AT(ldd))),                                                       \
        (.n = 1, .V = 4099, .inv_temperature = 1 / 0.7f), DTYPE(dtype), ITEMS(n), .flops = 14)                         \
    ROW(adamw, tess_adamw_update, VEC,                                                                                 \
        (UPDATES(p, EACH(n), FLOATS), UPDATES(m, EACH(n), FLOATS), UPDATES(v, EACH(n), FLOATS, .positive = true),      \
         READS(g, EACH(n), FLOATS), WRITES(copy, EACH(n), LIKE(copy_dtype)),                                           \
         OPERAND(undo, TESS_HOST_ONLY, BLOCK(1))),                                                                     \
        (.n = 203, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f,                     \
         .grad_scale = 0.7f, .bias1 = 0.271f, .bias2 = 0.142625f, .copy_dtype = TESS_BF16),                            \
        ITEMS(n), .flops = 16)                                                                                         \
    ROW(convert, tess_convert_args, VEC, (READS(x, EACH(n), LIKE(from)), WRITES(y, EACH(n), LIKE(to))),                \
        (.n = 203, .to = TESS_BF16), ITEMS(n))                                                                         \
    ROW(reduce, tess_reduction, VEC, (UPDATES(finite, BLOCK(sizeof(bool)))),                                           \
        (), LISTS(reduce_lists), ITEMS(n), .work = work_of_reduction)                                                  \
    ROW(convert_runs, tess_convert_runs_args, REF, (),                                                                 \
        (), LISTS(convert_runs_lists), .work = work_of_convert_runs)                                                   \
    ROW(reduce_runs, tess_reduce_runs_args, REF, (UPDATES(of.finite, BLOCK(sizeof(bool)))),                            \
        (), LISTS(reduce_runs_lists), .work = work_of_reduce_runs)                                                     \
    ROW(copy, tess_copy_args, VEC, (READS(from, EACH(bytes), BYTES), WRITES(to, EACH(bytes), BYTES)),                  \
        (.bytes = 203), ITEMS(bytes))                                                                                  \
    ROW(copy_rows, tess_copy_rows_args, REF,                                                                           \
        (READS(x, MATRIX(n, row_bytes), BYTES, .stride = AT(x_stride)),                                                \
         WRITES(y, MATRIX(n, row_bytes), BYTES, .stride = AT(y_stride))),                                              \
        (.n = 1, .row_bytes = 203), ITEMS(n))                                                                          \
    ROW(gather_rows, tess_gather_rows_args, REF,                                                                       \
        (READS(x, MATRIX(n, row_bytes), BYTES, .gathered = true), READS(index, EACH(n), INDICES),                      \
         WRITES(y, MATRIX(n, row_bytes), BYTES)),                                                                      \
        (.n = 1, .row_bytes = 203), ITEMS(n))                                                                          \
    ROW(join_heads, tess_join_heads_args, REF,                                                                         \
        (READS(a, .rows = BY(AT(T), AT(H)), .columns = BY(AT(A)), OWN, .stride = AT(a_stride)),                        \
         READS(b, .rows = BY(AT(T), AT(H)), .columns = BY(AT(B)), OWN, .stride = AT(b_stride)),                        \
         READS(shared, MATRIX(T, S), OWN), WRITES(y, .rows = BY(AT(T), AT(H)), .columns = BY(AT(D)), OWN)),            \
        (.T = 1, .H = 3, .A = 31, .B = 7, .S = 5, .D = 47), DTYPE(dtype), ITEMS(T))                                    \
    ROW(sum_heads, tess_sum_heads_args, REF,                                                                           \
        (READS(x, .rows = BY(AT(T), AT(H)), .columns = BY(AT(C)), OWN, .stride = AT(stride)),                          \
         WRITES(y, MATRIX(T, C), OWN)),                                                                                \
        (.T = 1, .H = 3, .C = 67), DTYPE(dtype), ITEMS(T), .flops = 1)                                                 \
    ROW(clip, tess_clip_args, REF, (READS(x, EACH(n), OWN), READS(dy, EACH(n), OWN), WRITES(y, EACH(n), OWN)),         \
        (.n = 203, .limit = 0.3f), DTYPE(dtype), ITEMS(n), .flops = 2)                                                 \
    ROW(route, tess_route_args, VEC,                                                                                   \
        (READS(logits, MATRIX(T, E), FLOATS), READS(bias, ROW_OF(E), LIKE(bias_dtype)),                                \
         WRITES(probs, MATRIX(T, E), FLOATS),                                                                          \
         WRITES(chosen, MATRIX(T, K), INDICES), WRITES(weights, MATRIX(T, K), FLOATS), WRITES(lse, EACH(T), FLOATS)),  \
        (.T = 1, .E = 105, .K = 5, .rule = {7, 3, 1.5f, .normalize = true, .sigmoid = true, .two_best = true}),        \
        ITEMS(T), .flops = 12)                                                                                         \
    ROW(route_backward, tess_route_grad_args, REF,                                                                     \
        (READS(probs, MATRIX(T, E), FLOATS), READS(chosen, MATRIX(T, K), INDICES, .below = BY(AT(E))),                 \
         READS(place, MATRIX(T, K), INDICES), READS(weights, MATRIX(T, K), FLOATS),                                    \
         READS(dgate, EACH(T), FLOATS, .gathered = true), READS(ends, ROW_OF(E), INDICES, .below = BY(AT(E))),         \
         READS(lse, EACH(T), FLOATS), WRITES(dlogits, MATRIX(T, E), OWN)),                                             \
        (.T = 1, .E = 101, .K = 5, .rule.normalize = true, .balance = 0.01f, .z = 0.1f), DTYPE(dtype), ITEMS(T),       \
        .flops = 6)                                                                                                    \
    ROW(sort_rows, tess_sort_rows_args, REF,                                                                           \
        (READS(chosen, MATRIX(T, K), INDICES, .below = BY(AT(E))), READS(weights, MATRIX(T, K), FLOATS),               \
         WRITES(ends, MATRIX(E, leaves), INDICES), WRITES(place, MATRIX(T, K), INDICES),                               \
         WRITES(token, MATRIX(T, K), INDICES), WRITES(gate, MATRIX(T, K), FLOATS)),                                    \
        (.T = 1, .E = 11, .K = 5, .leaves = 1))                                                                        \
    ROW(combine_rows, tess_combine_rows_args, VEC,                                                                     \
        (READS(rows, .rows = BY(AT(T), AT(K)), .columns = BY(AT(C)), OWN, .gathered = true),                           \
         READS(gate, .rows = BY(AT(T), AT(K)), .columns = SEVERAL(1), FLOATS, .gathered = true),                       \
         READS(place, MATRIX(T, K), INDICES), READS(base, MATRIX(T, C), OWN), WRITES(y, MATRIX(T, C), OWN)),           \
        (.T = 1, .K = 3, .C = 203), DTYPE(dtype), ITEMS(T), .flops = 2)                                                \
    ROW(combine_backward, tess_combine_grad_args, VEC,                                                                 \
        (READS(rows, MATRIX(n, C), OWN), READS(dy, MATRIX(n, C), OWN, .gathered = true),                               \
         READS(gate, EACH(n), FLOATS), READS(token, EACH(n), INDICES), WRITES(drows, MATRIX(n, C), OWN),               \
         WRITES(dgate, EACH(n), FLOATS)),                                                                              \
        (.n = 1, .C = 203), DTYPE(dtype), ITEMS(n), .flops = 3)                                                        \
    ROW(exact_sum, tess_exact_sum_args, REF,                                                                           \
        (READS(x, EACH(n), FLOATS), UPDATES(sum, BLOCK(sizeof(tess_exact_sum)))), (.n = 203), .flops = 1)              \
    ROW(find_not_finite, tess_find_not_finite_args, REF,                                                               \
        (READS(x, EACH(n), OWN), WRITES(first, BLOCK(sizeof(int64_t)))), (.n = 203), DTYPE(dtype))                     \
    ROW(row_sumsq, tess_row_sumsq_args, VEC,                                                                           \
        (READS(x, MATRIX(rows, C), FLOATS),                                                                            \
         WRITES(out, .rows = BY(AT(rows)), .columns = SEVERAL(sizeof(double)), BYTES)),                                \
        (.rows = 1, .C = 203), ITEMS(rows), .flops = 2)
/* clang-format on */

#endif
