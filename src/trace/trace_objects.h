/* The shared objects that a rank's call sites lie in: their ids (call_site.h) and files, kept in the header of its ring
 * for whoever reads that after the rank's death. */
#ifndef TESS_TRACE_TRACE_OBJECTS_H
#define TESS_TRACE_TRACE_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TESS_TRACE_OBJECTS_BYTES = 1008 };

/* On disk. All zero: there are none. */
typedef struct tess_trace_objects {
    _Atomic uint32_t n_bytes;
    char bytes[TESS_TRACE_OBJECTS_BYTES]; /* "3fa21b /opt/engine/libengine.so", each with a NUL behind it */
} tess_trace_objects;

/* Adds one that is not there yet. One writer at a time; a reader meanwhile sees it whole or not at all. One for which
 * there is no more room has no name later. */
void tess_trace_objects_add(tess_trace_objects *objects, uint32_t id, const char *path);

/* The path of the object at *at, which goes on to the next, and its id; NULL: there are no more. Begin with *at = 0.
 * Any bytes may stand there: what is no object ends the list. */
const char *tess_trace_objects_next(const tess_trace_objects *objects, size_t *at, uint32_t *id);

/* The path of object `id`, "" when it is not there. */
const char *tess_trace_objects_find(const tess_trace_objects *objects, uint32_t id);

#endif
