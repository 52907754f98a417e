/* Floating point. Results are rounded to nearest even, and a float32 result that is NaN has the bits 0x7fffffff, as on
 * a GPU. Approximations are as near as the host's functions: a GPU's are within the errors that the manual "PTX ISA"
 * states (ex2 2 ulp, rcp, rsqrt and sqrt 1 to 2 ulp, lg2 2^-22, sin and cos 2^-20.5), so a kernel must not depend on
 * their last bits. */
#include "device/ptx/ptx_operations.h"

#include <math.h>
#include <string.h>

float ptx_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof(x));
    return x;
}

uint64_t ptx_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return x != x ? 0x7fffffff : bits;
}

double ptx_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

uint64_t ptx_double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* ---- 16 bits ---- */
typedef struct half_format {
    int exponent_bits, fraction_bits;
} half_format;

static half_format format_of(ptx_type_kind kind)
{
    return kind == PTX_BF16 ? (half_format){8, 7} : (half_format){5, 10};
}

float ptx_half(uint64_t bits, ptx_type_kind kind)
{
    const half_format f = format_of(kind);
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    const int exponent = (int)(bits >> f.fraction_bits) & ((1 << f.exponent_bits) - 1);
    const int fraction = (int)bits & ((1 << f.fraction_bits) - 1);
    const float sign = bits >> 15 & 1 ? -1.0f : 1.0f;
    if (exponent == (1 << f.exponent_bits) - 1)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)fraction, 1 - bias - f.fraction_bits);
    return sign * ldexpf((float)(fraction + (1 << f.fraction_bits)), exponent - bias - f.fraction_bits);
}

uint64_t ptx_half_bits(double x, ptx_type_kind kind)
{
    const half_format f = format_of(kind);
    const int bias = (1 << (f.exponent_bits - 1)) - 1;
    const uint64_t sign = signbit(x) ? 0x8000 : 0, infinity = ((UINT64_C(1) << f.exponent_bits) - 1) << f.fraction_bits;
    int exponent;
    if (x != x)
        return 0x7fff;
    if (isinf(x))
        return sign | infinity;
    if (x == 0)
        return sign;
    frexp(x, &exponent); /* |x| is 2^(exponent - 1) to 2^exponent */
    const int lowest = exponent - 1 > 1 - bias ? exponent - 1 : 1 - bias;
    const double units = nearbyint(ldexp(fabs(x), f.fraction_bits - lowest));
    const uint64_t bits = (uint64_t)units + ((uint64_t)(lowest + bias - 1) << f.fraction_bits);
    return sign | (bits >= infinity ? infinity : bits);
}

/* ---- float32 ---- */
static float flushed(const ptx_instruction *i, float x)
{
    return i->flush && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float source(const ptx_instruction *i, uint64_t bits)
{
    return flushed(i, ptx_float(bits));
}

static uint64_t result(const ptx_instruction *i, float x)
{
    if (i->saturate)
        x = x > 0 ? (x < 1 ? x : 1) : 0; /* NaN becomes 0 */
    return ptx_float_bits(flushed(i, x));
}

static uint64_t add_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return result(i, source(i, a) + source(i, b));
}

static uint64_t subtract_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return result(i, source(i, a) - source(i, b));
}

static uint64_t multiply_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return result(i, source(i, a) * source(i, b));
}

static uint64_t fuse_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return result(i, fmaf(source(i, a), source(i, b), source(i, c)));
}

static uint64_t divide_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return result(i, source(i, a) / source(i, b));
}

static uint64_t minimum_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    float x = source(i, a), y = source(i, b);
    (void)c;
    if (i->with_nan && (x != x || y != y))
        return result(i, NAN);
    return result(i, x == y ? (signbit(x) ? x : y) : fminf(x, y)); /* -0 is less than 0 */
}

static uint64_t maximum_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    float x = source(i, a), y = source(i, b);
    (void)c;
    if (i->with_nan && (x != x || y != y))
        return result(i, NAN);
    return result(i, x == y ? (signbit(x) ? y : x) : fmaxf(x, y));
}

static uint64_t negate_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return i->flush ? result(i, -source(i, a)) : ptx_narrow(a, 32) ^ 0x80000000;
}

static uint64_t magnitude_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return i->flush ? result(i, fabsf(source(i, a))) : ptx_narrow(a, 31);
}

static uint64_t copy_sign_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)c;
    return ptx_narrow(b, 31) | (a & 0x80000000);
}

static uint64_t root_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, sqrtf(source(i, a)));
}

static uint64_t reciprocal_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, 1.0f / source(i, a));
}

static uint64_t reciprocal_root_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, (float)(1.0 / sqrt((double)source(i, a))));
}

static uint64_t power_of_2_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, exp2f(source(i, a)));
}

