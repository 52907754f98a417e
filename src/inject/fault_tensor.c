/* Injects faults of numbers: one wrong element of a tensor. */
#include <math.h>
#include <string.h>

#include "base/core/rng.h"
#include "inject/inject_impl.h"

/* Bit patterns of infinity and NaN by dtype; 0: the dtype has none. */
static const struct {
    uint64_t infinity, nan;
} special[TESS_DTYPE_COUNT] = {
    [TESS_F32] = {0x7f800000, 0x7fc00000}, [TESS_BF16] = {0x7f80, 0x7fc0}, [TESS_F16] = {0x7c00, 0x7e00}};

static void corrupt(const tess_fault *f, void *data, size_t n, tess_dtype dtype)
{
    size_t size = tess_dtype_size(dtype);
    uint8_t *at = (uint8_t *)data + tess_rng_u64(f->seed, TESS_RNG_FAULT, 3, 0) % n * size;
    uint64_t word = 0;
    memcpy(&word, at, size < sizeof(word) ? size : sizeof(word));
    if (f->kind == TESS_FAULT_NAN)
        word = special[dtype].nan;
    else if (f->kind == TESS_FAULT_INF)
        word = special[dtype].infinity;
    else
        word ^=
            UINT64_C(1) << (f->bit >= 0 ? (uint64_t)f->bit : tess_rng_u64(f->seed, TESS_RNG_FAULT, 4, 0)) % (8 * size);
    memcpy(at, &word, size < sizeof(word) ? size : sizeof(word));
}

bool tess_inject_tensor(tess_runtime *rt, tess_fault_point what, const char *name, void *data, size_t n,
                        tess_dtype dtype)
{
    tess_faults *faults = tess_inject_faults(rt);
    bool corrupted = false;
    for (int i = 0; faults != NULL && i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (n == 0 || f->kind < TESS_FAULT_NAN || (f->kind != TESS_FAULT_FLIP && special[dtype].nan == 0) ||
            (f->tensor[0] != '\0' && strcmp(f->tensor, name) != 0) || !tess_fault_is_due(faults, f, what))
            continue;
        corrupt(f, data, n, dtype);
        corrupted = true;
    }
    return corrupted;
}
