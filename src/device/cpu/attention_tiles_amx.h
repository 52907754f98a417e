/* Operands of bf16 attention on AMX tiles (16 rows of 64 bytes): packing, and products of 2 x 2 tiles.
 *
 * TDPBF16PS adds to each float of C the 32 products of a row of A and a column of B: first those of even k and those of
 * odd k separately, then both. An element of C does not depend on its neighbours, and exchanging the operands only
 * exchanges factors. So scores may be computed as K Q^T: its left operand is K in its memory layout, and the result has
 * one query per lane.
 *
 *   A tile: 16 rows of 32 bf16
 *   B tile: 16 pairs of k, each 16 columns of (even, odd)
 *   C tile: 16 rows of 16 floats */
#ifndef TESS_DEVICE_CPU_ATTENTION_TILES_AMX_H
#define TESS_DEVICE_CPU_ATTENTION_TILES_AMX_H

#include "device/cpu/vec_avx512.h"
#include "device/vmath.h"

#include "device/cpu/attention_impl.h"
#include "device/cpu/tiles_amx.h"
#include "device/cpu/transpose_avx512_impl.h"

enum {
    TILE_ROWS = 16,
    TILE_K = 32,
    TILE_BF16 = 512,  /* number of elements of an A or B tile */
    TILE_FLOATS = 256 /* number of elements of a C tile */
};

/* Returns the head size, rounded up to whole steps of k. */
static inline int64_t padded_head(const tess_attention *a)
{
    return divide_up(a->head_size, TILE_K) * TILE_K;
}

static inline __mmask32 first_bf16(int64_t n)
{
    return n >= 32 ? 0xFFFFFFFFu : n <= 0 ? 0 : (1u << n) - 1u;
}

static inline void store_tile(uint16_t *tile, const __m512i rows[TILE_ROWS])
{
    for (int i = 0; i < TILE_ROWS; i++)
        _mm512_store_si512((void *)(tile + i * TILE_K), rows[i]);
}

/* Loads elements [d, d + 32) of a row of D. Elements beyond the row, and all elements of an absent row (NULL), are
 * zero. */
static inline __m512i load_row(const uint16_t *row, int64_t d, int64_t D)
{
    return row == NULL ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi16(first_bf16(D - d), row + d);
}

/* Packs 16 rows as A tiles, one per step of k. */
static inline void pack_rows(const uint16_t *const *rows, int64_t D, uint16_t *tiles)
{
    for (int64_t d = 0; d < D; d += TILE_K, tiles += TILE_BF16)
        for (int64_t r = 0; r < TILE_ROWS; r++)
            _mm512_store_si512((void *)(tiles + r * TILE_K), load_row(rows[r], d, D));
}

/* Packs 16 rows as columns of B tiles, one per step of k. */
static inline void pack_rows_turned(const uint16_t *const *rows, int64_t D, uint16_t *tiles)
{
    for (int64_t d = 0; d < D; d += TILE_K, tiles += TILE_BF16) {
        __m512i square[TILE_ROWS];
        for (int64_t r = 0; r < TILE_ROWS; r++)
            square[r] = load_row(rows[r], d, D);
        transpose_16x16_avx512(square);
        store_tile(tiles, square);
    }
}

/* Packs 32 rows as k, with rows r and r + pair in one dword (pair 1: even r; 16: r below 16). Without `turned` the
 * pairs are B tiles of 16 columns d; transposed they are A tiles with rows d. The tile of columns 16 i begins at tiles
 * + i * tile_step elements; D is rounded up to 32. */
