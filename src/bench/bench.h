/* The common interface of the benches, which cli/cli_bench.c lists. Each bench is a table of subjects or rows, and
 * one loop. */
#ifndef TESS_BENCH_BENCH_H
#define TESS_BENCH_BENCH_H

#include "bench/bench_options.h"
#include "bench/bench_report.h"
#include "tessera/runtime.h"

typedef struct tess_bench {
    const char *name, *help;
    /* Measures, and fills the report: facts, tables, rows. */
    tess_status (*run)(tess_mem *mem, const tess_bench_options *options, tess_bench_report *report);
    /* Does the same with the ranks of a running job. Collective; only rank 0's report is used. NULL: the bench can
     * only measure jobs that it starts itself. */
    tess_status (*run_in_job)(tess_runtime *runtime, const tess_bench_options *options, tess_bench_report *report);
} tess_bench;

/* Adds the facts that every report begins with: cpu, cores, caches, memory, and the kernel table in use. */
tess_status tess_bench_machine_facts(tess_bench_report *report, const char *kernel_table);

/* Returns the bytes of a data cache (level 1 .. 3) from the view of one core; 0: the system does not report it. */
size_t tess_bench_cache_bytes(int level);

/* Writes the path of a file in the folder of this program; "": not known. Returns `path`. */
const char *tess_bench_beside(const char *file, char *path, size_t size);

extern const tess_bench tess_bench_machine, tess_bench_kernels, tess_bench_comm, tess_bench_step, tess_bench_precision,
    tess_bench_packing, tess_bench_ckpt, tess_bench_offload, tess_bench_transfer;

#endif
