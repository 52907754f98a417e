/* An optimizer whose state has the home of its weights and gradients. */
#ifndef TESS_OPTIM_OPTIM_HOME_H
#define TESS_OPTIM_OPTIM_HOME_H

#include "device/home/home.h"
#include "tessera/optim.h"

/* Does what tess_optimizer_create_at does, with state at `home`. The optimizer becomes a user of it. */
tess_status tess_optimizer_create_home(tess_home *home, tess_mem *mem, const tess_span *spans, int n_spans,
                                       const tess_optimizer_options *options, const tess_optimizer_place *place,
                                       tess_optimizer **optimizer);

#endif
