#include "verify/invariance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "device/bf16.h"
#include "verify/invariance_impl.h"
#include "base/mem/scoped.h"

enum { GUARD = 64, MOST_THREADS = 4 };
static const unsigned char guard_byte = 0xa5;

static const int batches[] = {2, 7, 64, TESS_INVARIANCE_ITEMS};
enum { N_BATCHES = sizeof(batches) / sizeof(batches[0]) };

typedef enum invariance_company { NEXT, REVERSE, HUGE_ONES, NAN_ONES, COMPANIES } invariance_company;
static const char *const companies[] = {"the next", "in reverse", "huge", "NaN"};

/* A case with its pool of items, and the result that each item gives alone. */
typedef struct invariance_check {
    tess_mem *mem;
    const invariance_case *of;
    const tess_kernels *kernels;
    tess_stream *stream;
    int threads;
    double tolerance;
    char *in[INVARIANCE_FIELDS], *alone[INVARIANCE_FIELDS];    /* (ITEMS, size) */
    char *batch[INVARIANCE_FIELDS], *given[INVARIANCE_FIELDS]; /* inputs of a call, and a copy of them */
    char *out[INVARIANCE_FIELDS];                              /* outputs of a call, between guards */
    void *consts[INVARIANCE_CONSTANTS];
    int item[TESS_INVARIANCE_ITEMS];
    invariance_company company;
    int64_t compared; /* number of elements compared */
    double sum_abs;
    tess_invariance_row *row;
} invariance_check;

static size_t bytes_of(const invariance_field *f)
{
    return (size_t)f->size * (f->size > 0 ? tess_dtype_size(f->dtype) : 1);
}

/* ---- Values ---- */
static void put(char *at, tess_dtype dtype, float value)
{
    if (dtype == TESS_BF16) {
        uint16_t half = tess_float_to_bf16(value);
        memcpy(at, &half, sizeof(half));
    } else {
        memcpy(at, &value, sizeof(value));
    }
}

static double value_of(const char *x, tess_dtype dtype, int64_t i)
{
    float value;
    uint16_t half;
    int32_t number;
    switch (dtype) {
    case TESS_F32:
        memcpy(&value, x + i * 4, 4);
        return (double)value;
    case TESS_BF16:
        memcpy(&half, x + i * 2, 2);
        return (double)tess_bf16_to_float(half);
    case TESS_I32:
        memcpy(&number, x + i * 4, 4);
        return number;
    default:
        return (unsigned char)x[i];
    }
}

/* Fills in the values of a field, for one item or for a constant. */
static void fill(const invariance_field *f, uint64_t stream, int item, char *to)
{
    for (int64_t i = 0; i < f->size; i++) {
        char *at = to + (size_t)i * tess_dtype_size(f->dtype);
        float value = tess_rng_normal(19, TESS_RNG_TEST, stream, (uint64_t)item << 32 | (uint64_t)i);
        if (f->dtype == TESS_I32) {
            int32_t number = (int32_t)((int64_t)item * 7919 % f->below);
            memcpy(at, &number, sizeof(number));
        } else if (f->dtype == TESS_U8) {
            *at = (char)(int)(value * 50);
        } else {
            put(at, f->dtype, f->positive ? fabsf(value) + 0.1f : value);
        }
    }
}

/* Replaces an item's values by extreme ones; indices stay in range. */
static void estrange(const invariance_field *f, invariance_company company, char *x)
{
    bool floats = f->dtype == TESS_F32 || f->dtype == TESS_BF16;
    for (int64_t i = 0; floats && i < f->size; i++)
        put(x + (size_t)i * tess_dtype_size(f->dtype), f->dtype,
            company == NAN_ONES ? NAN : (float)value_of(x, f->dtype, i) * 1e30f);
}

/* ---- Memory ---- */
static tess_status make_bytes(invariance_check *k, size_t bytes, char **out)
{
    return TESS_PART(k, bytes + 2 * GUARD, "invariance", out);
}

