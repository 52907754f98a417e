/* A file of measured times: any bytes give times that are finite, or an error. */
#include "plan/kernel_times.h"

#include <math.h>

#include "trace/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    tess_kernel_times times = {.mem = mem};
    if (tess_kernel_times_parse(&times, (const char *)data, size, "fuzz.json") == TESS_OK) {
        bool exact;
        const tess_call_key key = {.kind = TESS_ROW_gemm, .size = {64, 64, 64, 64}, .bytes = 1e4, .flops = 1e6};
        if (isnan(tess_kernel_times_find(&times, &key, 1, &exact)) ||
            isnan(tess_kernel_times_find_op(&times, TESS_TRACE_ALL_GATHER, 2, 1e6)))
            __builtin_trap();
    }
    tess_kernel_times_free(&times);
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* a leak */
    return 0;
}
