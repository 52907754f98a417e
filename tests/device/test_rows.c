/* Every row that has an example in its description (device/kernel_rows.h), of which nothing else is known here: all
 * tables, the far device and float16 give the bits of the reference, and work is counted. So a new row is tested. */
#include "device/device.h"
#include "device/dry_device.h"
#include "device/kernel_rows.h"
#include "elementwise_test.h"

enum { MOST_OPERANDS = 16, TABLE = 7, GAP = 3, UNWRITTEN = 0x5a };

/* A call, and its memory in blocks of their exact size. */
typedef struct row_call {
    const tess_kernel_row *row;
    tess_kernel_args args;
    void *x[MOST_OPERANDS]; /* NULL: memory of the host alone, which is left out */
    size_t bytes[MOST_OPERANDS];
} row_call;

static int64_t rows_of(const row_call *c, const tess_operand *o)
{
    return o->gathered ? TABLE : tess_kernel_size_of(&c->args, o->rows);
}

static void put(void *x, int64_t i, float value, tess_dtype dtype)
{
    if (dtype == TESS_F16)
        ((uint16_t *)x)[i] = tess_float_to_f16(value);
    else
        put_value(x, i, (double)value, dtype);
}

static void fill(const row_call *c, int operand, tess_dtype dtype, int64_t elements)
{
    const tess_operand *o = &c->row->operands[operand];
    const int64_t below = tess_operand_below(&c->args, o, TABLE);
    void *x = c->x[operand];
    for (int64_t i = 0; i < elements; i++) {
        float value = tess_rng_normal(11, TESS_RNG_TEST, (uint64_t)operand, (uint64_t)i);
        if (dtype == TESS_I32)
            ((int32_t *)x)[i] = (int32_t)(i * 7919 % below);
        else if (dtype == TESS_U8)
            ((uint8_t *)x)[i] = o->access & TESS_WRITES ? 0 : (uint8_t)(i * 37 % 61);
        else
            put(x, i, o->positive ? fabsf(value) : value, dtype);
    }
}

/* Whether indices of the call have something to choose from. */
static bool has_choices(const row_call *c)
{
    for (int i = 0; i < c->row->n_operands; i++)
        if (tess_kernel_size_of(&c->args, c->row->operands[i].below) == 0)
            return false;
    return true;
}

/* Makes the call of n examples. Rows have gaps between them where they may. */
static bool make(const tess_kernel_row *row, int64_t n, tess_dtype dtype, row_call *c)
{
    const tess_member items = row->items != 0 ? row->items : row->operands[0].rows.of[0];
    *c = (row_call){.row = row};
    memcpy(&c->args, row->example, row->args_bytes);
    tess_kernel_set_size(&c->args, items, n * tess_kernel_size_of(&c->args, (tess_kernel_size){.of = {items}}));
    if (row->dtype_of != 0)
        tess_kernel_set_dtype(&c->args, row->dtype_of, dtype);
    EXPECT(row->n_operands <= MOST_OPERANDS);
    for (int i = 0; i < row->n_operands && has_choices(c); i++) {
        const tess_operand *o = &row->operands[i];
        const int64_t columns = tess_kernel_size_of(&c->args, o->columns), rows = rows_of(c, o);
        const tess_dtype own = tess_operand_dtype(&c->args, o);
        if (o->access == TESS_HOST_ONLY)
            continue;
        if (o->stride != 0)
            tess_kernel_set_size(&c->args, o->stride, columns + GAP);
        const int64_t elements = rows > 0 ? (rows - 1) * tess_operand_stride(&c->args, o) + columns : 0;
        c->bytes[i] = (size_t)elements * tess_dtype_size(own);
        c->x[i] = new_array((int64_t)c->bytes[i], 1);
        memset(c->x[i], UNWRITTEN, c->bytes[i]);
        if (o->access & TESS_READS)
            fill(c, i, own, elements);
        tess_operand_point(&c->args, o->at, c->x[i]);
    }
    return has_choices(c);
}

