/* Cross entropy, for the files that compute it with exact and with approximate gradients. A block of threads has a row.
 * Two warps take a chunk of TESS_SOFTMAX_CHUNK logits, and each of their 64 threads has one of the chunk's partial sums
 * (device/elementwise.h). So a row is read once for its sums and once for its gradient. */
#ifndef TESS_DEVICE_CUDA_KERNELS_CUDA_CROSS_ENTROPY_H
#define TESS_DEVICE_CUDA_KERNELS_CUDA_CROSS_ENTROPY_H

#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

#include "device/cuda/cuda_vec.h"
#include "device/vmath.h"

enum {
    WARP = 32,
    THREADS = 256,
    LANES = TESS_ROW_LANES,
    GROUPS = THREADS / LANES,            /* chunks that are computed at the same time */
    OWN = TESS_SOFTMAX_CHUNK / LANES,    /* logits of a chunk that a thread sums */
    SHARE = TESS_SOFTMAX_CHUNK / THREADS /* logits of a chunk that a thread writes, as the whole block writes a chunk */
};

/* Sums over a chunk. Exponentials are relative to the chunk's own largest element. */
typedef struct logit_chunk {
    /* e: sum of e = exp(d), d = (x - largest) / T; ex: sum of e d, which is 0 where e is 0 (a masked logit) */
    float largest, e, ex;
} logit_chunk;

typedef struct logit_row {
    float largest, inverse, mean, at_target; /* inverse: 1 / sum of e */
} logit_row;

/* Returns the number that is subtracted from a chunk's elements: its largest, or 0 if all are masked. */
static __device__ inline float base_of(float largest)
{
    return largest == -INFINITY ? 0 : largest;
}

/* Returns the largest value of the 64 threads of a group to each of them. `room` (THREADS / WARP) is shared memory. All
 * threads of the block must call this. */
static __device__ inline float largest_of_group(float mine, float *room)
{
    const unsigned warp = threadIdx.x / WARP;
    for (unsigned apart = WARP / 2; apart > 0; apart /= 2)
        mine = v_max(mine, __shfl_xor_sync(0xffffffffu, mine, apart));
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        room[warp] = mine;
    __syncthreads();
    return v_max(room[warp / 2 * 2], room[warp / 2 * 2 + 1]);
}

/* Folds two partial sums of each thread of a group: i + (i + 32), then 16, 8, 4, 2, 1. The group's first thread
 * receives the sums. `room` (2, THREADS) */
static __device__ inline void fold_group(float *first, float *second, float *room)
{
    __syncthreads();
    room[threadIdx.x] = *first;
    room[THREADS + threadIdx.x] = *second;
    __syncthreads();
    if (threadIdx.x % LANES < WARP) {
        *first += room[threadIdx.x + WARP];
        *second += room[THREADS + threadIdx.x + WARP];
    }
    *first = cuda_fold(*first, WARP / 2);
    *second = cuda_fold(*second, WARP / 2);
}

/* Returns a logit as the softmax takes it. BENDS: with a factor or a soft cap. Kernels without them have no
 * branches. */
template <bool BENDS> static __device__ inline float bent(const tess_cross_entropy &a, float x)
{
    if (!BENDS)
        return x;
    x *= tess_factor_of(a.factor);
    return a.soft_cap != 0 ? v_soft_cap(x, a.soft_cap, 1 / a.soft_cap) : x;
}

/* Returns the soft cap's derivative at the bent logit z; 1 without a cap. */
template <bool BENDS> static __device__ inline float slope_at(const tess_cross_entropy &a, float z)
{
    return BENDS && a.soft_cap != 0 ? v_soft_cap_slope(z, 1 / a.soft_cap) : 1;
}

/* Reads N logits, `apart` apart, from x[first] on, as the softmax takes them. Those from `end` on are `missing`. */
template <bool BENDS, int N>
static __device__ inline void read_logits(const tess_cross_entropy &a, float (&to)[N], const float *x, int64_t first,
                                          int apart, int64_t end, float missing)
{
    x += first;
    if (first + (N - 1) * apart < end) {
        TESS_CUDA_UNROLL
        for (int i = 0; i < N; i++)
            to[i] = bent<BENDS>(a, x[i * apart]);
        return;
    }
    TESS_CUDA_UNROLL
    for (int i = 0; i < N; i++)
        to[i] = first + i * apart < end ? bent<BENDS>(a, x[i * apart]) : missing;
}

/* Each group sums a chunk. Groups beyond the last chunk have no logits. A logit that is missing counts as a masked one,
 * whose exponential is 0. */
