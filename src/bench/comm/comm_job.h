/* Describes what `tessera bench comm` measures: the collectives, their sizes, and who runs them: ranks that are
 * started for it, the ranks of a running job, or MPI. */
#ifndef TESS_BENCH_COMM_COMM_JOB_H
#define TESS_BENCH_COMM_COMM_JOB_H

#include "bench/bench.h"
#include "bench/comm/comm_cross.h"
#include "bench/comm/comm_plan.h"
#include "bench/samples.h"
#include "device/device.h"
#include "trace/ring.h"

/* ---- Collectives ---- */

/* Buffers and sizes of one measured call. `bytes` is the size as nccl-tests defines it: that of the larger buffer of
 * a rank. */
typedef struct comm_call {
    tess_team *team;
    tess_dtype dtype;
    size_t bytes;
    /* 2 * `bytes` each: in operations on pieces, one buffer is a float32 shard. On one rank, it has twice the bytes
     * of a full bfloat16 buffer */
    void *in, *out;
} comm_call;

typedef struct comm_op {
    const char *name;
    const char *peer; /* name of the same operation in MPI */
    tess_status (*call)(const comm_call *);
    comm_crossing *crossing; /* returns the bytes sent between hosts */
    tess_trace_op kind;      /* operation in the tuning table */
    bool reduces;            /* computes sums */
    bool sized;              /* moves data, so it has a size */
    bool shares;             /* `out` is one copy that all ranks share */
    int rings;               /* factor in nccl-tests' formula of bandwidth; 0: each byte moves once */
    /* traffic in multiples of `bytes`: for each rank, once in total, and as float32 shards */
    double per_rank, once, shards;
} comm_op;

const comm_op *comm_op_list(int *n);

/* Returns the factor of nccl-tests: busbw = algbw * factor. It is the traffic of an ideal bus per byte of the
 * algorithm. */
double comm_op_bus_factor(const comm_op *op, int ranks);
/* Returns the fewest bytes that all ranks together can read and write. */
double comm_op_traffic(const comm_op *op, tess_dtype dtype, size_t bytes, int ranks);

/* ---- Cases ---- */

typedef struct comm_time {
    double median_us, min_us; /* 0: not measured */
} comm_time;

typedef struct comm_case {
    const comm_op *op;
    tess_dtype dtype;
    int ranks;
    tess_device *device; /* device of this rank, which holds the buffers; NULL: the host */
    int n_sizes;
    size_t bytes[COMM_PLAN_SIZES];
} comm_case;

/* Formats the name of a row: "all_gather float32 1.00 MiB, 4 ranks". */
void comm_case_name(const comm_case *which, size_t bytes, char *name, size_t size);
/* Sets the sizes of the selected rows. Sizes are rounded up, so that all ranks have equal blocks. */
void comm_case_sizes(comm_case *which, const tess_bench_options *options);

/* Our times by size: with buffers that peers can read (windows), and with private ones. Also the bandwidth of all
 * ranks together before that: the better of copy and triad with streaming stores. */
typedef struct comm_result {
    comm_time window[COMM_PLAN_SIZES], private[COMM_PLAN_SIZES];
    double memory_bytes_per_s;
} comm_result;

/* Measures with which->ranks ranks of `team`. `window`: buffers are windows, else private memory. Rank 0 gets
 * `times` (n_sizes). Collective. */
tess_status comm_job_measure(const comm_case *which, tess_team *team, bool window, comm_time *times);

/* Does the same with ranks that are started for it. */
tess_status comm_job_ours(const comm_case *which, comm_result *result);

typedef struct comm_peer {
    const char *program; /* path of mpi_collectives */
    bool yields;         /* waiting ranks yield their core */
    double patience_s;   /* seconds without a new figure after which the program is killed */
} comm_peer;

/* Measures MPI with `mpirun`. TESS_E_NOT_FOUND: there is no mpirun, or it could not start the program.
 * TESS_E_TIMEOUT: it hung and was killed. */
tess_status comm_job_mpi(const comm_case *which, const comm_peer *peer, comm_time *times);

/* ---- The bench, on one machine (comm.c) and in a job (comm_hosts.c) ---- */

/* Values of a round. Entries from COMM_OTHERS on depend on the setting. */
enum { COMM_TIME, COMM_MIN, COMM_LIMIT, COMM_PRIVATE, COMM_OTHERS, COMM_MEDIANS = 9 };

typedef struct comm_bench {
    const struct comm_setting *setting;
    const tess_bench_options *options;
    tess_bench_report *report;
    int ranks, rounds;
    int round;                                               /* current round */
    double (*samples)[COMM_MEDIANS][TESS_BENCH_MAX_SAMPLES]; /* by size and round; NAN: not measured */
    const char *mpi_program; /* program that measures MPI on one machine; NULL: there is no MPI to compare with */
    tess_team *team;         /* team of this job */
    comm_map map;
} comm_bench;

typedef struct comm_setting {
    const char *columns; /* columns after those that every table has */
    /* Measures our part of a round, and sets its samples from COMM_OTHERS on. */
    tess_status (*round)(comm_bench *bench, const comm_case *which, comm_result *ours);
    /* Computes the values of `columns` for size number `i` from the medians. */
    void (*figures)(const comm_bench *bench, const comm_case *which, int i, const double *medians, double *values);
} comm_setting;

/* Measures all collectives and adds their table. */
tess_status comm_bench_table(comm_bench *bench, tess_mem *mem, const char *title);

/* TESS_E_INVALID: --min-bytes is greater than --max-bytes. */
tess_status comm_check_sizes(const tess_bench_options *options);

/* Runs --device: on one machine, with ranks that are started for it (comm_device.c). */
tess_status comm_device_run(tess_mem *mem, comm_bench *bench, const int *ranks, int n_ranks);

tess_status comm_run_in_job(tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report);

/* Runs --tune: measures each choice and size; rank 0 writes the table. */
tess_status comm_tune(tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report);

/* Formats "2: h1 (2 ranks), h2 (2 ranks)", with as many hosts as fit. */
const char *comm_hosts_text(const tess_runtime *runtime, char *text, size_t size);
/* Formats "Open MPI 4.1.4, ..."; "none": the job was not started by MPI. */
const char *comm_mpi_text(char *text, size_t size);

#endif
