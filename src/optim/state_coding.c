/* Moments are float32 in a step and something narrower between steps.
 *
 * bfloat16: rounded up with the probability by which the value lies above the lower neighbour, so that small steps are
 * not lost on average. The 16 random bits of an element are a function of (seed, name, moment, step, its number in the
 * whole tensor).
 *
 * 8 bits (Dettmers et al., arXiv:2110.02861, "dynamic tree" as bitsandbytes makes it): a block's largest magnitude in
 * float32, and for each element the nearest of 256 values between 0 and it. A code has d leading zeros, a one and 6 - d
 * bits of fraction; it stands for the middle of its part of [0.1, 1], by 10^-d. A second moment above 0 never becomes
 * 0, which would make the next step as large as the first moment divided by eps. */
#include <math.h>
#include <string.h>

#include "base/core/flat.h"
#include "base/core/rng.h"
#include "device/bf16.h"
#include "optim/optim_impl.h"

size_t optim_value_bytes(optim_coding coding)
{
    return coding == OPTIM_F32 ? sizeof(float) : coding == OPTIM_BF16 ? sizeof(uint16_t) : 1;
}

/* ---- 8 bits ---- */
/* Fills value ascending: of a map with a sign the negative ones first. */
void optim_code_map_fill(bool is_signed, optim_code_map *map)
{
    enum { EXPONENTS = 7 };
    static const double power[EXPONENTS] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    int zero = is_signed ? 127 : 0, n = 0;
    map->value[zero] = 0;
    for (int e = 0; e < EXPONENTS; e++) {
        int parts = 1 << (is_signed ? e : e + 1);
        for (int i = 0; i < parts; i++) {
            double middle = 0.1 + 0.9 * (i + 0.5) / parts;
            n++;
            map->value[zero + n] = (float)(power[e] * middle);
            if (is_signed)
                map->value[zero - n] = -map->value[zero + n];
        }
    }
    map->value[255] = 1;
    for (int i = 0; i < 255; i++)
        map->middle[i] = (map->value[i] + map->value[i + 1]) / 2;
}

/* The number of middles below x: of two neighbours that are equally near, the lower. */
static uint8_t nearest(const optim_code_map *map, float x)
{
    int code = 0;
    for (int step = 128; step > 0; step /= 2)
        code += x > map->middle[code + step - 1] ? step : 0;
    return (uint8_t)code;
}

static int64_t block_of(const optim_param *p, int64_t begin)
{
    int64_t per_run = (p->run + OPTIM_BLOCK - 1) / OPTIM_BLOCK;
    return begin / p->run * per_run + begin % p->run / OPTIM_BLOCK;
}

/* Where moment k of element `begin` is stored, in elements of `bytes`. */
static void *stored_at(const optim_pass *pass, int k, int64_t begin, size_t bytes)
{
    return pass->u->optimizer->state + pass->param->values[k] + (size_t)begin * bytes;
}

/* The largest magnitude of the block that begins there. */
static float *most_at(const optim_pass *pass, int k, int64_t begin)
{
    char *absmax = pass->u->optimizer->state + pass->param->absmax[k];
    return (float *)(void *)absmax + block_of(pass->param, begin);
}

static void encode_8bit(const optim_pass *pass, int k, int64_t begin, int n, const float *from)
{
    const optim_code_map *map = &pass->u->optimizer->maps[k];
    uint8_t *codes = stored_at(pass, k, begin, sizeof(*codes));
    float most = 0;
    for (int i = 0; i < n; i++)
        most = fabsf(from[i]) > most ? fabsf(from[i]) : most;
    *most_at(pass, k, begin) = most;
    for (int i = 0; i < n; i++) {
        codes[i] = nearest(map, most > 0 ? from[i] / most : 0);
        if (k == 1 && codes[i] == 0 && from[i] > 0)
            codes[i] = 1;
    }
}

static void decode_8bit(const optim_pass *pass, int k, int64_t begin, int n, float *to)
{
    const uint8_t *codes = stored_at(pass, k, begin, sizeof(*codes));
    float most = *most_at(pass, k, begin);
    for (int i = 0; i < n; i++)
        to[i] = pass->u->optimizer->maps[k].value[codes[i]] * most;
}

/* ---- bfloat16 ---- */
/* The number of element `index` of a span in the whole tensor. */
static uint64_t element_of(const tess_span *span, int64_t index)
{
    tess_box element;
    if (span->shape.n_dims == 0)
        return (uint64_t)index;
    const tess_box whole = tess_box_whole(&span->shape);
    tess_flat_slice(span->shape.n_dims, &span->box, index, 1, &element);
    return (uint64_t)tess_flat_offset(span->shape.n_dims, &whole, &element);
}

static uint16_t round_randomly(float x, uint32_t random)
{
    uint32_t u = tess_float_bits(x);
    if ((u & 0x7f800000u) == 0x7f800000u)
        return tess_float_to_bf16(x);
    return (uint16_t)((u + (random & 0xffffu)) >> 16);
}

static void encode_bf16(const optim_pass *pass, int k, int64_t begin, int n, const float *from)
{
    enum { NUMBERS = 8 }; /* of a counter */
    uint16_t *to = stored_at(pass, k, begin, sizeof(*to));
    const uint64_t id[] = {tess_hash_text(pass->span->name), (uint64_t)k, (uint64_t)pass->u->step};
    uint64_t stream = tess_hash_bytes(id, sizeof(id), 0), element = element_of(pass->span, begin);
    uint32_t words[4];
    for (int i = 0; i < n; i++) {
        uint64_t number = element + (uint64_t)i;
        if (i == 0 || number % NUMBERS == 0)
            tess_philox(pass->u->optimizer->options.seed, TESS_RNG_ROUND, stream, number / NUMBERS, words);
        to[i] = round_randomly(from[i], words[number % NUMBERS / 2] >> 16 * (number % 2));
    }
}

static void decode_bf16(const optim_pass *pass, int k, int64_t begin, int n, float *to)
{
    const uint16_t *from = stored_at(pass, k, begin, sizeof(*from));
    for (int i = 0; i < n; i++)
        to[i] = tess_bf16_to_float(from[i]);
}

/* ---- Any ---- */
void optim_moment_load(const optim_pass *pass, int k, int64_t begin, int n, float *to)
{
    switch (pass->param->coding) {
    case OPTIM_F32:
        memcpy(to, stored_at(pass, k, begin, sizeof(*to)), (size_t)n * sizeof(*to));
        return;
    case OPTIM_BF16:
        decode_bf16(pass, k, begin, n, to);
        return;
    case OPTIM_8BIT:
        decode_8bit(pass, k, begin, n, to);
        return;
    }
}

void optim_moment_store(const optim_pass *pass, int k, int64_t begin, int n, const float *from)
{
    switch (pass->param->coding) {
    case OPTIM_F32:
        memcpy(stored_at(pass, k, begin, sizeof(*from)), from, (size_t)n * sizeof(*from));
        return;
    case OPTIM_BF16:
        encode_bf16(pass, k, begin, n, from);
        return;
    case OPTIM_8BIT:
        encode_8bit(pass, k, begin, n, from);
        return;
    }
}