static tess_status make(invariance_check *k)
{
    const invariance_case *c = k->of;
    const size_t items = TESS_INVARIANCE_ITEMS;
    for (int f = 0; f < INVARIANCE_FIELDS; f++) {
        size_t in = bytes_of(&c->in[f]), out = bytes_of(&c->out[f]);
        TESS_TRY(make_bytes(k, items * in, &k->in[f]));
        TESS_TRY(make_bytes(k, items * in, &k->batch[f]));
        TESS_TRY(make_bytes(k, items * in, &k->given[f]));
        TESS_TRY(make_bytes(k, items * out, &k->alone[f]));
        TESS_TRY(make_bytes(k, items * out, &k->out[f]));
        for (int i = 0; i < TESS_INVARIANCE_ITEMS && in > 0; i++)
            fill(&c->in[f], (uint64_t)f, i, k->in[f] + (size_t)i * in);
    }
    for (int i = 0; i < INVARIANCE_CONSTANTS; i++) {
        char *values;
        TESS_TRY(make_bytes(k, bytes_of(&c->consts[i]), &values));
        fill(&c->consts[i], 100 + (uint64_t)i, 0, values);
        k->consts[i] = values;
    }
    return TESS_OK;
}

/* ---- One call ---- */
/* Whether a call changed memory around its outputs, or memory that it was only allowed to read. */
static bool spilled(const invariance_check *k, int n)
{
    for (int f = 0; f < INVARIANCE_FIELDS; f++) {
        size_t in = bytes_of(&k->of->in[f]) * (size_t)n, out = bytes_of(&k->of->out[f]) * (size_t)n;
        if (memcmp(k->batch[f], k->given[f], in) != 0)
            return true;
        for (size_t b = 0; b < GUARD; b++)
            if ((unsigned char)k->out[f][b] != guard_byte || (unsigned char)k->out[f][GUARD + out + b] != guard_byte)
                return true;
    }
    return false;
}

/* Computes the n items k->item. If neighbours are to be extreme, all items but `target` get extreme values. */
static tess_status call(invariance_check *k, int n, int target)
{
    const invariance_case *c = k->of;
    invariance_call job = {.mem = k->mem, .stream = k->stream, .kernels = k->kernels, .n = n, .item = k->item, .of = c};
    for (int f = 0; f < INVARIANCE_FIELDS; f++) {
        size_t in = bytes_of(&c->in[f]), out = bytes_of(&c->out[f]);
        for (int i = 0; i < n && in > 0; i++) {
            char *to = k->batch[f] + (size_t)i * in;
            memcpy(to, k->in[f] + (size_t)k->item[i] * in, in);
            if (k->company >= HUGE_ONES && i != target)
                estrange(&c->in[f], k->company, to);
        }
        memcpy(k->given[f], k->batch[f], in * (size_t)n);
        memset(k->out[f], guard_byte, out * (size_t)n + 2 * GUARD);
        job.in[f] = k->batch[f];
        job.out[f] = k->out[f] + GUARD;
    }
    memcpy(job.consts, k->consts, sizeof(job.consts));
    TESS_TRY_CTX(c->run(&job), "%s (%s)", c->name, c->shape);
    k->row->spills |= spilled(k, n);
    return TESS_OK;
}

/* ---- Comparison ---- */
static bool near(const invariance_check *k, double a, double b)
{
    return fabs(a - b) <= k->tolerance; /* false if one of the values is NaN */
}

/* Whether output f of the item at `place` equals the output of the item alone. */
static bool same_output(invariance_check *k, int f, int place, int n)
{
    const invariance_field *field = &k->of->out[f];
    size_t bytes = bytes_of(field), element = tess_dtype_size(field->dtype);
    const char *alone = k->alone[f] + (size_t)k->item[place] * bytes, *here = k->out[f] + GUARD + (size_t)place * bytes;
    tess_invariance_row *r = k->row;
    int64_t first = -1;
    k->compared += field->size;
    if (memcmp(alone, here, bytes) == 0)
        return true;
    for (int64_t i = 0; i < field->size; i++) {
        if (memcmp(alone + (size_t)i * element, here + (size_t)i * element, element) == 0)
            continue;
        double a = value_of(alone, field->dtype, i), b = value_of(here, field->dtype, i), d = fabs(a - b);
        r->max_abs = isfinite(d) ? fmax(r->max_abs, d) : INFINITY;
        k->sum_abs += isfinite(d) ? d : INFINITY;
        if (first < 0 && !(k->tolerance > 0 && near(k, a, b)))
            first = i;
    }
    if (first >= 0 && r->different == 0)
        r->first = (tess_invariance_change){.item = k->item[place],
                                            .batch = n,
                                            .place = place,
                                            .neighbours = companies[k->company],
                                            .threads = k->threads,
                                            .output = field->name,
                                            .element = first,
                                            .alone = value_of(alone, field->dtype, first),
                                            .together = value_of(here, field->dtype, first)};
    return first < 0;
}

