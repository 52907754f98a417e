/* cvt: conversions between types. */
#include "device/ptx/ptx_operations.h"

#include <math.h>

static bool is_integer(ptx_type t)
{
    return t.kind == PTX_BITS || t.kind == PTX_UNSIGNED || t.kind == PTX_SIGNED;
}

static double real_of(ptx_type t, uint64_t bits)
{
    return t.bits == 64 ? ptx_double(bits) : t.bits == 32 ? (double)ptx_float(bits) : (double)ptx_half(bits, t.kind);
}

/* Rounds a real number to an integer, where the instruction asks for it. */
static double rounded(const ptx_instruction *i, double x)
{
    switch (i->rounding) {
    case PTX_NEAREST_INTEGER:
        return nearbyint(x);
    case PTX_TO_ZERO_INTEGER:
        return trunc(x);
    case PTX_DOWN_INTEGER:
        return floor(x);
    case PTX_UP_INTEGER:
        return ceil(x);
    default:
        return x;
    }
}

static uint64_t real_bits(ptx_type t, double x)
{
    return t.bits == 64 ? ptx_double_bits(x) : t.bits == 32 ? ptx_float_bits((float)x) : ptx_half_bits(x, t.kind);
}

static uint64_t real_to_real(const ptx_instruction *i, uint64_t a)
{
    double x = rounded(i, real_of(i->from, a));
    const double least = i->type.bits == 16 && i->type.kind == PTX_FLOAT ? 0x1p-14 : 0x1p-126;
    if (i->flush && fabs(x) < least && (i->from.bits == 32 || i->type.bits == 32))
        x = copysign(0, x);
    if (i->saturate)
        x = x > 0 ? (x < 1 ? x : 1) : 0;
    return real_bits(i->type, x);
}

/* Results that do not fit are clamped. The manual gives NaN 0, or the sign's bit alone if float64 or 64 bits take part.
 */
static uint64_t real_to_integer(const ptx_instruction *i, uint64_t a)
{
    const double x = rounded(i, real_of(i->from, a));
    const int bits = i->type.bits;
    const bool is_signed = i->type.kind == PTX_SIGNED;
    const double end = ldexp(1, is_signed ? bits - 1 : bits), begin = is_signed ? -end : 0;
    if (x != x)
        return i->from.bits == 64 || bits == 64 ? UINT64_C(1) << (bits - 1) : 0;
    if (x >= end)
        return is_signed ? ptx_narrow(UINT64_MAX, bits - 1) : ptx_narrow(UINT64_MAX, bits);
    if (x <= begin)
        return is_signed ? UINT64_C(1) << (bits - 1) : 0;
    return ptx_narrow(is_signed ? (uint64_t)(int64_t)x : (uint64_t)x, bits);
}

static uint64_t integer_to_real(const ptx_instruction *i, uint64_t a)
{
    const bool is_signed = i->from.kind == PTX_SIGNED;
    const int64_t s = ptx_signed(a, i->from.bits);
    const uint64_t u = ptx_narrow(a, i->from.bits);
    if (i->type.bits == 32) /* rounded once */
        return ptx_float_bits(is_signed ? (float)s : (float)u);
    return real_bits(i->type, is_signed ? (double)s : (double)u);
}

static uint64_t integer_to_integer(const ptx_instruction *i, uint64_t a)
{
    const int bits = i->type.bits;
    if (i->from.kind != PTX_SIGNED) {
        const uint64_t u = ptx_narrow(a, i->from.bits);
        const uint64_t most = ptx_narrow(UINT64_MAX, i->type.kind == PTX_SIGNED ? bits - 1 : bits);
        return i->saturate && u > most ? most : ptx_narrow(u, bits);
    }
    const int64_t s = ptx_signed(a, i->from.bits);
    if (i->saturate && i->type.kind == PTX_SIGNED && bits < 64) {
        const int64_t end = INT64_C(1) << (bits - 1);
        return ptx_narrow((uint64_t)(s >= end ? end - 1 : s < -end ? -end : s), bits);
    }
    if (i->saturate && i->type.kind != PTX_SIGNED)
        return s < 0 ? 0 : (uint64_t)s > ptx_narrow(UINT64_MAX, bits) ? ptx_narrow(UINT64_MAX, bits) : (uint64_t)s;
    return ptx_narrow((uint64_t)s, bits);
}

static uint64_t convert(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    if (i->type.packed == 2) /* the first source becomes the upper half */
        return ptx_half_bits((double)ptx_float(a), i->type.kind) << 16 |
               ptx_half_bits((double)ptx_float(b), i->type.kind);
    if (is_integer(i->type))
        return is_integer(i->from) ? integer_to_integer(i, a) : real_to_integer(i, a);
    return is_integer(i->from) ? integer_to_real(i, a) : real_to_real(i, a);
}

// clang-format off
const ptx_operation ptx_convert_operations[] = {
    {"cvt", PTX_ANY, PTX_CLASS_CONVERT, 2, convert},
    {NULL,  PTX_ANY, PTX_CLASS_CONVERT, 0, NULL},
};
// clang-format on
