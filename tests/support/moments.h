/* AdamW's moments of a span. */
#ifndef TESS_TESTS_SUPPORT_MOMENTS_H
#define TESS_TESTS_SUPPORT_MOMENTS_H

#include "tessera/optim.h"

/* NULL when it is frozen. */
static inline void moments_of(const tess_optimizer *optimizer, int index, float **m, float **v)
{
    tess_optimizer_state states[TESS_OPTIMIZER_STATES];
    bool there = tess_optimizer_states(optimizer, index, states) == 2;
    *m = there ? states[0].data : NULL;
    *v = there ? states[1].data : NULL;
}

#endif
