/* The cases of kernels that work element by element or sum along a row. Their fields follow from the descriptions of
 * the rows (device/kernel_rows.h). Left out are kernels whose single result depends on all elements (exact_sum,
 * find_not_finite), copy, and the loops that measure peaks. */
#include <string.h>

#include "verify/invariance_impl.h"

enum { C = 203, V = 50000, SMALL_V = 4099, HEADS = 3, D = 32, COLUMN = 70, PEERS = 5, TOKENS = 3 };

/* ---- Cases from descriptions ---- */
/* An operand is in each item, is a constant, or is left out: gradients of parameters are sums over all rows. */
static void add_operand(invariance_case *c, const tess_operand *o, int *n)
{
    bool in_items = o->rows.of[0] == c->row->shape->items && !o->gathered;
    invariance_field f = {.name = o->name,
                          .size = tess_operand_elements(&c->args, o) * (o->gathered ? INVARIANCE_TABLE : 1),
                          .dtype = tess_operand_dtype(&c->args, o),
                          .positive = o->at == c->positive,
                          .at = o->at};
    if (o->stride != 0)
        tess_kernel_set_size(&c->args, o->stride, tess_kernel_size_of(&c->args, o->columns));
    if (in_items && o->access & TESS_READS)
        c->in[n[0]++] = f;
    if (in_items && o->access & TESS_WRITES)
        c->out[n[1]++] = f;
    if (!in_items && o->access == TESS_READS)
        c->consts[n[2]++] = f;
}

void invariance_describe(invariance_case *c)
{
    int n[3] = {0}; /* inputs, outputs, constants */
    if (c->both)
        tess_kernel_set_dtype(&c->args, c->row->shape->dtype_of, c->dtype);
    for (int i = 0; i < c->row->shape->n_operands; i++)
        add_operand(c, &c->row->shape->operands[i], n);
}

static void point(tess_kernel_args *args, const invariance_field *field, void *const *memory, int n)
{
    for (int f = 0; f < n; f++)
        if (field[f].size > 0)
            tess_operand_point(args, field[f].at, memory[f]);
}

/* Updates the outputs in place, if they are inputs, too. */
static tess_status run_row(const invariance_call *c)
{
    const invariance_case *of = c->of;
    tess_member items = of->row->shape->items;
    tess_kernel_args args = of->args;
    for (int in = 0; in < INVARIANCE_FIELDS; in++)
        for (int out = 0; out < INVARIANCE_FIELDS; out++)
            if (of->in[in].size > 0 && of->in[in].at == of->out[out].at)
                memcpy(c->out[out], c->in[in], (size_t)(c->n * of->in[in].size) * tess_dtype_size(of->in[in].dtype));
    point(&args, of->consts, c->consts, INVARIANCE_CONSTANTS);
    point(&args, of->in, c->in, INVARIANCE_FIELDS);
    point(&args, of->out, c->out, INVARIANCE_FIELDS);
    tess_kernel_set_size(&args, items, c->n * tess_kernel_size_of(&args, (tess_kernel_size){.of = {items}}));
    return of->row->call(c->kernels, c->stream, &args);
}

/* ---- Cases of their own ---- */
/* An item is a row of the table. Its tokens are scattered among those of other items. */
static tess_status embedding_backward(const invariance_call *c)
{
    int32_t ids[TOKENS * TESS_INVARIANCE_ITEMS];
    TESS_AUTO(tess_mem_drop) char *dout = NULL;
    size_t row = C * tess_dtype_size(c->of->dtype);
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, TOKENS * (size_t)c->n * row, "invariance", (void **)&dout));
    for (int64_t k = 0; k < TOKENS; k++)
        for (int64_t i = 0; i < c->n; i++) {
            ids[k * c->n + i] = (int32_t)i;
            memcpy(dout + (size_t)(k * c->n + i) * row, (const char *)c->in[0] + (size_t)(i * TOKENS + k) * row, row);
        }
    return c->kernels->embedding_backward(c->stream, &(tess_embedding_grad_args){.ids = ids,
                                                                                 .dout = dout,
                                                                                 .dtable = c->out[0],
                                                                                 .rows = c->n,
                                                                                 .T = TOKENS * c->n,
                                                                                 .C = C,
                                                                                 .dtype = c->of->dtype});
}

/* Transposes a field: y (size, n) = x (n, size), so that each of the `size` rows holds one element per item. */
static tess_status transpose(const invariance_call *c, int field, char **y)
{
    const invariance_field *f = &c->of->in[field];
    size_t element = tess_dtype_size(f->dtype);
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, (size_t)(c->n * f->size) * element, "invariance", (void **)y));
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t t = 0; t < f->size; t++)
            memcpy(*y + (size_t)(t * c->n + i) * element,
                   (const char *)c->in[field] + (size_t)(i * f->size + t) * element, element);
    return TESS_OK;
}

/* An item is a column. */
static tess_status column_sum(const invariance_call *c)
{
    TESS_AUTO(tess_mem_drop) char *dy = NULL;
    TESS_TRY(transpose(c, 0, &dy));
    const tess_column_sum_args sum = {
        .dy = dy, .stride = c->n, .db = c->out[0], .T = COLUMN, .C = c->n, .dtype = c->of->dtype};
    return c->kernels->column_sum(c->stream, &sum);
}

