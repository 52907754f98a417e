/* The cases of kernels that work element by element or sum along a row. Left out are kernels whose single result
 * depends on all elements (exact_sum, find_not_finite), copy, and the loops that measure peaks. */
#include <string.h>

#include "verify/invariance_impl.h"

enum { C = 203, V = 50000, SMALL_V = 4099, TABLE = 97, HEADS = 3, D = 32, COLUMN = 70, PEERS = 5, TOKENS = 3 };

static const float eps = 1e-5f;

/* ---- Norms ---- */
static tess_status rmsnorm_forward(const invariance_call *c)
{
    return c->kernels->rmsnorm_forward(c->stream, c->in[0], c->in[1], c->out[0], c->consts[0], c->out[1], c->out[2],
                                       c->n, C, eps, c->of->dtype);
}

/* Gradients of parameters are not compared: they are sums over all rows. */
static tess_status rmsnorm_backward(const invariance_call *c)
{
    return c->kernels->rmsnorm_backward(c->stream, c->in[0], c->consts[0], c->in[3], c->in[1], c->in[2], c->out[0],
                                        NULL, c->n, C, c->of->dtype);
}

static tess_status layernorm_forward(const invariance_call *c)
{
    return c->kernels->layernorm_forward(c->stream, c->in[0], c->in[1], c->out[0], c->consts[0], c->consts[1],
                                         c->out[1], c->out[2], c->out[3], c->n, C, eps, c->of->dtype);
}

static tess_status layernorm_backward(const invariance_call *c)
{
    return c->kernels->layernorm_backward(c->stream, c->in[0], c->consts[0], c->in[4], c->in[3], c->in[1], c->in[2],
                                          c->out[0], NULL, NULL, c->n, C, c->of->dtype);
}

/* ---- Cross-entropy ---- */
static int32_t target_of(const invariance_case *of, int item, int64_t element)
{
    (void)element;
    return (int32_t)((int64_t)item * 7919 % of->arg[0]);
}

static tess_status cross_entropy(const invariance_call *c)
{
    const tess_cross_entropy rows = {.n = c->n,
                                     .V = c->of->arg[0],
                                     .logits = c->in[0],
                                     .ld = c->of->arg[0],
                                     .targets = c->in[1],
                                     .inv_temperature = 1 / 0.7f,
                                     .dlogprob = c->in[2],
                                     .dentropy = c->in[3],
                                     .logprob = c->out[0],
                                     .entropy = c->out[1],
                                     .dlogits = c->out[2],
                                     .ldd = c->of->arg[0],
                                     .dtype = c->of->dtype};
    return c->kernels->cross_entropy(c->stream, &rows);
}

/* ---- Activations and additions ---- */
static tess_status glu_forward(const invariance_call *c)
{
    return c->kernels->glu_forward(c->stream, c->in[0], c->in[1], C, c->out[0], c->n, C, TESS_ACT_SILU, c->of->dtype);
}

static tess_status glu_backward(const invariance_call *c)
{
    return c->kernels->glu_backward(c->stream, c->in[0], c->in[1], C, c->in[2], c->out[0], c->out[1], C, c->n, C,
                                    TESS_ACT_SILU, c->of->dtype);
}

static tess_status act_forward(const invariance_call *c)
{
    return c->kernels->act_forward(c->stream, c->in[0], c->out[0], c->n * C, (tess_activation)c->of->arg[0],
                                   c->of->dtype);
}

static tess_status act_backward(const invariance_call *c)
{
    return c->kernels->act_backward(c->stream, c->in[0], c->in[1], c->out[0], c->n * C, (tess_activation)c->of->arg[0],
                                    c->of->dtype);
}

static tess_status add(const invariance_call *c)
{
    return c->kernels->add(c->stream, c->in[0], c->in[1], c->out[0], c->n * C, c->of->dtype);
}

static tess_status scale(const invariance_call *c)
{
    return c->kernels->scale(c->stream, c->in[0], 0.7f, c->out[0], c->n * C, c->of->dtype);
}

