/* `tessera bench comm` inside a job that MPI (or another launcher) has started, as a rule over several hosts. */
#ifndef TESS_BENCH_COMM_HOSTS_H
#define TESS_BENCH_COMM_HOSTS_H

#include "bench/bench.h"

tess_status comm_run_in_job(tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report);

/* --tune: measures each way and round size, and writes the table (rank 0). */
tess_status comm_tune(tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report);

/* "2: h1 (2 ranks), h2 (2 ranks)"; as many as fit. */
const char *comm_hosts_text(const tess_runtime *runtime, char *text, size_t size);
/* "Open MPI 4.1.4, ..."; "none": no MPI started the job. */
const char *comm_mpi_text(char *text, size_t size);

#endif
