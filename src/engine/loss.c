#include "engine/loss.h"

#include <math.h>
#include <string.h>

#include "comm/tagged.h"

tess_status tess_loss_meter_create(tess_stream *stream, int64_t max_tokens, tess_loss_meter *meter)
{
    meter->stream = stream;
    TESS_TRY(tess_device_alloc(tess_stream_device(stream), TESS_POOL_ACTIVATIONS, (size_t)max_tokens * sizeof(float),
                               "log-probabilities", (void **)&meter->logprobs));
    return tess_device_alloc(tess_stream_device(stream), TESS_POOL_MISC, sizeof(*meter->nll), "sum of losses",
                             (void **)&meter->nll);
}

void tess_loss_meter_destroy(tess_loss_meter *meter)
{
    if (meter->stream == NULL)
        return;
    tess_device_free(tess_stream_device(meter->stream), meter->nll);
    tess_device_free(tess_stream_device(meter->stream), meter->logprobs);
}

tess_status tess_loss_begin(const tess_loss_meter *meter)
{
    return tess_stream_fill(meter->stream, meter->nll, 0, sizeof(*meter->nll));
}

tess_status tess_loss_add(const tess_loss_meter *meter, tess_loss_sum *sum, const float *logprobs,
                          const int32_t *targets, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum->n_tokens += targets[i] >= 0;
    return tess_stream_kernels(meter->stream)
        ->exact_sum(meter->stream, &(tess_exact_sum_args){.x = logprobs, .n = n, .negate = true, .sum = meter->nll});
}

tess_status tess_loss_end(const tess_loss_meter *meter, tess_loss_sum *sum)
{
    return tess_fetch(meter->stream, &sum->nll, meter->nll, sizeof(sum->nll));
}

void tess_loss_score(const tess_loss_sum *sum, double *loss, double *perplexity, double *bits_per_byte)
{
    double nll = tess_exact_value(&sum->nll);
    *loss = nll / (double)sum->n_tokens;
    *perplexity = exp(*loss);
    *bits_per_byte = sum->n_bytes > 0 ? nll / M_LN2 / (double)sum->n_bytes : 0;
}

tess_status tess_loss_all_reduce(tess_team *team, tess_loss_sum *sum, uint64_t tag)
{
    int64_t *const counters[] = {&sum->n_tokens, &sum->n_bytes, &sum->flag, &sum->news, &sum->leave};
    enum { COUNTERS = sizeof(counters) / sizeof(counters[0]) };
    int64_t words[TESS_EXACT_LIMBS + COUNTERS];
    tess_exact_normalize(&sum->nll);
    memcpy(words, sum->nll.limb, sizeof(sum->nll.limb));
    for (int i = 0; i < COUNTERS; i++)
        words[TESS_EXACT_LIMBS + i] = *counters[i];
    tess_team_label(team, "loss", -1);
    tess_status status =
        tess_all_reduce_tagged(team, words, words, TESS_EXACT_LIMBS + COUNTERS, TESS_I64, TESS_SUM, tag);
    tess_team_label(team, NULL, -1);
    TESS_TRY(status);
    memcpy(sum->nll.limb, words, sizeof(sum->nll.limb));
    for (int i = 0; i < COUNTERS; i++)
        *counters[i] = words[TESS_EXACT_LIMBS + i];
    return TESS_OK;
}
