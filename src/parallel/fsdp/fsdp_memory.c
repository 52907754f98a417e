/* Memory of gathered copies and gradient windows: shared with the peers where there are any. Alone it is private, as
 * systems give huge pages to private memory far sooner than to shared: a third of the time to touch it first. */
#include "parallel/fsdp/fsdp_impl.h"

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
