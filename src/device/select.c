/* The kernel tables, one for each level. Each is the table of the level below with some rows replaced, and is built
 * once. */
#include <pthread.h>
#include <string.h>

#include "base/core/variables.h"
#include "device/cpuid.h"
#include "device/kernel_vote.h"
#include "device/kernels.h"

enum { MISSING_BYTES = 256, MAX_OVERRIDERS = 3 };

#define LEVELS "ref, avx2, avx512, avx512_bf16 or amx"

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

/* Constants that depend on this machine: they are computed once, and the same for all. */
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

static int find_level(const char *name)
{
    int l = CPU_LEVEL_COUNT - 1;
    while (l >= 0 && strcmp(name, levels[l].name) != 0)
        l--;
    return l;
}

/* Finds the highest level that this process may use. */
static tess_status find_best(int *best)
{
    const char *most = tess_variable_value(TESS_VAR_CPU_MOST);
    int limit = most == NULL || most[0] == '\0' ? CPU_LEVEL_COUNT - 1 : find_level(most);
    TESS_CHECK(limit >= 0, TESS_E_INVALID, "TESSERA_CPU_MOST '%s' is unknown: choose " LEVELS, most);
    pthread_once(&built, build);
    for (*best = limit; !supported[*best];)
        --*best; /* ends at `ref`, which every machine can run */
    return TESS_OK;
}

/* Returns the fastest level up to `most`, which is supported. */
static int find_fastest(int most)
{
    while (!supported[most] || !tess_cpu_gains((cpu_level)most))
        most--; /* ends at `ref` */
    return most;
}

static tess_status find_chosen(const char *name, int *chosen, bool *is_fixed)
{
    const char *from = "kernels";
    int best = CPU_REF;
    if (name == NULL) {
        name = tess_variable_value(TESS_VAR_CPU);
        from = "TESSERA_CPU";
    }
    TESS_TRY(find_best(&best));
    *is_fixed = name != NULL && name[0] != '\0';
    *chosen = *is_fixed ? find_level(name) : find_fastest(best);
    TESS_CHECK(*chosen >= 0, TESS_E_INVALID, "%s '%s' is unknown: choose " LEVELS, from, name);
    TESS_CHECK(supported[*chosen], TESS_E_UNSUPPORTED,
               "%s '%s': this machine lacks %s; leave it unset for the fastest that it has", from, name,
               missing[*chosen]);
    TESS_CHECK(*chosen <= best, TESS_E_UNSUPPORTED, "%s '%s': TESSERA_CPU_MOST allows '%s' at most", from, name,
               levels[best].name);
    return TESS_OK;
}

tess_status tess_kernels_select(const char *name, const tess_kernels **kernels)
{
    int chosen;
    bool is_fixed;
    TESS_TRY(find_chosen(name, &chosen, &is_fixed));
    *kernels = &tables[chosen];
    return TESS_OK;
}

tess_status tess_kernels_offer_of(const char *name, tess_kernels_offer *offer)
{
    int chosen;
    bool is_fixed;
    TESS_TRY(find_chosen(name, &chosen, &is_fixed));
    *offer = (tess_kernels_offer){.level = chosen, .is_fixed = is_fixed};
    return TESS_OK;
}

static const tess_kernels_offer *offer_at(const tess_kernels_offer *first, size_t stride, int i)
{
    return (const tess_kernels_offer *)(const void *)((const uint8_t *)first + (size_t)i * stride);
}

tess_kernels_choice tess_kernels_vote(const tess_kernels_offer *first, size_t stride, int n)
{
    const tess_kernels_offer *least = first, *most = first, *fixed = NULL;
    int least_of = 0, fixed_by = -1, refused_by = -1;
    for (int i = 0; i < n; i++) {
        const tess_kernels_offer *offer = offer_at(first, stride, i);
        if (offer->level < least->level) {
            least = offer;
            least_of = i;
        }
        most = offer->level > most->level ? offer : most;
        if (offer->is_fixed && fixed == NULL) {
            fixed = offer;
            fixed_by = i;
        }
    }
    for (int i = 0; i < n && fixed != NULL && refused_by < 0; i++) {
        const tess_kernels_offer *offer = offer_at(first, stride, i);
        if (offer->level < fixed->level || (offer->is_fixed && offer->level > fixed->level))
            refused_by = i;
    }
    return (tess_kernels_choice){.level = fixed == NULL ? least->level : fixed->level,
                                 .most = most->level,
                                 .least_of = least_of,
                                 .fixed_by = fixed_by,
                                 .refused_by = refused_by};
}

const char *tess_kernels_name(int level)
{
    return level >= 0 && level < CPU_LEVEL_COUNT ? levels[level].name : "?";
}

bool tess_kernels_have_bf16(const char *name)
{
    return find_level(name) >= CPU_AVX512_BF16;
}
