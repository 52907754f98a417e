/* Provides matrix products of oneDNN and OpenBLAS to compare ours with. They are in a plug-in, which is built if
 * their headers are available and opened at run time. So the command depends on neither. */
#ifndef TESS_BENCH_PEERS_H
#define TESS_BENCH_PEERS_H

#include "device/kernels.h"

typedef struct tess_bench_product tess_bench_product; /* a peer's product, prepared for one tess_gemm */

typedef struct tess_bench_peer {
    const char *name; /* name of the peer and of its column in the report: "oneDNN" */
    /* Does everything that a program does once per shape and weights. Borrows the operands until release. NULL: the
     * library does not offer this product, such as a product with accumulation or bias. */
    tess_bench_product *(*prepare)(const tess_gemm *g);
    bool (*run)(tess_bench_product *product); /* returns false if the library failed */
    void (*release)(tess_bench_product *product);
} tess_bench_peer;

enum { TESS_BENCH_MAX_PEERS = 4 };

/* The table that the plug-in exports as `tess_bench_peers_table`. */
typedef struct tess_bench_peers {
    const char *versions; /* versions of the libraries: "oneDNN 2.6.3, OpenBLAS 0.3.21" */
    void (*set_threads)(int n_threads);
    const tess_bench_peer *const *peers; /* list of peers, which ends with NULL */
} tess_bench_peers;

/* Opens the plug-in next to this program, or else where the loader finds it. Returns NULL if there is none. Limits
 * the libraries to the instruction set of `kernel_table`. Also limits the time for which their threads spin, because
 * this would disturb the next side. Variables that the user has set take precedence. Call it once, before any other
 * use of the libraries. */
const tess_bench_peers *tess_bench_peers_open(const char *kernel_table);

#endif
