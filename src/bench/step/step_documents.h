/* Makes documents of unequal length for benches of steps. Each is padded to a row, or several are packed into a row. */
#ifndef TESS_BENCH_STEP_STEP_DOCUMENTS_H
#define TESS_BENCH_STEP_STEP_DOCUMENTS_H

#include "data/packing/packing.h"
#include "tessera/memory.h"

typedef struct step_shape {
    int64_t n; /* documents per step, a multiple of seq_len / mean; 0: all rows are full */
    /* mean of their lengths in targets, a divisor of half a row. Two neighbours have mean - d and mean + d targets,
     * so seq_len / mean documents fill a row exactly */
    int64_t mean;
    bool packed;
} step_shape;

typedef struct step_documents {
    tess_documents list;
    int64_t seq_len;
    void *memory;
} step_documents;

/* Returns the number of rows per step. */
static inline int64_t step_shape_rows(const step_shape *shape, int64_t seq_len)
{
    return shape->packed ? shape->n * shape->mean / seq_len : shape->n;
}

tess_status step_documents_open(tess_mem *mem, const step_shape *shape, int64_t seq_len, int64_t vocab,
                                step_documents *documents);
void step_documents_close(tess_mem *mem, step_documents *documents);

/* Writes the rows first .. first + n - 1 (n, seq_len), and cu_seqlens, which has room for n * seq_len + 1. Returns
 * the number of sequences. */
int64_t step_documents_rows(const step_documents *documents, int64_t first, int64_t n, int32_t *ids, int32_t *pos,
                            int32_t *targets, int32_t *cu_seqlens);

#endif
