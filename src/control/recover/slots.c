#include "control/recover/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `n` places and `n_groups` groups. */
static tess_status make_room(tess_slots *slots, int n, int n_groups)
{
    int *group = realloc(slots->group, (size_t)n * sizeof(*group));
    slots->group = group != NULL ? group : slots->group;
    tess_slot_group *groups = realloc(slots->groups, (size_t)n_groups * sizeof(*groups));
    slots->groups = groups != NULL ? groups : slots->groups;
    TESS_CHECK(group != NULL && groups != NULL, TESS_E_NOMEM, "no memory for the places of %d ranks", n);
    return TESS_OK;
}

tess_status tess_slots_begin(tess_slots *slots, int n_ranks, int min, int max, double now_s)
{
    const int n = max > n_ranks ? max : n_ranks;
    *slots = (tess_slots){.min = min > 0 ? min : n_ranks, .n_ranks = n_ranks};
    TESS_TRY(make_room(slots, n, n));
    slots->n = slots->n_groups = n;
    for (int slot = 0; slot < n; slot++) {
        slots->group[slot] = slot;
        slots->groups[slot] = (tess_slot_group){.out_since_s = slot < n_ranks ? -1 : now_s};
    }
    return TESS_OK;
}

void tess_slots_begin_hosts(tess_slots *slots, int min)
{
    *slots = (tess_slots){.min = min};
}

tess_status tess_slots_add_host(tess_slots *slots, const char *host, int n_ranks)
{
    TESS_TRY(make_room(slots, slots->n + n_ranks, slots->n_groups + 1));
    int group = slots->n_groups++;
    slots->groups[group] = (tess_slot_group){.out_since_s = -1};
    snprintf(slots->groups[group].host, sizeof(slots->groups[group].host), "%s", host);
    for (int i = 0; i < n_ranks; i++)
        slots->group[slots->n++] = group;
    slots->n_ranks = slots->n;
    return TESS_OK;
}

void tess_slots_free(tess_slots *slots)
{
    free(slots->group);
    free(slots->groups);
    *slots = (tess_slots){0};
}

static bool in_service(const tess_slots *slots, int slot)
{
    return slots->groups[slots->group[slot]].out_since_s < 0;
}

static bool has_been_out(const tess_slots *slots, int group, double retry_s, double now_s)
{
    return slots->groups[group].out_since_s >= 0 && now_s - slots->groups[group].out_since_s >= retry_s;
}

static bool is_due(const tess_slots *slots, int slot, double retry_s, double now_s)
{
    int group = slots->group[slot];
    bool there = slots->groups[group].host[0] == '\0' || slots->groups[group].answers;
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
        int n =
            slots->groups[group].out_since_s < 0 ? largest_admitted(worlds, places_without(slots, group), least) : 0;
        most = n > most ? n : most;
    }
    return most;
}

int tess_slots_group_of(const tess_slots *slots, int rank, const char *host)
{
    for (int g = 0; g < slots->n_groups && host[0] != '\0'; g++)
        if (strcmp(slots->groups[g].host, host) == 0)
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
    if (group < 0 || slots->groups[group].out_since_s >= 0 || ++slots->groups[group].n_failures < TESS_SLOT_FAILURES)
        return false;
    int n = largest_world(slots, worlds, places_without(slots, group));
    if (n == 0)
        return false;
    slots->groups[group].out_since_s = now_s;
    slots->groups[group].answers = false;
    slots->n_ranks = n;
    return true;
}

int tess_slots_to_ask(const tess_slots *slots, double retry_s, double now_s)
{
    for (int g = 0; g < slots->n_groups; g++)
        if (slots->groups[g].host[0] != '\0' && !slots->groups[g].answers && has_been_out(slots, g, retry_s, now_s))
            return g;
    return -1;
}

void tess_slots_asked(tess_slots *slots, int group, bool answers, double now_s)
{
    slots->groups[group].answers = answers;
    if (!answers)
        slots->groups[group].out_since_s = now_s;
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
            slots->groups[slots->group[slot]].out_since_s = -1;
            slots->groups[slots->group[slot]].n_failures = 0;
        }
}
