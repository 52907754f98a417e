/* Places of ranks (trace/places.h) for terminals and JSON. */
#ifndef TESS_DOCTOR_TABLE_PLACE_TABLE_H
#define TESS_DOCTOR_TABLE_PLACE_TABLE_H

#include <jansson.h>

#include "trace/places.h"

/* tess_places_of with clean names. */
void tess_places_read(const tess_trace_ring *ring, tess_places *places);
/* Adds {"pp": 1, "tp": 0} as "place"; nothing without places. */
void tess_place_put(json_t *object, const tess_places *places, int rank);
/* Columns of the widest place in a job of `world` ranks; 0: there are none. */
int tess_place_width(const tess_places *places, int world);

#endif