static inline void pack_pairs(const uint16_t *const *rows, int pair, int64_t D, bool turned, uint16_t *tiles,
                              int64_t tile_step)
{
    static const uint16_t interleave[2][32] = {{0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
                                               {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63}};
    const __m512i low = _mm512_loadu_si512(interleave[0]), high = _mm512_loadu_si512(interleave[1]);
    for (int64_t d = 0; d < D; d += TILE_K, tiles += 2 * tile_step) {
        __m512i left[TILE_ROWS], right[TILE_ROWS];
        for (int64_t r = 0; r < TILE_ROWS; r++) {
            const uint16_t *const *at = rows + (pair == 1 ? 2 * r : r);
            const __m512i first = load_row(at[0], d, D), second = load_row(at[pair], d, D);
            left[r] = _mm512_permutex2var_epi16(first, low, second);
            right[r] = _mm512_permutex2var_epi16(first, high, second);
        }
        if (turned) {
            transpose_16x16_avx512(left);
            transpose_16x16_avx512(right);
        }
        store_tile(tiles, left);
        store_tile(tiles + tile_step, right);
    }
}

/* Four sums, in tiles 0..3: (0 1; 2 3). */
static inline void sums_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

static inline void sums_load(const float *c00, const float *c01, const float *c10, const float *c11)
{
    _tile_loadd(0, c00, 64);
    _tile_loadd(1, c01, 64);
    _tile_loadd(2, c10, 64);
    _tile_loadd(3, c11, 64);
}

static inline void sums_store(float *c00, float *c01, float *c10, float *c11)
{
    _tile_stored(0, c00, 64);
    _tile_stored(1, c01, 64);
    _tile_stored(2, c10, 64);
    _tile_stored(3, c11, 64);
}

/* Adds the products of one step of k: two A tiles by two B tiles. */
static inline void sums_add(const uint16_t *a0, const uint16_t *a1, int64_t a_row_bytes, const uint16_t *b0,
                            const uint16_t *b1)
{
    _tile_loadd(4, a0, a_row_bytes);
    _tile_loadd(6, b0, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b1, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a1, a_row_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Returns 2^x for x <= 0, with a relative error of 3e-6 (probabilities become bf16 anyway). Exactly 1 for 0 and 0 for
 * -inf. */
static inline __m512 exp2_bf16(__m512 x)
{
    const __m512 f = _mm512_reduce_ps(x, 0x09); /* x - floor(x); 0 for -inf */
    __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(0x1.b7f732p-7f), _mm512_set1_ps(0x1.abf868p-5f));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0x1.ee2450p-3f));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(0x1.62d6c6p-1f));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, x); /* p 2^floor(x) */
}

/* Returns bits of x whose upper half is x rounded to bf16 (to nearest; halves away from 0). For a pair this takes two
 * instructions less than VCVTNE2PS2BF16 and a shuffle. */
static inline __m512i round_bits(__m512 x)
{
    return _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
}

/* Combines the upper halves of each lane to the pair (low, high). */
static inline __m512i pair_bits(__m512i low, __m512i high)
{
    const __m512i down = _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302);
    return _mm512_mask_shuffle_epi8(high, UINT64_C(0x3333333333333333), low, down);
}

/* The lanes of a C tile's row that may see key `base + j`: first[lane] <= base + j <= last[lane]. */
typedef struct lane_keys {
    __m512i first, last;
} lane_keys;

static inline __m512 hide(__m512 scores, const lane_keys *keys, int64_t position)
{
    const __m512i key = _mm512_set1_epi32((int32_t)position);
    const __mmask16 seen = _mm512_cmple_epi32_mask(keys->first, key) & _mm512_cmple_epi32_mask(key, keys->last);
    return _mm512_mask_blend_ps(seen, _mm512_set1_ps(-__builtin_inff()), scores);
}

/* Packs 16 query rows from row r of the tile on, as B tiles (step of k). */
static inline void pack_query_rows(const tess_attention *a, const attention_tile *t, int64_t r, uint16_t *q)
{
    const uint16_t *rows[TILE_ROWS] = {NULL};
    int64_t token[TILE_ROWS], head[TILE_ROWS];
    attention_rows(t, r, TILE_ROWS, token, head);
    for (int64_t i = 0; i < TILE_ROWS && r + i < t->n_rows; i++)
        rows[i] = (const uint16_t *)a->q + token[i] * a->q_stride + head[i] * a->head_size;
    pack_rows_turned(rows, a->head_size, q);
}

/* Returns the keys that the 16 lanes from row r on may see. Lanes beyond the sequence repeat its last query. */
static inline lane_keys lane_keys_of(const tess_attention *a, const attention_tile *t, int64_t r)
{
    int32_t first[TILE_ROWS], last[TILE_ROWS];
    int64_t token[TILE_ROWS], head[TILE_ROWS];
    attention_rows(t, r, TILE_ROWS, token, head);
    for (int64_t i = 0; i < TILE_ROWS; i++) {
        const int64_t query = min64(token[i] - t->seq->q_begin, t->seq->q_len - 1);
        const int64_t position = t->seq->k_len - t->seq->q_len + query;
        first[i] = (int32_t)attention_first_key(a, position);
        last[i] = (int32_t)position;
    }
    return (lane_keys){_mm512_loadu_si512(first), _mm512_loadu_si512(last)};
}

/* Whether some row of the tile does not see all keys base .. base + n. */
static inline bool some_hidden(const tess_attention *a, const attention_tile *t, int64_t base, int64_t n)
{
    return base < attention_first_key(a, attention_position(t, t->n_rows - 1)) ||
           base + n - 1 > attention_position(t, 0);
}

/* A tile of at most 16 rows whose keys no other tile uses (generation). Packs nothing, and gives the bits of the tiled
 * path. */
size_t tess_attention_few_rows_bytes(const tess_attention *a);
void tess_attention_few_rows_amx(const tess_attention *a, const attention_tile *tile, void *memory);

#endif
