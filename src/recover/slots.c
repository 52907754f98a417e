#include "recover/slots.h"

void tess_slots_begin(tess_slots *slots, int n_ranks, int min, int max, double now_s)
{
    *slots = (tess_slots){.n = max > n_ranks ? max : n_ranks, .min = min > 0 ? min : n_ranks, .n_ranks = n_ranks};
    if (slots->n > TESS_SLOTS_MAX)
        slots->n = TESS_SLOTS_MAX;
    for (int slot = 0; slot < slots->n; slot++)
        slots->out_since_s[slot] = slot < n_ranks ? -1 : now_s;
}

static bool in_service(const tess_slots *slots, int slot)
{
    return slots->out_since_s[slot] < 0;
}

static bool is_due(const tess_slots *slots, int slot, double retry_s, double now_s)
{
    return !in_service(slots, slot) && now_s - slots->out_since_s[slot] >= retry_s;
}

/* 0: the configuration admits none. */
static int largest_world(const tess_slots *slots, const tess_worlds *worlds, int n_places)
{
    for (int n = n_places; n >= slots->min && n > 0; n--)
        if (worlds->admits(worlds->self, n))
            return n;
    return 0;
}

/* -1: no such rank. */
static int slot_of(const tess_slots *slots, int rank)
{
    for (int slot = 0; slot < slots->n && rank >= 0; slot++)
        if (in_service(slots, slot) && rank-- == 0)
            return slot;
    return -1;
}

static int count_in_service(const tess_slots *slots)
{
    int n = 0;
    for (int slot = 0; slot < slots->n; slot++)
        n += in_service(slots, slot);
    return n;
}

bool tess_slots_fail(tess_slots *slots, int rank, const tess_worlds *worlds, double now_s)
{
    int slot = slot_of(slots, rank);
    if (slot < 0 || ++slots->n_failures[slot] < TESS_SLOT_FAILURES)
        return false;
    int n = largest_world(slots, worlds, count_in_service(slots) - 1);
    if (n == 0)
        return false;
    slots->out_since_s[slot] = now_s;
    slots->n_ranks = n;
    return true;
}

int tess_slots_possible(const tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s)
{
    int n = 0;
    for (int slot = 0; slot < slots->n; slot++)
        n += in_service(slots, slot) || is_due(slots, slot, retry_s, now_s);
    return largest_world(slots, worlds, n);
}

void tess_slots_return(tess_slots *slots, const tess_worlds *worlds, double retry_s, double now_s)
{
    slots->n_ranks = tess_slots_possible(slots, worlds, retry_s, now_s);
    for (int slot = 0; slot < slots->n; slot++)
        if (is_due(slots, slot, retry_s, now_s)) {
            slots->out_since_s[slot] = -1;
            slots->n_failures[slot] = 0;
        }
}