static uint64_t logarithm_of_2_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, log2f(source(i, a)));
}

static uint64_t tanh_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, tanhf(source(i, a)));
}

static uint64_t sine_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, sinf(source(i, a)));
}

static uint64_t cosine_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return result(i, cosf(source(i, a)));
}

/* ---- float64 ---- */
static uint64_t add_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)c;
    return ptx_double_bits(ptx_double(a) + ptx_double(b));
}

static uint64_t subtract_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)c;
    return ptx_double_bits(ptx_double(a) - ptx_double(b));
}

static uint64_t multiply_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)c;
    return ptx_double_bits(ptx_double(a) * ptx_double(b));
}

static uint64_t fuse_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    return ptx_double_bits(fma(ptx_double(a), ptx_double(b), ptx_double(c)));
}

static uint64_t divide_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)c;
    return ptx_double_bits(ptx_double(a) / ptx_double(b));
}

static uint64_t minimum_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    double x = ptx_double(a), y = ptx_double(b);
    (void)i;
    (void)c;
    return ptx_double_bits(x == y ? (signbit(x) ? x : y) : fmin(x, y));
}

static uint64_t maximum_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    double x = ptx_double(a), y = ptx_double(b);
    (void)i;
    (void)c;
    return ptx_double_bits(x == y ? (signbit(x) ? y : x) : fmax(x, y));
}

static uint64_t negate_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)b;
    (void)c;
    return a ^ UINT64_C(1) << 63;
}

static uint64_t magnitude_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)b;
    (void)c;
    return ptx_narrow(a, 63);
}

static uint64_t copy_sign_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)c;
    return ptx_narrow(b, 63) | (a & UINT64_C(1) << 63);
}

static uint64_t root_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)b;
    (void)c;
    return ptx_double_bits(sqrt(ptx_double(a)));
}

static uint64_t reciprocal_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)i;
    (void)b;
    (void)c;
    return ptx_double_bits(1.0 / ptx_double(a));
}

/* ---- 16 bits: each element is computed in float64, which holds sums and products exactly, and rounded once ---- */
typedef double half_function(double a, double b, double c);

static uint64_t each_half(const ptx_instruction *i, half_function *f, uint64_t a, uint64_t b, uint64_t c)
{
    const ptx_type_kind kind = i->type.kind;
    uint64_t both = 0;
    for (int k = 0; k < i->type.packed; k++) {
        const int shift = 16 * k;
        both |=
            ptx_half_bits(f((double)ptx_half(a >> shift & 0xffff, kind), (double)ptx_half(b >> shift & 0xffff, kind),
                            (double)ptx_half(c >> shift & 0xffff, kind)),
                          kind)
            << shift;
    }
    return both;
}

static double sum(double a, double b, double c)
{
    (void)c;
    return a + b;
}

static double difference(double a, double b, double c)
{
    (void)c;
    return a - b;
}

static double product(double a, double b, double c)
{
    (void)c;
    return a * b;
}

static double fused(double a, double b, double c)
{
    return fma(a, b, c);
}

static double least(double a, double b, double c)
{
    (void)c;
    return a == b ? (signbit(a) ? a : b) : fmin(a, b);
}

static double greatest(double a, double b, double c)
{
    (void)c;
    return a == b ? (signbit(a) ? b : a) : fmax(a, b);
}

static uint64_t add_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return each_half(i, sum, a, b, c);
}

static uint64_t subtract_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return each_half(i, difference, a, b, c);
}

static uint64_t multiply_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return each_half(i, product, a, b, c);
}

static uint64_t fuse_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return each_half(i, fused, a, b, c);
}

static uint64_t minimum_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return each_half(i, least, a, b, c);
}

static uint64_t maximum_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return each_half(i, greatest, a, b, c);
}

static uint64_t negate_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return ptx_narrow(a, 16 * i->type.packed) ^ (i->type.packed == 2 ? 0x80008000 : 0x8000);
}

static uint64_t magnitude_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    (void)b;
    (void)c;
    return a & (i->type.packed == 2 ? 0x7fff7fff : 0x7fff);
}

/* ---- Comparisons ---- */
static uint64_t compare(const ptx_instruction *i, double x, double y, uint64_t c)
{
    const bool nan = x != x || y != y;
    const bool results[] = {
        [PTX_EQ] = x == y, [PTX_NE] = !nan && x != y, [PTX_LT] = x<y, [PTX_LE] = x <= y, [PTX_GT] = x> y,
        [PTX_GE] = x >= y, [PTX_NUM] = !nan,          [PTX_NAN] = nan};
    const uint64_t truth = (nan && i->with_nan) || results[i->comparison];
    return i->also != NULL ? i->also(i, truth, c, 0) & 1 : truth;
}

