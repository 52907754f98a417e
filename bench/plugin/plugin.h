/* The peers of the plug-in; each file is built only where its library's headers are. */
#ifndef TESS_BENCH_PLUGIN_H
#define TESS_BENCH_PLUGIN_H

#include "bench/peers.h"

extern const tess_bench_peer onednn_peer;        /* plain layouts, as a framework calls it */
extern const tess_bench_peer onednn_packed_peer; /* B is a weight: in oneDNN's own format before the race */
extern const tess_bench_peer openblas_peer;

#endif
