/* Casts to 8-bit floats against torch's: all of float32, by where its casts step from code to code. */
#include "device/fp8.h"
#include "device/fp8_torch.h"
#include "support/test.h"

static const char *const names[] = {"E4M3", "E5M2"};

static uint8_t cast_bits(uint32_t bits, int format)
{
    return tess_float_to_fp8(tess_bits_float(bits), (tess_fp8)format);
}

static void expect_code(uint32_t bits, int format, int want)
{
    int got = cast_bits(bits, format);
    if (got != want)
        test_fail(__FILE__, __LINE__, "%s: %#x is cast to %#x, torch gives %#x", names[format], bits, got, want);
}

static int torch_code(uint32_t magnitude, int format)
{
    int code = 127;
    while (fp8_smallest[format][code] > magnitude)
        code--;
    return code;
}

static void every_bfloat16_is_cast_as_torch_casts_it(void)
{
    for (int format = 0; format < 2; format++)
        for (uint32_t half = 0; half < 0x8000; half++) {
            int want = half > 0x7f80 ? 0x7f : torch_code(half << 16, format);
            expect_code(half << 16, format, want);
            expect_code((half | 0x8000u) << 16, format, want | 0x80);
        }
}

static void casts_step_where_those_of_torch_do(void)
{
    for (int format = 0; format < 2; format++)
        for (int code = 1; code < 128; code++) {
            uint32_t bits = fp8_smallest[format][code];
            for (int off = -2; off <= 2; off++) {
                int want = torch_code(bits + (uint32_t)off, format);
                expect_code(bits + (uint32_t)off, format, want);
                expect_code((bits + (uint32_t)off) | 0x80000000u, format, want | 0x80);
            }
        }
}

static void codes_are_read_as_torch_reads_them(void)
{
    for (int format = 0; format < 2; format++)
        for (int code = 0; code < 256; code++) {
            uint32_t got = tess_float_bits(tess_fp8_to_float((uint8_t)code, (tess_fp8)format));
            if (got != fp8_values[format][code])
                test_fail(__FILE__, __LINE__, "%s: code %#x is %#x, torch has %#x", names[format], code, got,
                          fp8_values[format][code]);
        }
}

static const test_case cases[] = {
    CASE(every_bfloat16_is_cast_as_torch_casts_it),
    CASE(casts_step_where_those_of_torch_do),
    CASE(codes_are_read_as_torch_reads_them),
};

TEST_MAIN(cases)
