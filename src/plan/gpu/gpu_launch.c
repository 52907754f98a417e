#include "plan/gpu/gpu_launch.h"

#include <math.h>

/* Limits that all GPUs of compute capability 8.0, 9.0 and 10.0 share: CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability" and "Throughput of Native Arithmetic Instructions". */
enum {
    WARP = 32,
    SM_THREADS = 2048,
    SM_BLOCKS = 32,
    SM_REGISTERS = 65536,
    REGISTER_UNIT = 256, /* registers are handed out to warps in this unit */
    BLOCK_SHARED = 1024, /* bytes of shared memory that a block takes more than it requests */
    ISSUES = 4,          /* warp instructions a cycle */
    INTEGER_LANES = 64,
    FLOAT_LANES = 128,
    DOUBLE_LANES = 64,
    CONVERT_LANES = 64,
    SPECIAL_LANES = 16
};

/* Assumptions, which no data sheet has. */
static const double issue_share = .8;   /* share of issue slots that real code fills, as it waits for its own results */
static const double begin_s = 1e-6;     /* time between the end of a launch and the first instruction of the next */
static const double answer_s = 5e-6;    /* time between the end of the work and the host's next call, after a wait */
static const double product_s = 1.5e-6; /* a product's first and last tiles have nothing to overlap with */

const char *tess_gpu_bound_name(tess_gpu_bound bound)
{
#define NAME(id, text) text,
    static const char *const names[] = {TESS_GPU_BOUND_ROWS(NAME)};
    return names[bound];
}

bool tess_gpu_is_known(const tess_machine *m)
{
    return m->compute.processors > 0 && m->compute.clock_ghz > 0 && m->compute.mma_tflops > 0 &&
           m->memory.cache_gb_per_s > 0 && m->memory.latency_ns > 0 && m->memory.cache_latency_ns > 0;
}

/* Returns the number of blocks that one multiprocessor runs at a time. */
static double resident_blocks(const tess_machine *m, const tess_gpu_launch *l)
{
    const double warps = ceil(l->threads / WARP), of_warp = ceil(l->registers * WARP / REGISTER_UNIT) * REGISTER_UNIT;
    double blocks = fmin(SM_BLOCKS, floor(SM_THREADS / (warps * WARP)));
    blocks = fmin(blocks, floor((double)m->compute.shared_kb * 1024 / (l->shared_bytes + BLOCK_SHARED)));
    return of_warp > 0 ? fmin(blocks, floor(floor(SM_REGISTERS / of_warp) / warps)) : blocks;
}

double tess_gpu_occupancy(const tess_machine *m, const tess_gpu_launch *l)
{
    return resident_blocks(m, l) * ceil(l->threads / WARP) * WARP / SM_THREADS;
}

static double memory_time(const tess_machine *m, double bytes)
{
    return bytes / (m->memory.gb_per_s * 1e9 * m->memory.efficiency);
}

/* Whether the bytes of a launch are in the cache when it begins: the launches before it wrote them, or used them. */
static bool is_cached(const tess_machine *m, const tess_gpu_launch *l)
{
    static const double share = .25; /* the rest is of other launches */
    return l->memory_bytes <= share * m->memory.cache_mb * 1e6;
}

/* ---- Kernels ---- */
static double kernel_time(const tess_machine *m, const tess_gpu_launch *l, tess_gpu_bound *bound)
{
    const double processors = (double)m->compute.processors, hz = m->compute.clock_ghz * 1e9;
    const double resident = fmax(resident_blocks(m, l), 1);
    /* The multiprocessor with most blocks decides. */
    const double share = ceil(l->blocks / processors) / l->blocks;
    const double waves = ceil(l->blocks / (processors * resident)), warps = l->blocks * ceil(l->threads / WARP);
    const double latency_ns = is_cached(m, l) ? m->memory.cache_latency_ns : m->memory.latency_ns;
    const double arithmetic =
        fmax(fmax(l->integer / INTEGER_LANES, l->floats / FLOAT_LANES),
             fmax(fmax(l->doubles / DOUBLE_LANES, l->special / SPECIAL_LANES), l->convert / CONVERT_LANES));
    const double seconds[TESS_GPU_BOUNDS] = {
        [TESS_GPU_BOUND_MEMORY] = is_cached(m, l) ? 0 : memory_time(m, l->memory_bytes),
        [TESS_GPU_BOUND_CACHE] = l->cache_bytes / (m->memory.cache_gb_per_s * 1e9),
        [TESS_GPU_BOUND_ISSUE] = share * l->warp_instructions / (ISSUES * hz * issue_share),
        [TESS_GPU_BOUND_ARITHMETIC] = share * arithmetic / (hz * issue_share),
        [TESS_GPU_BOUND_PASSES] = share * l->passes / hz,
        [TESS_GPU_BOUND_TENSOR] = share * l->tensor_flops / (m->compute.mma_tflops * 1e12 / processors),
        [TESS_GPU_BOUND_LATENCY] = waves * l->waits / warps * latency_ns * 1e-9};
    *bound = TESS_GPU_BOUND_MEMORY;
    for (int b = 0; b < TESS_GPU_BOUNDS; b++)
        if (seconds[b] > seconds[*bound])
            *bound = (tess_gpu_bound)b;
    return seconds[*bound];
}

