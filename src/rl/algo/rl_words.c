#include "rl/algo/rl_words.h"

#include <string.h>

void tess_exact_pack(const tess_exact_sum *sums, int n, int64_t *words)
{
    for (int i = 0; i < n; i++) {
        tess_exact_sum sum = sums[i];
        tess_exact_normalize(&sum);
        memcpy(words + (int64_t)i * TESS_EXACT_LIMBS, sum.limb, sizeof(sum.limb));
    }
}

void tess_exact_unpack(const int64_t *words, int n, tess_exact_sum *sums)
{
    for (int i = 0; i < n; i++) {
        memcpy(sums[i].limb, words + (int64_t)i * TESS_EXACT_LIMBS, sizeof(sums[i].limb));
        tess_exact_normalize(&sums[i]);
    }
}
