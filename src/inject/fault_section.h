/* The configuration section `fault`: the faults that a drill injects. */
#ifndef TESS_INJECT_FAULT_SECTION_H
#define TESS_INJECT_FAULT_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_FAULT_OPTIONS(OPTION)                                                                                     \
    OPTION(TEXT, fault, spec, BITS, "",                                                                                \
           "fault to inject, for drills, such as \"rank=3 step=12 point=before:reduce_scatter_pieces kind=skip\"")     \
    OPTION(INT, fault, seed, BITS, "0", 0, 9007199254740992.0, "seed for the random choices of the spec")
/* clang-format on */

typedef struct tess_fault_section {
    TESS_FAULT_OPTIONS(TESS_OPTION_FIELD)
} tess_fault_section;

/* TESS_E_INVALID: the spec cannot be read, or names a rank that is not among `world` (unless `any_rank`), or a phase
 * that is not one of `phases` (see tess_fault_spec). */
tess_status tess_fault_section_check(const tess_fault_section *fault, int world, bool any_rank,
                                     const char *const *phases);

extern const tess_option_section tess_section_fault;

#endif
