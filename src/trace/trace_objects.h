/* The shared objects that contain a rank's call sites: their ids (call_site.h) and files, in the header of its ring for
 * readers after the rank's death. */
#ifndef TESS_TRACE_TRACE_OBJECTS_H
#define TESS_TRACE_TRACE_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TESS_TRACE_OBJECTS_BYTES = 1008 };

/* The form on disk. All zero: no objects. */
typedef struct tess_trace_objects {
    _Atomic uint32_t n_bytes;
    char bytes[TESS_TRACE_OBJECTS_BYTES]; /* "3fa21b /opt/engine/libengine.so", each NUL-terminated */
} tess_trace_objects;

/* Adds an object that is not there yet. One writer at a time; a concurrent reader sees it whole or not at all. An
 * object for which there is no room has no name later. */
void tess_trace_objects_add(tess_trace_objects *objects, uint32_t id, const char *path);

/* Returns the path and id of the object at *at and moves *at to the next; NULL: no more objects. Begin with *at = 0.
 * Any bytes may stand there: the first that are not an object end the list. */
const char *tess_trace_objects_next(const tess_trace_objects *objects, size_t *at, uint32_t *id);

/* The path of object `id`, "" when it is not there. */
const char *tess_trace_objects_find(const tess_trace_objects *objects, uint32_t id);

#endif
