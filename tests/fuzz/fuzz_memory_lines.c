/* Any bytes as memory.jsonl: bars of its numbers, or none. As metrics.jsonl: numbers, or none. */
#include <stdlib.h>
#include <string.h>

#include "doctor/top/top_facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tess_top_memory memory;
    char text[TESS_TOP_SPARK];
    tess_top_memory_of((const char *)data, size, &memory);
    for (int pool = 0; pool < TESS_POOL_COUNT; pool++) {
        tess_top_spark(memory.bytes[pool], memory.n, text);
        if (strlen(text) != 3 * (size_t)memory.n)
            abort();
    }
    json_decref(tess_top_metrics_of((const char *)data, size));
    return 0;
}
