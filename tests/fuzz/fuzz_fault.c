/* Specs of faults: what is taken can happen. */
#include <stdlib.h>
#include <string.h>

#include "inject/inject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { WORLD = 5 };
    tess_fault faults[TESS_FAULTS_MAX];
    int n = 0;
    char *spec = malloc(size + 1);
    if (spec == NULL)
        return 0;
    memcpy(spec, data, size);
    spec[size] = '\0';
    static const char *const phases[] = {"forward", "backward", NULL};
    const tess_fault_spec all = {.text = spec, .seed = size, .world = WORLD, .phases = size % 2 == 0 ? phases : NULL};
    if (tess_faults_parse(&all, faults, TESS_FAULTS_MAX, &n) == TESS_OK)
        for (int i = 0; i < n; i++)
            if ((unsigned)faults[i].kind >= TESS_FAULT_KINDS || faults[i].rank < -1 || faults[i].rank >= WORLD ||
                faults[i].op < 0 || faults[i].op >= TESS_TRACE_PHASE || faults[i].n < 1 || !(faults[i].ms >= 0))
                __builtin_trap();
    free(spec);
    return 0;
}