static void compare(invariance_check *k, int place, int n)
{
    bool same = true;
    for (int f = 0; f < INVARIANCE_FIELDS; f++)
        if (k->of->out[f].size > 0)
            same = same_output(k, f, place, n) && same;
    k->row->cases++;
    k->row->different += !same;
}

/* ---- Batches ---- */
static tess_status compute_alone(invariance_check *k)
{
    k->company = NEXT;
    for (int i = 0; i < TESS_INVARIANCE_ITEMS; i++) {
        k->item[0] = i;
        TESS_TRY(call(k, 1, 0));
        for (int f = 0; f < INVARIANCE_FIELDS; f++) {
            size_t bytes = bytes_of(&k->of->out[f]);
            memcpy(k->alone[f] + (size_t)i * bytes, k->out[f] + GUARD, bytes);
        }
    }
    return TESS_OK;
}

/* Computes all items (of a heavy case only n of them), n at a time. In reverse order, batches also begin at another
 * item, so that each item gets another place. */
static tess_status sweep(invariance_check *k, int n, invariance_company company)
{
    k->company = company;
    for (int begin = 0; begin < TESS_INVARIANCE_ITEMS; begin += n) {
        for (int i = 0; i < n; i++)
            k->item[i] =
                company == NEXT ? (begin + i) % TESS_INVARIANCE_ITEMS : (begin + n + n / 2 - i) % TESS_INVARIANCE_ITEMS;
        TESS_TRY(call(k, n, 0));
        for (int i = 0; i < n; i++)
            compare(k, i, n);
    }
    return TESS_OK;
}

/* Computes one item among extreme neighbours: first, in the middle, and last. */
static tess_status surround(invariance_check *k, int n, invariance_company company)
{
    const int places[] = {0, n / 2, n - 1};
    k->company = company;
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < n; i++)
            k->item[i] = (i + 5 * n) % TESS_INVARIANCE_ITEMS;
        TESS_TRY(call(k, n, places[p]));
        compare(k, places[p], n);
    }
    return TESS_OK;
}

static tess_status run_batches(invariance_check *k)
{
    for (int b = 0; b < N_BATCHES; b++) {
        TESS_TRY(sweep(k, batches[b], NEXT));
        TESS_TRY(sweep(k, batches[b], REVERSE));
        if (k->of->numbered || (k->of->heavy && batches[b] > 7))
            continue;
        TESS_TRY(surround(k, batches[b], HUGE_ONES));
        TESS_TRY(surround(k, batches[b], NAN_ONES));
    }
    return TESS_OK;
}

static tess_status set_threads(invariance_check *k, int threads)
{
    tess_stream_destroy(&k->stream);
    k->threads = threads;
    return tess_stream_create(k->mem, threads, k->kernels->name, &k->stream);
}

static tess_status check_threads(invariance_check *k, int most)
{
    TESS_TRY(make(k));
    TESS_TRY(set_threads(k, 1));
    TESS_TRY(compute_alone(k));
    TESS_TRY(run_batches(k));
    for (int threads = 2; threads <= most && k->of->function == NULL; threads++) {
        TESS_TRY(set_threads(k, threads));
        TESS_TRY(k->of->heavy ? sweep(k, TESS_INVARIANCE_ITEMS, NEXT) : run_batches(k));
    }
    return TESS_OK;
}

static tess_status check_case(tess_mem *mem, const invariance_case *c, const tess_kernels *kernels, int threads,
                              double tolerance, tess_invariance_result *result)
{
    TESS_AUTO(tess_mem_drop) invariance_check *k = NULL;
    TESS_CHECK(result->n < TESS_INVARIANCE_ROWS, TESS_E_INTERNAL, "%s: more cases than a report has room for", c->name);
    TESS_TRY(TESS_NEW(mem, 1, "invariance", &k));
    *k = (invariance_check){
        .mem = mem, .of = c, .kernels = kernels, .tolerance = tolerance, .row = &result->rows[result->n++]};
    *k->row = (tess_invariance_row){0};
    snprintf(k->row->name, sizeof(k->row->name), "%s", c->name);
    snprintf(k->row->shape, sizeof(k->row->shape), "%s", c->shape);
    tess_status status = check_threads(k, threads < MOST_THREADS ? threads : MOST_THREADS);
    k->row->mean_abs = k->compared > 0 ? k->sum_abs / (double)k->compared : 0;
    result->cases += k->row->cases;
    tess_stream_destroy(&k->stream);
    return status;
}

