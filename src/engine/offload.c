#include "engine/offload.h"

#include "base/mem/disk.h"
#include "base/mem/dry_mem.h"
#include "base/os/machine.h"
#include "base/text/text.h"
#include "comm/rejoin.h"
#include "parallel/fsdp/fsdp_offload.h"

struct tess_offload {
    tess_mem *mem;
    tess_pager *pager;
    tess_disk *files;
    tess_mem_disk disk;
};

unsigned tess_offload_pools(const tess_config *c)
{
    return (unsigned)c->offload.params << TESS_POOL_PARAMS | (unsigned)c->offload.grads << TESS_POOL_GRADS |
           (unsigned)c->offload.optimizer << TESS_POOL_OPTIMIZER |
           (unsigned)c->offload.activations << TESS_POOL_ACTIVATIONS;
}

static tess_status open_disk(tess_offload *o, tess_runtime *runtime, const tess_config *config)
{
    tess_persist *persist = tess_persist_disk_of(runtime);
    TESS_CHECK(persist != NULL || tess_persist_of(runtime) == NULL || !tess_config_offloads_state(config),
               TESS_E_INTERNAL,
               "offload: this rank's state is kept in memory by a launcher that has made no room for it on disk");
    TESS_TRY(tess_pager_create(o->mem, (size_t)config->offload.resident, &o->pager));
    TESS_TRY(tess_disk_create(o->mem, config->offload.folder, o->pager, &o->files));
    tess_disk_attach(o->files, &o->disk);
    return persist != NULL ? tess_persist_attach_disk(persist, &o->disk) : TESS_OK;
}

tess_status tess_offload_begin(tess_runtime *runtime, const tess_config *config, tess_offload **out)
{
    TESS_AUTO(tess_offload_end) tess_offload *o = NULL;
    tess_mem *mem = tess_runtime_mem(runtime);
    *out = NULL;
    if (!tess_config_offloads(config) || config->offload.folder[0] == '\0' || tess_mem_pager(mem) != NULL)
        return TESS_OK;
    TESS_TRY(TESS_NEW(mem, 1, "offload", &o));
    *o = (tess_offload){.mem = mem, .disk.pools = tess_offload_pools(config)};
    if (!tess_mem_is_dry(mem))
        TESS_TRY_CTX(open_disk(o, runtime, config), "offload");
    tess_mem_set_disk(mem, &o->disk);
    *out = TESS_GIVE(o);
    return TESS_OK;
}

/* Muon updates as many matrices at a time as there are ranks with a part of them. */
static int tensors_at_once(const tess_config *c)
{
    return c->optimizer.name == TESS_MUON
               ? (int)(c->parallelism.data_parallel_shard_degree * c->parallelism.context_parallel_degree *
                       c->parallelism.tensor_parallel_degree)
               : 1;
}

size_t tess_offload_resident(const tess_config *config, const tess_fsdp *fsdp, int64_t n_micro, size_t activations,
                             size_t *at_once)
{
    const size_t given = (size_t)config->offload.resident;
    const int n_tensors = tensors_at_once(config);
    *at_once = tess_fsdp_least_resident(fsdp, n_micro, n_tensors) + activations;
    if (given == 0)
        return tess_fsdp_resident_bytes(fsdp, n_micro, n_tensors) + activations;
    return given > *at_once ? given : *at_once;
}

void tess_offload_make_room(tess_mem *mem, const tess_config *config, const tess_fsdp *fsdp, size_t activations)
{
    size_t at_once;
    size_t resident = tess_offload_resident(config, fsdp, tess_config_leaves(config), activations, &at_once);
    tess_pager_make_room(tess_mem_pager(mem), resident, at_once);
}

void tess_offload_end(tess_offload **handle)
{
    tess_offload *o = *handle;
    if (o == NULL)
        return;
    tess_mem_set_disk(o->mem, NULL);
    tess_disk_destroy(&o->files);
    tess_pager_destroy(&o->pager);
    tess_mem_drop(handle);
}

tess_status tess_offload_check_space(const tess_config *config, double bytes)
{
    char needed[32], there[32];
    tess_os_space space;
    if (bytes == 0)
        return TESS_OK;
    TESS_TRY(tess_os_space_at(config->offload.folder, &space));
    TESS_CHECK((double)space.free >= bytes, TESS_E_NO_SPACE,
               "offload.folder: the ranks of this host would need %s on the disk of %s, which has %s free",
               tess_format_bytes(bytes, needed, sizeof(needed)), config->offload.folder,
               tess_format_bytes((double)space.free, there, sizeof(there)));
    return TESS_OK;
}