static tess_status round_fp8(const invariance_call *c)
{
    return c->kernels->round_fp8(c->stream, c->in[0], C, c->out[0], c->n, C, (tess_fp8)c->of->arg[0], c->of->dtype);
}

static tess_status convert(const invariance_call *c)
{
    return c->kernels->convert(c->stream, c->in[0], c->of->in[0].dtype, c->out[0], c->of->out[0].dtype, c->n * C);
}

/* ---- Positions and tables ---- */
static int32_t row_of(const invariance_case *of, int item, int64_t element)
{
    (void)of, (void)element;
    return item * 5 % TABLE;
}

static tess_status rope(const invariance_call *c)
{
    const int64_t row = HEADS * D;
    memcpy(c->out[0], c->in[0], (size_t)(c->n * row) * tess_dtype_size(c->of->dtype));
    return c->kernels->rope(c->stream, c->out[0], row, c->in[1], c->consts[0], c->consts[1], c->n, HEADS, D, D,
                            c->of->arg[0] != 0, c->of->dtype);
}

static tess_status embedding_forward(const invariance_call *c)
{
    return c->kernels->embedding_forward(c->stream, c->consts[0], c->consts[1], c->in[0], c->in[1], c->out[0], c->n, C,
                                         c->of->dtype);
}

/* An item is a row of the table. Its tokens are scattered among those of other items. */
static tess_status embedding_backward(const invariance_call *c)
{
    int32_t ids[TOKENS * TESS_INVARIANCE_ITEMS];
    char *dout;
    size_t row = C * tess_dtype_size(c->of->dtype);
    TESS_TRY(tess_mem_alloc(c->mem, TESS_POOL_MISC, TOKENS * (size_t)c->n * row, "invariance", (void **)&dout));
    for (int64_t k = 0; k < TOKENS; k++)
        for (int64_t i = 0; i < c->n; i++) {
            ids[k * c->n + i] = (int32_t)i;
            memcpy(dout + (size_t)(k * c->n + i) * row, (const char *)c->in[0] + (size_t)(i * TOKENS + k) * row, row);
        }
    tess_status status =
        c->kernels->embedding_backward(c->stream, ids, dout, c->out[0], c->n, TOKENS * c->n, C, false, c->of->dtype);
    tess_mem_free(c->mem, dout);
    return status;
}

/* ---- Sums ---- */
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
    char *dy;
    TESS_TRY(transpose(c, 0, &dy));
    tess_status status = c->kernels->column_sum(c->stream, dy, c->n, c->out[0], COLUMN, c->n, c->of->dtype);
    tess_mem_free(c->mem, dy);
    return status;
}

/* An item is an element, of which every peer has one. */
static tess_status reduce(const invariance_call *c)
{
    char *x;
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
                                .n = c->n};
    tess_status status = c->kernels->reduce(c->stream, &sum, &finite);
    tess_mem_free(c->mem, x);
    return status;
}

static tess_status row_sumsq(const invariance_call *c)
{
    return c->kernels->row_sumsq(c->stream, c->in[0], c->out[0], c->n, C);
}

static tess_status adamw(const invariance_call *c)
{
    for (int f = 0; f < 3; f++)
        memcpy(c->out[f], c->in[f], (size_t)(c->n * C) * sizeof(float));
    const tess_adamw_update update = {.n = c->n * C,
                                      .p = c->out[0],
                                      .m = c->out[1],
                                      .v = c->out[2],
                                      .g = c->in[3],
                                      .lr = 1e-3f,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.95f,
                                      .eps = 1e-8f,
                                      .weight_decay = 0.1f,
                                      .grad_scale = 0.7f,
                                      .bias1 = 0.271f,
                                      .bias2 = 0.142625f,
                                      .copy = c->out[3],
                                      .copy_dtype = TESS_BF16};
    return c->kernels->adamw(c->stream, &update);
}

/* ---- Kernels that move rows ---- */
static tess_status copy_rows(const invariance_call *c)
{
    return c->kernels->copy_rows(c->stream, c->in[0], C, c->out[0], C, c->n, C);
}

