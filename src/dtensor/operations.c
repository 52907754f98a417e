/* Computes products and sums of distributed tensors. For each axis of the mesh, rules say for which placements of
 * the operands the result needs no communication, and what its placement is. */
#include <string.h>

#include "device/bf16.h"
#include "device/stream.h"
#include "dtensor/dtensor_impl.h"

/* Placements as numbers: R (replicated), P (partial), or the dimension that is cut. */
enum { R = -1, P = -2 };
typedef struct placement_rule {
    int a, b, out;
} placement_rule;

static const placement_rule matmul_rules[] = {{0, R, 0}, {R, 1, 1}, {1, 0, P}, {R, R, R}, {P, R, P}, {R, P, P}};
static const placement_rule add_rules[] = {{R, R, R}, {P, P, P}};
static const placement_rule multiply_rules[] = {{R, R, R}, {P, R, P}, {R, P, P}};

enum { MAX_RULES = TESS_MAX_DIMS + 6 };

static tess_place place_of(int code)
{
    return code >= 0 ? (tess_place){.kind = TESS_SHARD, .dim = code}
                     : (tess_place){.kind = code == P ? TESS_PARTIAL : TESS_REPLICATE};
}

/* The number of elements that a rank receives when one axis of `size` ranks changes from one placement to another. */
static double cost(tess_place from, tess_place to, int64_t elements, int size)
{
    double gather = (double)elements * (size - 1) / size;
    if (place_is(from, to.kind, to.dim) || from.kind == TESS_REPLICATE || to.kind == TESS_PARTIAL)
        return 0;
    if (from.kind == TESS_SHARD)
        return to.kind == TESS_SHARD ? gather / size : gather;
    return to.kind == TESS_SHARD ? gather : 2 * gather;
}

/* Chooses the rule that moves the fewest elements; among equals, the one that changes the fewest operands. */
static const placement_rule *choose(const placement_rule *rules, int n, tess_place a, tess_place b, int64_t n_a,
                                    int64_t n_b, int size)
{
    const placement_rule *best = NULL;
    double least = 0;
    int fewest = 0;
    for (int i = 0; i < n; i++) {
        tess_place to_a = place_of(rules[i].a), to_b = place_of(rules[i].b);
        double moved = cost(a, to_a, n_a, size) + cost(b, to_b, n_b, size);
        int changes = !place_is(a, to_a.kind, to_a.dim) + !place_is(b, to_b.kind, to_b.dim);
        if (best == NULL || moved < least || (moved == least && changes < fewest)) {
            best = &rules[i];
            least = moved;
            fewest = changes;
        }
    }
    return best;
}

/* The operands, redistributed to the placements of the chosen rules, and the result. */
typedef struct operation {
    tess_dtensor *a, *b, *out;
} operation;

static void free_operands(operation *op)
{
    tess_dtensor_destroy(&op->a);
    tess_dtensor_destroy(&op->b);
}

/* Redistributes the operands and creates the result, whose shape is `shape`. */
static tess_status prepare(const tess_dtensor *a, const tess_dtensor *b, const placement_rule *rules, int n_rules,
                           const tess_shape *shape, operation *op)
{
    tess_spec to_a = a->spec, to_b = b->spec, to_out = {.shape = *shape, .n_axes = a->spec.n_axes};
    int64_t n_a = tess_shape_count(&a->spec.shape), n_b = tess_shape_count(&b->spec.shape);
    for (int axis = 0; axis < to_out.n_axes; axis++) {
        const placement_rule *rule = choose(rules, n_rules, a->spec.place[axis], b->spec.place[axis], n_a, n_b,
                                            tess_mesh_axis_size(a->mesh, axis));
        to_a.place[axis] = place_of(rule->a);
        to_b.place[axis] = place_of(rule->b);
        to_out.place[axis] = place_of(rule->out);
        /* A dimension that both operands share must have equal chunks in both. */
        to_b.order[axis] = to_out.order[axis] = to_a.order[axis];
    }
    *op = (operation){.a = NULL};
    tess_status status;
    TESS_GOTO(tess_dtensor_redistribute(a, &to_a, NULL, &op->a), fail);
    TESS_GOTO(tess_dtensor_redistribute(b, &to_b, NULL, &op->b), fail);
    TESS_GOTO(dtensor_new(a->mesh, &to_out, a->dtype, &op->out), fail);
    return TESS_OK;
fail:
    free_operands(op);
    return status;
}

static tess_status check_operands(const char *call, const tess_dtensor *a, const tess_dtensor *b,
                                  tess_dtensor *const *out)
{
    TESS_CHECK(a != NULL && b != NULL && out != NULL, TESS_E_INVALID, "%s: a NULL argument", call);
    TESS_CHECK(a->mesh == b->mesh, TESS_E_INVALID, "%s: the operands are on different meshes", call);
    TESS_CHECK(a->dtype == b->dtype && (a->dtype == TESS_F32 || a->dtype == TESS_BF16), TESS_E_INVALID,
               "%s: dtypes %s and %s; both must be float32, or bfloat16", call, tess_dtype_name(a->dtype),
               tess_dtype_name(b->dtype));
    return TESS_OK;
}