static uint64_t compare_float(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return compare(i, (double)source(i, a), (double)source(i, b), c);
}

static uint64_t compare_double(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return compare(i, ptx_double(a), ptx_double(b), c);
}

static uint64_t compare_half(const ptx_instruction *i, uint64_t a, uint64_t b, uint64_t c)
{
    return compare(i, (double)ptx_half(a, i->type.kind), (double)ptx_half(b, i->type.kind), c);
}

// clang-format off
const ptx_operation ptx_float_operations[] = {
    {"setp",     PTX_F32,  PTX_CLASS_FLOAT,   3, compare_float},
    {"setp",     PTX_F64,  PTX_CLASS_DOUBLE,  3, compare_double},
    {"setp",     PTX_HALF, PTX_CLASS_FLOAT,   3, compare_half},
    {"add",      PTX_F32,  PTX_CLASS_FLOAT,   2, add_float},
    {"sub",      PTX_F32,  PTX_CLASS_FLOAT,   2, subtract_float},
    {"mul",      PTX_F32,  PTX_CLASS_FLOAT,   2, multiply_float},
    {"fma",      PTX_F32,  PTX_CLASS_FLOAT,   3, fuse_float},
    {"div",      PTX_F32,  PTX_CLASS_SPECIAL, 2, divide_float},
    {"min",      PTX_F32,  PTX_CLASS_FLOAT,   2, minimum_float},
    {"max",      PTX_F32,  PTX_CLASS_FLOAT,   2, maximum_float},
    {"neg",      PTX_F32,  PTX_CLASS_FLOAT,   1, negate_float},
    {"abs",      PTX_F32,  PTX_CLASS_FLOAT,   1, magnitude_float},
    {"copysign", PTX_F32,  PTX_CLASS_FLOAT,   2, copy_sign_float},
    {"sqrt",     PTX_F32,  PTX_CLASS_SPECIAL, 1, root_float},
    {"rcp",      PTX_F32,  PTX_CLASS_SPECIAL, 1, reciprocal_float},
    {"rsqrt",    PTX_F32,  PTX_CLASS_SPECIAL, 1, reciprocal_root_float},
    {"ex2",      PTX_F32,  PTX_CLASS_SPECIAL, 1, power_of_2_float},
    {"lg2",      PTX_F32,  PTX_CLASS_SPECIAL, 1, logarithm_of_2_float},
    {"tanh",     PTX_F32,  PTX_CLASS_SPECIAL, 1, tanh_float},
    {"sin",      PTX_F32,  PTX_CLASS_SPECIAL, 1, sine_float},
    {"cos",      PTX_F32,  PTX_CLASS_SPECIAL, 1, cosine_float},
    {"add",      PTX_F64,  PTX_CLASS_DOUBLE,  2, add_double},
    {"sub",      PTX_F64,  PTX_CLASS_DOUBLE,  2, subtract_double},
    {"mul",      PTX_F64,  PTX_CLASS_DOUBLE,  2, multiply_double},
    {"fma",      PTX_F64,  PTX_CLASS_DOUBLE,  3, fuse_double},
    {"div",      PTX_F64,  PTX_CLASS_DOUBLE,  2, divide_double},
    {"min",      PTX_F64,  PTX_CLASS_DOUBLE,  2, minimum_double},
    {"max",      PTX_F64,  PTX_CLASS_DOUBLE,  2, maximum_double},
    {"neg",      PTX_F64,  PTX_CLASS_DOUBLE,  1, negate_double},
    {"abs",      PTX_F64,  PTX_CLASS_DOUBLE,  1, magnitude_double},
    {"copysign", PTX_F64,  PTX_CLASS_DOUBLE,  2, copy_sign_double},
    {"sqrt",     PTX_F64,  PTX_CLASS_DOUBLE,  1, root_double},
    {"rcp",      PTX_F64,  PTX_CLASS_DOUBLE,  1, reciprocal_double},
    {"add",      PTX_HALF, PTX_CLASS_FLOAT,   2, add_half},
    {"sub",      PTX_HALF, PTX_CLASS_FLOAT,   2, subtract_half},
    {"mul",      PTX_HALF, PTX_CLASS_FLOAT,   2, multiply_half},
    {"fma",      PTX_HALF, PTX_CLASS_FLOAT,   3, fuse_half},
    {"min",      PTX_HALF, PTX_CLASS_FLOAT,   2, minimum_half},
    {"max",      PTX_HALF, PTX_CLASS_FLOAT,   2, maximum_half},
    {"neg",      PTX_HALF, PTX_CLASS_FLOAT,   1, negate_half},
    {"abs",      PTX_HALF, PTX_CLASS_FLOAT,   1, magnitude_half},
    {NULL, PTX_ANY, PTX_CLASS_FLOAT, 0, NULL},
};
// clang-format on
