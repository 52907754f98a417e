/* Formats the places of ranks in the mesh (trace/places.h) for terminals and JSON. */
#ifndef TESS_DOCTOR_TABLE_PLACE_TABLE_H
#define TESS_DOCTOR_TABLE_PLACE_TABLE_H

#include <jansson.h>

#include "trace/places.h"

/* Reads the places like tess_places_of, and cleans the names. */
void tess_places_read(const tess_trace_ring *ring, tess_places *places);
/* Adds {"pp": 1, "tp": 0} as the member "place". Adds nothing if ranks have no places. */
void tess_place_put(json_t *object, const tess_places *places, int rank);

#endif
