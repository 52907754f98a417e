/* The threads that used memory last, to find accesses that no barrier orders. */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_RACES_H
#define TESS_TESTS_DEVICE_PTX_PTX_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PTX_UPDATES: an atomic. PTX_REPEATS: a write of what is there, as of threads that all set one flag; it may follow
 * another thread's write, but not a read. */
typedef enum ptx_use { PTX_READS, PTX_WRITES, PTX_UPDATES, PTX_REPEATS } ptx_use;

/* A thread at a moment. A barrier of the block begins a new phase of all its threads; one of the warp a new turn of its
 * lanes. */
typedef struct ptx_actor {
    uint32_t block, phase, turn;
    int32_t thread; /* number in the block, or one of the numbers below */
} ptx_actor;

enum {
    PTX_NOBODY = -1,
    PTX_SEVERAL_THREADS = -2,
    PTX_SEVERAL_BLOCKS = -3,
    PTX_SEVERAL_OF_WARP = -4 /* PTX_SEVERAL_OF_WARP - w: lanes of warp w */
};

/* The newest accesses of a few bytes. */
typedef struct ptx_access {
    uint32_t run; /* records of another run are void */
    bool atomic;  /* whether the newest write was */
    ptx_actor writer, reader;
} ptx_access;

typedef struct ptx_races {
    uint32_t launch_run, block_run; /* runs of records of global and of shared memory */
    uint32_t phase, turns[32];
    ptx_access *shared; /* for each granule */
} ptx_races;

/* Returns a number that no run has had. */
uint32_t ptx_new_run(void);

/* Records an access. Returns NULL, or what is wrong, such as "was written by"; *other is the other thread. */
const char *ptx_access_check(ptx_access *a, uint32_t run, const ptx_actor *who, ptx_use use, ptx_actor *other);

#endif
