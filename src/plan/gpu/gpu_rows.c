#include "plan/gpu/gpu_rows.h"

#include <math.h>

/* Counts of a row's kernels, relative to the bytes and flops that the row's description states (tess_kernel_work). They
 * are those of a step of GPT-2 124M with 16 x 1,024 tokens, and differ by less than a tenth in one of Llama 1B. A row
 * that is not in the table has those of `usual`. tests/device/gpu_step.sh compares a plan by them with the launches. */
typedef struct row_counts {
    int row;               /* tess_kernel_row_id */
    double launches;       /* kernels of a call */
    double moved;          /* bytes that the memory moves, by stated bytes */
    double a_byte, a_flop; /* instructions of warps for each byte, or for each flop */
    double tensor_flops;   /* flops on tensor cores, by stated flops */
    double passes;         /* passes of warps through shared memory, for each flop */
} row_counts;

static const row_counts rows[] = {{TESS_ROW_adamw, 1, 1, .127, 0, 0, 0},
                                  {TESS_ROW_add, 1, 1, .411, 0, 0, 0},
                                  {TESS_ROW_attention_forward, 1, 1, 0, 1.95e-3, 1.06, 0},
                                  {TESS_ROW_attention_backward, 3, 1, 0, 1.75e-3, 1.44, 6.7e-4},
                                  {TESS_ROW_column_sum, 2, 1.12, .07, 0, 0, 0},
                                  {TESS_ROW_convert, 1, 1, .219, 0, 0, 0},
                                  {TESS_ROW_cross_entropy, 1, 1, .256, 0, 0, 0},
                                  {TESS_ROW_embedding_backward, 5, 1, .13, 0, 0, 0},
                                  {TESS_ROW_embedding_forward, 1, 1, .58, 0, 0, 0},
                                  {TESS_ROW_layernorm_backward, 2, 1.06, .18, 0, 0, 0},
                                  {TESS_ROW_layernorm_forward, 1, 1, .147, 0, 0, 0},
                                  {TESS_ROW_reduce, 1, 1, .46, 0, 0, 0},
                                  {TESS_ROW_rmsnorm_backward, 2, 1.05, .164, 0, 0, 0},
                                  {TESS_ROW_rmsnorm_forward, 1, 1.16, .172, 0, 0, 0},
                                  {TESS_ROW_rope, 1, 1, .094, 0, 0, 0},
                                  {TESS_ROW_row_sumsq, 1, 1, .074, 0, 0, 0}};
static const row_counts usual = {-1, 1, 1, .3, 0, 0, 0}, copies = {-1, 1, 1, 0, 0, 0, 0};

/* Instructions of warps that the activation takes for each element of a fused product, without and with a gate.
 * Backward has half as many more, and memory limits it. */
static const double act_element = 1.38, gated_element = 1.46;
enum { OF_WEIGHT = 1, GATED = 1 << 8 }; /* bits of tess_kernel_row.variant; OF_WEIGHT: A is transposed */

static const row_counts *counts_of(const tess_call_key *key)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].row == key->kind)
            return &rows[i];
    return key->kind >= TESS_CALL_COPY ? &copies : &usual;
}

/* The time of `n` equal launches, which the host issues one after the other. */
static double launches_time(const tess_machine *m, double n, const tess_gpu_launch *l, bool *by_compute)
{
    tess_gpu_bound bound;
    tess_gpu_queue first = {.host_s = 0}, second = {.host_s = 0};
    (void)tess_gpu_queue_add(&first, m, l, &bound);
    second = first;
    (void)tess_gpu_queue_add(&second, m, l, &bound);
    *by_compute = bound == TESS_GPU_BOUND_ISSUE || bound == TESS_GPU_BOUND_ARITHMETIC ||
                  bound == TESS_GPU_BOUND_TENSOR || bound == TESS_GPU_BOUND_PASSES;
    return n * (tess_gpu_queue_time(&second) - tess_gpu_queue_time(&first));
}

/* A launch with enough blocks for all multiprocessors. */
static tess_gpu_launch launch_of(const tess_machine *m, double bytes, double instructions)
{
    enum { MANY = 1000 };
    return (tess_gpu_launch){.kind = TESS_GPU_KERNEL,
                             .blocks = MANY * (double)m->compute.processors,
                             .threads = 256,
                             .memory_bytes = bytes,
                             .cache_bytes = bytes,
                             .warp_instructions = instructions};
}

/* Sizes of a product follow from the elements of its operands and its flops. */
static tess_gpu_launch product_of(const tess_call_key *key)
{
    const double a = (double)key->size[0] * (double)key->size[1], b = (double)key->size[2] * (double)key->size[3];
    const double elements = key->flops / 2;
    tess_gpu_launch l = {.kind = TESS_GPU_PRODUCT, .c_bytes = (double)tess_dtype_size((tess_dtype)key->to_dtype)};
    l.m = elements / b;
    l.n = elements / a;
    l.k = a * b / elements;
    l.splits_k = key->variant & OF_WEIGHT; /* cuda_products.c */
    l.adds = key->bytes > 2 * (a + b) + 1.5 * l.c_bytes * l.m * l.n;
    return l;
}

/* A fused product is a product and an activation of all rows. */
static double fused_time(const tess_machine *m, const tess_call_key *key, bool *by_compute)
{
    const tess_gpu_launch product = product_of(key);
    const double product_bytes = 2 * (product.m + product.n) * product.k;
    const tess_gpu_launch act = launch_of(m, fmax(0, key->bytes - product_bytes),
                                          product.m * product.n * (key->variant & GATED ? gated_element : act_element));
    bool act_by_compute;
    const double act_s = launches_time(m, 1, &act, &act_by_compute);
    return launches_time(m, 1, &product, by_compute) + act_s;
}

double tess_gpu_row_time(const tess_machine *m, const tess_call_key *key, bool *by_compute)
{
    const bool has_sizes =
        key->flops > 0 && key->size[0] > 0 && key->size[1] > 0 && key->size[2] > 0 && key->size[3] > 0;
    if (key->kind == TESS_ROW_gemm_fused && has_sizes && key->dtype == TESS_BF16)
        return fused_time(m, key, by_compute);
    if (key->kind == TESS_ROW_gemm && has_sizes && key->dtype == TESS_BF16) {
        const tess_gpu_launch product = product_of(key);
        return launches_time(m, 1, &product, by_compute);
    }
    const row_counts *c = counts_of(key);
    tess_gpu_launch l = launch_of(m, key->bytes * c->moved / c->launches,
                                  (key->bytes * c->a_byte + key->flops * c->a_flop) / c->launches);
    l.tensor_flops = key->flops * c->tensor_flops / c->launches;
    l.passes = key->flops * c->passes / c->launches;
    return launches_time(m, c->launches, &l, by_compute);
}
