/* Chooses a kernel table for processes that compute together on different CPUs. Each table has its own bits in
 * bfloat16, so all processes use the same one: the best that all can run, or the one that a user named. The functions
 * are pure, except for the first. */
#ifndef TESS_DEVICE_KERNEL_VOTE_H
#define TESS_DEVICE_KERNEL_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* The tables that a process can use. Hosts exchange these bytes unchanged. */
typedef struct tess_kernels_offer {
    /* Level of the best table that it can run, or of the table that it must use. Higher levels include lower ones. */
    int32_t level;
    int32_t is_fixed; /* 1: it must use this level */
} tess_kernels_offer;

typedef struct tess_kernels_choice {
    int level, most; /* the level that all use; the best level that a process offers */
    int least_of;    /* the first process that offers the lowest level */
    int fixed_by;    /* the first process that must use a level; -1: none */
    /* The first process that cannot run that level or must use another; -1: none, and `level` is valid */
    int refused_by;
} tess_kernels_choice;

/* Returns the offer of this process. `name` and errors as in tess_kernels_select. */
tess_status tess_kernels_offer_of(const char *name, tess_kernels_offer *offer);

/* Returns the common choice of n processes. The offer of process i begins i * stride bytes after `first`. */
tess_kernels_choice tess_kernels_vote(const tess_kernels_offer *first, size_t stride, int n);

const char *tess_kernels_name(int level);

/* Returns whether the table computes bfloat16 products with instructions of the CPU, without emulation. */
bool tess_kernels_have_bf16(const char *name);

#endif