/* ---- Products ---- */
/* Tiles of a library, and the share of compute.efficiency that each reaches: small ones load more for each flop. */
static const struct {
    double m, n, share;
} tiles[] = {{256, 128, 1}, {128, 256, 1}, {128, 128, .92}, {128, 64, .75}, {64, 64, .55}};
enum { N_TILES = sizeof(tiles) / sizeof(tiles[0]), MOST_PARTS = 16, OPERAND = 2 };

static double result_bytes(const tess_gpu_launch *l)
{
    return (l->adds ? 2 : 1) * l->c_bytes * l->m * l->n;
}

/* Returns the time with a kind of tiles and k in equal parts, which take float32 work space. Operands are loaded while
 * tensor cores work; a tile's result is written when they have ended. */
static double tiled_time(const tess_machine *m, const tess_gpu_launch *l, int tile, int parts)
{
    const double processors = (double)m->compute.processors;
    const double n_tiles = ceil(l->m / tiles[tile].m) * ceil(l->n / tiles[tile].n) * parts;
    const double a_tile = 2 * tiles[tile].m * tiles[tile].n * ceil(l->k / parts);
    const double peak = tess_machine_product_tflops(m, false) * 1e12 / processors;
    const double flops_s = peak * m->compute.efficiency * tiles[tile].share;
    const double space = parts > 1 ? 2.0 * parts * l->m * l->n * sizeof(float) : 0;
    const double operands_s = memory_time(m, OPERAND * (l->m + l->n) * l->k);
    return fmax(ceil(n_tiles / processors) * a_tile / flops_s, operands_s) + memory_time(m, result_bytes(l)) +
           space / (m->memory.cache_gb_per_s * 1e9);
}

static double product_time(const tess_machine *m, const tess_gpu_launch *l, tess_gpu_bound *bound)
{
    double best_s = INFINITY;
    for (int parts = 1; parts <= (l->splits_k ? MOST_PARTS : 1); parts *= 2)
        for (int tile = 0; tile < N_TILES; tile++)
            best_s = fmin(best_s, tiled_time(m, l, tile, parts));
    *bound = memory_time(m, OPERAND * (l->m + l->n) * l->k + result_bytes(l)) < best_s / 2 ? TESS_GPU_BOUND_TENSOR
                                                                                           : TESS_GPU_BOUND_MEMORY;
    return best_s + product_s;
}

/* Shares of the peak that cuDNN reaches in causal attention on an H100, by the figures of the paper "FlashAttention-3"
 * (Shah et al. 2024): heads of 64 channels 225, 288, 334, 363, 388 TFLOP/s for 512, 1k, 2k, 4k, 16k tokens. The share
 * grows as tokens / (tokens + 370). */
static double attention_share(const tess_gpu_launch *l)
{
    static const double of_64 = .394, of_128 = .61, half_way = 370;
    return (l->k < 128 ? of_64 : of_128) * l->n / (l->n + half_way);
}

static double attention_time(const tess_machine *m, const tess_gpu_launch *l, tess_gpu_bound *bound)
{
    const double compute_s = l->tensor_flops / (m->compute.bf16_tflops * 1e12 * attention_share(l));
    const double memory_s = memory_time(m, l->memory_bytes);
    *bound = compute_s > memory_s ? TESS_GPU_BOUND_TENSOR : TESS_GPU_BOUND_MEMORY;
    return fmax(compute_s, memory_s);
}

double tess_gpu_launch_time(const tess_machine *m, const tess_gpu_launch *l, tess_gpu_bound *bound)
{
    switch (l->kind) {
    case TESS_GPU_KERNEL:
        return kernel_time(m, l, bound);
    case TESS_GPU_MOVES:
        *bound = TESS_GPU_BOUND_MEMORY;
        return memory_time(m, l->memory_bytes);
    case TESS_GPU_ATTENTION:
        return attention_time(m, l, bound);
    case TESS_GPU_PRODUCT:
        return product_time(m, l, bound);
    case TESS_GPU_COPY: {
        const tess_machine_link *pcie = &m->links[TESS_LINK_PCIE];
        *bound = TESS_GPU_BOUND_LINK;
        return pcie->gb_per_s > 0 ? l->memory_bytes / (pcie->gb_per_s * 1e9 * pcie->efficiency) : 0;
    }
    case TESS_GPU_WAIT:
        break;
    }
    *bound = TESS_GPU_BOUND_HOST;
    return 0;
}

/* ---- The queue ---- */
double tess_gpu_queue_add(tess_gpu_queue *q, const tess_machine *m, const tess_gpu_launch *l, tess_gpu_bound *bound)
{
    const double seconds = tess_gpu_launch_time(m, l, bound);
    if (l->kind == TESS_GPU_WAIT) {
        q->host_s = fmax(q->host_s, q->device_s) + answer_s;
        return 0;
    }
    q->host_s += m->compute.launch_us * 1e-6;
    q->device_s = fmax(q->host_s, q->device_s + begin_s) + seconds;
    q->busy_s += seconds;
    return seconds;
}

double tess_gpu_queue_time(const tess_gpu_queue *q)
{
    return fmax(q->host_s, q->device_s);
}
