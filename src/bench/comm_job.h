/* One job of measuring: ranks that are started, measure one collective at some sizes, and end. */
#ifndef TESS_BENCH_COMM_JOB_H
#define TESS_BENCH_COMM_JOB_H

#include "bench/comm_ops.h"
#include "bench/comm_plan.h"
#include "bench/options.h"

typedef struct comm_time {
    double median_us, min_us; /* 0: not measured */
} comm_time;

typedef struct comm_question {
    const comm_op *op;
    tess_dtype dtype;
    int ranks;
    int n_sizes;
    size_t bytes[COMM_PLAN_SIZES];
} comm_question;

/* The name of a row: "all_gather float32 1.00 MiB, 4 ranks". */
void comm_question_name(const comm_question *question, size_t bytes, char *name, size_t size);
/* Fills in the sizes whose rows are wanted; every collective can cut them into equal blocks of whole elements. */
void comm_question_sizes(comm_question *question, const tess_bench_options *options);

/* TESS_E_INVALID: --min-bytes above --max-bytes. */
tess_status comm_check_sizes(const tess_bench_options *options);

/* Ours, by size: buffers that peers can read (windows), private ones; and what memory gave all ranks together in
 * between, the better of a copy and a sum of two arrays, both with streaming stores. */
typedef struct comm_answer {
    comm_time window[COMM_PLAN_SIZES], private[COMM_PLAN_SIZES];
    double memory_bytes_per_s;
} comm_answer;

/* One measured by the ranks of a job that runs: collective over `team`, which has question->ranks members. `window`: as
 * opposed to private memory. `times` (n_sizes) are rank 0's to know. */
tess_status comm_job_measure(const comm_question *question, tess_team *team, bool window, comm_time *times);

/* Starts `ranks` processes as `tessera run` does. */
tess_status comm_job_ours(const comm_question *question, comm_answer *answer);

typedef struct comm_peer {
    const char *program; /* the path of mpi_collectives */
    bool yields;         /* waiting ranks give their core away */
    double patience_s;   /* it is ended when it gives no figure for so long */
} comm_peer;

/* The same through `mpirun`. TESS_E_NOT_FOUND: there is none, or it could not start the program. TESS_E_TIMEOUT: it
 * hung, and has been ended. */
tess_status comm_job_mpi(const comm_question *question, const comm_peer *peer, comm_time *times);

#endif
