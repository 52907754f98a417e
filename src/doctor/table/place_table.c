#include "doctor/table/place_table.h"

#include "base/text/json.h"
#include "doctor/table/clean.h"

void tess_places_read(const tess_trace_ring *ring, tess_places *places)
{
    tess_places_of(ring, places);
    for (int a = 0; a < places->n_axes; a++)
        tess_clean_in_place(places->axis[a].name, sizeof(places->axis[a].name));
}

void tess_place_put(json_t *object, const tess_places *places, int rank)
{
    json_t *place = json_object();
    for (int a = 0; a < places->n_axes; a++)
        tess_json_put_int(place, places->axis[a].name, tess_place_along(places, rank, a));
    if (places->n_axes > 0)
        json_object_set(object, "place", place);
    json_decref(place);
}
