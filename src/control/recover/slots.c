#include "control/recover/slots.h"

#include <stdio.h>
#include <string.h>

void tess_slots_begin(tess_slots *slots, int n_ranks, int min, int max, double now_s)
{
    *slots = (tess_slots){.n = max > n_ranks ? max : n_ranks, .min = min > 0 ? min : n_ranks, .n_ranks = n_ranks};
    if (slots->n > TESS_SLOTS_MAX)
        slots->n = TESS_SLOTS_MAX;
    slots->n_groups = slots->n;
    for (int slot = 0; slot < slots->n; slot++) {
        slots->group[slot] = slot;
        slots->out_since_s[slot] = slot < n_ranks ? -1 : now_s;
    }
}

void tess_slots_begin_hosts(tess_slots *slots, int min)
{
    *slots = (tess_slots){.min = min};
}

void tess_slots_add_host(tess_slots *slots, const char *host, int n_ranks)
{
    int group = slots->n_groups++;
    snprintf(slots->host[group], sizeof(slots->host[group]), "%s", host);
    slots->out_since_s[group] = -1;
    for (int i = 0; i < n_ranks && slots->n < TESS_SLOTS_MAX; i++)
        slots->group[slots->n++] = group;
    slots->n_ranks = slots->n;
}

static bool in_service(const tess_slots *slots, int slot)
{
    return slots->out_since_s[slots->group[slot]] < 0;
}

static bool has_been_out(const tess_slots *slots, int group, double retry_s, double now_s)
{
    return slots->out_since_s[group] >= 0 && now_s - slots->out_since_s[group] >= retry_s;
}

static bool is_due(const tess_slots *slots, int slot, double retry_s, double now_s)
{
    int group = slots->group[slot];
    bool there = slots->host[group][0] == '\0' || slots->answers[group];
    return there && has_been_out(slots, group, retry_s, now_s);
}

/* Returns the largest number of ranks from `least` to `n_places` that the configuration admits; 0: none. */
static int largest_admitted(const tess_worlds *worlds, int n_places, int least)
{
    for (int n = n_places; n >= least && n > 0; n--)
        if (worlds->admits(worlds->self, n))
            return n;
    return 0;
}

static int largest_world(const tess_slots *slots, const tess_worlds *worlds, int n_places)
{
    return largest_admitted(worlds, n_places, slots->min > 0 ? slots->min : slots->n);
}

/* Returns how many places stay in service when a group is left out. */
static int places_without(const tess_slots *slots, int group)
{
    int n = 0;
    for (int slot = 0; slot < slots->n; slot++)
        n += in_service(slots, slot) && slots->group[slot] != group;
    return n;
}

int tess_slots_after_loss(const tess_slots *slots, const tess_worlds *worlds, int least)
{
    int most = 0;
    for (int group = 0; group < slots->n_groups; group++) {
        int n = slots->out_since_s[group] < 0 ? largest_admitted(worlds, places_without(slots, group), least) : 0;
        most = n > most ? n : most;
    }
    return most;
}

int tess_slots_group_of(const tess_slots *slots, int rank, const char *host)
{
    for (int g = 0; g < slots->n_groups && host[0] != '\0'; g++)
        if (strcmp(slots->host[g], host) == 0)
            return g;
    for (int slot = 0; slot < slots->n && rank >= 0; slot++)
        if (in_service(slots, slot) && rank-- == 0)
            return slots->group[slot];
    return -1;
}

int tess_slots_ranks_of(const tess_slots *slots, int group)
{
    int n = 0, rank = 0;
    for (int slot = 0; slot < slots->n; slot++)
        if (in_service(slots, slot) && rank++ < slots->n_ranks)
            n += slots->group[slot] == group;
    return n;
}

bool tess_slots_fail(tess_slots *slots, int group, const tess_worlds *worlds, double now_s)
{
    if (group < 0 || slots->out_since_s[group] >= 0 || ++slots->n_failures[group] < TESS_SLOT_FAILURES)
        return false;
    int n = largest_world(slots, worlds, places_without(slots, group));
    if (n == 0)
        return false;
    slots->out_since_s[group] = now_s;
    slots->answers[group] = false;
    slots->n_ranks = n;
    return true;
}

int tess_slots_to_ask(const tess_slots *slots, double retry_s, double now_s)
{
    for (int g = 0; g < slots->n_groups; g++)
        if (slots->host[g][0] != '\0' && !slots->answers[g] && has_been_out(slots, g, retry_s, now_s))
            return g;
    return -1;
}

void tess_slots_asked(tess_slots *slots, int group, bool answers, double now_s)
{
    slots->answers[group] = answers;
    if (!answers)
        slots->out_since_s[group] = now_s;
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
            slots->out_since_s[slots->group[slot]] = -1;
            slots->n_failures[slots->group[slot]] = 0;
        }
}
