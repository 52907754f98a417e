/* Frequencies of rotary positions. Rounds to float32 where transformers' modeling_rope_utils does (inv_freq is a
 * float32 tensor, angles are float32 products), so that long positions get the same angles. */
#include <math.h>

#include "nn/layers/layers.h"

/* base ** (2i / dim) as torch computes it: float32 exponent, float32 result. */
static float power(double base, int64_t i, int64_t dim)
{
    return (float)pow((float)base, (double)((float)(2 * i) / (float)dim));
}

static void llama3(const tess_rope_config *rope, int64_t half, float *inv_freq)
{
    float low = (float)((double)rope->original_max_position / rope->low_freq_factor);
    float high = (float)((double)rope->original_max_position / rope->high_freq_factor);
    for (int64_t i = 0; i < half; i++) {
        float f = inv_freq[i], wavelength = (float)(2 * M_PI) / f;
        if (wavelength < high)
            continue;
        float scaled = f / (float)rope->factor;
        if (wavelength > low) {
            inv_freq[i] = scaled;
            continue;
        }
        float smooth = ((float)rope->original_max_position / wavelength - (float)rope->low_freq_factor) /
                       (float)(rope->high_freq_factor - rope->low_freq_factor);
        inv_freq[i] = (1 - smooth) * f / (float)rope->factor + smooth * f;
    }
}

static double yarn_dimension(const tess_rope_config *rope, double rotations, double dim)
{
    return dim * log((double)rope->original_max_position / (rotations * 2 * M_PI)) / (2 * log(rope->theta));
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double yarn(const tess_rope_config *rope, int64_t head_size, float *inv_freq)
{
    double low = yarn_dimension(rope, rope->beta_fast, (double)head_size);
    double high = yarn_dimension(rope, rope->beta_slow, (double)head_size);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)(head_size - 1));
    if (low == high)
        high += 0.001;
    for (int64_t i = 0; i < head_size / 2; i++) {
        float p = power(rope->theta, i, head_size);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        float keep = 1 - ramp;
        inv_freq[i] = 1 / ((float)rope->factor * p) * (1 - keep) + 1 / p * keep;
    }
    if (rope->attention_factor != 0)
        return rope->attention_factor;
    if (rope->mscale != 0 && rope->mscale_all_dim != 0)
        return yarn_mscale(rope->factor, rope->mscale) / yarn_mscale(rope->factor, rope->mscale_all_dim);
    return yarn_mscale(rope->factor, 1);
}

/* The factors depend on the model's largest length, and not on the text's length as in transformers. */
static double longrope(const tess_rope_config *rope, int64_t rotary, int64_t limit, float *inv_freq)
{
    const double *factors = limit > rope->original_max_position ? rope->long_factor : rope->short_factor;
    for (int64_t i = 0; i < rotary / 2; i++)
        inv_freq[i] = 1 / ((float)factors[i] * power(rope->theta, i, rotary));
    if (rope->attention_factor != 0)
        return rope->attention_factor;
    return rope->factor <= 1 ? 1 : sqrt(1 + log(rope->factor) / log((double)rope->original_max_position));
}

double tess_rope_frequencies(const tess_rope_config *rope, int64_t head_size, int64_t limit, float *inv_freq)
{
    double base = rope->theta;
    if (rope->kind == TESS_ROPE_LONGROPE)
        return longrope(rope, head_size, limit, inv_freq);
    if (rope->kind == TESS_ROPE_YARN)
        return yarn(rope, head_size, inv_freq);
    if (rope->kind == TESS_ROPE_DYNAMIC && limit > rope->original_max_position && head_size > 2) {
        double ratio = (double)limit / (double)rope->original_max_position;
        base *= pow(rope->factor * ratio - (rope->factor - 1), (double)head_size / (double)(head_size - 2));
    }
    for (int64_t i = 0; i < head_size / 2; i++) {
        inv_freq[i] = 1 / power(base, i, head_size);
        if (rope->kind == TESS_ROPE_LINEAR)
            inv_freq[i] /= (float)rope->factor;
    }
    if (rope->kind == TESS_ROPE_LLAMA3)
        llama3(rope, head_size / 2, inv_freq);
    return 1;
}

double tess_rope_score_scale(const tess_model_config *config)
{
    const tess_rope_config *rope = &config->rope;
    if (config->parts.latent.kv == 0 || rope->mscale_all_dim == 0)
        return 1;
    const double m = yarn_mscale(rope->factor, rope->mscale_all_dim);
    return m * m;
}

/* The factor of queries at a position. */
static float query_factor(const tess_rope_config *rope, int64_t position)
{
    const double turns = floor((double)position / (double)rope->original_max_position);
    return (float)(1 + rope->query_beta * log(1 + turns));
}

void tess_rope_tables(const tess_model_config *config, tess_rope_table table, int64_t length, float *cos_table,
                      float *sin_table)
{
    const tess_rope_config local = {.kind = TESS_ROPE_DEFAULT, .theta = config->local_theta};
    const tess_rope_config *rope = table == TESS_ROPE_LOCAL ? &local : &config->rope;
    const int64_t rotary = tess_model_config_rotary(config), half = rotary / 2;
    if (length <= 0)
        return;
    float *inv_freq = sin_table; /* temporary use of row 0, which is written last */
    float scale = (float)tess_rope_frequencies(rope, rotary, tess_model_config_max_length(config), inv_freq);
    for (int64_t position = length - 1; position >= 0; position--) {
        const float factor = table == TESS_ROPE_QUERY ? scale * query_factor(rope, position) : scale;
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)position * inv_freq[i];
            cos_table[position * half + i] = (float)cos(angle) * factor;
            sin_table[position * half + i] = (float)sin(angle) * factor;
        }
    }
}
