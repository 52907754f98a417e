#include "trace/places.h"

#include "base/text/text.h"

/* Adds the axis that a team shows. Returns false if there is no room. */
static bool add_axis(const tess_trace_team *team, tess_places *places)
{
    if (team->size == 1)
        return true;
    if (places->n_axes == TESS_PLACE_AXES)
        return false;
    places->axis[places->n_axes].size = team->size;
    tess_text_add(places->axis[places->n_axes].name, TESS_TRACE_NAME_BYTES, 0, "%.*s", TESS_TRACE_NAME_BYTES - 1,
                  team->name);
    places->n_axes++;
    return true;
}

/* The axes are discarded unless the positions along them give the ring's own rank. */
void tess_places_of(const tess_trace_ring *ring, tess_places *places)
{
    uint32_t stored = atomic_load_explicit(&ring->n_teams, memory_order_acquire);
    uint32_t n = stored < TESS_TRACE_TEAMS ? stored : TESS_TRACE_TEAMS, i = 0;
    int64_t size = 1, rank = 0, world = ring->world;
    *places = (tess_places){0};
    while (i < n && ring->teams[i].size != world)
        i++;
    for (i++; i < n && size < world; i++) {
        const tess_trace_team *team = &ring->teams[i];
        if (team->size < 1 || size * team->size > world || !add_axis(team, places))
            break;
        size *= team->size;
        rank = rank * team->size + team->position;
    }
    if (size != world || rank != ring->rank || places->n_axes < 2)
        places->n_axes = 0;
    for (int a = places->n_axes - 1, stride = 1; a >= 0; a--) {
        places->axis[a].stride = stride;
        stride *= places->axis[a].size;
    }
}

int tess_place_along(const tess_places *places, int rank, int axis)
{
    return rank / places->axis[axis].stride % places->axis[axis].size;
}

const char *tess_place_text(const tess_places *places, int rank, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int a = 0; a < places->n_axes; a++)
        at = tess_text_add(text, size, at, a > 0 ? ", %s %d" : "%s %d", places->axis[a].name,
                           tess_place_along(places, rank, a));
    return text;
}