/* An item is an element, of which every peer has one. */
static tess_status reduce(const invariance_call *c)
{
    TESS_AUTO(tess_mem_drop) char *x = NULL;
    const void *inputs[PEERS];
    bool finite = true;
    TESS_TRY(transpose(c, 0, &x));
    for (int64_t r = 0; r < PEERS; r++)
        inputs[r] = x + (size_t)(r * c->n) * tess_dtype_size(c->of->dtype);
    const tess_reduction sum = {.x = inputs,
                                .n_inputs = PEERS,
                                .dtype = c->of->dtype,
                                .op = TESS_SUM,
                                .divisor = 3,
                                .y = (void *const *)&c->out[0],
                                .n_outputs = 1,
                                .y_dtype = TESS_F32,
                                .n = c->n,
                                .finite = &finite};
    return c->kernels->reduce(c->stream, &sum);
}

/* ---- The list ---- */
#define ROW(row_, shape_, ...)                                                                 \
    .name = #row_, .shape = shape_, .row = &tess_kernel_rows[TESS_ROW_##row_], .run = run_row, \
    .args = {.row_ = {__VA_ARGS__}}

static const invariance_case cases[] = {
    {ROW(rmsnorm_forward, "C 203", .T = 1, .C = C, .eps = 1e-5f), .both = true},
    {ROW(rmsnorm_backward, "C 203", .T = 1, .C = C), .both = true},
    {ROW(layernorm_forward, "C 203", .T = 1, .C = C, .eps = 1e-5f), .both = true},
    {ROW(layernorm_backward, "C 203", .T = 1, .C = C), .both = true},
    {ROW(cross_entropy, "float32, V 50000, T 0.7", .n = 1, .V = V, .inv_temperature = 1 / 0.7f, .dtype = TESS_F32),
     .indices = V, .heavy = true},
    {ROW(cross_entropy, "bfloat16, V 4099, T 0.7", .n = 1, .V = SMALL_V, .inv_temperature = 1 / 0.7f,
         .dtype = TESS_BF16),
     .indices = SMALL_V},
    {ROW(glu_forward, "silu, F 203", .T = 1, .F = C, .act = TESS_ACT_SILU), .both = true},
    {ROW(glu_backward, "silu, F 203", .T = 1, .F = C, .act = TESS_ACT_SILU), .both = true},
    {ROW(act_forward, "gelu (tanh), 203", .n = C, .act = TESS_ACT_GELU_TANH), .both = true},
    {ROW(act_forward, "gelu (erf), 203", .n = C, .act = TESS_ACT_GELU_ERF), .both = true},
    {ROW(act_backward, "gelu (tanh), 203", .n = C, .act = TESS_ACT_GELU_TANH), .both = true},
    {ROW(add, "203 elements", .n = C), .both = true},
    {ROW(scale, "203 elements", .n = C, .factor = 0.7f), .both = true},
    {ROW(rope, "3 heads of 32", .T = 1, .n_heads = HEADS, .D = D, .R = D), .both = true},
    {ROW(rope, "3 heads of 32, inverse", .T = 1, .n_heads = HEADS, .D = D, .R = D, .inverse = true), .both = true},
    {ROW(embedding_forward, "C 203", .T = 1, .C = C), .both = true},
    {.name = "embedding_backward",
     .shape = "rows of 3 tokens",
     .both = true,
     .in = {OWN("dout", TOKENS *C)},
     .out = {FLOATS("dtable", C)},
     .run = embedding_backward},
    {.name = "column_sum",
     .shape = "columns of 70",
     .both = true,
     .in = {OWN("dy", COLUMN)},
     .out = {FLOATS("db", 1)},
     .run = column_sum},
    {.name = "reduce",
     .shape = "elements of 5",
     .both = true,
     .in = {OWN("x", PEERS)},
     .out = {FLOATS("y", 1)},
     .run = reduce},
    {ROW(round_fp8, "E5M2, C 203", .rows = 1, .C = C, .format = TESS_E5M2), .both = true},
    {ROW(fp8_encode, "C 203", .rows = 1, .C = C, .row_bytes = C + 2), .both = true},
    {ROW(fp8_decode, "C 203", .rows = 1, .C = C, .row_bytes = C + 2), .both = true},
    {ROW(convert, "float32 to bfloat16", .n = C, .from = TESS_F32, .to = TESS_BF16)},
    {ROW(convert, "bfloat16 to float32", .n = C, .from = TESS_BF16, .to = TESS_F32)},
    {ROW(row_sumsq, "float32, C 203", .rows = 1, .C = C)},
    {ROW(adamw, "203 elements", .n = C, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f,
         .grad_scale = 0.7f, .bias1 = 0.271f, .bias2 = 0.142625f, .copy_dtype = TESS_BF16),
     .positive = TESS_MEMBER(tess_adamw_update, v)},
    {ROW(copy_rows, "203 bytes", .n = 1, .row_bytes = C)},
    {ROW(gather_rows, "203 bytes", .n = 1, .row_bytes = C)},
};

invariance_list invariance_row_cases(void)
{
    return (invariance_list){cases, sizeof(cases) / sizeof(cases[0])};
}
