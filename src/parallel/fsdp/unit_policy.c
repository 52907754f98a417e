/* Merges neighbouring blocks of an engine into units until each unit is large enough. */
#include "tessera/fsdp.h"

int tess_unit_policy_deal(const tess_unit_policy *policy, const tess_unit_block *blocks, int n_blocks, int *unit_of)
{
    int unit = -1;
    int64_t n = 0, n_elements = 0; /* blocks and elements of the open unit */
    for (int i = 0; i < n_blocks; i++) {
        bool full = n >= policy->min_blocks && n_elements >= policy->min_elements;
        if (unit < 0 || full || (!policy->mixes_kinds && blocks[i].kind != blocks[i - 1].kind)) {
            unit++;
            n = n_elements = 0;
        }
        n++;
        n_elements += blocks[i].n_elements;
        unit_of[i] = unit;
    }
    return unit + 1;
}
