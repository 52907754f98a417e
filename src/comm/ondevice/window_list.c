/* The list of a team's windows, and what ranks warn of if they cannot read them. */
#include "comm/ondevice/ondevice.h"

#include <stdio.h>

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

void ondevice_warn(const tess_team *team, const char *what)
{
    char text[512];
    snprintf(text, sizeof(text), "team '%s': %s on memory of devices go through memory of the host, because %s",
             team->name, what, tess_error_message());
    tess_runtime_warn(team->runtime, text);
}

bool ondevice_all_can(const tess_team *team, const int32_t *can, const char *what)
{
    int host = tess_team_host(team, team->rank), first = -1;
    bool all = true;
    for (int r = 0; r < team->size; r++) {
        all = all && can[r] != 0;
        first = first < 0 && can[r] == 0 && tess_team_host(team, r) == host ? r : first;
    }
    if (first == team->rank && what != NULL)
        ondevice_warn(team, what);
    return all;
}
