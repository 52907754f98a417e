#include "ckpt/tools/diff.h"

#include <math.h>
#include <string.h>

#include "base/core/flat.h"
#include "base/mem/scoped.h"
#include "ckpt/safetensors/safetensors.h"

enum { SLICE_BYTES = 16 << 20, BLOCK = 1024 };

typedef struct diff {
    const tess_export *a, *b;
    const tess_diff_options *options;
    uint8_t *bytes_a, *bytes_b; /* (SLICE_BYTES) the current slices */
    uint64_t done, all;
    tess_diff_summary *summary;
} diff;

const char *tess_diff_text(tess_diff_kind kind)
{
    static const char *const texts[] = {"same", "close", "different", "shape", "only in A", "only in B"};
    return texts[kind];
}

bool tess_diff_alike(const tess_diff_summary *s)
{
    return s->n_tensors[TESS_DIFF_DIFFERENT] + s->n_tensors[TESS_DIFF_SHAPE] + s->n_tensors[TESS_DIFF_ONLY_A] +
               s->n_tensors[TESS_DIFF_ONLY_B] ==
           0;
}

/* ---- Values */
/* The integer dtypes, with their width in bytes and their sign. */
static const struct integer {
    const char *dtype;
    int bytes;
    bool negative;
} integers[] = {{"I64", 8, true},  {"I32", 4, true},  {"I16", 2, true}, {"I8", 1, true},   {"U64", 8, false},
                {"U32", 4, false}, {"U16", 2, false}, {"U8", 1, false}, {"BOOL", 1, false}};

static const struct integer *find_integer(const char *dtype)
{
    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
        if (strcmp(integers[i].dtype, dtype) == 0)
            return &integers[i];
    return NULL;
}

/* Whether elements of the dtype are compared as numbers: F64, F32, F16, BF16, integers and BOOL. */
static bool are_numbers(const char *dtype)
{
    return tess_st_dtype_is_float(dtype) || find_integer(dtype) != NULL;
}

/* Converts at most BLOCK elements of such a dtype, at any alignment, to doubles. Rounds integers beyond 2^53. */
static void decode(const char *dtype, const uint8_t *src, int64_t n, double *dst)
{
    const struct integer *type = find_integer(dtype);
    float values[BLOCK];
    if (strcmp(dtype, "F64") == 0) {
        memcpy(dst, src, (size_t)n * sizeof(double));
    } else if (type == NULL) {
        tess_st_decode(dtype, src, n, values);
        for (int64_t i = 0; i < n; i++)
            dst[i] = (double)values[i];
    } else {
        int shift = 64 - 8 * type->bytes;
        for (int64_t i = 0; i < n; i++) {
            uint64_t bits = 0;
            memcpy(&bits, src + i * type->bytes, (size_t)type->bytes);
            dst[i] = type->negative ? (double)((int64_t)(bits << shift) >> shift) : (double)bits;
        }
    }
}

/* Running results over the slices of a tensor. The norms in *t are squares until the end. */
typedef struct tally {
    tess_diff_tensor *t;
    double tolerance;
    bool same_dtype, beyond; /* `beyond`: a value exceeds the tolerance */
} tally;

static void note_distance(tally *y, double a, double b)
{
    bool nan_a = isnan(a), nan_b = isnan(b);
    if ((nan_a && nan_b) || a == b)
        return;
    double abs = nan_a || nan_b ? INFINITY : fabs(a - b), largest = fmax(fabs(a), fabs(b));
    double rel = isinf(abs) ? INFINITY : abs / largest;
    y->t->max_abs = fmax(y->t->max_abs, abs);
    y->t->max_rel = fmax(y->t->max_rel, rel);
    y->t->norm_difference += abs * abs;
    y->beyond |= !(abs <= y->tolerance * fmax(1, largest));
}

static void note_different(tally *y, int64_t element)
{
    y->t->n_different++;
    if (y->t->first < 0)
        y->t->first = element;
}

/* Measures elements [first, +n); n is at most BLOCK. */
static void measure_block(tally *y, const uint8_t *a, const uint8_t *b, int64_t first, int64_t n)
{
    double x[BLOCK], z[BLOCK];
    size_t bytes = (size_t)y->t->a->element_bytes;
    bool same_bits = y->same_dtype && memcmp(a, b, (size_t)n * bytes) == 0;
    decode(y->t->a->dtype, a, n, x);
    if (!same_bits)
        decode(y->t->b->dtype, b, n, z);
    for (int64_t i = 0; i < n && same_bits; i++) {
        y->t->norm_a += x[i] * x[i];
        y->t->norm_b += x[i] * x[i];
    }
    for (int64_t i = 0; i < n && !same_bits; i++) {
        y->t->norm_a += x[i] * x[i];
        y->t->norm_b += z[i] * z[i];
        if (y->same_dtype ? memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) != 0
                          : x[i] != z[i] && !(isnan(x[i]) && isnan(z[i])))
            note_different(y, first + i);
        note_distance(y, x[i], z[i]);
    }
}

static void measure(tally *y, const uint8_t *a, const uint8_t *b, int64_t first, int64_t n)
{
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t count = n - at < BLOCK ? n - at : BLOCK;
        measure_block(y, a + at * y->t->a->element_bytes, b + at * y->t->b->element_bytes, first + at, count);
    }
}

