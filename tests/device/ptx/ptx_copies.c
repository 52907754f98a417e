/* cp.async: copies from global to shared memory that take place when their thread waits for them. Until then nobody may
 * use the bytes. */
#include <string.h>

#include "device/ptx/ptx_machine_impl.h"

static void add_pending(ptx_machine *m, ptx_warp *w, ptx_pending copy)
{
    if (w->n_pending == w->pending_room) {
        const int room = w->pending_room > 0 ? 2 * w->pending_room : 256;
        ptx_pending *larger = ptx_heap_own((size_t)room * sizeof(copy));
        if (larger == NULL)
            ptx_stop(m, w, copy.lane, "no memory for copies");
        if (w->n_pending > 0)
            memcpy(larger, w->pending, (size_t)w->n_pending * sizeof(copy));
        ptx_heap_own_free(w->pending);
        w->pending = larger;
        w->pending_room = room;
    }
    w->pending[w->n_pending++] = copy;
}

void ptx_copy(ptx_machine *m, ptx_warp *w, const ptx_instruction *i, uint32_t lanes)
{
    const uint64_t *to = ptx_lanes(m, w, i->base), *from = ptx_lanes(m, w, i->from_base);
    uint64_t sources[PTX_WARP], targets[PTX_WARP];
    uint32_t reads = 0;
    ptx_need(m, w, i->base, lanes, "an address");
    ptx_need(m, w, i->from_base, lanes, "an address");
    if (i->n_in > 0)
        ptx_need(m, w, i->in[0], lanes, "a size");
    for (int lane = 0; lane < PTX_WARP; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        const uint64_t bytes = i->n_in > 0 ? (uint32_t)ptx_lanes(m, w, i->in[0])[lane] : (uint64_t)i->bytes;
        sources[lane] = from[lane] + (uint64_t)i->from_offset;
        targets[lane] = (uint32_t)(to[lane] + (uint64_t)i->offset);
        if (bytes > (uint64_t)i->bytes)
            ptx_stop(m, w, lane, "out of range: a copy of %llu bytes of %d", (unsigned long long)bytes, i->bytes);
        if (sources[lane] % (uint64_t)i->bytes != 0 || targets[lane] % (uint64_t)i->bytes != 0)
            ptx_stop(m, w, lane, "misaligned: %d bytes from %llx to %llu", i->bytes, (unsigned long long)sources[lane],
                     (unsigned long long)targets[lane]);
        if (bytes > 0)
            ptx_global_at(m, w, lane, sources[lane], (int)bytes, PTX_READS);
        if (ptx_take_unwritten(m))
            ptx_stop(m, w, lane,
                     "no value: it copies bytes of an allocation that were never written, such as byte %llu",
                     (unsigned long long)m->source.at);
        ptx_shared_at(m, w, lane, targets[lane], i->bytes, PTX_WRITES);
        memset(m->shared_state + targets[lane], PTX_IN_FLIGHT, (size_t)i->bytes);
        reads |= (uint32_t)(bytes > 0) << lane;
        add_pending(m, w,
                    (ptx_pending){sources[lane], (uint32_t)targets[lane], (uint8_t)bytes,
                                  (uint8_t)((uint64_t)i->bytes - bytes), (uint8_t)lane, w->copy_group[lane]});
    }
    ptx_count_global(m, sources, reads, i->bytes, false);
    ptx_count_shared(m, targets, lanes, i->bytes);
}

void ptx_copy_commit(ptx_warp *w, uint32_t lanes)
{
    for (int lane = 0; lane < PTX_WARP; lane++)
        w->copy_group[lane] += lanes >> lane & 1;
}

void ptx_copy_wait(ptx_machine *m, ptx_warp *w, int newest, uint32_t lanes)
{
    int left = 0;
    m->counts->waits += m->sample != NULL && w->n_pending > 0 && newest == 0;
    for (int c = 0; c < w->n_pending; c++) {
        const ptx_pending copy = w->pending[c];
        if (!(lanes >> copy.lane & 1) || (uint64_t)copy.group + (unsigned)newest >= w->copy_group[copy.lane]) {
            w->pending[left++] = copy;
            continue;
        }
        const int bytes = copy.bytes + copy.zeros;
        memset(m->shared_state + copy.to, 0, (size_t)bytes);
        char *to = ptx_shared_at(m, w, copy.lane, copy.to, bytes, PTX_WRITES);
        memcpy(to, (const char *)(uintptr_t)copy.from, copy.bytes);
        memset(to + copy.bytes, 0, copy.zeros);
    }
    w->n_pending = left;
}
