#include "bench/step/step_documents.h"

#include "bench/step/step_tokens.h"

/* Returns the number of targets of document d. The two documents of a pair are equally far from the mean, on either
 * side. */
static int64_t length_of(const step_shape *shape, int64_t d)
{
    int64_t away = shape->mean > 1 ? step_token(d / 2, shape->mean, shape->mean) : 0;
    return d % 2 == 0 ? shape->mean - away : shape->mean + away;
}

tess_status step_documents_open(tess_mem *mem, const step_shape *shape, int64_t seq_len, int64_t vocab,
                                step_documents *s)
{
    int64_t n = shape->n, n_tokens = n * shape->mean + n; /* a document with k targets has k + 1 tokens */
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC,
                            (size_t)(2 * (n + 1)) * sizeof(int64_t) + (size_t)n_tokens * sizeof(int32_t), "documents",
                            &s->memory));
    int64_t *starts = s->memory, *places = starts + n + 1;
    int32_t *tokens = (int32_t *)(places + n + 1);
    starts[0] = 0;
    for (int64_t d = 0; d < n; d++) {
        starts[d + 1] = starts[d] + length_of(shape, d) + 1;
        for (int64_t t = starts[d]; t < starts[d + 1]; t++)
            tokens[t] = step_token(d, t - starts[d], vocab);
    }
    if (shape->packed)
        tess_pack_place(starts, NULL, n, seq_len, places);
    else
        for (int64_t d = 0; d <= n; d++)
            places[d] = d * seq_len;
    s->seq_len = seq_len;
    s->list = (tess_documents){.tokens = tokens, .starts = starts, .places = places, .n = n};
    return TESS_OK;
}

void step_documents_close(tess_mem *mem, step_documents *s)
{
    tess_mem_free(mem, s->memory);
}

int64_t step_documents_rows(const step_documents *s, int64_t first, int64_t n, int32_t *ids, int32_t *pos,
                            int32_t *targets, int32_t *cu_seqlens)
{
    int64_t n_seqs = 0;
    cu_seqlens[0] = 0;
    for (int64_t r = 0; r < n; r++) {
        int64_t at = r * s->seq_len;
        const tess_row row = {.ids = ids + at,
                              .pos = pos + at,
                              .targets = targets + at,
                              .ends = cu_seqlens + 1 + n_seqs,
                              .base = (int32_t)at};
        n_seqs += tess_pack_row(&s->list, first + r, s->seq_len, 0, &row);
    }
    return n_seqs;
}
