/* Cross entropy for the tables of tensor cores: log-probabilities and entropies have the bits of device/ref, so all
 * tables score a text alike. The gradient takes its exponentials from the special function units, as it is rounded to
 * bfloat16, and moves 16 bytes at a time where rows are aligned. A logit's gradient does not depend on that. */
#include "device/cuda/cuda_tensor.h"
#include "device/cuda/kernels/cuda_cross_entropy.h"

enum { WIDE = TESS_SOFTMAX_CHUNK / THREADS /* neighbouring logits of a thread */ };

/* Whether rows that begin there may be read and written by accesses of 16 bytes. */
static __device__ inline bool is_wide(const void *x, const void *dx)
{
    return ((uintptr_t)x | (uintptr_t)dx) % sizeof(tensor_piece) == 0;
}

/* The numbers of a chunk: e = 2^((x - base) scale2). */
typedef struct chunk_factors {
    float scale2, base, factor;
} chunk_factors;

/* The gradients of a thread's logits, which it may have read with accesses of 16 bytes. */
struct approximate_gradient {
    template <bool BENDS>
    static __device__ inline float of(const tess_cross_entropy &a, float x, const logit_row &row,
                                      const chunk_factors &chunk, float weight, float dentropy)
    {
        const float e = tensor_exp2((x - chunk.base) * chunk.scale2) * slope_at<BENDS>(a, x);
        if (dentropy == 0)
            return e * chunk.factor;
        return e == 0 ? 0
                      : e * chunk.factor * fmaf(-dentropy, (x - row.largest) * a.inv_temperature - row.mean, weight);
    }

    template <typename E, bool BENDS>
    static __device__ inline void write(const tess_cross_entropy &a, const float *x, const logit_chunk *chunks,
                                        const logit_row &row, float weight, float dentropy, E *dx)
    {
        enum { FLOATS = 4 };
        const bool wide = is_wide(x, dx);
        const float scale2 = a.inv_temperature * 0x1.715476p+0f;
        for (int64_t chunk = 0, begin = 0; begin < a.V; chunk++, begin += TESS_SOFTMAX_CHUNK) {
            const float base = base_of(chunks[chunk].largest);
            const float scale = v_exp((chunks[chunk].largest - row.largest) * a.inv_temperature) * row.inverse;
            const chunk_factors factors = {scale2, base, dentropy == 0 ? scale * weight : scale};
            const bool whole = wide && begin + TESS_SOFTMAX_CHUNK <= a.V;
            const int64_t first = begin + (int64_t)threadIdx.x * (whole ? WIDE : 1);
            float own[WIDE];
            if (whole) {
                TESS_CUDA_UNROLL
                for (int k = 0; k < WIDE; k += FLOATS) {
                    float some[FLOATS];
                    cuda_load_wide(some, x + first + k);
                    TESS_CUDA_UNROLL
                    for (int i = 0; i < FLOATS; i++)
                        own[k + i] = bent<BENDS>(a, some[i]);
                }
            } else {
                read_logits<BENDS>(a, own, x, first, THREADS, a.V, 0);
            }
            TESS_CUDA_UNROLL
            for (int k = 0; k < WIDE; k++)
                own[k] = of<BENDS>(a, own[k], row, factors, weight, dentropy);
            __syncthreads(); /* the chunk is read: its gradients may be in its place, or in that of earlier ones */
            if (whole) {
                store(dx + first, own);
            } else {
                TESS_CUDA_UNROLL
                for (int k = 0; k < WIDE; k++)
                    if (first + k * THREADS < a.V)
                        cuda_store(dx + first + k * THREADS, own[k]);
            }
        }
    }

    static __device__ inline void store(cuda_bf16 *to, const float (&x)[WIDE])
    {
        tensor_piece piece;
        static_assert(sizeof(piece) == WIDE * sizeof(*to), "a thread's gradients are a piece");
        TESS_CUDA_UNROLL
        for (int k = 0; k < WIDE / 2; k++)
            piece.words[k] = tensor_pack(x[2 * k], x[2 * k + 1]);
        *(tensor_piece *)to = piece;
    }
};

static tess_status cross_entropy(tess_stream *s, const tess_cross_entropy *a)
{
    return a->dtype == TESS_F32 ? tess_cuda_cross_entropy(s, a)
                                : cross_entropy_of<approximate_gradient, cuda_bf16>(s, a);
}

void tess_kernels_cuda_tensor_cross_entropy(tess_kernels *k)
{
    k->cross_entropy = cross_entropy;
}
