#include "engine/batch/passes.h"

tess_status tess_passes_create(tess_scope *scope, int n, int64_t max_tokens, tess_passes *passes)
{
    *passes = (tess_passes){.n = n, .max_tokens = max_tokens};
    TESS_TRY(TESS_NEW_IN(scope, n, "passes", &passes->ends));
    return TESS_NEW_IN(scope, max_tokens + 1, "passes", &passes->cu_seqlens);
}

tess_status tess_passes_cut(const tess_passes *passes, const tess_batch *batch)
{
    const int32_t *bounds = batch->cu_seqlens;
    const int n = passes->n;
    int64_t at = 0;
    for (int p = 0; p < n; p++) {
        int64_t begin = at;
        while (at < batch->n_seqs && (n == 1 || bounds[at + 1] - bounds[begin] <= passes->max_tokens))
            at++;
        passes->ends[p] = at;
    }
    TESS_CHECK(at == batch->n_seqs, TESS_E_INVALID,
               "%lld sequences of %lld tokens do not fit into training.passes=%d passes of %lld tokens each, because "
               "sequences stay whole: sequence %lld has %d; set fewer passes, or a larger training.local_batch_size",
               (long long)batch->n_seqs, (long long)batch->n_tokens, n, (long long)passes->max_tokens, (long long)at,
               bounds[at + 1] - bounds[at]);
    return TESS_OK;
}

tess_batch tess_passes_part(const tess_passes *passes, const tess_batch *batch, int p)
{
    if (passes->n == 1)
        return *batch;
    const int64_t begin = p > 0 ? passes->ends[p - 1] : 0, end = passes->ends[p];
    const int32_t first = batch->cu_seqlens[begin];
    tess_batch part = *batch;
    for (int64_t s = begin; s <= end; s++)
        passes->cu_seqlens[s - begin] = batch->cu_seqlens[s] - first;
    part.n_tokens = passes->cu_seqlens[end - begin];
    part.n_seqs = end - begin;
    part.ids += first;
    part.pos += first;
    part.targets += first;
    part.cu_seqlens = passes->cu_seqlens;
    return part;
}
