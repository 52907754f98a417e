/* The list of a team's windows. */
#include "comm/ondevice/ondevice.h"

static bool holds(const ondevice_window *w, const void *memory)
{
    const uint8_t *at = memory;
    return at >= w->memory && (at < w->memory + w->bytes || at == w->memory);
}

const ondevice_window *ondevice_find(const tess_team *team, const void *memory)
{
    const ondevice_window *w = team->on_device != NULL ? team->on_device->windows : NULL;
    while (w != NULL && (!w->is_read || !holds(w, memory)))
        w = w->next;
    return w;
}

static const ondevice_window *find_number(const tess_team *team, uint64_t number)
{
    const ondevice_window *w = team->on_device->windows;
    while (w->number != number)
        w = w->next;
    return w;
}

const uint8_t *ondevice_peer(const tess_work *work, int rank)
{
    const tess_post *post = shm_post(work, rank);
    return rank == work->team->rank ? work->in : ondevice_shown(work->team, post->out_offset, rank) + post->in_offset;
}

const uint8_t *ondevice_shown(const tess_team *team, uint64_t number, int rank)
{
    const ondevice_window *w = find_number(team, number);
    return rank == team->rank ? w->memory : w->peers[rank];
}

void ondevice_close_peers(const tess_team *team, ondevice_window *w)
{
    for (int r = 0; r < team->size; r++)
        if (r != team->rank && w->peers[r] != NULL)
            tess_peer_release(team->runtime->device->device, w->peers[r]);
}

void ondevice_forget_windows(tess_team *team)
{
    while (team->on_device->windows != NULL) {
        ondevice_window *w = team->on_device->windows;
        team->on_device->windows = w->next;
        ondevice_close_peers(team, w);
        tess_mem_free(team->runtime->mem, w);
    }
}
