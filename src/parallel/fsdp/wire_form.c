#include "parallel/fsdp/wire_form.h"

#include "device/fp8.h"
#include "device/fp8_rows.h"
#include "tessera/fsdp.h"

/* ---- Values ---- */
static size_t plain_bytes(const tess_wire_form *form, int64_t row)
{
    return (size_t)row * tess_dtype_size(form->moves);
}

static tess_status round_rows(const tess_wire_form *form, tess_stream *stream, const float *rows, int64_t n,
                              int64_t row, void *to)
{
    return tess_stream_kernels(stream)->convert(
        stream, &(tess_convert_args){.x = rows, .from = TESS_F32, .y = to, .to = form->moves, .n = n * row});
}

static tess_status sum_values(const tess_wire_form *form, tess_stream *stream, const void *from,
                              const tess_reduce_run *runs, int64_t n_runs, bool accumulate, float *sum)
{
    void *y = sum;
    const tess_reduction r = {.x = &from,
                              .n_inputs = 1,
                              .dtype = form->moves,
                              .divisor = 1,
                              .y = &y,
                              .n_outputs = 1,
                              .y_dtype = TESS_F32,
                              .accumulate = accumulate};
    return tess_stream_kernels(stream)->reduce_runs(stream,
                                                    &(tess_reduce_runs_args){.of = r, .runs = runs, .n_runs = n_runs});
}

/* ---- Codes of 8 bits, with a scale for each block ---- */
static size_t fp8_bytes(TESS_UNUSED const tess_wire_form *form, int64_t row)
{
    return (size_t)tess_fp8_row_bytes(row);
}

static tess_status encode_fp8(const tess_wire_form *form, tess_stream *stream, const float *rows, int64_t n,
                              int64_t row, void *to)
{
    return tess_fp8_encode_rows(stream, rows, n, row, form->reads, to);
}

static tess_status decode_fp8(tess_stream *stream, const void *rows, int64_t n, int64_t row, tess_dtype reads, void *to)
{
    return tess_fp8_decode_rows(stream, rows, n, row, reads, to);
}

/* A scale counts as the first element of its block. */
static int64_t fp8_element(int64_t row, int64_t at)
{
    return at < row ? at : (at - row) * TESS_FP8_BLOCK;
}

/* ---- Values of float32 in a unit of a narrower type ---- */
static size_t f32_bytes(TESS_UNUSED const tess_wire_form *form, int64_t row)
{
    return (size_t)row * sizeof(float);
}

static tess_status copy_f32(TESS_UNUSED const tess_wire_form *form, tess_stream *stream, const float *rows, int64_t n,
                            int64_t row, void *to)
{
    return tess_stream_kernels(stream)->copy(
        stream, &(tess_copy_args){.to = to, .from = rows, .bytes = n * row * (int64_t)sizeof(float)});
}

static const tess_wire_form forms[] = {
    {"float32", 0, TESS_F32, TESS_F32, plain_bytes, round_rows, NULL, sum_values, NULL},
    {"bfloat16", 0, TESS_BF16, TESS_BF16, plain_bytes, round_rows, NULL, sum_values, NULL},
    {"float16", 0, TESS_F16, TESS_F16, plain_bytes, round_rows, NULL, sum_values, NULL},
    {"fp8 of float32", TESS_CODES_FP8, TESS_F32, TESS_U8, fp8_bytes, encode_fp8, decode_fp8, NULL, fp8_element},
    {"fp8 of bfloat16", TESS_CODES_FP8, TESS_BF16, TESS_U8, fp8_bytes, encode_fp8, decode_fp8, NULL, fp8_element},
    {"float32 next to bfloat16", TESS_CODES_F32, TESS_BF16, TESS_F32, f32_bytes, copy_f32, NULL, NULL, NULL},
    {"float32 next to float16", TESS_CODES_F32, TESS_F16, TESS_F32, f32_bytes, copy_f32, NULL, NULL, NULL},
};

const tess_wire_form *tess_wire_form_of(tess_dtype dtype, int codes)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (forms[i].reads == dtype && forms[i].codes == codes)
            return &forms[i];
    return NULL;
}
