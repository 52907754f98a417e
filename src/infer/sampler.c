#include "infer/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "base/core/rng.h"

typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

struct tess_sampler {
    tess_mem *mem;
    int64_t vocab_size;
    candidate *candidates; /* (V) */
};

tess_status tess_sampler_create(tess_mem *mem, int64_t vocab_size, tess_sampler **out)
{
    tess_sampler *sampler;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*sampler), "sampler", (void **)&sampler));
    *sampler = (tess_sampler){.mem = mem, .vocab_size = vocab_size};
    tess_status status = tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)vocab_size, sizeof(candidate), "sampler",
                                              (void **)&sampler->candidates);
    if (status != TESS_OK)
        tess_mem_free(mem, sampler);
    else
        *out = sampler;
    return status;
}

void tess_sampler_destroy(tess_sampler **handle)
{
    tess_sampler *sampler = *handle;
    if (sampler == NULL)
        return;
    tess_mem_free(sampler->mem, sampler->candidates);
    tess_mem_free(sampler->mem, sampler);
    *handle = NULL;
}

/* Likeliest first, then by id, so that the order is total. */
static int by_logit(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static int32_t greedy(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

tess_status tess_sampler_draw(tess_sampler *sampler, const tess_sampling *options, const float *logits, uint64_t stream,
                              uint64_t position, int32_t *token)
{
    int64_t n = sampler->vocab_size;
    for (int64_t i = 0; i < n; i++)
        TESS_CHECK(!isnan(logits[i]) && logits[i] != INFINITY, TESS_E_INVALID,
                   "the logit of token %lld is %g: the model's weights are broken", (long long)i, (double)logits[i]);
    if (options->temperature <= 0) {
        *token = greedy(logits, n);
        return TESS_OK;
    }
    candidate *candidates = sampler->candidates;
    for (int64_t i = 0; i < n; i++)
        candidates[i] = (candidate){logits[i], (int32_t)i};
    qsort(candidates, (size_t)n, sizeof(*candidates), by_logit);
    if (options->top_k > 0 && options->top_k < n)
        n = options->top_k;

    double top = candidates[0].logit, total = 0;
    for (int64_t i = 0; i < n; i++)
        total += exp((candidates[i].logit - top) / options->temperature);
    double kept = total;
    if (options->top_p < 1) { /* the shortest prefix that reaches top_p */
        kept = 0;
        int64_t i = 0;
        while (i < n && kept < options->top_p * total)
            kept += exp((candidates[i++].logit - top) / options->temperature);
        n = i > 0 ? i : 1;
        if (i == 0)
            kept = 1; /* top_p 0: the likeliest, whose weight is exp(0) */
    }
    double left = kept * tess_rng_uniform(options->seed, TESS_RNG_SAMPLE, stream, position);
    int64_t chosen = 0;
    for (; chosen < n - 1; chosen++) {
        left -= exp((candidates[chosen].logit - top) / options->temperature);
        if (left < 0)
            break;
    }
    *token = candidates[chosen].token;
    return TESS_OK;
}
