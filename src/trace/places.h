/* Finds the places of ranks in the mesh of their job, "pp 1, tp 0". A mesh creates its teams right after the world's
 * team, axis by axis, outermost first. Rings record teams in that order, so any rank's ring shows the places of all
 * ranks. */
#ifndef TESS_TRACE_PLACES_H
#define TESS_TRACE_PLACES_H

#include "trace/ring.h"

enum { TESS_PLACE_AXES = 8, TESS_PLACE_TEXT = 160 };

/* The axes with more than one rank. If there are fewer than two such axes, a rank's number already shows its place,
 * and the list is empty. */
typedef struct tess_places {
    int n_axes;
    struct {
        int size, stride; /* stride: distance between neighbouring ranks along the axis */
        char name[TESS_TRACE_NAME_BYTES];
    } axis[TESS_PLACE_AXES];
} tess_places;

/* Finds the axes of the mesh from the teams that follow the world's. Accepts any ring that tess_trace_open accepts. */
void tess_places_of(const tess_trace_ring *ring, tess_places *places);

int tess_place_along(const tess_places *places, int rank, int axis);

/* Formats "pp 1, tp 0"; "" without a mesh. Returns text. */
const char *tess_place_text(const tess_places *places, int rank, char *text, size_t size);

#endif