static tess_status gather_rows(const invariance_call *c)
{
    return c->kernels->gather_rows(c->stream, c->consts[0], c->in[0], c->out[0], c->n, C);
}

/* ---- The list ---- */
/* Rows of C elements and single numbers, with the case's dtype and with fixed ones. */
#define ROW(name_)                            \
    {                                         \
        .name = name_, .size = C, .own = true \
    }
#define ROW_OF(type, name_)                     \
    {                                           \
        .name = name_, .size = C, .dtype = type \
    }
#define FLOAT(name_)                                \
    {                                               \
        .name = name_, .size = 1, .dtype = TESS_F32 \
    }
#define INDEX(name_)                                \
    {                                               \
        .name = name_, .size = 1, .dtype = TESS_I32 \
    }

static const invariance_case cases[] = {
    {.name = "rmsnorm_forward",
     .shape = "C 203",
     .both = true,
     .in = {ROW("x"), ROW("residual")},
     .out = {ROW("h"), ROW("y"), FLOAT("rstd")},
     .consts = {ROW("w")},
     .run = rmsnorm_forward},
    {.name = "rmsnorm_backward",
     .shape = "C 203",
     .both = true,
     .in = {ROW("h"), ROW("dy"), ROW("dresidual"), FLOAT("rstd")},
     .out = {ROW("dx")},
     .consts = {ROW("w")},
     .run = rmsnorm_backward},
    {.name = "layernorm_forward",
     .shape = "C 203",
     .both = true,
     .in = {ROW("x"), ROW("residual")},
     .out = {ROW("h"), ROW("y"), FLOAT("mean"), FLOAT("rstd")},
     .consts = {ROW("w"), ROW("b")},
     .run = layernorm_forward},
    {.name = "layernorm_backward",
     .shape = "C 203",
     .both = true,
     .in = {ROW("h"), ROW("dy"), ROW("dresidual"), FLOAT("rstd"), FLOAT("mean")},
     .out = {ROW("dx")},
     .consts = {ROW("w")},
     .run = layernorm_backward},
    {.name = "cross_entropy",
     .shape = "float32, V 50000, T 0.7",
     .dtype = TESS_F32,
     .heavy = true,
     .in = {FLOATS("logits", V), INDEX("target"), FLOAT("g"), FLOAT("h")},
     .out = {FLOAT("logprob"), FLOAT("entropy"), FLOATS("dlogits", V)},
     .arg = {V},
     .index = target_of,
     .run = cross_entropy},
    {.name = "cross_entropy",
     .shape = "bfloat16, V 4099, T 0.7",
     .dtype = TESS_BF16,
     .in = {FLOATS("logits", SMALL_V), INDEX("target"), FLOAT("g"), FLOAT("h")},
     .out = {FLOAT("logprob"), FLOAT("entropy"), {.name = "dlogits", .size = SMALL_V, .dtype = TESS_BF16}},
     .arg = {SMALL_V},
     .index = target_of,
     .run = cross_entropy},
    {.name = "glu_forward",
     .shape = "silu, F 203",
     .both = true,
     .in = {ROW("gate"), ROW("up")},
     .out = {ROW("y")},
     .run = glu_forward},
    {.name = "glu_backward",
     .shape = "silu, F 203",
     .both = true,
     .in = {ROW("gate"), ROW("up"), ROW("dy")},
     .out = {ROW("dgate"), ROW("dup")},
     .run = glu_backward},
    {.name = "act_forward",
     .shape = "gelu (tanh), 203",
     .both = true,
     .in = {ROW("x")},
     .out = {ROW("y")},
     .arg = {TESS_ACT_GELU_TANH},
     .run = act_forward},
    {.name = "act_forward",
     .shape = "gelu (erf), 203",
     .both = true,
     .in = {ROW("x")},
     .out = {ROW("y")},
     .arg = {TESS_ACT_GELU_ERF},
     .run = act_forward},
    {.name = "act_backward",
     .shape = "gelu (tanh), 203",
     .both = true,
     .in = {ROW("x"), ROW("dy")},
     .out = {ROW("dx")},
     .arg = {TESS_ACT_GELU_TANH},
     .run = act_backward},
    {.name = "add", .shape = "203 elements", .both = true, .in = {ROW("a"), ROW("b")}, .out = {ROW("y")}, .run = add},
    {.name = "scale", .shape = "203 elements", .both = true, .in = {ROW("x")}, .out = {ROW("y")}, .run = scale},
    {.name = "rope",
     .shape = "3 heads of 32",
     .both = true,
     .in = {OWN("x", HEADS *D), INDEX("pos")},
     .out = {OWN("x", HEADS *D)},
     .consts = {FLOATS("cos", TABLE *D / 2), FLOATS("sin", TABLE *D / 2)},
     .index = row_of,
     .run = rope},
    {.name = "rope",
     .shape = "3 heads of 32, inverse",
     .both = true,
     .in = {OWN("x", HEADS *D), INDEX("pos")},
     .out = {OWN("x", HEADS *D)},
     .consts = {FLOATS("cos", TABLE *D / 2), FLOATS("sin", TABLE *D / 2)},
     .arg = {1},
     .index = row_of,
     .run = rope},
    {.name = "embedding_forward",
     .shape = "C 203",
     .both = true,
     .in = {INDEX("ids"), INDEX("pos")},
     .out = {ROW("out")},
     .consts = {OWN("table", TABLE *C), OWN("positions", TABLE *C)},
     .index = row_of,
     .run = embedding_forward},
    {.name = "embedding_backward",
     .shape = "rows of 3 tokens",
     .both = true,
     .in = {OWN("dout", TOKENS *C)},
     .out = {ROW_OF(TESS_F32, "dtable")},
     .run = embedding_backward},
    {.name = "column_sum",
     .shape = "columns of 70",
     .both = true,
     .in = {OWN("dy", COLUMN)},
     .out = {FLOAT("db")},
     .run = column_sum},
    {.name = "reduce",
     .shape = "elements of 5",
     .both = true,
     .in = {OWN("x", PEERS)},
     .out = {FLOAT("y")},
     .run = reduce},
    {.name = "round_fp8",
     .shape = "E5M2, C 203",
     .both = true,
     .in = {ROW("x")},
     .out = {ROW("y")},
     .arg = {TESS_E5M2},
     .run = round_fp8},
    {.name = "convert",
     .shape = "float32 to bfloat16",
     .in = {ROW_OF(TESS_F32, "x")},
     .out = {ROW_OF(TESS_BF16, "y")},
     .run = convert},
    {.name = "convert",
     .shape = "bfloat16 to float32",
     .in = {ROW_OF(TESS_BF16, "x")},
     .out = {ROW_OF(TESS_F32, "y")},
     .run = convert},
    {.name = "row_sumsq",
     .shape = "float32, C 203",
     .in = {ROW_OF(TESS_F32, "x")},
     .out = {{.name = "sum", .size = sizeof(double), .dtype = TESS_U8}},
     .run = row_sumsq},
    {.name = "adamw",
     .shape = "203 elements",
     .in = {ROW_OF(TESS_F32, "p"),
            ROW_OF(TESS_F32, "m"),
            {.name = "v", .size = C, .dtype = TESS_F32, .positive = true},
            ROW_OF(TESS_F32, "g")},
     .out = {ROW_OF(TESS_F32, "p"), ROW_OF(TESS_F32, "m"), ROW_OF(TESS_F32, "v"), ROW_OF(TESS_BF16, "copy")},
     .run = adamw},
    {.name = "copy_rows",
     .shape = "203 bytes",
     .in = {ROW_OF(TESS_U8, "x")},
     .out = {ROW_OF(TESS_U8, "y")},
     .run = copy_rows},
    {.name = "gather_rows",
     .shape = "203 bytes",
     .in = {INDEX("index")},
     .out = {ROW_OF(TESS_U8, "y")},
     .consts = {{.name = "x", .size = TABLE * C, .dtype = TESS_U8}},
     .index = row_of,
     .run = gather_rows},
};

invariance_list invariance_row_cases(void)
{
    return (invariance_list){cases, sizeof(cases) / sizeof(cases[0])};
}
