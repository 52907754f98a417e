#include "base/core/rng.h"

#include <string.h>

void tess_philox(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index, uint32_t out[4])
{
    /* The key is the seed. The counter's low half is the index. Its high half is the stream, mixed with the purpose so
     * that two purposes never share a counter. */
    uint64_t high = stream ^ ((uint64_t)purpose << 56);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < TESS_PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)TESS_PHILOX_M0 * c0, p1 = (uint64_t)TESS_PHILOX_M1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += TESS_PHILOX_K0;
        k1 += TESS_PHILOX_K1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t tess_rng_u64(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    tess_philox(seed, purpose, stream, index, words);
    return (uint64_t)words[1] << 32 | words[0];
}

float tess_rng_uniform(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    tess_philox(seed, purpose, stream, index, words);
    return (float)(words[0] >> 8) * 0x1p-24f;
}

double tess_rng_uniform_double(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index)
{
    return (double)(tess_rng_u64(seed, purpose, stream, index) >> 11) * 0x1p-53;
}

uint64_t tess_rng_permute(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t n, uint64_t index)
{
    if (n < 2)
        return index;
    /* Bits of each half; the domain 2^(2 half) >= n is at most 4n, so few rounds of cycle walking are needed */
    int half = 1;
    while (half < 31 && (UINT64_C(1) << (2 * half)) < n)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t value = index;
    do {
        uint64_t left = value >> half, right = value & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint64_t mixed = left ^ (tess_rng_u64(seed, purpose, stream, right << 3 | round) & mask);
            left = right;
            right = mixed;
        }
        value = left << half | right;
    } while (value >= n);
    return value;
}

uint64_t tess_hash_bytes(const void *data, uint64_t n, uint64_t seed)
{
    const uint8_t *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (uint64_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t tess_hash_text(const char *text)
{
    return tess_hash_bytes(text, strlen(text), 0);
}