/* ---- The whole ---- */
static void set_dtype(invariance_field *field, tess_dtype dtype)
{
    field->dtype = field->own ? dtype : field->dtype;
}

/* Returns the case for one dtype. */
static invariance_case resolve(const invariance_case *c, tess_dtype dtype, char *shape, size_t size)
{
    invariance_case one = *c;
    one.dtype = dtype;
    one.shape = shape;
    snprintf(shape, size, "%s, %s", tess_dtype_name(dtype), c->shape);
    for (int f = 0; f < INVARIANCE_FIELDS; f++) {
        set_dtype(&one.in[f], dtype);
        set_dtype(&one.out[f], dtype);
    }
    for (int i = 0; i < INVARIANCE_CONSTANTS; i++)
        set_dtype(&one.consts[i], dtype);
    return one;
}

static tess_status check_dtypes(tess_mem *mem, const invariance_case *c, const tess_kernels *kernels, int threads,
                                tess_invariance_result *result)
{
    char shape[48];
    const tess_dtype dtypes[] = {TESS_F32, TESS_BF16};
    for (int d = 0; d < (c->both ? 2 : 1); d++) {
        invariance_case one = c->both ? resolve(c, dtypes[d], shape, sizeof(shape)) : *c;
        if (one.run == invariance_run_row)
            TESS_TRY(invariance_describe(&one));
        TESS_TRY(check_case(mem, &one, kernels, threads, 0, result));
    }
    return TESS_OK;
}

/* Checks all cases of a row. Its example is one of them, unless a case has a call of its own. */
static tess_status check_row(tess_mem *mem, const tess_kernel_row *row, const tess_kernels *kernels, int threads,
                             tess_invariance_result *result)
{
    const invariance_list lists[] = {invariance_row_cases(), invariance_product_cases()};
    invariance_case example;
    char shape[32];
    bool has_example = invariance_example(row, &example, shape, sizeof(shape));
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < lists[l].n; i++) {
            invariance_case c = lists[l].cases[i];
            c.row = row;
            if (strcmp(c.name, row->name) != 0)
                continue;
            has_example = has_example && c.run == invariance_run_row;
            TESS_TRY(check_dtypes(mem, &c, kernels, threads, result));
        }
    return has_example ? check_dtypes(mem, &example, kernels, threads, result) : TESS_OK;
}

tess_status tess_invariance_check_table(tess_mem *mem, const tess_kernels *kernels, int threads,
                                        void (*note)(void *self, const char *row), void *self,
                                        tess_invariance_result *result)
{
    *result = (tess_invariance_result){0};
    snprintf(result->table, sizeof(result->table), "%s", kernels->name);
    for (int id = 0; id < TESS_KERNEL_ROW_COUNT; id++) {
        const tess_kernel_row *row = tess_kernel_row_of((tess_kernel_row_id)id);
        if (note != NULL)
            note(self, row->name);
        TESS_TRY(check_row(mem, row, kernels, threads, result));
    }
    return TESS_OK;
}

static tess_status run_function(const invariance_call *c)
{
    c->of->function(c->in[0], c->out[0], c->n, c->of->arg[0]);
    return TESS_OK;
}

tess_status tess_invariance_check_function(tess_mem *mem, const char *name, tess_invariance_fn function, int64_t width,
                                           double tolerance, tess_invariance_result *result)
{
    char shape[48];
    const tess_kernels *kernels;
    TESS_CHECK(width >= 1 && width <= 1 << 24, TESS_E_INVALID, "rows of %lld floats: choose 1 to %d", (long long)width,
               1 << 24);
    TESS_CHECK(tolerance >= 0 && isfinite(tolerance), TESS_E_INVALID, "tolerance %g: it must be finite, 0 or above",
               tolerance);
    TESS_TRY(tess_kernels_select("ref", &kernels));
    *result = (tess_invariance_result){.tolerance = tolerance};
    snprintf(result->table, sizeof(result->table), "%s", name);
    snprintf(shape, sizeof(shape), "float32, width %lld", (long long)width);
    const invariance_case c = {.name = "function",
                               .shape = shape,
                               .dtype = TESS_F32,
                               .in = {{.name = "x", .size = width, .dtype = TESS_F32}},
                               .out = {{.name = "y", .size = width, .dtype = TESS_F32}},
                               .arg = {width},
                               .run = run_function,
                               .function = function};
    return check_case(mem, &c, kernels, 1, tolerance, result);
}

bool tess_invariance_holds(const tess_invariance_result *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->rows[i].different > 0 || r->rows[i].spills)
            return false;
    return true;
}
