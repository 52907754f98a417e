#include "rl/algo/rl_moments.h"

#include <math.h>
#include <stddef.h>

#include "rl/algo/rl_words.h"

void tess_moments_add(tess_moments *moments, double x)
{
    double square = x * x;
    tess_exact_add(&moments->sum, x);
    tess_exact_add(&moments->square, square);
    if (isfinite(square))
        tess_exact_add(&moments->square, fma(x, x, -square)); /* the rounding error of the square */
    moments->n++;
}

void tess_moments_add_rows(tess_moments *moments, const float *x, const uint8_t *mask, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (mask == NULL || mask[i])
            tess_moments_add(moments, x[i]);
    }
}

void tess_moments_pack(const tess_moments *moments, int64_t *words)
{
    tess_exact_pack(&moments->sum, 1, words);
    tess_exact_pack(&moments->square, 1, words + TESS_EXACT_LIMBS);
    words[2 * TESS_EXACT_LIMBS] = moments->n;
}

void tess_moments_unpack(const int64_t *words, tess_moments *moments)
{
    tess_exact_unpack(words, 1, &moments->sum);
    tess_exact_unpack(words + TESS_EXACT_LIMBS, 1, &moments->square);
    moments->n = words[2 * TESS_EXACT_LIMBS];
}

double tess_moments_mean(const tess_moments *moments)
{
    return moments->n > 0 ? tess_exact_value(&moments->sum) / (double)moments->n : 0;
}

double tess_moments_variance(const tess_moments *moments)
{
    if (moments->n < 2)
        return 0;
    double n = (double)moments->n, sum = tess_exact_value(&moments->sum);
    double variance = (tess_exact_value(&moments->square) - sum * sum / n) / (n - 1);
    return variance < 0 ? 0 : variance; /* NaN stays NaN */
}

void tess_whiten(const tess_moments *moments, double eps, const uint8_t *mask, float *x, int64_t n)
{
    if (moments->n < 2)
        return;
    double mean = tess_moments_mean(moments), spread = tess_moments_variance(moments) + eps;
    double scale = spread == 0 ? 1 : 1 / sqrt(spread);
    for (int64_t i = 0; i < n; i++) {
        if (mask == NULL || mask[i])
            x[i] = (float)((x[i] - mean) * scale);
    }
}
