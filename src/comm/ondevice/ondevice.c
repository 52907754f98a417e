/* Manages the device of a runtime, and decides which operations run on it. */
#include "comm/ondevice/ondevice.h"

#include <string.h>

#include "base/core/rng.h"
#include "comm/ways.h"
#include "base/mem/scoped.h"

enum { KIND_BYTES = COMM_EXCHANGE_BYTES };

/* ---- The state of a team ---- */
void tess_ondevice_end(tess_team *team)
{
    struct comm_device_team *t = team->on_device;
    if (t == NULL)
        return;
    tess_device *device = team->runtime->device->device;
    tess_hosts_unlink(team, team->broken == TESS_OK);
    ondevice_forget_windows(team);
    for (int i = 0; i <= CONTROL_IN_FLIGHT; i++)
        tess_event_destroy(&t->ready[i]);
    tess_event_destroy(&t->moved);
    ondevice_message_end(team);
    tess_stream_destroy(&t->stream);
    tess_device_free(device, t->finite);
    tess_device_free_pinned(device, t->finite_seen);
    tess_device_free_pinned(device, t->stage.memory);
    tess_mem_free(team->runtime->mem, t->runs);
    tess_mem_free(team->runtime->mem, t);
    team->on_device = NULL;
}

static tess_status fill_team(tess_team *team)
{
    tess_device *device = team->runtime->device->device;
    struct comm_device_team *t = team->on_device;
    TESS_TRY(tess_device_stream(device, 1, team->runtime->kernels, &t->stream));
    for (int i = 0; i <= CONTROL_IN_FLIGHT; i++)
        TESS_TRY(tess_event_create(device, &t->ready[i]));
    TESS_TRY(tess_event_create(device, &t->moved));
    TESS_TRY(tess_device_alloc(device, TESS_POOL_COMM, sizeof(bool), "finite sums", (void **)&t->finite));
    return tess_device_alloc_pinned(device, TESS_POOL_COMM, sizeof(bool), "finite sums", (void **)&t->finite_seen);
}

tess_status tess_ondevice_begin(tess_team *team)
{
    void *memory;
    if (team->on_device != NULL)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc(team->runtime->mem, TESS_POOL_MISC, sizeof(*team->on_device), "team on a device", &memory));
    team->on_device = memory;
    tess_status status = fill_team(team);
    if (status != TESS_OK)
        tess_ondevice_end(team);
    return status;
}

/* ---- The choice of operations ---- */
/* Sets *is if `memory` is live memory of the device; leaves it unchanged for NULL. Freed device memory may belong to
 * the host by now. */
static tess_status look_at(const tess_device *device, const char *which, const void *memory, int *is)
{
    if (memory == NULL)
        return TESS_OK;
    const tess_device_block *block = tess_device_find(device, memory);
    bool found = block != NULL && !block->freed;
    TESS_CHECK(*is < 0 || *is == found, TESS_E_INVALID,
               "`%s` is memory of %s, another buffer is not: give both of one kind", which,
               found ? device->properties.name : "the host");
    *is = found;
    return TESS_OK;
}

static tess_status find_kind(const tess_work *work, bool *is_device)
{
    const tess_device *device = work->team->runtime->device->device;
    int is = -1;
    TESS_TRY(look_at(device, "in", work->in, &is));
    TESS_TRY(look_at(device, "out", work->out, &is));
    for (int i = 0; work->steps != NULL && i < work->n_steps; i++) {
        TESS_TRY(look_at(device, "sum", work->steps[i].y, &is));
        TESS_TRY(look_at(device, "addend", work->steps[i].x, &is));
    }
    *is_device = is == 1;
    return TESS_OK;
}

static tess_status place(tess_work *work)
{
    bool is_device = false;
    TESS_TRY(find_kind(work, &is_device));
    if (!is_device)
        return TESS_OK;
    TESS_TRY(tess_ondevice_begin(work->team));
    if (tess_work_is_message(work)) {
        work->device.is = work->in_bytes + work->out_bytes > 0;
        return TESS_OK;
    }
    const comm_way *way = tess_way_of_work(work);
    work->device.is = true;
    work->backend = way->backend;
    work->fp.flags = (work->fp.flags & TESS_FINGERPRINT_ACCUMULATE) | way->flags;
    return TESS_OK;
}

/* ---- The runtime's device ---- */
/* Returns the kind of a device: "cuda" for "cuda:0 (NVIDIA H100 PCIe)". */
static void kind_of(const tess_device *device, char kind[KIND_BYTES])
{
    const char *name = tess_device_get_properties(device)->name;
    size_t n = strcspn(name, ": ");
    memset(kind, 0, KIND_BYTES);
    memcpy(kind, name, n < KIND_BYTES ? n : KIND_BYTES - 1);
}

static tess_status check_kinds(tess_runtime *rt, const tess_device *device)
{
    char mine[KIND_BYTES];
    const char(*all)[KIND_BYTES] = (const char(*)[KIND_BYTES])(void *)rt->team->lists.exchanged;
    kind_of(device, mine);
    TESS_TRY(tess_team_exchange(rt->team, TESS_TRACE_ALL_GATHER, 0, tess_hash_text("device"),
                                __builtin_return_address(0), mine, rt->team->lists.exchanged, KIND_BYTES));
    for (int r = 1; r < rt->world; r++)
        TESS_CHECK(memcmp(all[r], all[0], KIND_BYTES) == 0, TESS_E_MISMATCH,
                   "rank 0 has device '%.15s' and rank %d '%.15s': all ranks of a job need devices of one kind; give "
                   "all the same job.device",
                   all[0], r, all[r]);
    return TESS_OK;
}

tess_status tess_runtime_use_device(tess_runtime *rt, tess_device *device, tess_stream *stream)
{
    void *memory;
    TESS_CHECK(rt != NULL && device != NULL && stream != NULL && rt->device == NULL, TESS_E_INVALID,
               "tess_runtime_use_device: a NULL argument, or the runtime has a device");
    if (rt->dry != NULL) {
        rt->dry->device = device;
        return TESS_OK;
    }
    TESS_TRY_CTX(check_kinds(rt, device), "devices of the ranks");
    if (tess_device_get_properties(device)->host_memory)
        return TESS_OK;
    TESS_TRY(tess_mem_alloc(rt->mem, TESS_POOL_MISC, sizeof(*rt->device), "device of collectives", &memory));
    rt->device = memory;
    rt->device->device = device;
    rt->device->after = stream;
    rt->device->begin = tess_ondevice_begin;
    rt->place = place;
    return TESS_OK;
}

void tess_runtime_forget_device(tess_runtime *rt)
{
    if (rt->device == NULL)
        return;
    for (tess_team *team = rt->teams; team != NULL; team = team->next)
        tess_ondevice_end(team);
    tess_mem_drop(&rt->device);
    rt->place = NULL;
}
