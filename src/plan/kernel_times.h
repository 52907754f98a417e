/* Measured times of a machine: calls of kernels, and operations between ranks of one host. `tessera plan --calibrate`
 * measures them once and stores them in a file. Times of other sizes are interpolated. */
#ifndef TESS_PLAN_KERNEL_TIMES_H
#define TESS_PLAN_KERNEL_TIMES_H

#include "device/dry/work_trace.h"

/* A call of a kernel with `threads` threads, while all cores of the host make such calls. */
typedef struct tess_kernel_time {
    tess_call_key key;
    int threads;
    double seconds;
} tess_kernel_time;

/* An operation of `ranks` ranks of one host. */
typedef struct tess_op_time {
    int kind; /* tess_trace_op */
    int ranks;
    double bytes; /* received by a rank from others (tess_volume_received) */
    double seconds;
} tess_op_time;

/* The difference between a measured and a predicted step of one configuration (tessera plan --measure). */
typedef struct tess_step_correction {
    uint64_t config; /* hash of the configuration, the model and the number of ranks */
    double factor;   /* measured by predicted */
} tess_step_correction;

typedef struct tess_kernel_times {
    tess_mem *mem;
    char machine[256];            /* fingerprint of the machine (tess_machine_fingerprint) */
    double flops_bf16, flops_f32; /* peak of all cores together; 0: not measured */
    tess_kernel_time *calls;
    tess_op_time *ops;
    tess_step_correction *corrections;
    size_t n_calls, n_ops, n_corrections, calls_room, ops_room, corrections_room;
} tess_kernel_times;

/* Adds a time, or replaces that of the same call, operation or configuration. */
tess_status tess_kernel_times_add(tess_kernel_times *times, const tess_kernel_time *time);
tess_status tess_kernel_times_add_op(tess_kernel_times *times, const tess_op_time *time);
tess_status tess_kernel_times_correct(tess_kernel_times *times, const tess_step_correction *correction);
void tess_kernel_times_free(tess_kernel_times *times);

/* Estimates the time of a call. Times of the same call count as they are; others by their rate, the more the closer
 * their sizes are. *exact: the same call was measured. Returns 0 if no call of this row and dtype was. */
double tess_kernel_times_find(const tess_kernel_times *times, const tess_call_key *key, int threads, bool *exact);
/* Does the same for an operation. */
double tess_kernel_times_find_op(const tess_kernel_times *times, int kind, int ranks, double bytes);
/* Returns the factor that was stored for a configuration, or 1. */
double tess_kernel_times_factor(const tess_kernel_times *times, uint64_t config);

/* Writes the fingerprint of this machine: what its times depend on. Returns `text`. */
const char *tess_machine_fingerprint(char *text, size_t size);
/* Writes the path of this machine's file of times: in `folder`, or if that is "" in $XDG_CACHE_HOME/tessera or
 * ~/.cache/tessera. TESS_E_NOT_FOUND: there is no home folder */
tess_status tess_kernel_times_path(const char *folder, char *path, size_t size);

/* Reads times. `times` has its mem. TESS_E_FORMAT: the message names `what` and the place */
tess_status tess_kernel_times_parse(tess_kernel_times *times, const char *text, size_t size, const char *what);
/* TESS_E_NOT_FOUND: there is no such file */
tess_status tess_kernel_times_load(tess_kernel_times *times, const char *path);
tess_status tess_kernel_times_save(const tess_kernel_times *times, const char *path);

#endif
