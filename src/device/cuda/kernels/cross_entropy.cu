/* Cross entropy with the bits of device/ref. */
#include "device/cuda/kernels/cuda_cross_entropy.h"

/* Exponentials with the bits of ref. The writes of a chunk cover logits of the same chunk and of earlier ones, so the
 * whole chunk is read before any of it is written. */
struct exact_gradient {
    template <typename E, bool BENDS>
    static __device__ inline void write(const tess_cross_entropy &a, const float *x, const logit_chunk *chunks,
                                        const logit_row &row, float weight, float dentropy, E *dx)
    {
        const int64_t V = a.V;
        const float inv_temperature = a.inv_temperature;
        for (int64_t chunk = 0, begin = 0; begin < V; chunk++, begin += TESS_SOFTMAX_CHUNK) {
            const float base = base_of(chunks[chunk].largest);
            const float scale = v_exp((chunks[chunk].largest - row.largest) * inv_temperature) * row.inverse;
            const int64_t first = begin + threadIdx.x;
            float own[SHARE];
            read_logits<BENDS>(a, own, x, first, THREADS, V, 0);
            TESS_CUDA_UNROLL
            for (int k = 0; k < SHARE; k++) {
                const float e = v_exp((own[k] - base) * inv_temperature) * slope_at<BENDS>(a, own[k]);
                if (dentropy == 0)
                    own[k] = e * (scale * weight);
                else
                    own[k] = e == 0 ? 0
                                    : e * scale *
                                          fmaf(-dentropy, (own[k] - row.largest) * inv_temperature - row.mean, weight);
            }
            __syncthreads();
            TESS_CUDA_UNROLL
            for (int k = 0; k < SHARE; k++)
                if (first + k * THREADS < V)
                    cuda_store(dx + first + k * THREADS, own[k]);
        }
    }
};

tess_status tess_cuda_cross_entropy(tess_stream *s, const tess_cross_entropy *a)
{
    return a->dtype == TESS_F32 ? cross_entropy_of<exact_gradient, float>(s, a)
                                : cross_entropy_of<exact_gradient, cuda_bf16>(s, a);
}

void tess_kernels_cuda_cross_entropy(tess_kernels *k)
{
    k->cross_entropy = tess_cuda_cross_entropy;
}
