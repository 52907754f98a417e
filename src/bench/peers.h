/* Matrix products of oneDNN and OpenBLAS, to race ours against. A plug-in, built where their headers are and opened at
 * run time, keeps the command free of both. */
#ifndef TESS_BENCH_PEERS_H
#define TESS_BENCH_PEERS_H

#include "device/kernels.h"

typedef struct tess_bench_product tess_bench_product; /* a peer's, prepared for one tess_gemm */

typedef struct tess_bench_peer {
    const char *name; /* a column of the report: "oneDNN" */
    /* Does everything that a program does once per shape and weights. NULL: the library does not offer this product,
     * such as any with accumulation or bias. Borrows the operands until release. */
    tess_bench_product *(*prepare)(const tess_gemm *g);
    bool (*run)(tess_bench_product *product); /* false: the library failed */
    void (*release)(tess_bench_product *product);
} tess_bench_peer;

enum { TESS_BENCH_MAX_PEERS = 4 };

/* The table that the plug-in exports as `tess_bench_peers_table`. */
typedef struct tess_bench_peers {
    const char *versions; /* "oneDNN 2.6.3, OpenBLAS 0.3.21" */
    void (*set_threads)(int n_threads);
    const tess_bench_peer *const *peers; /* ends with NULL */
} tess_bench_peers;

/* Opens the plug-in next to this program, else where the loader finds it; NULL: no plug-in. Limits the libraries to
 * the instruction set of `kernel_table`, and their threads to a short spin, which would disturb the next turn.
 * Variables that the user has set take precedence. Call it once, before any other use of the libraries. */
const tess_bench_peers *tess_bench_peers_open(const char *kernel_table);

#endif
