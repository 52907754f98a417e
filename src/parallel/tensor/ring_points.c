#include "parallel/tensor/ring_points.h"

#include "base/core/round_up.h"
#include "base/mem/scoped.h"
#include "comm/device_windows.h"
#include "device/device.h"

enum { BUFFERS = 2, WAYS = 2, ALIGN = 256 };

struct tess_ring {
    tess_mem *mem;
    tess_team *team;
    tess_device *device;
    size_t bytes;                  /* size of a buffer, aligned */
    char *shared, *window, *alone; /* memory of all ranks of the host, a window of the device, or memory of its own */
    char *buffers[BUFFERS];
    tess_work *works[BUFFERS][WAYS]; /* messages that arrive, and that leave */
    tess_ring_traffic traffic;
};

static tess_status begin(void *self, int turn, bool sends, const tess_hop *hop)
{
    tess_ring *r = self;
    tess_work **work = &r->works[turn][sends];
    tess_team_label(r->team, hop->what, hop->leaf);
    tess_status status =
        sends ? tess_send(r->team, hop->memory, hop->bytes, TESS_U8, hop->peer, (uint32_t)hop->leaf, work)
              : tess_recv(r->team, hop->memory, hop->bytes, TESS_U8, hop->peer, (uint32_t)hop->leaf, work);
    tess_team_label(r->team, NULL, -1);
    if (!sends) {
        r->traffic.leaves++;
        r->traffic.bytes += hop->bytes;
    }
    return status;
}

static tess_status end(void *self, int turn, bool sends)
{
    tess_ring *r = self;
    tess_work **work = &r->works[turn][sends];
    if (*work == NULL)
        return TESS_OK;
    if (!sends && tess_work_done(*work))
        r->traffic.in_time++;
    return tess_work_wait(work, 0);
}

tess_ring_points tess_ring_get_points(tess_ring *r)
{
    return (tess_ring_points){.self = r, .buffers = {r->buffers[0], r->buffers[1]}, .begin = begin, .end = end};
}

tess_ring_traffic tess_ring_get_traffic(const tess_ring *r)
{
    return r->traffic;
}

size_t tess_ring_device_bytes(size_t bytes)
{
    const size_t own = BUFFERS * tess_round_up(bytes, ALIGN), least = TESS_DEVICE_WINDOW_LEAST;
    return own > least ? own : least;
}

/* The receiver copies a leaf from memory that it can read, so that the sender may compute meanwhile. */
static tess_status alloc(tess_ring *r)
{
    const size_t own = BUFFERS * r->bytes;
    char *first;
    if (!tess_device_get_properties(r->device)->host_memory) {
        TESS_TRY(tess_device_outbox_alloc(r->team, TESS_POOL_COMM, tess_ring_device_bytes(r->bytes), "leaves",
                                          (void **)&r->window));
        first = r->window;
    } else if (tess_team_is_local(r->team)) {
        TESS_TRY(tess_shared_alloc(r->team, TESS_POOL_COMM, (size_t)tess_team_size(r->team) * own, "leaves",
                                   (void **)&r->shared));
        first = r->shared + (size_t)tess_team_rank(r->team) * own;
    } else {
        TESS_TRY(tess_device_alloc(r->device, TESS_POOL_COMM, own, "leaves", (void **)&r->alone));
        first = r->alone;
    }
    for (int i = 0; i < BUFFERS; i++)
        r->buffers[i] = first + (size_t)i * r->bytes;
    return TESS_OK;
}

tess_status tess_ring_create(tess_mem *mem, tess_team *team, tess_stream *stream, size_t bytes, tess_ring **out)
{
    TESS_AUTO(tess_ring_destroy) tess_ring *r = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(mem, 1, "ring", &r));
    *r = (tess_ring){
        .mem = mem, .team = team, .device = tess_stream_device(stream), .bytes = tess_round_up(bytes, ALIGN)};
    TESS_TRY(alloc(r));
    *out = TESS_GIVE(r);
    return TESS_OK;
}

void tess_ring_destroy(tess_ring **handle)
{
    tess_ring *r = *handle;
    if (r == NULL)
        return;
    for (int i = 0; i < BUFFERS * WAYS; i++)
        if (r->works[i / WAYS][i % WAYS] != NULL)
            tess_work_cancel(&r->works[i / WAYS][i % WAYS]);
    tess_device_window_free(r->team, r->window);
    tess_shared_free(r->team, r->shared);
    tess_device_free(r->device, r->alone);
    tess_mem_drop(handle);
}
