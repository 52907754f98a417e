#include "inject/fault_section.h"

#include "base/core/option_rows.h"
#include "inject/inject.h"

SECTION(fault, "drills", TESS_FAULT_OPTIONS);

tess_status tess_fault_section_check(const tess_fault_section *fault, int world, bool any_rank,
                                     const char *const *phases)
{
    tess_fault faults[TESS_FAULTS_MAX];
    int n = 0;
    const tess_fault_spec spec = {
        .text = fault->spec, .seed = (uint64_t)fault->seed, .world = world, .any_rank = any_rank, .phases = phases};
    return tess_faults_parse(&spec, faults, TESS_FAULTS_MAX, &n);
}
