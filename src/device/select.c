/* The kernel tables: one a level, each the one below it with rows overridden, built once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpuid.h"
#include "device/kernels.h"

enum { MISSING_BYTES = 256, MAX_OVERRIDERS = 3 };

typedef struct level {
    const char *name;
    void (*overriders[MAX_OVERRIDERS])(tess_kernels *k);
} level;

static const level levels[CPU_LEVEL_COUNT] = {
    [CPU_REF] = {"ref", {tess_kernels_ref}},
    [CPU_AVX2] = {"avx2", {tess_kernels_avx2, tess_kernels_avx2_gemm, tess_kernels_avx2_attention}},
    [CPU_AVX512] = {"avx512", {tess_kernels_avx512, tess_kernels_avx512_gemm, tess_kernels_avx512_attention}},
    [CPU_AVX512_BF16] = {"avx512_bf16", {tess_kernels_avx512_bf16_gemm}},
    [CPU_AMX] = {"amx", {tess_kernels_amx_gemm, tess_kernels_amx_attention}},
};

static tess_kernels plain[CPU_LEVEL_COUNT], tables[CPU_LEVEL_COUNT];
static bool supported[CPU_LEVEL_COUNT];
static char missing[CPU_LEVEL_COUNT][MISSING_BYTES];
static pthread_once_t built = PTHREAD_ONCE_INIT;

static void build(void)
{
    for (int l = 0; l < CPU_LEVEL_COUNT; l++) {
        supported[l] = tess_cpu_supports((cpu_level)l, missing[l], MISSING_BYTES);
        if (!supported[l])
            continue;
        if (l > 0)
            plain[l] = plain[l - 1];
        for (int i = 0; i < MAX_OVERRIDERS && levels[l].overriders[i] != NULL; i++)
            levels[l].overriders[i](&plain[l]);
        plain[l].name = levels[l].name;
        tess_kernels_widen(&plain[l], &tables[l]);
    }
}

tess_status tess_kernels_select(const char *name, const tess_kernels **kernels)
{
    pthread_once(&built, build);
    const char *from = "kernels";
    if (name == NULL) {
        name = getenv("TESSERA_CPU");
        from = "TESSERA_CPU";
    }
    int chosen = -1;
    for (int l = 0; l < CPU_LEVEL_COUNT; l++) {
        if (name == NULL || name[0] == '\0' ? supported[l] : strcmp(name, levels[l].name) == 0)
            chosen = l;
    }
    TESS_CHECK(chosen >= 0, TESS_E_INVALID, "%s '%s' is unknown: choose ref, avx2, avx512, avx512_bf16 or amx", from,
               name);
    TESS_CHECK(supported[chosen], TESS_E_UNSUPPORTED,
               "%s '%s': this machine lacks %s; leave it unset for the best it has", from, name, missing[chosen]);
    *kernels = &tables[chosen];
    return TESS_OK;
}