/* Compares the bytes of elements that are not numbers. */
static void compare_bytes(tally *y, const uint8_t *a, const uint8_t *b, int64_t first, int64_t n)
{
    size_t bytes = (size_t)y->t->a->element_bytes;
    if (memcmp(a, b, (size_t)n * bytes) == 0)
        return;
    y->beyond = true;
    for (int64_t i = 0; i < n; i++)
        if (memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) != 0)
            note_different(y, first + i);
}

/* ---- One tensor */
static tess_status compare_slices(diff *d, tally *y)
{
    const tess_diff_tensor *t = y->t;
    tess_box slice;
    int largest = t->a->element_bytes > t->b->element_bytes ? t->a->element_bytes : t->b->element_bytes;
    int64_t most = SLICE_BYTES / largest;
    for (int64_t first = 0, taken; first < t->n; first += taken) {
        taken = tess_flat_box(t->a->n_dims, t->a->dim, first, most, &slice);
        TESS_TRY(tess_export_read(d->a, t->a, &slice, d->bytes_a));
        TESS_TRY(tess_export_read(d->b, t->b, &slice, d->bytes_b));
        if (t->measured)
            measure(y, d->bytes_a, d->bytes_b, first, taken);
        else
            compare_bytes(y, d->bytes_a, d->bytes_b, first, taken);
        d->done += (uint64_t)taken * (uint64_t)t->a->element_bytes;
        if (d->options->progress != NULL)
            d->options->progress(d->options->self, d->done, d->all);
    }
    return TESS_OK;
}

static tess_status compare_values(diff *d, tess_diff_tensor *t)
{
    tally y = {.t = t, .tolerance = d->options->tolerance, .same_dtype = strcmp(t->a->dtype, t->b->dtype) == 0};
    bool numbers = are_numbers(t->a->dtype) && are_numbers(t->b->dtype);
    t->kind = TESS_DIFF_DIFFERENT;
    if (!numbers && !y.same_dtype)
        return TESS_OK;
    t->measured = numbers && !(d->options->bits_only && y.same_dtype);
    TESS_TRY(compare_slices(d, &y));
    t->norm_a = sqrt(t->norm_a);
    t->norm_b = sqrt(t->norm_b);
    t->norm_difference = sqrt(t->norm_difference);
    if (y.same_dtype && t->n_different == 0)
        t->kind = TESS_DIFF_SAME;
    else if (!y.beyond)
        t->kind = TESS_DIFF_CLOSE;
    return TESS_OK;
}

static tess_status compare_tensor(diff *d, const tess_export_tensor *a, const tess_export_tensor *b)
{
    const tess_export_tensor *any = a != NULL ? a : b;
    tess_diff_tensor t = {.name = any->name, .a = a, .b = b, .n = 1, .first = -1};
    for (int k = 0; k < any->n_dims; k++)
        t.n *= any->dim[k];
    if (a == NULL || b == NULL)
        t.kind = a == NULL ? TESS_DIFF_ONLY_B : TESS_DIFF_ONLY_A;
    else if (a->n_dims != b->n_dims || memcmp(a->dim, b->dim, sizeof(a->dim)) != 0)
        t.kind = TESS_DIFF_SHAPE;
    else
        TESS_TRY_CTX(compare_values(d, &t), "tensor '%s'", t.name);
    d->summary->n_tensors[t.kind]++;
    d->summary->max_abs = fmax(d->summary->max_abs, t.max_abs);
    d->summary->max_rel = fmax(d->summary->max_rel, t.max_rel);
    if (d->options->tensor != NULL)
        d->options->tensor(d->options->self, &t);
    return TESS_OK;
}

/* ---- All tensors */
static const tess_export_tensor *tensor_at(const tess_export *e, int i)
{
    return i < e->n_tensors ? &e->tensors[i] : NULL;
}

/* Merges two lists that are sorted by name, and compares tensors with equal names. */
static tess_status compare_all(diff *d)
{
    for (int i = 0, k = 0; i < d->a->n_tensors || k < d->b->n_tensors;) {
        const tess_export_tensor *a = tensor_at(d->a, i), *b = tensor_at(d->b, k);
        int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->name, b->name);
        TESS_TRY(compare_tensor(d, order <= 0 ? a : NULL, order >= 0 ? b : NULL));
        i += order <= 0;
        k += order >= 0;
    }
    return TESS_OK;
}

tess_status tess_export_diff(const tess_export *a, const tess_export *b, const tess_diff_options *options,
                             tess_diff_summary *summary)
{
    static const tess_diff_options plain = {0};
    diff d = {.a = a, .b = b, .options = options != NULL ? options : &plain, .summary = summary};
    *summary = (tess_diff_summary){.max_abs = 0};
    d.all = tess_export_bytes(a);
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = a->mem};
    TESS_TRY(TESS_NEW_IN(&own, SLICE_BYTES, "compare", &d.bytes_a));
    TESS_TRY(TESS_NEW_IN(&own, SLICE_BYTES, "compare", &d.bytes_b));
    return compare_all(&d);
}

tess_status tess_ckpt_diff(const tess_catalog *a, const tess_catalog *b, const tess_diff_options *options,
                           tess_diff_summary *summary)
{
    const tess_export_options names = {.names = TESS_NAMES_TESSERA,
                                       .model_only = options != NULL && options->model_only};
    TESS_AUTO(tess_export_destroy) tess_export *x = NULL, *y = NULL;
    TESS_TRY(tess_export_create(a, &names, &x));
    TESS_TRY(tess_export_create(b, &names, &y));
    return tess_export_diff(x, y, options, summary);
}