static void drop(row_call *c)
{
    for (int i = 0; i < MOST_OPERANDS; i++)
        free(c->x[i]);
}

static void expect_same(const char *where, const row_call *got, const row_call *want)
{
    for (int i = 0; i < want->row->n_operands; i++) {
        char what[128];
        snprintf(what, sizeof(what), "%s on %s: %s", want->row->name, where, want->row->operands[i].name);
        test_expect_same(__FILE__, __LINE__, what, got->x[i], want->x[i], want->bytes[i], 1);
    }
}

/* ---- Each row, in each dtype and of several sizes ---- */
typedef void (*each_call)(void *self, const row_call *want, int64_t n, tess_dtype dtype);

static void for_each_row(each_call check, void *self)
{
    static const int64_t sizes[] = {0, 1, 2, 37};
    tess_stream *ref = open_variant(0);
    for (int id = 0; id < TESS_KERNEL_ROW_COUNT; id++) {
        const tess_kernel_row *row = tess_kernel_row_of((tess_kernel_row_id)id);
        for (size_t k = 0; k < COUNT(sizes) * 2 && tess_kernel_has_example(row); k++) {
            row_call want;
            if (make(row, sizes[k / 2], both_dtypes[k % 2], &want)) {
                EXPECT_OK(row->call(tess_stream_kernels(ref), ref, &want.args));
                check(self, &want, sizes[k / 2], both_dtypes[k % 2]);
            }
            drop(&want);
        }
    }
    tess_stream_destroy(&ref);
}

static void check_table(void *self, const row_call *want, int64_t n, tess_dtype dtype)
{
    tess_stream *s = self;
    row_call got;
    EXPECT(make(want->row, n, dtype, &got));
    EXPECT_OK(want->row->call(tess_stream_kernels(s), s, &got.args));
    expect_same(tess_stream_kernels(s)->name, &got, want);
    drop(&got);
}

static void every_table_gives_the_bits_of_the_reference(void)
{
    for (size_t v = 1; v < COUNT(variants); v++) {
        tess_stream *s = open_variant(v);
        if (s != NULL)
            for_each_row(check_table, s);
        tess_stream_destroy(&s);
    }
}

static void check_far(void *self, const row_call *want, int64_t n, tess_dtype dtype)
{
    tess_stream *s = self;
    tess_device *device = tess_stream_device(s);
    row_call got;
    void *x[MOST_OPERANDS] = {NULL};
    EXPECT(make(want->row, n, dtype, &got));
    for (int i = 0; i < want->row->n_operands; i++)
        if (got.x[i] != NULL) {
            EXPECT_OK(tess_device_alloc(device, TESS_POOL_MISC, got.bytes[i], "operand", &x[i]));
            EXPECT_OK(tess_upload(s, x[i], got.x[i], got.bytes[i]));
            tess_operand_point(&got.args, want->row->operands[i].at, x[i]);
        }
    EXPECT_OK(want->row->call(tess_stream_kernels(s), s, &got.args));
    for (int i = 0; i < want->row->n_operands; i++)
        if (got.x[i] != NULL) {
            EXPECT_OK(tess_fetch(s, got.x[i], x[i], got.bytes[i]));
            tess_device_free(device, x[i]);
        }
    expect_same("far", &got, want);
    drop(&got);
}

static void the_far_device_gives_the_bits_of_the_reference(void)
{
    tess_device *d;
    tess_stream *s;
    EXPECT_OK(tess_device_open(test_mem(), "far", 0, &d));
    EXPECT_OK(tess_device_stream(d, 2, NULL, &s));
    for_each_row(check_far, s);
    tess_stream_destroy(&s);
    EXPECT_INT(tess_device_close(&d), 0);
}

/* ---- float16 ---- */
static bool is_half(const tess_kernel_row *row, int i)
{
    return row->operands[i].dtype_of == row->dtype_of;
}

