/* Computes the time of GPU work from counts: what each launch of a kernel moves and computes, against what the GPU can
 * move and compute. The counts come from the interpreter of PTX and the drivers that only count (tools/gpu-step), or
 * from a program's source. */
#ifndef TESS_PLAN_GPU_LAUNCH_H
#define TESS_PLAN_GPU_LAUNCH_H

#include "plan/plan_machine.h"

enum { TESS_GPU_NAME = 96 };

typedef enum tess_gpu_kind {
    TESS_GPU_KERNEL,    /* a kernel with all counts */
    TESS_GPU_MOVES,     /* a kernel that moves bytes, and computes little. It keeps the memory busy. */
    TESS_GPU_ATTENTION, /* attention of a library, or of that class */
    TESS_GPU_PRODUCT,   /* a product of matrices by cuBLAS */
    TESS_GPU_COPY,      /* bytes between the host and the GPU */
    TESS_GPU_WAIT       /* the host waits for the GPU */
} tess_gpu_kind;

/* Counts are those of the whole launch. Instructions of a class are those of threads. */
typedef struct tess_gpu_launch {
    char name[TESS_GPU_NAME];
    tess_gpu_kind kind;
    double blocks, threads;   /* blocks of the grid, threads of a block */
    double shared_bytes;      /* shared memory of a block */
    double registers;         /* registers of a thread; 0: not known */
    double warp_instructions; /* an exact quotient or root counts as several */
    double integer, floats, doubles, special, convert;
    double passes;                    /* passes of warps through the first cache or shared memory */
    double waits;                     /* waits of warps for loaded values, one after the other */
    double memory_bytes, cache_bytes; /* moved by the memory, and by the cache that all multiprocessors share */
    double tensor_flops;
    double m, n, k, c_bytes; /* a product: its sizes, and the bytes of an element of its result. Attention: n tokens of
                              * a sequence, heads of k channels */
    bool adds;               /* a product: it adds to its result */
    bool splits_k;           /* a product: it may have work space, so parts of k may be summed at the same time */
} tess_gpu_launch;

/* The part of a GPU that limits a launch. */
#define TESS_GPU_BOUND_ROWS(ROW)  \
    ROW(MEMORY, "memory")         \
    ROW(CACHE, "cache")           \
    ROW(ISSUE, "instructions")    \
    ROW(ARITHMETIC, "arithmetic") \
    ROW(PASSES, "shared memory")  \
    ROW(TENSOR, "tensor cores")   \
    ROW(LATENCY, "latency")       \
    ROW(LINK, "link to the host") \
    ROW(HOST, "host")
#define TESS_GPU_BOUND_ENUM(id, text) TESS_GPU_BOUND_##id,
typedef enum tess_gpu_bound { TESS_GPU_BOUND_ROWS(TESS_GPU_BOUND_ENUM) TESS_GPU_BOUNDS } tess_gpu_bound;
#undef TESS_GPU_BOUND_ENUM
const char *tess_gpu_bound_name(tess_gpu_bound bound);

/* Whether the machine has the figures that the functions below need (compute.processors). */
bool tess_gpu_is_known(const tess_machine *m);

/* Returns the share of a multiprocessor's threads that run at a time, or 0 if no block fits. */
double tess_gpu_occupancy(const tess_machine *m, const tess_gpu_launch *l);

/* Returns the seconds that the GPU works on a launch, from its beginning to its end. */
double tess_gpu_launch_time(const tess_machine *m, const tess_gpu_launch *l, tess_gpu_bound *bound);

/* A queue of launches. The host issues one after the other, and the GPU runs them in order. */
typedef struct tess_gpu_queue {
    double host_s, device_s; /* when the host and the GPU are free */
    double busy_s;           /* the GPU works */
} tess_gpu_queue;

/* Adds a launch to the queue. Returns the seconds that the GPU works on it. */
double tess_gpu_queue_add(tess_gpu_queue *q, const tess_machine *m, const tess_gpu_launch *l, tess_gpu_bound *bound);
/* Returns the time from the first launch to the end of the last. */
double tess_gpu_queue_time(const tess_gpu_queue *q);

#endif
