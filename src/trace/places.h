/* Places of ranks in the mesh of their job: "pp 1, tp 0". A mesh makes its teams after that of the world, an axis
 * after the other, outermost first, and rings record teams in that order: so any rank's ring tells everybody's place.
 */
#ifndef TESS_TRACE_PLACES_H
#define TESS_TRACE_PLACES_H

#include "trace/ring.h"

enum { TESS_PLACE_AXES = 8, TESS_PLACE_TEXT = 160 };

/* Axes of more than one rank. With fewer than two a rank's number says its place, and there are none. */
typedef struct tess_places {
    int n_axes;
    struct {
        int size, stride; /* stride: from a rank to the next one along the axis */
        char name[TESS_TRACE_NAME_BYTES];
    } axis[TESS_PLACE_AXES];
} tess_places;

/* The mesh whose teams follow the world's. The ring may be any bytes that tess_trace_open takes. */
void tess_places_of(const tess_trace_ring *ring, tess_places *places);

int tess_place_along(const tess_places *places, int rank, int axis);

/* "pp 1, tp 0", "" without a mesh. Returns text. */
const char *tess_place_text(const tess_places *places, int rank, char *text, size_t size);

#endif
