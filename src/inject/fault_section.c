#include "inject/fault_section.h"

#include "base/core/option_rows.h"
#include "inject/inject.h"

static const tess_option fault[] = {
    TEXT(fault, spec, BITS, "",
         "fault to inject, for drills, such as \"rank=3 step=12 point=before:reduce_scatter_pieces kind=skip\""),
    INT(fault, seed, BITS, "0", 0, 9007199254740992.0, "seed for the random choices of the spec"),
};
const tess_option_section tess_section_fault = SECTION("fault", "drills", fault);

tess_status tess_fault_section_check(const tess_fault_section *fault, int world, bool any_rank,
                                     const char *const *phases)
{
    tess_fault faults[TESS_FAULTS_MAX];
    int n = 0;
    const tess_fault_spec spec = {
        .text = fault->spec, .seed = (uint64_t)fault->seed, .world = world, .any_rank = any_rank, .phases = phases};
    return tess_faults_parse(&spec, faults, TESS_FAULTS_MAX, &n);
}
