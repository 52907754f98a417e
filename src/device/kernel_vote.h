/* Chooses the kernel table of processes that compute together on CPUs of different kinds. Each table has its own bits
 * in bfloat16, so all take one: the best that all can run, or the one that somebody named. Pure functions, but for the
 * first. */
#ifndef TESS_DEVICE_KERNEL_VOTE_H
#define TESS_DEVICE_KERNEL_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* The offer of a process. Hosts exchange these bytes as they are. */
typedef struct tess_kernels_offer {
    int32_t
        level; /* level of the best table that it may run, or of the one that it was told; a higher one has all below */
    int32_t is_fixed; /* 1: it was told */
} tess_kernels_offer;

typedef struct tess_kernels_choice {
    int level, most; /* the level that all take; the best that anybody offers */
    int least_of;    /* the first process that offers the least */
    int fixed_by;    /* the first that was told a table; -1: none */
    int refused_by;  /* the first that cannot run that one, or was told another; -1: none, and `level` stands */
} tess_kernels_choice;

/* `name` and errors as in tess_kernels_select. */
tess_status tess_kernels_offer_of(const char *name, tess_kernels_offer *offer);

/* The offer of process i begins i * stride bytes after `first`. */
tess_kernels_choice tess_kernels_vote(const tess_kernels_offer *first, size_t stride, int n);

const char *tess_kernels_name(int level);

/* Whether products in bfloat16 are instructions of the CPU, not emulated. */
bool tess_kernels_have_bf16(const char *name);

#endif
