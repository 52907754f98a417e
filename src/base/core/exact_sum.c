#include "base/core/exact_sum.h"

#include <math.h>
#include <string.h>

enum {
    DIGITS = 68,       /* 32-bit digits; digit d weighs 2^(32 d - 1074) */
    INF_WORD = DIGITS, /* +inf count in the low half, -inf count in the high half */
    NAN_WORD = DIGITS + 1,
    PENDING_LIMIT = 1 << 29 /* number of additions of < 2^32 that an int64 digit can take before a carry */
};

static const int64_t negative_infinity = INT64_C(1) << 32;

void tess_exact_clear(tess_exact_sum *sum)
{
    memset(sum, 0, sizeof(*sum));
}

void tess_exact_add(tess_exact_sum *sum, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 0x7ff) {
        if (mantissa != 0)
            sum->limb[NAN_WORD]++;
        else
            sum->limb[INF_WORD] += bits >> 63 ? negative_infinity : 1;
        return;
    }
    if (exponent == 0)
        exponent = 1; /* subnormal: no hidden bit */
    else
        mantissa |= UINT64_C(1) << 52;
    int shift = (exponent - 1) % 32, digit = (exponent - 1) / 32;
    unsigned __int128 wide = (unsigned __int128)mantissa << shift; /* three digits hold these 53 + 31 bits */
    int64_t part[3] = {(int64_t)(uint32_t)wide, (int64_t)(uint32_t)(wide >> 32), (int64_t)(uint32_t)(wide >> 64)};
    for (int k = 0; k < 3; k++)
        sum->limb[digit + k] += bits >> 63 ? -part[k] : part[k];
    if (++sum->n_pending >= PENDING_LIMIT)
        tess_exact_normalize(sum);
}

void tess_exact_normalize(tess_exact_sum *sum)
{
    int64_t carry = 0;
    for (int d = 0; d < DIGITS - 1; d++) {
        int64_t digit = sum->limb[d] + carry;
        carry = digit >> 32; /* floor division: the shift of a signed value is arithmetic */
        sum->limb[d] = digit & INT64_C(0xffffffff);
    }
    sum->limb[DIGITS - 1] += carry;
    sum->n_pending = 0;
}

/* Rounds digits in [0, 2^32) to the nearest double, ties to even. */
static double round_magnitude(const int64_t *digit)
{
    int top = DIGITS - 1;
    while (top >= 0 && digit[top] == 0)
        top--;
    if (top < 0)
        return 0;
    int leading = 31 - __builtin_clz((uint32_t)digit[top]); /* position of the highest bit in its digit */
    int high = 32 * top + leading;                          /* its weight: 2^(high - 1074) */
    int low = high - 52 > 0 ? high - 52 : 0;                /* lowest bit that the result keeps */
    uint64_t mantissa = 0;
    for (int bit = high; bit >= low; bit--)
        mantissa = mantissa << 1 | (uint64_t)(digit[bit / 32] >> (bit % 32) & 1);
    if (low > 0) {
        int half = low - 1;
        int rest = digit[half / 32] >> (half % 32) & 1;
        int64_t sticky = digit[half / 32] & ((INT64_C(1) << (half % 32)) - 1);
        for (int d = 0; d < half / 32; d++)
            sticky |= digit[d];
        if (rest && (sticky != 0 || (mantissa & 1)))
            mantissa++;
    }
    return ldexp((double)mantissa, low - 1074);
}

double tess_exact_value(const tess_exact_sum *sum)
{
    tess_exact_sum value = *sum;
    tess_exact_normalize(&value);
    int64_t positive = value.limb[INF_WORD] & INT64_C(0xffffffff), negative = value.limb[INF_WORD] >> 32;
    if (value.limb[NAN_WORD] != 0 || (positive != 0 && negative != 0))
        return NAN;
    if (positive != 0 || negative != 0)
        return positive != 0 ? INFINITY : -INFINITY;
    if (value.limb[DIGITS - 1] >= 0)
        return round_magnitude(value.limb);
    for (int d = 0; d < DIGITS; d++)
        value.limb[d] = -value.limb[d];
    tess_exact_normalize(&value);
    return -round_magnitude(value.limb);
}
