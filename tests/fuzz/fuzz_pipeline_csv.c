/* A schedule's order of computations in CSV (parallelism.pipeline_parallel_schedule_csv): an order that is accepted has
 * every micro-batch forward and backward. */
#include "parallel/pipeline/pipeline.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tess_mem *mem;
    const tess_pipeline_schedule shape = {.kind = TESS_PIPELINE_1F1B, .ranks = 2, .chunks = 1, .micros = 2};
    tess_pipeline_schedule schedule;
    if (mem == NULL && tess_mem_create(&mem) != TESS_OK)
        abort();
    if (tess_pipeline_parse_csv(mem, (const char *)data, size, "file", &shape, &schedule) != TESS_OK) {
        tess_error_clear();
        return 0;
    }
    for (int r = 0; r < shape.ranks; r++)
        if (schedule.lists[r].n < 2 * shape.micros)
            abort();
    tess_pipeline_free(&schedule);
    return 0;
}
