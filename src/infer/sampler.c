#include "infer/sampler.h"

#include <math.h>

#include "base/core/rng.h"

typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

struct tess_sampler {
    tess_mem *mem;
    int64_t vocab_size;
    candidate *candidates; /* (V) */
    float *penalized;      /* (V) logits after the repetition penalty */
};

tess_status tess_sampler_create(tess_mem *mem, int64_t vocab_size, tess_sampler **out)
{
    tess_sampler *sampler;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*sampler), "sampler", (void **)&sampler));
    *sampler = (tess_sampler){.mem = mem, .vocab_size = vocab_size};
    tess_status status = tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)vocab_size, sizeof(candidate), "sampler",
                                              (void **)&sampler->candidates);
    if (status == TESS_OK)
        status = tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)vocab_size, sizeof(float), "sampler",
                                      (void **)&sampler->penalized);
    if (status != TESS_OK)
        tess_sampler_destroy(&sampler);
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
    tess_mem_free(sampler->mem, sampler->penalized);
    tess_mem_free(sampler->mem, sampler);
    *handle = NULL;
}

/* The most likely first, then by id, so that the order is total. */
static bool before(const candidate *x, const candidate *y)
{
    return x->logit > y->logit || (x->logit == y->logit && x->token < y->token);
}

/* Lets heap[at] sink to its place: no child comes before its parent. */
static void sink(candidate *heap, int64_t n, int64_t at)
{
    candidate moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* A heap that is sorted on demand: candidates that leave it are stored behind it, the first one last. A draw needs few
 * candidates of a large vocabulary; sorting all of it would cost more than the head's product. */
typedef struct ranking {
    candidate *candidates;
    int64_t n, n_heap; /* all candidates; those in the heap */
} ranking;

static const candidate *ranked(ranking *r, int64_t place)
{
    while (r->n - r->n_heap <= place) {
        candidate top = r->candidates[0];
        r->candidates[0] = r->candidates[--r->n_heap];
        r->candidates[r->n_heap] = top;
        sink(r->candidates, r->n_heap, 0);
    }
    return &r->candidates[r->n - 1 - place];
}

/* Relative to the most likely token, at the draw's temperature. */
static double weight(float logit, float top, double temperature)
{
    return exp(((double)logit - top) / temperature);
}

/* The draw: u in [0, 1) selects one of the candidates that top_k and top_p leave. */
static int32_t draw(ranking *r, const tess_sampling *options, double u)
{
    bool limited = options->top_k > 0 && options->top_k < r->n;
    int64_t n = limited ? options->top_k : r->n;
    float top = ranked(r, 0)->logit;
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += weight(limited ? ranked(r, i)->logit : r->candidates[i].logit, top, options->temperature);
    double kept = total;
    if (options->top_p < 1) { /* the shortest prefix that reaches top_p, never empty */
        double enough = options->top_p * total;
        int64_t i = 1;
        for (kept = 1; i < n && kept < enough; i++)
            kept += weight(ranked(r, i)->logit, top, options->temperature);
        n = i;
    }
    double left = kept * u;
    for (int64_t place = 0;; place++) {
        const candidate *here = ranked(r, place);
        left -= weight(here->logit, top, options->temperature);
        if (left < 0 || place == n - 1)
            return here->token;
    }
}

tess_status tess_sampler_draw(tess_sampler *sampler, const tess_sampling *options, const float *logits,
                              const bool *seen, uint64_t stream, uint64_t position, int32_t *token)
{
    int64_t n = sampler->vocab_size;
    float penalty = (float)options->repetition_penalty;
    for (int64_t i = 0; i < n; i++)
        TESS_CHECK(!isnan(logits[i]) && logits[i] != INFINITY, TESS_E_INVALID,
                   "the logit of token %lld is %g: the model's weights are broken", (long long)i, (double)logits[i]);
    if (seen != NULL && penalty > 0 && penalty != 1) {
        for (int64_t i = 0; i < n; i++)
            sampler->penalized[i] = !seen[i] ? logits[i] : logits[i] < 0 ? logits[i] * penalty : logits[i] / penalty;
        logits = sampler->penalized;
    }
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    *token = (int32_t)best;
    TESS_CHECK(logits[best] != -INFINITY, TESS_E_INVALID, "no token is possible: all logits are -inf");
    if (options->temperature <= 0)
        return TESS_OK;
    candidate *candidates = sampler->candidates;
    for (int64_t i = 0; i < n; i++)
        candidates[i] = (candidate){logits[i], (int32_t)i};
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(candidates, n, i);
    ranking r = {candidates, n, n};
    *token = draw(&r, options, tess_rng_uniform(options->seed, TESS_RNG_SAMPLE, stream, position));
    return TESS_OK;
}
