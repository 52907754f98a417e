/* The state of a run, for the interpreter's files. */
#ifndef TESS_TESTS_DEVICE_PTX_PTX_MACHINE_IMPL_H
#define TESS_TESTS_DEVICE_PTX_PTX_MACHINE_IMPL_H

#include <setjmp.h>

#include "device/ptx/ptx_heap.h"
#include "device/ptx/ptx_machine.h"
#include "device/ptx/ptx_races.h"
#include "device/ptx/ptx_sample.h"

enum { PTX_MOST_WARPS = 32, PTX_ALL_LANES = -1 };

typedef enum ptx_wait { PTX_RUNS, PTX_WAITS_FOR_WARP, PTX_WAITS_FOR_BLOCK } ptx_wait;

/* Lanes of a warp that are at the same instruction. */
typedef struct ptx_group {
    int at;
    uint32_t lanes;
    ptx_wait wait;
} ptx_group;

/* An asynchronous copy that has not been waited for. */
typedef struct ptx_pending {
    uint64_t from;
    uint32_t to;
    uint8_t bytes, zeros, lane;
    uint32_t group;
} ptx_pending;

/* The number of loads one after the other, in straight code, that a register's value needs. */
typedef struct ptx_loads {
    uint32_t code, n;
} ptx_loads;

typedef struct ptx_warp {
    int first_thread;
    uint64_t (*registers)[PTX_WARP];
    uint32_t *known; /* lanes of each register that were written */
    uint32_t live;   /* lanes that have not ended */
    ptx_group groups[PTX_WARP];
    int n_groups;
    char *local; /* (32, local_bytes) */
    uint8_t *local_written;
    uint32_t copy_group[PTX_WARP]; /* number of each lane's next group of copies */
    ptx_pending *pending;
    int n_pending, pending_room;
    ptx_loads *loads; /* (registers) NULL: not a sample */
    uint32_t code;    /* number of the straight code that runs */
    uint32_t most_loads;
} ptx_warp;

/* A place without a value that a load has read. */
typedef struct ptx_source {
    int line; /* line of the PTX; 0: there was no such load */
    const char *space;
    uint64_t at;
} ptx_source;

typedef struct ptx_machine {
    const ptx_launch *launch;
    const ptx_kernel *kernel;
    ptx_counts *counts;
    ptx_counts own_counts; /* used if the caller wants none */
    char nowhere[16];      /* memory of addresses that follow from what blocks outside of the sample have not written */
    unsigned block;
    ptx_warp warps[PTX_MOST_WARPS];
    int n_warps;
    char *parameters;
    char *shared;
    uint8_t *shared_state; /* PTX_WRITTEN and PTX_IN_FLIGHT for each byte */
    size_t shared_bytes;
    ptx_races races;
    ptx_sample *sample; /* NULL: all blocks run */
    bool unwritten;     /* the newest load has read bytes that nothing has written */
    ptx_source source;  /* the newest such load */
    uint64_t steps_left;
    const ptx_instruction *now; /* the instruction that runs, and its thread, for messages */
    char *fault;
    size_t fault_size;
    jmp_buf stopped;
} ptx_machine;

enum { PTX_WRITTEN = 1, PTX_IN_FLIGHT = 2 };

/* Ends the run. `lane` < 0: the fault is not of one thread. */
_Noreturn void ptx_stop(ptx_machine *m, const ptx_warp *w, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline const uint64_t *ptx_lanes(const ptx_machine *m, const ptx_warp *w, int slot)
{
    return slot >= 0 ? w->registers[slot] : m->kernel->constants[-2 - slot];
}

static inline uint32_t ptx_known(const ptx_warp *w, int slot)
{
    return slot >= 0 ? w->known[slot] : UINT32_MAX;
}

static inline void ptx_set(ptx_warp *w, int slot, int lane, uint64_t x)
{
    if (slot < 0)
        return;
    w->registers[slot][lane] = x;
    w->known[slot] |= UINT32_C(1) << lane;
}

static inline void ptx_set_unknown(ptx_warp *w, int slot, int lane)
{
    if (slot >= 0)
        w->known[slot] &= ~(UINT32_C(1) << lane);
}

/* Stops the run unless these lanes of the slot were written. `what` says what it is needed for. */
void ptx_need(ptx_machine *m, const ptx_warp *w, int slot, uint32_t lanes, const char *what);

/* ptx_access.c */
void ptx_load(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes);
void ptx_store(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes);
void ptx_atomic(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes);
/* Checks an access of a thread to shared memory, and returns its place. */
char *ptx_shared_at(ptx_machine *m, const ptx_warp *w, int lane, uint64_t address, int bytes, ptx_use use);
/* The same for global memory. */
char *ptx_global_at(ptx_machine *m, const ptx_warp *w, int lane, uint64_t address, int bytes, ptx_use use);
/* Returns whether the reads since the last call had bytes that nothing has written. */
bool ptx_take_unwritten(ptx_machine *m);
/* Counts the accesses of a warp: `address` of each lane. */
void ptx_count_global(ptx_machine *m, const uint64_t *address, uint32_t lanes, int bytes, bool writes);
void ptx_count_shared(ptx_machine *m, const uint64_t *address, uint32_t lanes, int bytes);

/* ptx_warp.c: operations of lanes together */
void ptx_shuffle(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes);
void ptx_vote(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes);
void ptx_multiply(ptx_machine *m, ptx_warp *w, const ptx_instruction *i);
void ptx_load_matrix(ptx_machine *m, ptx_warp *w, const ptx_instruction *i);

/* ptx_copies.c */
void ptx_copy(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes);
void ptx_copy_commit(ptx_warp *w, uint32_t lanes);
void ptx_copy_wait(ptx_machine *m, ptx_warp *w, int newest, uint32_t lanes);

#endif
