#include "train/loss.h"

#include <math.h>
#include <string.h>

void tess_loss_add(tess_loss_sum *sum, const float *logprobs, const int32_t *targets, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (targets[i] >= 0) {
            tess_exact_add(&sum->nll, -(double)logprobs[i]);
            sum->n_tokens++;
        }
}

void tess_loss_score(const tess_loss_sum *sum, double *loss, double *perplexity, double *bits_per_byte)
{
    double nll = tess_exact_value(&sum->nll);
    *loss = nll / (double)sum->n_tokens;
    *perplexity = exp(*loss);
    *bits_per_byte = sum->n_bytes > 0 ? nll / M_LN2 / (double)sum->n_bytes : 0;
}

tess_status tess_loss_all_reduce(tess_team *team, tess_loss_sum *sum)
{
    int64_t words[TESS_EXACT_LIMBS + 5];
    tess_exact_normalize(&sum->nll);
    memcpy(words, sum->nll.limb, sizeof(sum->nll.limb));
    words[TESS_EXACT_LIMBS] = sum->n_tokens;
    words[TESS_EXACT_LIMBS + 1] = sum->n_bytes;
    words[TESS_EXACT_LIMBS + 2] = sum->flag;
    words[TESS_EXACT_LIMBS + 3] = sum->news;
    words[TESS_EXACT_LIMBS + 4] = sum->leave;
    tess_team_label(team, "loss", -1);
    tess_status status = tess_all_reduce(team, words, words, TESS_EXACT_LIMBS + 5, TESS_I64, TESS_SUM, NULL);
    tess_team_label(team, NULL, -1);
    TESS_TRY(status);
    memcpy(sum->nll.limb, words, sizeof(sum->nll.limb));
    sum->n_tokens = words[TESS_EXACT_LIMBS];
    sum->n_bytes = words[TESS_EXACT_LIMBS + 1];
    sum->flag = words[TESS_EXACT_LIMBS + 2];
    sum->news = words[TESS_EXACT_LIMBS + 3];
    sum->leave = words[TESS_EXACT_LIMBS + 4];
    return TESS_OK;
}
