/* The interpreter: it runs a kernel's blocks one after the other, and the warps of a block in turns. A warp runs until
 * it ends or waits for others of its block. Its lanes may diverge: the lanes that are at the lowest instruction go
 * first, so those that took different ways meet again where the ways do.
 *
 * A run ends at the first fault. The message says what is wrong, and names the kernel, the block, the thread, the line
 * of the PTX and that of the source:
 * - an access outside every allocation, or not aligned to its size
 * - a value that nothing has written and that decides something: an address, a stored value, an element of a matrix, or
 *   whether a lane does any of that. It comes from a register, from local or shared memory, or from global memory that
 * is known to hold no value
 * - two threads of a block that access the same bytes of shared or global memory without a barrier between, of which
 * one writes and not both are atomic; or threads of two blocks
 * - a barrier, shuffle, vote or matrix operation that not all of its threads reach, or that they reach in different
 * places
 * - bytes of a cp.async that are used before its thread has waited for it
 * - a division of integers by 0, and a kernel that does not end */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_MACHINE_H
#define TESS_TESTS_DEVICE_PTX_PTX_MACHINE_H

#include "device/ptx/ptx_program.h"

enum { PTX_SECTOR = 32, PTX_BANKS = 32 };

/* Counts of a run: of threads, where they are not said to be of warps. */
typedef struct ptx_counts {
    uint64_t instructions[PTX_CLASS_COUNT];
    uint64_t warp_instructions;             /* an exact quotient or root counts as the routine that it is */
    uint64_t fused;                         /* fma of floats: two operations each */
    uint64_t read_bytes, written_bytes;     /* global memory, as threads ask for it */
    uint64_t read_sectors, written_sectors; /* PTX_SECTOR bytes each, for each access of a warp */
    uint64_t shared_accesses;               /* passes of warps, the fewest that their size allows */
    uint64_t bank_conflicts;                /* passes more than those */
    uint64_t barriers;                      /* each counts once a block */
    /* The rest is counted in samples only. */
    uint64_t memory_read, memory_written; /* bytes that move if caches keep what blocks share */
    uint64_t cache_sectors;               /* sectors that blocks use, each once a block and way */
    uint64_t waits;                       /* loads from global memory of a warp, one after the other */
} ptx_counts;

typedef struct ptx_launch {
    const ptx_module *module;
    const ptx_kernel *kernel;
    unsigned blocks, threads;
    size_t dynamic_shared;
    void *const *arguments; /* (n_parameters) addresses of the values */
    unsigned sample;        /* number of blocks that run; 0: all */
} ptx_launch;

/* Runs a kernel. Returns false after a fault, and writes it to `fault`. `counts` grows; NULL: nothing is counted.
 * A sample runs the first block, the last, and others between, which are equally far apart. Its counts are those of the
 * whole launch, as if its other blocks did the same on average. It does not look for races and for values that nothing
 * has written. `counts` must be zeros. */
bool ptx_run(const ptx_launch *launch, ptx_counts *counts, char *fault, size_t fault_size);

#endif
