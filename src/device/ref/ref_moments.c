/* Stores moments of optimizers as bfloat16 with random rounding, or as 8-bit codes of a block. */
#include "device/moments.h"

#include <math.h>

#include "device/ref/ref_impl.h"

static void encode_8bit(const tess_code_map *map, const float *x, int n, uint8_t *codes, float *most)
{
    *most = 0;
    for (int i = 0; i < n; i++)
        *most = fabsf(x[i]) > *most ? fabsf(x[i]) : *most;
    for (int i = 0; i < n; i++)
        codes[i] = tess_code_of(map, *most > 0 ? x[i] / *most : 0);
}

static void decode_8bit(const tess_code_map *map, const uint8_t *codes, float most, int n, float *x)
{
    for (int i = 0; i < n; i++)
        x[i] = map->value[codes[i]] * most;
}

static void round_randomly(const tess_moment_random *random, const float *x, int n, uint16_t *y)
{
    uint32_t words[4];
    for (int i = 0; i < n; i++) {
        uint64_t number = random->first + (uint64_t)i;
        if (i == 0 || number % 8 == 0)
            tess_philox(random->seed, TESS_RNG_ROUND, random->stream, number / 8, words);
        y[i] = tess_round_randomly(x[i], words[number % 8 / 2] >> 16 * (number % 2) & 0xffffu);
    }
}

void tess_ref_moments(tess_kernels *k)
{
    k->encode_8bit = encode_8bit;
    k->decode_8bit = decode_8bit;
    k->round_randomly = round_randomly;
}