tess_status tess_dtensor_matmul(const tess_dtensor *a, const tess_dtensor *b, tess_dtensor **out)
{
    static const char call[] = "tess_dtensor_matmul";
    TESS_TRY(check_operands(call, a, b, out));
    const tess_shape *m_k = &a->spec.shape, *k_n = &b->spec.shape;
    char left[128], right[128];
    TESS_CHECK(m_k->n_dims == 2 && k_n->n_dims == 2 && m_k->dim[1] == k_n->dim[0], TESS_E_INVALID,
               "%s: shapes %s and %s; (m, k) and (k, n) are needed", call, tess_shape_format(m_k, left, sizeof(left)),
               tess_shape_format(k_n, right, sizeof(right)));
    tess_shape m_n = {.n_dims = 2, .dim = {m_k->dim[0], k_n->dim[1]}};
    operation op;
    TESS_TRY(prepare(a, b, matmul_rules, sizeof(matmul_rules) / sizeof(matmul_rules[0]), &m_n, &op));
    tess_stream *stream;
    tess_status st =
        tess_stream_create(a->mem, 1, tess_runtime_kernels(tess_team_runtime(tess_mesh_all(a->mesh))), &stream);
    if (st == TESS_OK) {
        const tess_box *x = &op.a->box, *y = &op.b->box;
        tess_gemm gemm = {.m = x->size[0],
                          .n = y->size[1],
                          .k = x->size[1],
                          .a = op.a->data,
                          .lda = x->size[1],
                          .b = op.b->data,
                          .ldb = y->size[1],
                          .c = op.out->data,
                          .ldc = y->size[1],
                          .ab_dtype = a->dtype,
                          .c_dtype = a->dtype};
        st = tess_stream_kernels(stream)->gemm(stream, &gemm);
        tess_stream_destroy(&stream);
    }
    free_operands(&op);
    if (st != TESS_OK)
        tess_dtensor_destroy(&op.out);
    *out = op.out;
    return st;
}

tess_status tess_dtensor_transpose(const tess_dtensor *a, tess_dtensor **out)
{
    TESS_CHECK(a != NULL && out != NULL, TESS_E_INVALID, "tess_dtensor_transpose: a NULL argument");
    const tess_shape *m_n = &a->spec.shape;
    char text[128];
    TESS_CHECK(m_n->n_dims == 2, TESS_E_INVALID, "tess_dtensor_transpose: shape %s; (m, n) is needed",
               tess_shape_format(m_n, text, sizeof(text)));
    tess_spec spec = a->spec;
    spec.shape = (tess_shape){.n_dims = 2, .dim = {m_n->dim[1], m_n->dim[0]}};
    for (int axis = 0; axis < spec.n_axes; axis++)
        if (spec.place[axis].kind == TESS_SHARD)
            spec.place[axis].dim = 1 - spec.place[axis].dim;
    TESS_TRY(dtensor_new(a->mesh, &spec, a->dtype, out));
    size_t size = tess_dtype_size(a->dtype), rows = (size_t)a->box.size[0], columns = (size_t)a->box.size[1];
    const char *from = a->data;
    char *to = (*out)->data;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, size);
    return TESS_OK;
}

static tess_status by_element(const char *call, const tess_dtensor *a, const tess_dtensor *b,
                              const placement_rule *rules, int n_rules, bool multiplies, tess_dtensor **out)
{
    TESS_TRY(check_operands(call, a, b, out));
    char left[128], right[128];
    TESS_CHECK(tess_shape_equal(&a->spec.shape, &b->spec.shape), TESS_E_INVALID, "%s: shapes %s and %s", call,
               tess_shape_format(&a->spec.shape, left, sizeof(left)),
               tess_shape_format(&b->spec.shape, right, sizeof(right)));
    placement_rule all[MAX_RULES];
    int n = 0;
    for (int d = 0; d < a->spec.shape.n_dims; d++)
        all[n++] = (placement_rule){d, d, d};
    for (int i = 0; i < n_rules; i++)
        all[n++] = rules[i];
    operation op;
    TESS_TRY(prepare(a, b, all, n, &a->spec.shape, &op));
    size_t count = (size_t)tess_box_count(a->spec.shape.n_dims, &op.out->box);
    for (size_t i = 0; i < count; i++) {
        float x = tess_get_float(op.a->data, a->dtype, i), y = tess_get_float(op.b->data, a->dtype, i);
        tess_put_float(op.out->data, a->dtype, i, multiplies ? x * y : x + y);
    }
    free_operands(&op);
    *out = op.out;
    return TESS_OK;
}

tess_status tess_dtensor_add(const tess_dtensor *a, const tess_dtensor *b, tess_dtensor **out)
{
    return by_element("tess_dtensor_add", a, b, add_rules, sizeof(add_rules) / sizeof(add_rules[0]), false, out);
}

tess_status tess_dtensor_multiply(const tess_dtensor *a, const tess_dtensor *b, tess_dtensor **out)
{
    return by_element("tess_dtensor_multiply", a, b, multiply_rules, sizeof(multiply_rules) / sizeof(multiply_rules[0]),
                      true, out);
}
