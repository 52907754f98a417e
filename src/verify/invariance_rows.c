/* The cases of kernels that work element by element or sum along a row. Every row of a table has a case, which is the
 * example of its description (device/kernel_rows.h). Here are further ones, and those of rows whose items are no rows
 * of their operands. Left out are kernels whose single result depends on all elements (exact_sum, find_not_finite), and
 * the loops that measure peaks. */
#include <stdio.h>
#include <string.h>

#include "verify/invariance_impl.h"

enum { C = 203, V = 50000, HEADS = 3, D = 32, COLUMN = 70, PEERS = 5, TOKENS = 3 };

/* ---- Cases from descriptions ---- */
/* An operand is in each item, is a constant, or is left out: gradients of parameters are sums over all rows. */
static tess_status add_operand(invariance_case *c, const tess_operand *o, int *n)
{
    const bool in_items = o->rows.of[0] == c->row->items && !o->gathered;
    invariance_field f = {.name = o->name,
                          .size = tess_operand_elements(&c->args, o) * (o->gathered ? INVARIANCE_TABLE : 1),
                          .dtype = tess_operand_dtype(&c->args, o),
                          .positive = o->positive,
                          .below = tess_operand_below(&c->args, o, INVARIANCE_TABLE),
                          .at = o->at};
    TESS_CHECK(n[0] < INVARIANCE_FIELDS && n[1] < INVARIANCE_FIELDS && n[2] < INVARIANCE_CONSTANTS, TESS_E_INTERNAL,
               "%s: more operands than the check has room for", c->name);
    if (o->stride != 0)
        tess_kernel_set_size(&c->args, o->stride, tess_kernel_size_of(&c->args, o->columns));
    if (in_items && o->access & TESS_READS)
        c->in[n[0]++] = f;
    if (in_items && o->access & TESS_WRITES)
        c->out[n[1]++] = f;
    if (!in_items && o->access == TESS_READS)
        c->consts[n[2]++] = f;
    return TESS_OK;
}

tess_status invariance_describe(invariance_case *c)
{
    int n[3] = {0}; /* inputs, outputs, constants */
    if (c->both)
        tess_kernel_set_dtype(&c->args, c->row->dtype_of, c->dtype);
    for (int i = 0; i < c->row->n_operands; i++)
        TESS_TRY(add_operand(c, &c->row->operands[i], n));
    return TESS_OK;
}

static void point(tess_kernel_args *args, const invariance_field *field, void *const *memory, int n)
{
    for (int f = 0; f < n; f++)
        if (field[f].size > 0)
            tess_operand_point(args, field[f].at, memory[f]);
}

/* Updates the outputs in place, if they are inputs, too. */
tess_status invariance_run_row(const invariance_call *c)
{
    const invariance_case *of = c->of;
    tess_member items = of->row->items;
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

bool invariance_example(const tess_kernel_row *row, invariance_case *c, char *shape, size_t size)
{
    if (row->items == 0 || !tess_kernel_has_example(row))
        return false;
    *c = (invariance_case){
        .name = row->name, .shape = shape, .both = row->dtype_of != 0, .run = invariance_run_row, .row = row};
    memcpy(&c->args, row->example, row->args_bytes);
    snprintf(shape, size, "%lld elements", (long long)tess_operand_elements(&c->args, row->operands));
    return true;
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
#define ROW(row_, shape_, ...) \
    .name = #row_, .shape = shape_, .run = invariance_run_row, .args = {.row_ = {__VA_ARGS__}}

static const invariance_case cases[] = {
    {ROW(cross_entropy, "float32, V 50000, T 0.7", .n = 1, .V = V, .inv_temperature = 1 / 0.7f), .heavy = true},
    {ROW(cross_entropy, "float32, V 4099, factor, soft cap", .n = 1, .V = 4099, .inv_temperature = 1, .factor = 0.7f,
         .soft_cap = 2)},
    {ROW(scale, "203, soft cap", .n = C, .factor = 0.7f, .soft_cap = 2), .both = true},
    {ROW(rmsnorm_forward, "203, 1 + w, factor", .T = 1, .C = C, .eps = 1e-5f, .factor = 0.2f, .one_plus_w = true),
     .both = true},
    {ROW(rmsnorm_backward, "203, 1 + w, factor", .T = 1, .C = C, .factor = 0.2f, .one_plus_w = true), .both = true},
    {ROW(rope, "3 heads of 32, 20 rotary, interleaved", .T = 1, .n_heads = HEADS, .D = D, .R = 20, .interleaved = true),
     .both = true},
    {ROW(act_forward, "gelu (erf), 203", .n = C, .act = TESS_ACT_GELU_ERF), .both = true},
    {ROW(rope, "3 heads of 32, inverse", .T = 1, .n_heads = HEADS, .D = D, .R = D, .inverse = true), .both = true},
    {ROW(convert, "bfloat16 to float32", .n = C, .from = TESS_BF16, .to = TESS_F32)},
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
};

invariance_list invariance_row_cases(void)
{
    return (invariance_list){cases, sizeof(cases) / sizeof(cases[0])};
}