template <bool BENDS>
static __device__ inline void sum_chunks(const tess_cross_entropy &a, const float *x, logit_chunk *chunks)
{
    __shared__ float room[2 * THREADS], largest_room[THREADS / WARP];
    const float inv_temperature = a.inv_temperature;
    const bool wants_mean = a.entropy != NULL || a.dentropy != NULL;
    const int64_t n_chunks = (a.V + TESS_SOFTMAX_CHUNK - 1) / TESS_SOFTMAX_CHUNK;
    const unsigned lane = threadIdx.x % LANES;
    for (int64_t round = 0; round < n_chunks; round += GROUPS) {
        const int64_t chunk = round + threadIdx.x / LANES;
        float own[OWN], largest = -INFINITY, e_sum = 0, ex_sum = 0;
        read_logits<BENDS>(a, own, x, chunk * TESS_SOFTMAX_CHUNK + lane, LANES, a.V, -INFINITY);
        TESS_CUDA_UNROLL
        for (int i = 0; i < OWN; i++)
            largest = v_max(largest, own[i]);
        largest = largest_of_group(largest, largest_room);
        const float base = base_of(largest);
        TESS_CUDA_UNROLL
        for (int i = 0; i < OWN; i++) {
            const float d = (own[i] - base) * inv_temperature, e = v_exp_negative(d);
            e_sum += e;
            if (wants_mean)
                ex_sum += e == 0 ? 0 : e * d;
        }
        fold_group(&e_sum, &ex_sum, room);
        if (lane == 0 && chunk < n_chunks) {
            logit_chunk sums = {largest, e_sum, ex_sum};
            chunks[chunk] = sums;
        }
    }
    __syncthreads();
}

/* Adds the chunks in ascending order, in double. One thread calls this. */
static __device__ logit_row join_chunks(const logit_chunk *chunks, int64_t n_chunks, float inv_temperature,
                                        float x_target, float *logprob, float *entropy)
{
    double e = 0, ex = 0;
    float largest = -INFINITY;
    for (int64_t i = 0; i < n_chunks; i++)
        largest = v_max(largest, chunks[i].largest);
    for (int64_t i = 0; i < n_chunks; i++) {
        float distance = (chunks[i].largest - largest) * inv_temperature;
        double factor = (double)v_exp(distance);
        e += factor * (double)chunks[i].e;
        if (factor > 0)
            ex += factor * ((double)chunks[i].ex + (double)distance * (double)chunks[i].e);
    }
    float log_sum = v_log((float)e), mean = (float)(ex / e), at_target = (x_target - largest) * inv_temperature;
    *logprob = at_target - log_sum;
    *entropy = log_sum - mean;
    logit_row row = {largest, 1.0f / (float)e, mean, at_target};
    return row;
}

/* weight: -g / T; dentropy: h / T */
static __device__ float gradient_at_target(const logit_row &row, float weight, float dentropy)
{
    float p = v_exp(row.at_target) * row.inverse, gradient = (p - 1.0f) * weight;
    return dentropy == 0 || p == 0 ? gradient : fmaf(-dentropy, p * (row.at_target - row.mean), gradient);
}

/* A gradient that W::write<E, BENDS> writes: all logits but the target's are final. dx may be x's memory. */
template <typename W, typename E, bool BENDS> static __global__ void cross_entropy_kernel(tess_cross_entropy a)
{
    TESS_CUDA_DYNAMIC_SHARED(logit_chunk, chunks); /* all chunks of the row */
    __shared__ logit_row row;
    int64_t r = blockIdx.x, n_chunks = (a.V + TESS_SOFTMAX_CHUNK - 1) / TESS_SOFTMAX_CHUNK;
    const float *x = a.logits + r * a.ld;
    E *dx = a.dlogits != NULL ? (E *)a.dlogits + r * a.ldd : NULL;
    int32_t target = a.targets[r];
    float logprob = 0, entropy = 0;
    if (target >= 0) {
        sum_chunks<BENDS>(a, x, chunks);
        if (threadIdx.x == 0)
            row = join_chunks(chunks, n_chunks, a.inv_temperature, bent<BENDS>(a, x[target]), &logprob, &entropy);
        __syncthreads();
    }
    if (threadIdx.x == 0 && a.logprob != NULL)
        a.logprob[r] = logprob;
    if (threadIdx.x == 0 && a.entropy != NULL)
        a.entropy[r] = entropy;
    if (dx == NULL)
        return;
    if (target < 0) {
        for (int64_t i = threadIdx.x; i < a.V; i += THREADS)
            cuda_store(&dx[i], 0.0f);
        return;
    }
    float factor = tess_factor_of(a.factor), slope = slope_at<BENDS>(a, bent<BENDS>(a, x[target]));
    float weight = (a.dlogprob != NULL ? -a.dlogprob[r] : 1.0f) * a.inv_temperature * factor;
    float dentropy = a.dentropy != NULL ? a.dentropy[r] * a.inv_temperature * factor : 0;
    W::template write<E, BENDS>(a, x, chunks, row, weight, dentropy, dx);
    __syncthreads();
    if (threadIdx.x == 0)
        cuda_store(&dx[target], gradient_at_target(row, weight, dentropy) * slope);
}

template <typename W, typename E>
static tess_status launch(tess_stream *s, const tess_cross_entropy *a, int64_t n_chunks)
{
    const size_t bytes = (size_t)n_chunks * sizeof(logit_chunk);
    return tess_bends_logits(a) ? TESS_CUDA_LAUNCH((cross_entropy_kernel<W, E, true>), a->n, THREADS, bytes, s, *a)
                                : TESS_CUDA_LAUNCH((cross_entropy_kernel<W, E, false>), a->n, THREADS, bytes, s, *a);
}

/* E: the dtype of the gradients */
template <typename W, typename E> static tess_status cross_entropy_of(tess_stream *s, const tess_cross_entropy *a)
{
    TESS_TRY(tess_check_cross_entropy(a));
    return a->n == 0 ? TESS_OK : launch<W, E>(s, a, (a->V + TESS_SOFTMAX_CHUNK - 1) / TESS_SOFTMAX_CHUNK);
}

#endif