/* Makes the values of a call in float32 those of a call in float16. */
static void widen_values(row_call *wide, const row_call *half)
{
    for (int i = 0; i < half->row->n_operands; i++)
        for (size_t e = 0; is_half(half->row, i) && e < half->bytes[i] / 2; e++)
            ((float *)wide->x[i])[e] = tess_f16_to_float(((const uint16_t *)half->x[i])[e]);
}

/* Rounds results in float32 to a copy of the call in float16. Gaps between rows are as they were. */
static void round_results(const row_call *wide, row_call *half)
{
    for (int i = 0; i < half->row->n_operands; i++) {
        const tess_operand *o = &half->row->operands[i];
        const int64_t stride = tess_operand_stride(&half->args, o),
                      columns = tess_kernel_size_of(&half->args, o->columns);
        if (!is_half(half->row, i) && half->x[i] != NULL)
            memcpy(half->x[i], wide->x[i], half->bytes[i]);
        for (int64_t r = 0; is_half(half->row, i) && o->access & TESS_WRITES && r < rows_of(half, o); r++)
            for (int64_t c = 0; c < columns; c++)
                put(half->x[i], r * stride + c, ((const float *)wide->x[i])[r * stride + c], TESS_F16);
    }
}

/* A norm rounds the sum with a residual in between (test_widen.c), and fp8 has no values of float16. */
static void float16_gives_rounded_results_of_float32(void)
{
    tess_stream *s, *ref = open_variant(0);
    EXPECT_OK(tess_stream_create(test_mem(), 2, NULL, &s));
    for (int id = 0; id < TESS_KERNEL_ROW_COUNT; id++) {
        const tess_kernel_row *row = tess_kernel_row_of((tess_kernel_row_id)id);
        row_call half, wide, want;
        if (!tess_kernel_has_example(row) || row->dtype_of == 0 || id == TESS_ROW_rmsnorm_forward ||
            id == TESS_ROW_layernorm_forward || id == TESS_ROW_round_fp8 || id == TESS_ROW_fp8_encode ||
            id == TESS_ROW_fp8_decode)
            continue;
        EXPECT(make(row, 37, TESS_F16, &half) && make(row, 37, TESS_F32, &wide) && make(row, 37, TESS_F16, &want));
        widen_values(&wide, &half);
        EXPECT_OK(row->call(tess_stream_kernels(s), s, &half.args));
        EXPECT_OK(row->call(tess_stream_kernels(ref), ref, &wide.args));
        round_results(&wide, &want);
        expect_same("float16", &half, &want);
        drop(&half);
        drop(&wide);
        drop(&want);
    }
    tess_stream_destroy(&s);
    tess_stream_destroy(&ref);
}

/* ---- Work ---- */
static void check_dry(void *self, const row_call *want, int64_t n, tess_dtype dtype)
{
    tess_stream *s = self;
    const tess_kernel_work before = tess_dry_stream_work(s), work = tess_kernel_work_of(want->row, &want->args);
    (void)dtype;
    EXPECT_OK(want->row->call(tess_stream_kernels(s), s, &want->args));
    const tess_kernel_work after = tess_dry_stream_work(s);
    EXPECT(after.bytes - before.bytes == work.bytes && after.flops - before.flops == work.flops);
    EXPECT(n == 0 || work.bytes > 0);
}

static void the_dry_device_counts_every_row(void)
{
    tess_stream *s;
    EXPECT_OK(tess_dry_stream_create(test_mem(), 2, NULL, &s));
    for_each_row(check_dry, s);
    tess_stream_destroy(&s);
}

static const test_case cases[] = {
    CASE(every_table_gives_the_bits_of_the_reference),
    CASE(the_far_device_gives_the_bits_of_the_reference),
    CASE(float16_gives_rounded_results_of_float32),
    CASE(the_dry_device_counts_every_row),
};

TEST_MAIN(cases)
