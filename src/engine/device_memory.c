#include "engine/device_memory.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "comm/agree.h"
#include "device/cuda/cuda_users.h"
#include "parallel/tensor/ring_points.h"
#include "parallel/tensor/tensor_points.h"
#include "tessera/comm.h"

/* One rank's needs on its device, and the memory that is free there. Ranks send it to each other as bytes. */
typedef struct device_claim {
    char place[32]; /* identifies the device on its host; "": no other process uses it */
    int32_t host, is_known;
    tess_device_need need;
    uint64_t left; /* bytes of free memory, shared by all ranks on the device */
} device_claim;

tess_device_need tess_device_need_of(const tess_engine *e, const tess_executor_options *o)
{
    tess_device_need need = {.activations = tess_executor_bytes(e->model, o) + (size_t)o->max_tokens * sizeof(float)};
    if (e->at.degree[TESS_AXIS_TP] > 1)
        need.exchanges +=
            tess_tensor_device_bytes(tess_mesh_team(e->mesh, "tp"), tess_executor_exchange_bytes(e->model, o));
    if (e->at.degree[TESS_AXIS_CP] > 1)
        need.exchanges += tess_tensor_device_bytes(e->context_team, tess_executor_context_bytes(e->model, o));
    if (e->at.degree[TESS_AXIS_CP] > 1 && o->context.rings)
        need.exchanges += tess_ring_device_bytes(tess_executor_ring_bytes(e->model, o));
    if (!e->compute.resident) /* resident shards have already been allocated */
        need.copies = tess_staging_bytes(e->model, &(tess_staging_options){.dtype = o->dtype});
    return need;
}

static uint64_t sum_of(const tess_device_need *need)
{
    return need->activations + need->exchanges + need->copies;
}

static tess_status make_claim(const tess_engine *e, const tess_device_need *need, device_claim *claim)
{
    size_t left;
    const tess_device_properties *p = tess_device_get_properties(e->compute.device);
    *claim = (device_claim){.host = tess_runtime_host(e->runtime), .need = *need};
    TESS_TRY(tess_device_memory_left(e->compute.device, &left));
    memcpy(claim->place, p->place, sizeof(claim->place));
    claim->is_known = left != SIZE_MAX;
    claim->left = left;
    return TESS_OK;
}

static bool share(const device_claim *a, const device_claim *b)
{
    return a == b || (a->place[0] != '\0' && a->host == b->host && strcmp(a->place, b->place) == 0);
}

static tess_status refuse(const tess_engine *e, const device_claim *mine, uint64_t need, int n)
{
    char needed[32], left[32], activations[32], exchanges[32], copies[32], users[320];
    const bool cut = e->config->training.context_leaves > 1; /* more ranks may divide the tokens */
    bool used = tess_cuda_describe_users(mine->place, users, sizeof(users)) > 0;
    return TESS_FAIL(
        TESS_E_INVALID,
        "device %s: %d rank%s would need %s of its memory, and %s is free%s%s (a rank: activations %s, exchanges %s, "
        "parameters and gradients of two units at a time %s). It takes %sless of training.local_batch_size or "
        "training.logit_bytes, or activation_checkpoint.mode=full, or %s. job.ignore_memory=true starts it as it is",
        tess_device_get_properties(e->compute.device)->name, n, n > 1 ? "s on it" : "",
        tess_format_bytes((double)need, needed, sizeof(needed)),
        tess_format_bytes((double)mine->left, left, sizeof(left)), used ? ": " : "", users,
        tess_format_bytes((double)mine->need.activations, activations, sizeof(activations)),
        tess_format_bytes((double)mine->need.exchanges, exchanges, sizeof(exchanges)),
        tess_format_bytes((double)mine->need.copies, copies, sizeof(copies)), n > 1 ? "fewer ranks a GPU, " : "",
        cut ? "more of parallelism.context_parallel_degree" : "training.passes=2 and more");
}

static tess_status check_claims(const tess_engine *e, const device_claim *all, int n, const device_claim *mine)
{
    uint64_t need = 0;
    int n_sharing = 0;
    for (int r = 0; r < n; r++) {
        need += share(mine, &all[r]) ? sum_of(&all[r].need) : 0;
        n_sharing += share(mine, &all[r]);
    }
    return mine->is_known != 0 && need > mine->left ? refuse(e, mine, need, n_sharing) : TESS_OK;
}

tess_status tess_device_memory_check(tess_engine *e, const tess_device_need *need)
{
    device_claim mine;
    TESS_AUTO(tess_mem_drop) device_claim *all = NULL;
    int n = tess_team_size(e->team);
    if (!e->compute.apart || e->config->job.ignore_memory) /* both are the same on all ranks */
        return TESS_OK;
    TESS_TRY(TESS_NEW(e->mem, n, "devices of ranks", &all));
    TESS_TRY(tess_team_agree(e->team, make_claim(e, need, &mine)));
    TESS_TRY(tess_all_gather(e->team, &mine, all, sizeof(mine), TESS_U8, NULL));
    return tess_team_agree(e->team, check_claims(e, all, n, &all[tess_team_rank(e->team)]));
}
