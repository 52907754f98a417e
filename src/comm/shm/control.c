#include "comm/shm/control.h"

typedef struct control_layout {
    uint64_t posts, inlines, channels, stages, end;
} control_layout;

static uint64_t page(uint64_t n)
{
    return (n + 4095) / 4096 * 4096;
}

static control_layout layout_of(int size)
{
    uint64_t W = (uint64_t)size;
    control_layout l;
    l.posts = page(sizeof(tess_control));
    l.channels = page(l.posts + CONTROL_SLOTS * W * sizeof(tess_post));
    l.inlines = page(l.channels + W * W * sizeof(uint64_t));
    l.stages = page(l.inlines + CONTROL_SLOTS * W * tess_control_inline_bytes(size));
    l.end = l.stages + W * CONTROL_AREAS * tess_control_stage_bytes(size);
    return l;
}

uint64_t tess_control_bytes(int size)
{
    return layout_of(size).end;
}

tess_post *tess_control_post(tess_control *control, int size, uint64_t sequence, int rank)
{
    uint64_t slot = sequence % CONTROL_SLOTS;
    return (tess_post *)((uint8_t *)control + layout_of(size).posts) + slot * (uint64_t)size + (uint64_t)rank;
}

uint8_t *tess_control_inline(tess_control *control, int size, uint64_t sequence, int rank)
{
    uint64_t slot = sequence % CONTROL_SLOTS;
    return (uint8_t *)control + layout_of(size).inlines +
           (slot * (uint64_t)size + (uint64_t)rank) * tess_control_inline_bytes(size);
}

uint8_t *tess_control_stage(tess_control *control, int size, int rank, int area)
{
    return (uint8_t *)control + layout_of(size).stages +
           ((uint64_t)rank * CONTROL_AREAS + (uint64_t)area) * tess_control_stage_bytes(size);
}

_Atomic uint64_t *tess_control_channel(tess_control *control, int size, int from, int to)
{
    return (_Atomic uint64_t *)((uint8_t *)control + layout_of(size).channels) + (uint64_t)from * (uint64_t)size +
           (uint64_t)to;
}
