/* Memory of fsdp. Gathered copies and gradient windows are shared with the peers where there are any. Alone it is
 * private, as systems give huge pages to private memory far sooner than to shared: a third of the time to touch it
 * first. Weights and sums of gradients have names, by which they outlive the process where there is a store. */
#include "parallel/fsdp/fsdp_impl.h"

#include <stdio.h>

#include "base/mem/named.h"

tess_status tess_fsdp_copy_alloc(tess_fsdp *fsdp, size_t bytes, void **out)
{
    static const char what[] = "gathered parameters";
    return fsdp->alone ? tess_mem_alloc(fsdp->mem, TESS_POOL_COMM, bytes, what, out)
                       : tess_shared_alloc(fsdp->shard_team, TESS_POOL_COMM, bytes, what, out);
}

void tess_fsdp_copy_free(tess_fsdp *fsdp, void *copy)
{
    if (fsdp->alone)
        tess_mem_free(fsdp->mem, copy);
    else
        tess_shared_free(fsdp->shard_team, copy);
}

tess_status tess_fsdp_window_alloc(tess_fsdp *fsdp, size_t bytes, void **out)
{
    static const char what[] = "gradient window";
    return fsdp->alone ? tess_mem_alloc(fsdp->mem, TESS_POOL_COMM, bytes, what, out)
                       : tess_window_alloc(fsdp->shard_team, TESS_POOL_COMM, bytes, what, out);
}

void tess_fsdp_window_free(tess_fsdp *fsdp, void *window)
{
    if (fsdp->alone)
        tess_mem_free(fsdp->mem, window);
    else
        tess_window_free(fsdp->shard_team, window);
}

tess_status tess_fsdp_persist_alloc(tess_unit *unit, tess_pool pool, const char *what, int number, size_t elements,
                                    float **out, bool *found)
{
    char name[112];
    size_t bytes;
    TESS_CHECK(!__builtin_mul_overflow(elements, sizeof(float), &bytes), TESS_E_NOMEM, "unit '%s': too many elements",
               unit->name);
    if (number >= 0)
        snprintf(name, sizeof(name), "%s %d of %s", what, number, unit->name);
    else
        snprintf(name, sizeof(name), "%s of %s", what, unit->name);
    *found = false;
    if (unit->fsdp->is_private)
        return tess_mem_alloc_private(unit->fsdp->mem, pool, name, bytes, (void **)out);
    return tess_mem_alloc_named(unit->fsdp->mem, pool, name, bytes, (void **)out, found);
}

void tess_fsdp_persist_free(tess_unit *unit, tess_pool pool, size_t elements, float *memory)
{
    if (unit->fsdp->is_private)
        tess_mem_free_private(unit->fsdp->mem, pool, elements * sizeof(float), memory);
    else
        tess_mem_free_named(unit->fsdp->mem, pool, elements * sizeof(float), memory);
}

static size_t codes_elements(const tess_unit *unit)
{
    return (unit->codes_bytes + sizeof(float) - 1) / sizeof(float);
}

/* By name, as master weights: of what is narrow there is nothing else. */
tess_status tess_fsdp_codes_alloc(tess_unit *unit)
{
    bool found;
    return unit->codes_bytes == 0 ? TESS_OK
                                  : tess_fsdp_persist_alloc(unit, TESS_POOL_PARAMS, "gathered form", -1,
                                                            codes_elements(unit), (float **)&unit->codes, &found);
}

void tess_fsdp_codes_free(tess_unit *unit)
{
    tess_fsdp_persist_free(unit, TESS_POOL_PARAMS, codes_elements(unit), (float *)(void *)unit->codes);
    unit->codes = NULL;
}
