/* Says which micro-batches of a rank may share the memory of their tokens. */
#include "base/mem/scoped.h"
#include "parallel/pipeline/pipeline.h"

/* Finds where each micro-batch is first needed, and last. A rank takes micro-batches in order: one that is needed takes
 * all before it. */
static tess_status find_uses(const tess_pipeline_list *list, int micros, int *first, int *last)
{
    for (int m = 0; m < micros; m++) {
        first[m] = list->n;
        last[m] = -1;
    }
    for (int i = 0; i < list->n; i++) {
        const int m = list->actions[i].micro;
        TESS_CHECK(m >= 0 && m < micros, TESS_E_INVALID, "pipeline: action %d names micro-batch %d of %d", i, m,
                   micros);
        first[m] = i < first[m] ? i : first[m];
        last[m] = i;
    }
    for (int m = micros - 2; m >= 0; m--)
        first[m] = first[m + 1] < first[m] ? first[m + 1] : first[m];
    return TESS_OK;
}

tess_status tess_pipeline_sets(const tess_pipeline_schedule *s, int rank, int *set, int *n_sets)
{
    TESS_AUTO(tess_mem_drop) int *first = NULL;
    const int micros = s->micros;
    TESS_TRY(TESS_NEW(s->mem, 3 * (size_t)micros, "micro-batches of a pipeline", &first));
    int *last = first + micros, *free_from = last + micros; /* free_from (sets): the first action that may take it */
    TESS_TRY(find_uses(&s->lists[rank], micros, first, last));
    *n_sets = 0;
    for (int m = 0; m < micros; m++) {
        set[m] = 0;
        while (set[m] < *n_sets && free_from[set[m]] > first[m])
            set[m]++;
        *n_sets += set[m] == *n_sets;
        free_from[set[m]] = last[m] + 1;
    }
    return TESS_OK;
}
