/* Samples of a run for its page. */
#ifndef TESS_RL_RL_PAGE_SAMPLES_H
#define TESS_RL_RL_PAGE_SAMPLES_H

#include <jansson.h>

#include "tessera/memory.h"

/* Lists the samples with the highest and the lowest rewards of the newest rollout in the journal, and some of the
 * oldest one, as tess_page_options.samples wants them. NULL: there are none, or they cannot be read. */
json_t *rl_page_samples(void *self, tess_mem *mem, const char *folder);

#endif
