/* Logs of GPU work: a line for each launch, copy and wait, which programs that count write (tools/gpu-step). */
#ifndef TESS_PLAN_LAUNCH_LOG_H
#define TESS_PLAN_LAUNCH_LOG_H

#include "plan/gpu/gpu_launch.h"

enum { TESS_LAUNCH_KERNELS = 256 };

/* The launches of one kernel, or the products of one size. The last entry of a full table has those of all further
 * ones, with the name "others". */
typedef struct tess_launched_kernel {
    char name[TESS_GPU_NAME];
    double n, seconds, memory_bytes, flops, occupancy;
    tess_gpu_bound bound; /* limit of the longest launch */
    double longest_s;
} tess_launched_kernel;

typedef struct tess_launch_totals {
    tess_launched_kernel kernels[TESS_LAUNCH_KERNELS]; /* the one that takes most time first */
    int n_kernels;
    double launches, copies, waits; /* waits: of the host for the GPU */
    double memory_bytes, flops, copied_bytes;
    double busy_s, time_s; /* the GPU works, and from the first launch to the end of the last */
} tess_launch_totals;

/* clang-format off */
/* A log while it is read. Its lines are words and numbers:
 *   launch NAME SOURCE exact|approximates BLOCKS THREADS SHARED COUNTS...   as ptx_cudart.c writes it
 *   registers NAME N                   registers of a thread of a kernel; before its launches
 *   product M N K BYTES ADDS [splits]  a product by cuBLAS. BYTES: of an element of the result. ADDS: 1 if it adds to
 *                                      it. splits: k may be divided
 *   launched NAME                      a kernel of which nothing else is known; it takes no time on the GPU
 *   moves NAME BYTES                   a kernel that keeps the memory busy
 *   attention NAME FLOPS BYTES TOKENS CHANNELS   a library's. TOKENS of a sequence, CHANNELS of a head
 *   copy up|down|within BYTES
 *   fill within BYTES
 *   wait queue|event 0
 * Other lines, such as comments (#), are not of GPU work. */
/* clang-format on */
typedef struct tess_launch_log {
    const tess_machine *machine;
    const char *what; /* name of the log in messages */
    int line;
    tess_gpu_queue queue;
    tess_launch_totals totals;
    struct {
        char name[2 * TESS_GPU_NAME];
        double n;
    } registers[1024];
    int n_registers;
} tess_launch_log;

/* Reads all lines of text (size), and sets the totals. `log` has a machine of GPUs and `what`; all else is 0.
 * TESS_E_FORMAT: the message names the line
 * TESS_E_INVALID: the machine lacks figures that the times need */
tess_status tess_launch_log_read(tess_launch_log *log, const char *text, size_t size);

#endif
