/* The bandwidth of memory and caches: the limit of every kernel that computes little. */
#ifndef TESS_BENCH_BENCH_MEMORY_H
#define TESS_BENCH_BENCH_MEMORY_H

#include "base/os/threads.h"

/* Bytes are counted as STREAM counts them: what the program reads and writes, not the lines that a cached store fetches
 * first. Streaming stores fetch none: they show what the silicon can do. */
typedef enum tess_bench_traffic {
    TESS_BENCH_READ,        /* reads a: 4 bytes an element */
    TESS_BENCH_COPY,        /* c = a, streaming stores: 8 */
    TESS_BENCH_TRIAD,       /* c = a + s b, streaming stores: 12 */
    TESS_BENCH_COPY_CACHED, /* the same with ordinary stores */
    TESS_BENCH_TRIAD_CACHED,
    TESS_BENCH_TRAFFIC_COUNT
} tess_bench_traffic;

/* Three float arrays; each thread touches its part first. */
typedef struct tess_bench_arrays {
    tess_mem *mem;
    tess_threads *threads;
    float *a, *b, *c;
    int64_t n; /* elements of each */
} tess_bench_arrays;

/* `bytes` of each array; 0: four times the last cache, at most a sixteenth of the machine's memory. */
tess_status tess_bench_arrays_create(tess_mem *mem, int n_threads, size_t bytes, tess_bench_arrays **arrays);
void tess_bench_arrays_destroy(tess_bench_arrays **arrays);

/* Bytes a second of all threads together, of one pass. */
double tess_bench_traffic_rate(tess_bench_arrays *arrays, tess_bench_traffic traffic);

/* Bytes a second of all threads together. Each reads `bytes` of its own again and again for about `seconds`: the read
 * bandwidth of the cache that holds them. */
double tess_bench_cache_read_rate(tess_bench_arrays *arrays, size_t bytes, double seconds);

/* Bytes a second of newly mapped memory: the threads write one byte to each page of 4 KiB. `huge`: asks for huge pages.
 * 0: the system has no memory. */
double tess_bench_touch_rate(tess_threads *threads, size_t bytes, bool huge);

#endif
