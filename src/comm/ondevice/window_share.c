/* Shows a block of device memory to the ranks of a host, and hides it again. */
#include "base/core/rng.h"
#include "base/mem/scoped.h"
#include "comm/ondevice/ondevice.h"

/* The message about a rank's block that is sent to the other ranks. */
typedef struct shown {
    tess_peer_handle handle;
    uint64_t bytes;
    int32_t status; /* result of the allocation; an error ends the call on all ranks */
    int32_t is_shown;
} shown;

/* ---- Showing ---- */
/* Maps the memory that the siblings show. Stops at the first failure; memory mapped by then is unmapped with the
 * window. */
static tess_status open_peers(const tess_team *team, ondevice_window *w, const shown *all)
{
    int host = tess_team_host(team, team->rank);
    for (int r = 0; r < team->size; r++) {
        if (r == team->rank || tess_team_host(team, r) != host)
            continue;
        TESS_CHECK(all[r].is_shown, TESS_E_UNSUPPORTED, "rank %d cannot show its memory", team->ranks[r]);
        TESS_TRY_CTX(
            tess_peer_import(team->runtime->device->device, &all[r].handle, all[r].bytes, (void **)&w->peers[r]),
            "memory of rank %d", team->ranks[r]);
    }
    return TESS_OK;
}

static tess_status first_failure(const tess_team *team, const shown *all, const char *what)
{
    for (int r = 0; r < team->size; r++) {
        tess_status status = (tess_status)all[r].status;
        if (status != TESS_OK && r != team->rank && all[team->rank].status == TESS_OK)
            TESS_FAIL(status, "rank %d could not get %llu bytes on its device for '%s'", team->ranks[r],
                      (unsigned long long)all[r].bytes, what);
        TESS_TRY(status);
    }
    return TESS_OK;
}

/* Lets the siblings map each other's memory. *is_read: all of them succeeded. */
static tess_status reach_siblings(tess_team *team, ondevice_window *w, const shown *all, const void *site)
{
    /* otherwise the error is that of exporting the block */
    bool shows = team->n_local == 1 || all[team->rank].is_shown != 0;
    int32_t mine = shows && open_peers(team, w, all) == TESS_OK;
    int32_t *everybody = (int32_t *)(void *)team->lists.exchanged;
    TESS_TRY(tess_team_exchange(team, TESS_TRACE_WINDOW_ALLOC, 0, tess_hash_text("reached"), site, &mine, everybody,
                                sizeof(mine)));
    w->is_read = ondevice_all_can(team, everybody, w->number == 0 ? "collectives" : NULL);
    return TESS_OK;
}

/* `status`: the result of this rank's earlier part; if it failed, `memory` may be NULL. */
tess_status ondevice_window_show(tess_team *team, tess_status status, void *memory, size_t bytes, bool owned,
                                 const char *what, const void *site)
{
    tess_runtime *rt = team->runtime;
    tess_device *device = rt->device->device;
    size_t n = (size_t)team->size;
    void *block = NULL;
    shown mine = {.bytes = bytes, .status = status}, *all;
    ondevice_window *w = NULL;
    TESS_TRY(TESS_NEW(rt->mem, n, "windows of a device", &all));
    TESS_GOTO(tess_mem_alloc(rt->mem, TESS_POOL_MISC, sizeof(*w) + n * sizeof(w->peers[0]), "window", &block), none);
    w = block;
    if (mine.status == TESS_OK && team->n_local > 1)
        mine.is_shown = tess_peer_export(device, memory, &mine.handle) == TESS_OK;
    TESS_GOTO(
        tess_team_exchange(team, TESS_TRACE_WINDOW_ALLOC, 0, tess_hash_text("device"), site, &mine, all, sizeof(mine)),
        window);
    TESS_GOTO(first_failure(team, all, what), window);
    *w = (ondevice_window){.memory = memory, .bytes = bytes, .owned = owned};
    w->number = team->on_device->n_windows++;
    TESS_GOTO(reach_siblings(team, w, all, site), opened);
    tess_team_lock(team);
    w->next = team->on_device->windows;
    team->on_device->windows = w;
    tess_team_unlock(team);
    tess_mem_free(rt->mem, all);
    return TESS_OK;
opened:
    ondevice_close_peers(team, w);
window:
    tess_mem_free(rt->mem, w);
none:
    tess_mem_free(rt->mem, all);
    return status;
}

/* ---- Hiding ---- */
static ondevice_window *take_out(tess_team *team, const void *memory)
{
    tess_team_lock(team);
    ondevice_window **at = &team->on_device->windows;
    while (*at != NULL && (*at)->memory != memory)
        at = &(*at)->next;
    ondevice_window *w = *at;
    if (w != NULL)
        *at = w->next;
    tess_team_unlock(team);
    return w;
}

/* Hides a window. Ranks meet before, when none of them reads it any more, and after, when all have unmapped it. A
 * broken team does not meet. */
void ondevice_window_hide(tess_team *team, void *memory, const void *site)
{
    if (memory == NULL || team == NULL || team->on_device == NULL)
        return;
    ondevice_window *w = take_out(team, memory);
    if (w == NULL)
        return;
    uint64_t tag = tess_hash_text("device");
    tess_status status = tess_team_exchange(team, TESS_TRACE_WINDOW_FREE, 0, tag, site, NULL, NULL, 0);
    ondevice_close_peers(team, w);
    if (status == TESS_OK)
        tess_team_exchange(team, TESS_TRACE_WINDOW_FREE, 0, tag + 1, site, NULL, NULL, 0);
    if (w->owned)
        tess_device_free(team->runtime->device->device, memory);
    tess_mem_free(team->runtime->mem, w);
}

/* ---- Blocks that the team owns ---- */
tess_status ondevice_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, const void *site,
                                  void **out)
{
    tess_device *device = team->runtime->device->device;
    *out = NULL;
    tess_status status = tess_device_alloc(device, pool, bytes, what, out);
    status = ondevice_window_show(team, status, *out, bytes, true, what, site);
    if (status != TESS_OK) {
        tess_device_free(device, *out);
        *out = NULL;
    }
    return status;
}
