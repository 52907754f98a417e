#include "bench/peers.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

static const char file_name[] = "libtessera_bench_peers.so";

static const struct {
    const char *table, *onednn, *openblas;
} instruction_sets[] = {
    {"avx2", "AVX2", "Haswell"},
    {"avx512", "AVX512_CORE", "SkylakeX"},
    {"avx512_bf16", "AVX512_CORE_BF16", "SkylakeX"},
};

static void limit_peers(const char *kernel_table)
{
    for (size_t i = 0; i < sizeof(instruction_sets) / sizeof(instruction_sets[0]); i++) {
        if (strcmp(kernel_table, instruction_sets[i].table) == 0) {
            setenv("DNNL_MAX_CPU_ISA", instruction_sets[i].onednn, 0);
            setenv("OPENBLAS_CORETYPE", instruction_sets[i].openblas, 0);
        }
    }
    /* Spin times of about a millisecond: long enough for consecutive calls, short enough for the pause between two
     * libraries. */
    setenv("GOMP_SPINCOUNT", "20000", 0);
    setenv("OPENBLAS_THREAD_TIMEOUT", "21", 0);
}

const tess_bench_peers *tess_bench_peers_open(const char *kernel_table)
{
    limit_peers(kernel_table);
    char path[4096];
    void *library = NULL;
    if (tess_bench_beside(file_name, path, sizeof(path))[0] != '\0')
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        library = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
    return library != NULL ? dlsym(library, "tess_bench_peers_table") : NULL;
}
