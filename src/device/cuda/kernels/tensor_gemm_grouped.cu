/* Many products of bfloat16 on tensor cores in one launch, such as those of a layer's experts: one product of a few
 * rows leaves most of a GPU idle. Each has the bits of tensor_gemm.cu. The products are arguments of the launch, so
 * nothing is uploaded. */
#include "device/cuda/cuda_rows.h"
#include "device/cuda/kernels/tensor_product.h"
#include "device/gemm_check.h"

/* A product of a launch, and the tiles before it. */
typedef struct group_member {
    const void *a, *b, *bias;
    void *c;
    int32_t m, n, k, lda, ldb, ldc, first_tile, tiles_m;
} group_member;

/* Products that differ in their sizes and matrices alone. */
typedef struct product_group {
    group_member of[TESS_GEMM_SEVERAL];
    int32_t n, tiles;
    bool trans_a, trans_b, accumulate;
    tess_dtype c_dtype;
} product_group;

static_assert(sizeof(product_group) <= 4000, "CUDA before 12.1 passes 4096 bytes to a kernel");

/* Returns the product that a tile belongs to: the last one that begins at or before it, as each has a tile. */
static __device__ int member_of_tile(const product_group &p, int tile)
{
    int low = 0, high = p.n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (p.of[middle].first_tile <= tile)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

template <typename C, int WARPS_M, int M, int BUFFERS>
static __global__ void __launch_bounds__(THREADS, 2) tensor_gemm_grouped_kernel(product_group p)
{
    const group_member &x = p.of[member_of_tile(p, (int)blockIdx.x)];
    tess_gemm g = {};
    g.m = x.m;
    g.n = x.n;
    g.k = x.k;
    g.a = x.a;
    g.lda = x.lda;
    g.b = x.b;
    g.ldb = x.ldb;
    g.c = x.c;
    g.ldc = x.ldc;
    g.bias = x.bias;
    g.trans_a = p.trans_a;
    g.trans_b = p.trans_b;
    g.accumulate = p.accumulate;
    multiply_tile<C, WARPS_M, M, BUFFERS>(
        g, place_of_tile(x.tiles_m, (x.n + COLUMNS - 1) / COLUMNS, (int64_t)blockIdx.x - x.first_tile));
}

template <typename C, int WARPS_M, int M, int BUFFERS>
static tess_status launch(tess_stream *s, const product_group *group)
{
    const size_t bytes = tile_bytes<WARPS_M, M, BUFFERS>();
    product_group p = *group;
    for (int i = 0; i < p.n; i++) {
        group_member *x = &p.of[i];
        x->first_tile = p.tiles;
        x->tiles_m = (int32_t)tile_rows<WARPS_M, M>(x->m);
        p.tiles += x->tiles_m * (int32_t)tile_columns(x->n);
    }
    TESS_CUDA_ASK_SHARED((tensor_gemm_grouped_kernel<C, WARPS_M, M, BUFFERS>), bytes, s);
    return TESS_CUDA_LAUNCH((tensor_gemm_grouped_kernel<C, WARPS_M, M, BUFFERS>), p.tiles, THREADS, bytes, s, p);
}

template <typename C> static tess_status launch_sized(tess_stream *s, const product_group *p, bool few)
{
    return few ? launch<C, 1, 1, 4>(s, p) : launch<C, 2, 4, 2>(s, p);
}

/* Whether two products may be in one launch. */
static bool are_alike(const tess_gemm *x, const tess_gemm *y)
{
    return (x->m <= FEW_ROWS) == (y->m <= FEW_ROWS) && x->trans_a == y->trans_a && x->trans_b == y->trans_b &&
           x->accumulate == y->accumulate && x->c_dtype == y->c_dtype;
}

static group_member member_of(const tess_gemm *g)
{
    group_member x = {};
    x.a = g->a;
    x.b = g->b;
    x.bias = g->bias;
    x.c = g->c;
    x.m = (int32_t)g->m;
    x.n = (int32_t)g->n;
    x.k = (int32_t)g->k;
    x.lda = (int32_t)g->lda;
    x.ldb = (int32_t)g->ldb;
    x.ldc = (int32_t)g->ldc;
    return x;
}

/* Launches a product with those after it that are alike, and marks them as done. */
static tess_status launch_alike(tess_stream *s, const tess_gemm *products, int n, int first, bool *is_done)
{
    const tess_gemm *const g = &products[first];
    product_group p = {};
    p.trans_a = g->trans_a;
    p.trans_b = g->trans_b;
    p.accumulate = g->accumulate;
    p.c_dtype = g->c_dtype;
    for (int i = first; i < n; i++)
        if (!is_done[i] && are_alike(g, &products[i])) {
            p.of[p.n++] = member_of(&products[i]);
            is_done[i] = true;
        }
    return g->c_dtype == TESS_F32 ? launch_sized<float>(s, &p, g->m <= FEW_ROWS)
                                  : launch_sized<cuda_bf16>(s, &p, g->m <= FEW_ROWS);
}

static tess_status multiply_several(tess_stream *s, const tess_gemm *products, int n)
{
    bool is_done[TESS_GEMM_SEVERAL] = {};
    for (int i = 0; i < n; i++)
        if (!is_done[i])
            TESS_TRY(launch_alike(s, products, n, i, is_done));
    return TESS_OK;
}

static tess_status gemm_grouped(tess_stream *s, const tess_gemm_grouped *x)
{
    return x->ab_dtype == TESS_BF16 ? tess_gemm_grouped_by(s, x, multiply_several) : tess_gemm_grouped_by_rows(s, x);
}

void tess_kernels_cuda_tensor_gemm_grouped(tess_kernels *k)
{
    k->gemm_grouped = gemm_grouped;
}
