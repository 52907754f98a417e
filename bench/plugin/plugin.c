#include "plugin.h"

#ifdef TESS_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl_version.h>
void omp_set_num_threads(int n); /* declared here: clang's <omp.h> means another OpenMP than oneDNN is linked with */
#endif
#ifdef TESS_HAVE_OPENBLAS
#include <cblas.h>
#endif

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

static const tess_bench_peer *const peers[] = {
#ifdef TESS_HAVE_ONEDNN
    &onednn_peer,
    &onednn_packed_peer,
#endif
#ifdef TESS_HAVE_OPENBLAS
    &openblas_peer,
#endif
    NULL,
};

static void set_threads(int n_threads)
{
#ifdef TESS_HAVE_ONEDNN
    omp_set_num_threads(n_threads);
#endif
#ifdef TESS_HAVE_OPENBLAS
    openblas_set_num_threads(n_threads);
#endif
}

__attribute__((visibility("default"))) extern const tess_bench_peers tess_bench_peers_table;

const tess_bench_peers tess_bench_peers_table = {
    .versions =
#ifdef TESS_HAVE_ONEDNN
        "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH)
#endif
#if defined(TESS_HAVE_ONEDNN) && defined(TESS_HAVE_OPENBLAS)
            ","
#endif
#ifdef TESS_HAVE_OPENBLAS
    OPENBLAS_VERSION
#endif
    ,
    .set_threads = set_threads,
    .peers = peers,
};
