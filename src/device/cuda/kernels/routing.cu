/* Mixtures of experts: routers, the sort of rows by expert, and sums over a token's experts. */
#include <math.h>

#include "device/cuda/cuda_rows.h"
#include "device/cuda/cuda_types.h"

#include "device/ref/vec_ref.h"
#include "device/routing.h"
#include "device/vmath.h"

enum { WARP = 32, ROWS = 4, THREADS = 256 };

/* Each thread has a row. */
static __global__ void route_kernel(tess_route_args a)
{
    TESS_CUDA_EACH(t, a.T)
    {
        const float *x = a.logits + t * a.E;
        float *p = a.probs + t * a.E, largest = -INFINITY, lane[TESS_ROW_LANES];
        if (a.rule.sigmoid) {
            for (int64_t e = 0; e < a.E; e++)
                p[e] = v_sigmoid(x[e]);
            tess_route_choose(&a, t);
            continue;
        }
        for (int i = 0; i < TESS_ROW_LANES; i++)
            lane[i] = 0;
        for (int64_t e = 0; e < a.E; e++)
            largest = v_max(x[e], largest);
        for (int64_t e = 0; e < a.E; e++) {
            p[e] = v_exp_bounded(x[e] - largest);
            lane[e % TESS_ROW_LANES] += p[e];
        }
        for (int width = TESS_ROW_LANES / 2; width > 0; width /= 2)
            for (int i = 0; i < width; i++)
                lane[i] += lane[i + width];
        for (int64_t e = 0; e < a.E; e++)
            p[e] = p[e] / lane[0];
        if (a.lse != NULL)
            a.lse[t] = largest + v_log(lane[0]);
        tess_route_choose(&a, t);
    }
}

static tess_status route(tess_stream *s, const tess_route_args *a)
{
    TESS_TRY(tess_rule_check(a->E, a->K, &a->rule));
    if (a->T == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH(route_kernel, tess_cuda_blocks(a->T, THREADS), THREADS, 0, s, *a);
}

static __global__ void route_backward_kernel(tess_route_grad_args a)
{
    TESS_CUDA_EACH(t, a.T)
    tess_route_gradient(&a, t);
}

static tess_status route_backward(tess_stream *s, const tess_route_grad_args *a)
{
    TESS_TRY(tess_route_check(a->E, a->K));
    TESS_TRY(tess_check_dtype("route backward", a->dtype));
    if (a->T == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH(route_backward_kernel, tess_cuda_blocks(a->T, THREADS), THREADS, 0, s, *a);
}

/* One block. Each thread counts the rows of some experts, and then places them. */
static __global__ void sort_rows_kernel(tess_sort_rows_args a)
{
    const int64_t n = a.T * a.K, pairs = n / a.leaves; /* all pairs, and those of a leaf */
    for (int64_t e = threadIdx.x; e < a.E; e += THREADS)
        for (int64_t leaf = 0; leaf < a.leaves; leaf++) {
            int32_t count = 0;
            for (int64_t i = leaf * pairs; i < (leaf + 1) * pairs; i++)
                count += a.chosen[i] == e;
            a.ends[e * a.leaves + leaf] = count;
        }
    __syncthreads();
    if (threadIdx.x == 0) {
        int32_t end = 0;
        for (int64_t i = 0; i < a.E * a.leaves; i++) {
            end += a.ends[i];
            a.ends[i] = end;
        }
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < a.E; e += THREADS) {
        int32_t row = e > 0 ? a.ends[e * a.leaves - 1] : 0;
        for (int64_t i = 0; i < n; i++)
            if (a.chosen[i] == e) {
                a.place[i] = row;
                a.token[row] = (int32_t)(i / a.K);
                a.gate[row++] = a.weights[i];
            }
    }
}

static tess_status sort_rows(tess_stream *s, const tess_sort_rows_args *a)
{
    TESS_TRY(tess_sort_rows_check(a));
    return TESS_CUDA_LAUNCH(sort_rows_kernel, 1, THREADS, 0, s, *a);
}

template <typename E> static __global__ void combine_rows_kernel(tess_combine_rows_args a)
{
    TESS_CUDA_EACH(i, a.T * a.C)
    {
        cuda_division token = cuda_divide(i, a.C);
        float sum = a.base != NULL ? cuda_load((const E *)a.base + i) : 0.0f;
        for (int64_t k = 0; k < a.K; k++) {
            int64_t row = a.place != NULL ? a.place[token.quotient * a.K + k] : token.quotient;
            float gate = a.gate != NULL ? a.gate[row] : 1.0f;
            sum = fmaf(a.sigmoid ? v_sigmoid(gate) : gate, cuda_load((const E *)a.rows + row * a.C + token.rest), sum);
        }
        cuda_store((E *)a.y + i, sum);
    }
}

static tess_status combine_rows(tess_stream *s, const tess_combine_rows_args *a)
{
    const int64_t n = a->T * a->C;
    TESS_TRY(tess_check_dtype("combine", a->dtype));
    if (n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, combine_rows_kernel, tess_cuda_blocks(n, THREADS), THREADS, 0, s, *a);
}

/* Each warp has a row. Lane i of a warp has partial sums i and i + 32 of the row's 64 (device/elementwise.h). */
template <typename E> static __global__ void combine_backward_kernel(tess_combine_grad_args a)
{
    int64_t i = (int64_t)blockIdx.x * ROWS + threadIdx.x / WARP;
    if (i >= a.n)
        return;
    const E *dy = (const E *)a.dy + (a.token != NULL ? a.token[i] : i) * a.C, *rows = (const E *)a.rows + i * a.C;
    E *drows = (E *)a.drows + i * a.C;
    float part[2] = {0, 0}, x = a.gate[i], gate = a.sigmoid ? v_sigmoid(x) : x;
    for (int64_t begin = threadIdx.x % WARP; begin < a.C; begin += 2 * WARP)
        for (int k = 0; k < 2; k++) {
            int64_t c = begin + k * WARP;
            if (c >= a.C)
                continue;
            float d = cuda_load(&dy[c]);
            part[k] = fmaf(d, cuda_load(&rows[c]), part[k]);
            cuda_store(&drows[c], gate * d);
        }
    float sum = cuda_fold(part[0] + part[1], WARP / 2);
    __syncwarp(); /* dgate may be gate, which every lane has read; shuffles do not order memory */
    if (threadIdx.x % WARP == 0)
        a.dgate[i] = sum * (a.sigmoid ? gate * v_sigmoid(-x) : 1.0f);
}

static tess_status combine_backward(tess_stream *s, const tess_combine_grad_args *a)
{
    TESS_TRY(tess_check_dtype("combine backward", a->dtype));
    if (a->n == 0)
        return TESS_OK;
    return TESS_CUDA_LAUNCH_OF(a->dtype, combine_backward_kernel, (a->n + ROWS - 1) / ROWS, ROWS * WARP, 0, s, *a);
}

void tess_kernels_cuda_routing(tess_kernels *k)
{
    k->route = route;
    k->route_backward = route_backward;
    k->sort_rows = sort_rows;
    k->combine_rows = combine_rows;
    k->combine_backward = combine_backward;
}
