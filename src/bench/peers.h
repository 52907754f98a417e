/* Other libraries' matrix products, to race ours against: oneDNN and OpenBLAS, behind a plug-in that is built where
 * their headers are and opened at run time, so that the command depends on neither. */
#ifndef TESS_BENCH_PEERS_H
#define TESS_BENCH_PEERS_H

#include "device/kernels.h"

typedef struct tess_bench_product tess_bench_product; /* a peer's, prepared for one tess_gemm */

typedef struct tess_bench_peer {
    const char *name; /* a column of the report: "oneDNN" */
    /* Everything that a program does once per shape and weights; NULL when the library does not offer this product. The
     * operands are borrowed until release. Accumulation and bias are not offered. */
    tess_bench_product *(*prepare)(const tess_gemm *g);
    bool (*run)(tess_bench_product *product); /* false: the library failed */
    void (*release)(tess_bench_product *product);
} tess_bench_peer;

enum { TESS_BENCH_MAX_PEERS = 4 };

/* What the plug-in exports as `tess_bench_peers_table`. */
typedef struct tess_bench_peers {
    const char *versions; /* "oneDNN 2.6.3, OpenBLAS 0.3.21" */
    void (*set_threads)(int n_threads);
    const tess_bench_peer *const *peers; /* ends with NULL */
} tess_bench_peers;

/* Opens the plug-in beside the running binary, else where the loader finds it; NULL: there is none. The libraries are
 * held to the instruction set of `kernel_table`, and their threads to a short spin, so that they do not disturb the
 * race after their turn; what the environment says about either wins. Call once, before any other use of them. */
const tess_bench_peers *tess_bench_peers_open(const char *kernel_table);

#endif
