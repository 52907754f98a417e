/* A machine file: any bytes give a machine whose figures are usable, or an error. */
#include "plan/plan_machine.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_machine machine;
    tess_link_kind kind;
    tess_mem *mem;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    if (tess_machine_parse(mem, (const char *)data, size, "fuzz.yaml", &machine) == TESS_OK) {
        if (!(machine.memory.gb_per_s > 0) || !isfinite(machine.compute.bf16_tflops) || machine.machine.devices < 1)
            __builtin_trap();
        (void)tess_machine_link_of(&machine, 0, 1, 2 + (int)(size % 64), 8, &kind);
    }
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* a leak */
    return 0;
}
