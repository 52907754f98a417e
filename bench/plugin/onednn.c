/* C = A B as oneDNN 2's matmul primitive. Transposes are strides. */
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#include "plugin.h"

struct tess_bench_product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t matmul;
    dnnl_memory_t a, b, c;
    dnnl_memory_t packed_b; /* NULL: b as it is */
};

static dnnl_data_type_t type_of(tess_dtype dtype)
{
    return dtype == TESS_BF16 ? dnnl_bf16 : dnnl_f32;
}

static bool describe(dnnl_memory_desc_t *md, int64_t rows, int64_t columns, int64_t ld, bool transposed,
                     tess_dtype dtype)
{
    dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, type_of(dtype), strides) == dnnl_success;
}

static bool wrap(tess_bench_product *p, dnnl_memory_t *memory, const dnnl_memory_desc_t *md, const void *data)
{
    return dnnl_memory_create(memory, md, p->engine, (void *)data) == dnnl_success;
}

/* Moves b into the layout that the primitive asks for. */
static bool pack(tess_bench_product *p)
{
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(p->description, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_t reorder = NULL;
    const dnnl_memory_desc_t *from;
    bool ok =
        dnnl_memory_get_memory_desc(p->b, &from) == dnnl_success &&
        dnnl_memory_create(&p->packed_b, wanted, p->engine, DNNL_MEMORY_ALLOCATE) == dnnl_success &&
        dnnl_reorder_primitive_desc_create(&description, from, p->engine, wanted, p->engine, NULL) == dnnl_success &&
        dnnl_primitive_create(&reorder, description) == dnnl_success;
    if (ok) {
        dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, p->b}, {DNNL_ARG_TO, p->packed_b}};
        ok = dnnl_primitive_execute(reorder, p->stream, 2, arguments) == dnnl_success &&
             dnnl_stream_wait(p->stream) == dnnl_success;
    }
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(description);
    return ok;
}

static bool build(tess_bench_product *p, const tess_gemm *g, bool packed)
{
    dnnl_memory_desc_t a, b, c, any_b;
    dnnl_dims_t b_dims = {g->k, g->n};
    dnnl_matmul_desc_t matmul;
    return describe(&a, g->m, g->k, g->lda, g->trans_a, g->ab_dtype) &&
           describe(&b, g->k, g->n, g->ldb, g->trans_b, g->ab_dtype) &&
           describe(&c, g->m, g->n, g->ldc, false, g->c_dtype) &&
           dnnl_memory_desc_init_by_tag(&any_b, 2, b_dims, type_of(g->ab_dtype), dnnl_format_tag_any) == dnnl_success &&
           dnnl_engine_create(&p->engine, dnnl_cpu, 0) == dnnl_success &&
           dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) == dnnl_success &&
           dnnl_matmul_desc_init(&matmul, &a, packed ? &any_b : &b, NULL, &c) == dnnl_success &&
           dnnl_primitive_desc_create(&p->description, &matmul, NULL, p->engine, NULL) == dnnl_success &&
           dnnl_primitive_create(&p->matmul, p->description) == dnnl_success && wrap(p, &p->a, &a, g->a) &&
           wrap(p, &p->b, &b, g->b) && wrap(p, &p->c, &c, g->c) && (!packed || pack(p));
}

static void release(tess_bench_product *p)
{
    dnnl_memory_destroy(p->a);
    dnnl_memory_destroy(p->b);
    dnnl_memory_destroy(p->c);
    dnnl_memory_destroy(p->packed_b);
    dnnl_primitive_destroy(p->matmul);
    dnnl_primitive_desc_destroy(p->description);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}

static tess_bench_product *prepare_with(const tess_gemm *g, bool packed)
{
    tess_bench_product *p = calloc(1, sizeof(*p));
    if (p != NULL && !build(p, g, packed)) {
        release(p);
        return NULL;
    }
    return p;
}

static tess_bench_product *prepare(const tess_gemm *g)
{
    return prepare_with(g, false);
}

/* dW's second operand is an activation, new in every step: nobody has it packed. */
static tess_bench_product *prepare_packed(const tess_gemm *g)
{
    return g->trans_a ? NULL : prepare_with(g, true);
}

static bool run(tess_bench_product *p)
{
    dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->packed_b != NULL ? p->packed_b : p->b}, {DNNL_ARG_DST, p->c}};
    return dnnl_primitive_execute(p->matmul, p->stream, 3, arguments) == dnnl_success &&
           dnnl_stream_wait(p->stream) == dnnl_success;
}

const tess_bench_peer onednn_peer = {"oneDNN", prepare, run, release};
const tess_bench_peer onednn_packed_peer = {"packed", prepare_packed, run, release};
