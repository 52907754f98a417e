/* Names call sites in messages. Ranks report call sites as offsets in their files, which costs nothing. The code
 * that prints a message replaces them by functions and lines. */
#ifndef TESS_JOB_CALL_SITES_H
#define TESS_JOB_CALL_SITES_H

#include "job/job_memory.h"

/* Rewrites each "called at program+0x1f30" or "called at libengine.so+0x1f30" of `text` as "called by train_step
 * (step.c:41)". `text` needs room for it. The program of `rank` must be known: from its ring, or, if it is on another
 * host, from a rank here that runs the same file. An object must be one that a rank of this host has loaded. Reads
 * those files: milliseconds. */
void tess_call_sites_name(const tess_job *job, int rank, char *text, size_t size);

#endif
