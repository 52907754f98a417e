/* Converts moments of optimizers to the types that they are stored as, and back (device/moments.h). Look-ups in tables
 * are gathers, a block stays in the first cache, and Philox makes 128 numbers at a time. */
#include "device/cpu/vec_rows.h"
#include "device/moments.h"

/* ---- 8 bits ---- */
typedef struct coded_block {
    const tess_code_map *map;
    const float *x;
    float *to;
    uint8_t *codes;
    const uint8_t *from;
    float most;
} coded_block;

TESS_INLINE ivec code_cells(vec x)
{
    ivec bits = v_bits(x), cell = v_ishift_right16(v_iand(bits, v_iset(0x7fffffff)));
    cell = v_isub(cell, v_iset(TESS_CODE_FIRST_CELL));
    cell = v_imin(v_imax(cell, v_iset(0)), v_iset(TESS_CODE_LAST_CELL));
    return v_iadd(cell, v_iand(v_ishift23(bits), v_iset(TESS_CODE_CELLS))); /* the masked bit is a copy of the sign */
}

TESS_INLINE ivec one_where(vmask m)
{
    return v_bits(v_select(m, v_from_bits(v_iset(1)), v_set(0)));
}

TESS_INLINE void encode_part(const void *context, int64_t i, int64_t n)
{
    const coded_block *b = context;
    vec x = v_div(v_load(b->x + i, n), v_set(b->most));
    ivec code = v_look_up_bytes(b->map->lowest, code_cells(x));
    code = v_iadd(code, one_where(v_less(v_look_up(b->map->middle, code), x)));
    if (!b->map->is_signed) /* a value above 0 never gets code 0 */
        code = v_imax(code, one_where(v_less(v_set(0), x)));
    v_store_u8(b->codes + i, code, n);
}

TESS_INLINE void decode_part(const void *context, int64_t i, int64_t n)
{
    const coded_block *b = context;
    v_store(b->to + i, v_mul(v_look_up(b->map->value, v_load_u8(b->from + i, n)), v_set(b->most)), n);
}

void VEC_NAME(encode_8bit)(const tess_code_map *map, const float *x, int n, uint8_t *codes, float *most)
{
    vec largest = v_set(0);
    for (int64_t i = 0; i < n; i += 16) {
        vec part = v_load(x + i, n - i < 16 ? n - i : 16);
        largest = v_max(v_from_bits(v_iand(v_bits(part), v_iset(0x7fffffff))), largest);
    }
    *most = v_largest(largest);
    const coded_block block = {.map = map, .x = x, .codes = codes, .most = *most > 0 ? *most : 1};
    row_each(encode_part, &block, 0, n);
}

void VEC_NAME(decode_8bit)(const tess_code_map *map, const uint8_t *codes, float most, int n, float *x)
{
    const coded_block block = {.map = map, .to = x, .from = codes, .most = most};
    row_each(decode_part, &block, 0, n);
}

/* ---- bfloat16 ---- */
enum { NUMBERS = 8, ROUND_COUNTERS = 16 }; /* numbers that one counter gives; counters of one call of philox_16 */

/* Writes the words of 16 consecutive counters, in order. */
TESS_INLINE void philox_16(const tess_moment_random *random, uint64_t counter, uint32_t *words)
{
    uint64_t high = random->stream ^ ((uint64_t)TESS_RNG_ROUND << 56);
    uint32_t k0 = (uint32_t)random->seed, k1 = (uint32_t)(random->seed >> 32), index[2][ROUND_COUNTERS];
    for (uint64_t i = 0; i < ROUND_COUNTERS; i++) {
        index[0][i] = (uint32_t)(counter + i);
        index[1][i] = (uint32_t)((counter + i) >> 32);
    }
    ivec c0 = v_bits(v_load((const float *)(const void *)index[0], ROUND_COUNTERS));
    ivec c1 = v_bits(v_load((const float *)(const void *)index[1], ROUND_COUNTERS));
    ivec c2 = v_iset((int32_t)(uint32_t)high), c3 = v_iset((int32_t)(uint32_t)(high >> 32));
    for (int round = 0; round < TESS_PHILOX_ROUNDS; round++) {
        ivec low0, high0, low1, high1;
        v_imul_wide(c0, TESS_PHILOX_M0, &low0, &high0);
        v_imul_wide(c2, TESS_PHILOX_M1, &low1, &high1);
        c0 = v_ixor(v_ixor(high1, c1), v_iset((int32_t)k0));
        c2 = v_ixor(v_ixor(high0, c3), v_iset((int32_t)k1));
        c1 = low1;
        c3 = low0;
        k0 += TESS_PHILOX_K0;
        k1 += TESS_PHILOX_K1;
    }
    vec a, b, c, d, part[4];
    v_join(v_from_bits(c0), v_from_bits(c2), &a, &b);
    v_join(v_from_bits(c1), v_from_bits(c3), &c, &d);
    v_join(a, c, &part[0], &part[1]);
    v_join(b, d, &part[2], &part[3]);
    for (int i = 0; i < 4; i++)
        v_store((float *)(void *)words + i * 16, part[i], 16);
}

typedef struct rounding {
    const float *x;
    const uint16_t *random; /* its first element is for element 0 of x */
    uint16_t *y;
} rounding;

TESS_INLINE void round_part(const void *context, int64_t i, int64_t n)
{
    const rounding *r = context;
    vec x = v_load(r->x + i, n);
    ivec random = v_ishift_right16(v_bits(v_load_bf16(r->random + i, n)));
    vec rounded = v_from_bits(v_iand(v_iadd(v_bits(x), random), v_iset((int32_t)0xffff0000u)));
    v_store_bf16(r->y + i, v_select(v_equal(v_sub(x, x), v_set(0)), rounded, x), n);
}

void VEC_NAME(round_randomly)(const tess_moment_random *random, const float *x, int n, uint16_t *y)
{
    enum { MOST = ROUND_COUNTERS * NUMBERS };
    uint32_t words[MOST / 2];
    int before = (int)(random->first % NUMBERS);
    uint64_t counter = random->first / NUMBERS;
    for (int i = 0; i < n; counter += ROUND_COUNTERS) {
        philox_16(random, counter, words);
        int part = n - i < MOST - before ? n - i : MOST - before;
        const rounding r = {x + i, (const uint16_t *)(const void *)words + before, y + i};
        row_each(round_part, &r, 0, part);
        i += part;
        before = 0;
    }
}
