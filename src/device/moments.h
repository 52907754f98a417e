/* The forms in which moments of optimizers are stored between steps. The rows of the kernel table that convert blocks
 * of them give the bits that are defined here.
 *
 * bfloat16: a value is rounded up with a probability equal to its distance from the lower neighbour, as a fraction of
 * the gap, so that small steps are not lost on average. Random numbers have 16 bits: number i is half i % 2 of word i %
 * 8 / 2 of Philox counter i / 8.
 *
 * 8 bits (Dettmers et al., arXiv:2110.02861, "dynamic tree" as in bitsandbytes): a block's largest magnitude in
 * float32, and for each element the nearest of 256 values between 0 and that magnitude. A code has d leading zeros, a
 * one and 6 - d bits of fraction. Its value is the middle of its part of [0.1, 1], times 10^-d. In a map without sign a
 * number above 0 never becomes 0: for a second moment, the next step would be as large as the first moment divided by
 * eps. */
#ifndef TESS_DEVICE_MOMENTS_H
#define TESS_DEVICE_MOMENTS_H

#include "base/core/rng.h"
#include "device/bf16.h"

/* A cell is all numbers that share their sign, exponent and 7 bits of mantissa. The first cell also has all numbers
 * below 2^-23, the last one all above 1. No cell contains more than one middle. */
enum { TESS_CODE_CELLS = 4096, TESS_CODE_FIRST_CELL = 103 << 7, TESS_CODE_LAST_CELL = 24 << 7 };

/* The values of the codes, ascending, and the middles between neighbours; middle[255] is infinite. A number gets the
 * code of its cell's lowest number, or the next code if it is above the middle between the two. If two neighbours are
 * equally near, it gets the lower code. */
typedef struct tess_code_map {
    float value[256], middle[256];
    uint8_t lowest[2 * TESS_CODE_CELLS]; /* cells of negative numbers last; the end of each half is not used */
    bool is_signed;
} tess_code_map;
void tess_code_map_fill(bool is_signed, tess_code_map *map);

static inline int tess_code_cell(float x)
{
    int32_t bits = (int32_t)tess_float_bits(x), cell = ((bits & 0x7fffffff) >> 16) - TESS_CODE_FIRST_CELL;
    cell = cell < 0 ? 0 : cell > TESS_CODE_LAST_CELL ? TESS_CODE_LAST_CELL : cell;
    return cell + (bits < 0 ? TESS_CODE_CELLS : 0);
}

/* Returns the code of x in [-1, 1]. The code of a NaN is undefined. */
static inline uint8_t tess_code_of(const tess_code_map *map, float x)
{
    int lowest = map->lowest[tess_code_cell(x)], code = lowest + (x > map->middle[lowest]);
    return (uint8_t)(code == 0 && x > 0 && !map->is_signed ? 1 : code);
}

/* The random numbers for a tensor's elements in one step. `first` is the number of the block's first element. */
typedef struct tess_moment_random {
    uint64_t seed, stream, first;
} tess_moment_random;

static inline uint16_t tess_round_randomly(float x, uint32_t random)
{
    uint32_t u = tess_float_bits(x);
    return (u & 0x7f800000u) == 0x7f800000u ? tess_float_to_bf16(x) : (uint16_t)((u + random) >> 16);
}

#endif
