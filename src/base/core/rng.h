/* Counter-based randomness: Philox4x32-10 (Salmon et al., SC'11, doi:10.1145/2063384.2063405).
 *
 * Every random number is a pure function of (seed, purpose, stream, index): there is no generator state to shard or to
 * save. */
#ifndef TESS_BASE_CORE_RNG_H
#define TESS_BASE_CORE_RNG_H

#include <stdint.h>

/* The use of a number, so that equal indices of different uses give different numbers. The values must not change: they
 * decide a run's bits. */
typedef enum tess_purpose {
    TESS_RNG_INIT = 1,    /* weights: stream = hash of the tensor's name, index = element */
    TESS_RNG_SHUFFLE = 2, /* data order: stream = epoch */
    TESS_RNG_SAMPLE = 3,  /* token sampling: stream = prompt, index = position */
    TESS_RNG_TEST = 4,
    TESS_RNG_FAULT = 5,   /* random choices of an injected fault */
    TESS_RNG_RECOVER = 6, /* pauses before a restart: stream = failures in a row */
    TESS_RNG_ROUND = 7    /* stochastic rounding: stream = hash of name, moment and step, index = element */
} tess_purpose;

/* Philox4x32-10: the multipliers of a round, and the increments of the two halves of the key. */
enum { TESS_PHILOX_ROUNDS = 10 };
#define TESS_PHILOX_M0 0xD2511F53u
#define TESS_PHILOX_M1 0xCD9E8D57u
#define TESS_PHILOX_K0 0x9E3779B9u
#define TESS_PHILOX_K1 0xBB67AE85u

/* Computes four independent 32-bit words for one counter. */
void tess_philox(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index, uint32_t out[4]);

uint64_t tess_rng_u64(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index);
/* Returns a number in [0, 1) with 24 random bits. */
float tess_rng_uniform(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index);
/* Returns a number in [0, 1) with 53 random bits. */
double tess_rng_uniform_double(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index);
/* Returns a standard normal number by Box-Muller in float32 (tails to 6.6 standard deviations). Uses only additions,
 * multiplications, divisions and square roots, each rounded separately, so the bits are the same on every machine and
 * compiler. */
float tess_rng_normal(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t index);

/* Sets out[i] = mean + std * normal(first + i). Takes about a nanosecond for each. */
void tess_rng_fill_normal(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t first, int64_t n, float mean,
                          float std, float *out);

/* Returns the place of `index` in a random permutation of [0, n): a Feistel network with cycle walking, without a
 * table. n < 2^62. */
uint64_t tess_rng_permute(uint64_t seed, tess_purpose purpose, uint64_t stream, uint64_t n, uint64_t index);

/* 64-bit FNV-1a hashes, for names and configurations; not safe against forgery. */
uint64_t tess_hash_bytes(const void *data, uint64_t n, uint64_t seed);
uint64_t tess_hash_text(const char *text);

#endif
