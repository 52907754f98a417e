/* Measures the bandwidth of memory and caches, which limits every kernel that computes little. */
#ifndef TESS_BENCH_BENCH_MEMORY_H
#define TESS_BENCH_BENCH_MEMORY_H

#include "base/os/threads.h"

/* Kinds of traffic. Bytes are counted as in STREAM: those that the program reads and writes, not the cache lines
 * that an ordinary store fetches first. Streaming stores fetch none, so they show what the hardware can do. */
typedef enum tess_bench_traffic {
    TESS_BENCH_READ,        /* reads a: 4 bytes per element */
    TESS_BENCH_COPY,        /* c = a with streaming stores: 8 bytes */
    TESS_BENCH_TRIAD,       /* c = a + s b with streaming stores: 12 bytes */
    TESS_BENCH_COPY_CACHED, /* c = a + s b with ordinary stores */
    TESS_BENCH_TRIAD_CACHED,
    TESS_BENCH_TRAFFIC_COUNT
} tess_bench_traffic;

/* Three float arrays. Each thread touches its part first. */
typedef struct tess_bench_arrays {
    tess_mem *mem;
    tess_threads *threads;
    float *a, *b, *c;
    int64_t n; /* elements in each array */
} tess_bench_arrays;

/* Creates arrays of `bytes` each. 0: four times the last cache, but at most a sixteenth of the machine's memory. */
tess_status tess_bench_arrays_create(tess_mem *mem, int n_threads, size_t bytes, tess_bench_arrays **arrays);
void tess_bench_arrays_destroy(tess_bench_arrays **arrays);

/* Returns the bytes per second of all threads together, for one pass. */
double tess_bench_traffic_rate(tess_bench_arrays *arrays, tess_bench_traffic traffic);

/* Returns the bytes per second of all threads together. Each thread reads `bytes` of its own data repeatedly for
 * about `seconds`. This gives the read bandwidth of the cache that holds them. */
double tess_bench_cache_read_rate(tess_bench_arrays *arrays, size_t bytes, double seconds);

/* Returns the bytes per second at which new memory can be mapped: the threads write one byte to each page of 4 KiB.
 * `huge`: asks for huge pages. 0: the system has no memory. */
double tess_bench_touch_rate(tess_threads *threads, size_t bytes, bool huge);

#endif
