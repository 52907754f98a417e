/* Faults of numbers: one wrong element of a tensor. */
#include <math.h>
#include <string.h>

#include "base/core/rng.h"
#include "inject/inject_impl.h"

static bool has_infinity(tess_dtype dtype)
{
    return dtype == TESS_F32 || dtype == TESS_BF16 || dtype == TESS_F16;
}

static uint64_t infinity_of(tess_dtype dtype)
{
    return dtype == TESS_F32 ? 0x7f800000u : dtype == TESS_BF16 ? 0x7f80u : 0x7c00u;
}

static uint64_t nan_of(tess_dtype dtype)
{
    return dtype == TESS_F32 ? 0x7fc00000u : dtype == TESS_BF16 ? 0x7fc0u : 0x7e00u;
}

static void spoil(const tess_fault *f, void *data, size_t n, tess_dtype dtype)
{
    size_t size = tess_dtype_size(dtype);
    uint8_t *at = (uint8_t *)data + tess_rng_u64(f->seed, TESS_RNG_FAULT, 3, 0) % n * size;
    uint64_t word = 0;
    memcpy(&word, at, size < sizeof(word) ? size : sizeof(word));
    if (f->kind == TESS_FAULT_NAN)
        word = nan_of(dtype);
    else if (f->kind == TESS_FAULT_INF)
        word = infinity_of(dtype);
    else
        word ^=
            UINT64_C(1) << (f->bit >= 0 ? (uint64_t)f->bit : tess_rng_u64(f->seed, TESS_RNG_FAULT, 4, 0)) % (8 * size);
    memcpy(at, &word, size < sizeof(word) ? size : sizeof(word));
}

bool tess_inject_tensor(tess_runtime *rt, tess_fault_point what, const char *name, void *data, size_t n,
                        tess_dtype dtype)
{
    tess_faults *faults = tess_inject_faults(rt);
    bool spoilt = false;
    for (int i = 0; faults != NULL && i < faults->n; i++) {
        tess_fault *f = &faults->fault[i];
        if (n == 0 || f->kind < TESS_FAULT_NAN || (f->kind != TESS_FAULT_FLIP && !has_infinity(dtype)) ||
            (f->tensor[0] != '\0' && strcmp(f->tensor, name) != 0) || !tess_fault_is_due(faults, f, what))
            continue;
        spoil(f, data, n, dtype);
        spoilt = true;
    }
    return spoilt;
}
