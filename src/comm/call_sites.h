/* Call sites in messages: ranks tell them as offsets in their program, which cost nothing; whoever tells people puts
 * functions and lines in their place. */
#ifndef TESS_COMM_CALL_SITES_H
#define TESS_COMM_CALL_SITES_H

#include "tessera/types.h"

/* Rewrites each "called at program+0x1f30" of `text` as "called by train_step (step.c:41)" where `program` (the path of
 * the ranks' program) says so and there is room. Reads that file: milliseconds. */
void tess_call_sites_name(const char *program, char *text, size_t size);

#endif
