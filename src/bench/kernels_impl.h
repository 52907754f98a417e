/* What the parts of `tessera bench kernels` share. */
#ifndef TESS_BENCH_KERNELS_IMPL_H
#define TESS_BENCH_KERNELS_IMPL_H

#include "bench/bench.h"
#include "bench/memory.h"
#include "bench/peers.h"
#include "bench/race.h"
#include "device/stream.h"

typedef struct kernels_bench {
    tess_mem *mem;
    const tess_bench_options *options;
    tess_bench_report *report;
    tess_stream *stream;
    tess_bench_arrays *arrays;     /* for the memory's limit */
    const tess_bench_peers *peers; /* or NULL */
    int rounds;
} kernels_bench;

/* Each adds one table; `quick` takes a few small shapes of it. */
tess_status kernels_bench_gemm(const kernels_bench *bench);
tess_status kernels_bench_attention(const kernels_bench *bench);
tess_status kernels_bench_rows(const kernels_bench *bench); /* norms, rotation, activations */
tess_status kernels_bench_vocab(const kernels_bench *bench);
tess_status kernels_bench_flat(const kernels_bench *bench); /* AdamW, conversion, reduction ... */

/* Work space filled with `dtype` numbers in (-1, 1); free with tess_mem_free. */
tess_status kernels_bench_operand(const kernels_bench *bench, int64_t count, tess_dtype dtype, void **out);

/* Limits for a race: flops a second of the stream for a dtype, bytes a second of the memory. */
double kernels_bench_peak_bf16(void *stream);
double kernels_bench_peak_f32(void *stream);
double kernels_bench_triad(void *arrays);
double kernels_bench_read(void *arrays);

/* One kernel that moves `bytes`: raced against the memory triad with cold caches, then timed warm. A row of
 * kernels_bench_memory_columns. */
enum { KERNELS_BENCH_MEMORY_COLUMNS = 5 };
extern const tess_bench_column kernels_bench_memory_columns[KERNELS_BENCH_MEMORY_COLUMNS];
tess_status kernels_bench_memory_row(const kernels_bench *bench, const char *name, tess_bench_side side, double bytes);

#endif
